//! Schemas of any text are taken or refused, and judge a value in few steps either way.
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
