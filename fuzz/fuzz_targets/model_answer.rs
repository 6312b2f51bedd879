//! Answers of models: an object that is found is one, and what a string in it holds hides none of it.

#![no_main]

use garth::agent::models::object_in;
use garth::{Error, ErrorKind};
use libfuzzer_sys::fuzz_target;

fn found(answer: &str) -> Option<serde_json::Value> {
    let read = |object: &str| {
        serde_json::from_str(object).map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))
    };
    object_in(answer, read).ok()
}

fuzz_target!(|text: &str| {
    if let Some(value) = found(text) {
        assert!(value.is_object());
    }
    // What a string holds changes nothing, whatever it looks like.
    let due = serde_json::json!({ "said": text });
    assert_eq!(found(&format!("<think>hm</think>\n{due}\n")), Some(due));
});
