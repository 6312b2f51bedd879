//! Attributes of a file in headers. Names and values of custom metadata are percent-encoded where HTTP would
//! not carry them unchanged.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use garth_engine::model::{Attributes, SetAttrs, Timestamp};

use crate::errors::Refusal;
use crate::routes::media_type::OF_FORMS;
use crate::routes::percent::decoded;

/// Start of the names of headers with custom metadata.
const METADATA: &str = "x-garth-meta-";
/// Expiry of the file: an RFC 3339 time, or [`NEVER`].
pub(super) const EXPIRES: &str = "x-garth-expires";
/// Expiry of a file that has none, in a request.
const NEVER: &str = "never";
/// Number of entries of custom metadata that the headers of an answer leave out.
pub(super) const OMITTED: &str = "x-garth-metadata-omitted";
/// Limit on the entries of custom metadata in the headers of a message. Clients read some 100 headers.
pub(super) const MAX_ENTRIES: usize = 64;
/// Limit on the bytes of these headers, names and values as encoded.
pub(super) const MAX_BYTES: usize = 8 << 10;
/// Longest `Content-Type` in bytes.
const MAX_TYPE: usize = 1024;

/// Returns the custom metadata and the expiry that a request sets.
pub(super) fn attributes(headers: &HeaderMap) -> Result<SetAttrs, Refusal> {
    let (mut metadata, mut bytes) = (BTreeMap::new(), 0);
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix(METADATA) else { continue };
        bytes += METADATA.len() + name.len() + value.len();
        if name.is_empty() {
            let message = format!("`{METADATA}` needs the name of the metadata after it: `{METADATA}title`");
            return Err(Refusal::validation(message));
        }
        let key = decoded(name.as_bytes()).filter(|key| !key.is_empty());
        let (Some(key), Some(text)) = (key, decoded(value.as_bytes().trim_ascii())) else {
            let message = format!(
                "`{METADATA}{name}`: name and value must be UTF-8 in which `%` begins an escape such as `%25`"
            );
            return Err(Refusal::validation(message));
        };
        if metadata.insert(key, Some(text)).is_some() {
            return Err(Refusal::validation(format!("`{METADATA}{name}` occurs twice")));
        }
        if metadata.len() > MAX_ENTRIES || bytes > MAX_BYTES {
            let message =
                format!("the headers `{METADATA}*` are at most {MAX_ENTRIES}, of {MAX_BYTES} bytes");
            return Err(Refusal::validation(message));
        }
    }
    Ok(SetAttrs { metadata, expires_at: expiry(headers)?, ..SetAttrs::default() })
}

/// Returns the MIME type of the body of a request.
pub(super) fn content_type(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().map(str::trim).filter(|text| text.contains('/') && text.len() <= MAX_TYPE);
    match text.filter(|_| values.next().is_none()) {
        // `curl -d` sends it with bytes of any type, so it says nothing of the file.
        Some(text) if text.eq_ignore_ascii_case(OF_FORMS) => Ok(None),
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(Refusal::validation("`Content-Type` must be one MIME type such as image/png")),
    }
}

fn expiry(headers: &HeaderMap) -> Result<Option<Option<Timestamp>>, Refusal> {
    let mut values = headers.get_all(EXPIRES).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().map(str::trim).filter(|_| values.next().is_none());
    let end = text.and_then(|text| match text {
        NEVER => Some(None),
        time => Timestamp::parse_rfc3339_end(time).ok().map(Some),
    });
    let message = || format!("`{EXPIRES}` must be a time such as 2026-01-31T12:00:00Z, or `{NEVER}`");
    end.map(Some).ok_or_else(|| Refusal::validation(message()))
}

/// Adds the attributes of a file to the headers of an answer. Metadata of garth itself stays out.
pub(super) fn add(answer: &mut HeaderMap, attributes: &Attributes, expires_at: Option<Timestamp>) {
    let mime_type = attributes.content_type.as_deref().unwrap_or("application/octet-stream");
    // A stored type may not be valid in a header.
    let octets = HeaderValue::from_static("application/octet-stream");
    answer.insert(CONTENT_TYPE, HeaderValue::from_str(mime_type).unwrap_or(octets));
    let expires_at = expires_at.map(|time| HeaderValue::from_str(&time.to_rfc3339()));
    if let Some(Ok(time)) = expires_at {
        answer.insert(EXPIRES, time);
    }
    let (mut entries, mut bytes, mut omitted) = (0, 0, 0_u64);
    for (key, value) in attributes.metadata.iter().filter(|(key, _)| !key.starts_with("garth.")) {
        let (name, value) = (format!("{METADATA}{}", encoded(key, is_of_name)), encoded_value(value));
        let size = name.len() + value.len();
        let header = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value));
        let fits = entries < MAX_ENTRIES && bytes + size <= MAX_BYTES;
        match header {
            (Ok(name), Ok(value)) if fits => {
                (entries, bytes) = (entries + 1, bytes + size);
                answer.insert(name, value);
            }
            _ => omitted += 1,
        }
    }
    if omitted > 0 {
        answer.insert(OMITTED, HeaderValue::from(omitted));
    }
}

