//! Arbitrary texts are accepted or rejected as schemas, and an accepted one checks a value in few steps.
#![no_main]

use garth_engine::rule::schema::{Budget, Schema};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(schema) = Schema::compile(text) {
        for value in ["null", "[[1, 2], \"a\", {}]", "{\"a\": {\"a\": 1}, \"b\": \"text\"}", text] {
            let _ = schema.check_text(value.as_bytes(), &mut Budget::new(100_000));
        }
    }
});
