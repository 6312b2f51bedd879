//! An accepted path displays as it was parsed.
#![no_main]

use garth_engine::{Name, TreePath};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(path) = TreePath::parse(text) {
        assert_eq!(TreePath::parse(path.as_str()).as_ref(), Ok(&path));
        assert!(path.segments().all(|segment| Name::parse(segment).is_ok()));
    }
    let _ = Name::parse(text);
});
