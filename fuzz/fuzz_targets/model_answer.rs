//! Answers of models: an extracted object is valid JSON, and the content of its strings does not affect
//! extraction.

#![no_main]

use garth_agent::models::object_in;
use garth_engine::{Error, ErrorKind};
use libfuzzer_sys::fuzz_target;

fn found(answer: &str) -> Option<serde_json::Value> {
    let read = |object: &str| {
        serde_json::from_str(object)
            .map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))
    };
    object_in(answer, read).ok()
}

fuzz_target!(|text: &str| {
    if let Some(value) = found(text) {
        assert!(value.is_object());
    }
    // The content of a string does not affect extraction.
    let due = serde_json::json!({ "said": text });
    assert_eq!(found(&format!("<think>hm</think>\n{due}\n")), Some(due));
});
