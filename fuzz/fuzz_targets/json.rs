//! The JSON reader never panics, and rejects what `serde_json` rejects and otherwise only what rules forbid.
#![no_main]

use garth_engine::rule::json;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let other = serde_json::from_slice::<serde_json::Value>(text);
    match json::read(text) {
        Ok(_) => assert!(other.is_ok()),
        Err(flaw) => {
            assert!(flaw.line > 0 && flaw.what.len() < 300, "{flaw}");
            // Errors that only garth's rules have.
            let own = ["twice", "more than"].iter().any(|own| flaw.what.contains(own));
            assert!(own || other.is_err(), "{flaw}");
        }
    }
});
