//! Whether a text is JSON, and what it is: never a panic, and as `serde_json` says where that has an opinion.
#![no_main]

use garth_engine::rule::json;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let other = serde_json::from_slice::<serde_json::Value>(text);
    match json::read(text) {
        Ok(_) => assert!(other.is_ok()),
        Err(flaw) => {
            assert!(flaw.line > 0 && flaw.what.len() < 300, "{flaw}");
            // what only rules refuse
            let own = ["twice", "more than"].iter().any(|own| flaw.what.contains(own));
            assert!(own || other.is_err(), "{flaw}");
        }
    }
});