/// Returns true for bytes that stay as they are in the name of a header: names are compared in lower case.
const fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.')
}

const fn is_of_value(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'%'
}

/// Returns a value in a form that HTTP keeps. Spaces at its ends would be cut off.
fn encoded_value(value: &str) -> String {
    let inner = value.trim_matches(' ');
    let start = value.len() - value.trim_start_matches(' ').len();
    let end = value.len() - start - inner.len();
    ["%20".repeat(start), encoded(inner, is_of_value), "%20".repeat(end)].concat()
}

fn encoded(text: &str, stays: fn(u8) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match stays(byte) {
            true => encoded.push(char::from(byte)),
            false => {
                // Writing to a `String` does not fail.
                let _ = write!(encoded, "%{byte:02x}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the metadata that a client reads from an answer and sends back.
    fn sent_back(metadata: &BTreeMap<String, String>) -> BTreeMap<String, Option<String>> {
        let mut answer = HeaderMap::new();
        add(&mut answer, &Attributes { metadata: metadata.clone(), ..Attributes::default() }, None);
        assert!(!answer.contains_key(OMITTED));
        attributes(&answer).unwrap().metadata
    }

    proptest! {
        #[test]
        fn metadata_survives_headers(
            metadata in prop::collection::btree_map("\\PC{1,20}", "(?s).{0,20}", 0..8),
        ) {
            prop_assume!(metadata.keys().all(|key| !key.starts_with("garth.")));
            let due: BTreeMap<_, _> = metadata.clone().into_iter().map(|(key, value)| (key, Some(value))).collect();
            prop_assert_eq!(sent_back(&metadata), due);
        }
    }

    #[test]
    fn spaces_and_upper_case_survive_headers() {
        for (key, value) in
            [("Title", "  a b  "), ("title", "   "), ("%41", "%41"), ("ü\n", "\0\r\n"), ("a", "")]
        {
            let metadata = BTreeMap::from([(key.to_owned(), value.to_owned())]);
            assert_eq!(sent_back(&metadata)[key].as_deref(), Some(value), "{key}");
        }
    }

    #[test]
    fn metadata_in_headers_is_bounded() {
        let many = |entries: usize, value: &str| {
            let metadata = (0..entries).map(|number| (format!("k{number:03}"), value.to_owned())).collect();
            let mut answer = HeaderMap::new();
            add(&mut answer, &Attributes { metadata, ..Attributes::default() }, None);
            answer.get(OMITTED).map(|omitted| omitted.to_str().unwrap().to_owned())
        };
        assert_eq!(many(MAX_ENTRIES, "x"), None);
        assert_eq!(many(MAX_ENTRIES + 2, "x").as_deref(), Some("2"));
        assert_eq!(many(1, &"x".repeat(MAX_BYTES)).as_deref(), Some("1"));
        let mut headers = HeaderMap::new();
        for number in 0..=MAX_ENTRIES {
            let name = HeaderName::from_bytes(format!("{METADATA}{number}").as_bytes()).unwrap();
            headers.insert(name, HeaderValue::from_static("x"));
        }
        assert!(attributes(&headers).unwrap_err().message.contains("at most 64"));
    }

    #[test]
    fn rejects_broken_escapes_and_duplicates() {
        for (name, value) in [("a", "%"), ("a", "%4"), ("a", "%zz"), ("a", "%ff"), ("%", "x"), ("", "x")] {
            let mut headers = HeaderMap::new();
            let name = HeaderName::from_bytes(format!("{METADATA}{name}").as_bytes()).unwrap();
            headers.insert(name, HeaderValue::from_str(value).unwrap());
            assert!(attributes(&headers).is_err(), "{headers:?}");
        }
        let mut headers = HeaderMap::new();
        headers.insert("x-garth-meta-a", HeaderValue::from_static("1"));
        headers.insert("x-garth-meta-%61", HeaderValue::from_static("2"));
        assert!(attributes(&headers).unwrap_err().message.contains("twice"));
    }

    #[test]
    fn expiry_is_a_time_or_never() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(EXPIRES, HeaderValue::from_str(text).unwrap());
            attributes(&headers).map(|attributes| attributes.expires_at).map_err(|refusal| refusal.message)
        };
        assert_eq!(read("never"), Ok(Some(None)));
        assert_eq!(read("1970-01-01T00:00:01Z"), Ok(Some(Some(Timestamp(1_000_000_000)))));
        for text in ["", "0", "Never", "2026-01-31", "tomorrow"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
