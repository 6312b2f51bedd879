//! Media types of calls in JSON. Any other body is refused before it is read, so that the error names the
//! header and not the first byte of the body.

use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};

use crate::errors::{Code, Refusal};

/// Type that `curl -d` and libraries for HTTP declare, whatever they send.
pub(super) const OF_FORMS: &str = "application/x-www-form-urlencoded";

/// Checks that the headers of a call in JSON declare JSON in UTF-8, or nothing.
pub(super) fn check_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    let message = if !headers.get_all(CONTENT_TYPE).iter().all(is_json) {
        "this call takes JSON in UTF-8; send `Content-Type: application/json`, or leave it out"
    } else if !headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        "this call takes its JSON as it is; send it without `Content-Encoding`"
    } else {
        return Ok(());
    };
    Err(Refusal::new(Code::UnsupportedMediaType, message))
}

fn is_json(value: &HeaderValue) -> bool {
    let Ok(value) = value.to_str() else { return false };
    let mut parts = value.split(';').map(|part| part.trim().to_ascii_lowercase());
    let of_json = |name: &str| {
        let kind = name.strip_prefix("application/");
        name == OF_FORMS || kind.is_some_and(|kind| kind == "json" || kind.ends_with("+json"))
    };
    // Other parameters do not change the meaning of the bytes.
    parts.next().is_some_and(|name| of_json(&name)) && parts.all(|parameter| is_utf8(&parameter))
}

/// Returns true for a parameter that names no other charset than UTF-8, of which ASCII is a part.
fn is_utf8(parameter: &str) -> bool {
    let charset = parameter.split_once('=').filter(|(name, _)| name.trim_end() == "charset");
    charset.is_none_or(|(_, charset)| {
        let charset = charset.trim().trim_matches('"');
        ["utf-8", "utf8", "us-ascii"].contains(&charset)
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn checked(name: &HeaderName, values: &[&str]) -> bool {
        let values = values.iter().map(|value| (name.clone(), HeaderValue::from_str(value).unwrap()));
        let headers: HeaderMap = values.collect();
        check_json(&headers).is_ok()
    }

    #[test]
    fn other_media_types_than_json_are_refused() {
        for json in [
            "application/json",
            "Application/JSON ; charset=UTF-8",
            "application/json;charset=\"utf-8\"",
            "application/merge-patch+json; profile=x",
            OF_FORMS,
        ] {
            assert!(checked(&CONTENT_TYPE, &[json]), "{json}");
        }
        assert!(checked(&CONTENT_TYPE, &[]) && checked(&CONTENT_ENCODING, &["Identity"]));
        for other in [
            "",
            "text/plain",
            "text/json",
            "json",
            "application/xml",
            "application/jsonl",
            "multipart/form-data; boundary=x",
            "application/json; charset=utf-16",
            "application/json, text/plain",
        ] {
            assert!(!checked(&CONTENT_TYPE, &[other]), "{other}");
        }
        assert!(!checked(&CONTENT_TYPE, &["application/json", "text/plain"]));
        assert!(!checked(&CONTENT_ENCODING, &["gzip"]));
    }
}
