//! A glob pattern displays as it was parsed, and matches only paths below its base.
#![no_main]

use garth_engine::TreePath;
use garth_engine::rule::PathPattern;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (class, path) = text.split_once('\n').unwrap_or((text, "/agents/a/kv/b"));
    let (Ok(class), Ok(path)) = (PathPattern::parse(class), TreePath::parse(path)) else { return };
    assert!(PathPattern::parse(class.as_str()).is_ok_and(|again| again.as_str() == class.as_str()));
    if class.has(&path) {
        let base = class.base();
        let mut above = path.segments();
        assert!(base.segments().all(|segment| above.next() == Some(segment)), "{base:?}");
    }
});
