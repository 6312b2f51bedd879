//! JSON in a text, as people write it into front matter.

use serde_json::Value;

use crate::workspace::reading::Reading;
use garth_engine::rule::json;

/// Reads JSON that may have commas at the ends of lists and objects. A repeated key is an error, because it
/// is unclear which value is meant.
pub(super) fn parse(text: &str, reading: Reading) -> Result<Value, String> {
    let text = without_trailing_commas(text);
    if reading != Reading::First {
        json::read(text.as_bytes()).map_err(|flaw| flaw.to_string())?;
    }
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// Returns JSON without trailing commas.
fn without_trailing_commas(json: &str) -> String {
    let (mut text, mut in_string, mut escaped) = (String::with_capacity(json.len()), false, false);
    for (at, character) in json.char_indices() {
        if character == ',' && !in_string {
            let behind = json[at + 1..].trim_start();
            if behind.starts_with([']', '}']) {
                continue;
            }
        }
        text.push(character);
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn trailing_commas_do_not_matter() {
        assert_eq!(without_trailing_commas(r#"{"a": ",]", "b": [1 , ]}"#), r#"{"a": ",]", "b": [1  ]}"#);
    }

    #[test]
    fn a_key_that_is_there_twice_is_an_error_at_any_depth() {
        let good = r#"{"a": [1, -2, 0.5, "x", true, null, {"b": {"c": {}}}], "b": 1}"#;
        assert_eq!(parse(good, Reading::Now).unwrap(), parse(good, Reading::First).unwrap());
        for bad in [r#"{"a": 1, "a": 2}"#, r#"{"a": [{"b": {}, "b": 1}]}"#, r#"{"a": 1, "\u0061": 2}"#] {
            let error = parse(bad, Reading::Now).unwrap_err();
            assert!(error.contains("duplicate key"), "{error}");
        }
        assert_eq!(parse(r#"{"a": 1, "a": 2}"#, Reading::First).unwrap(), json!({"a": 2}));
    }
}
