//! Cursors of pages. Only a cursor that the same request to the same tree returned is accepted. One of
//! another request would mix its pages with those of this one, one of a deleted account would skip items of
//! another account of its name, and a truncated or invented one would shift a page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::errors::Refusal;

/// Bytes of the digest before the position. It detects mistakes; it is not a signature.
const CHECKED: usize = 6;
/// Fields that may differ from page to page.
const OF_PAGE: [&str; 3] = ["cursor", "limit", "wait_ms"];

/// Hash of a request, without the fields of its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestHash([u8; 32]);

impl RequestHash {
    /// Returns the hash of a request: the path of its call, the arguments of the path, and the name and JSON
    /// of each field, in the order of names.
    pub(super) fn of<'n, 'j>(
        path: &str,
        arguments: &[(String, String)],
        fields: impl Iterator<Item = (&'n str, &'j str)>,
    ) -> Self {
        let mut hash = Sha256::new();
        // With its length: otherwise two requests could have the same input.
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(path.as_bytes());
        for (name, value) in arguments {
            part(name.as_bytes());
            part(value.as_bytes());
        }
        part(b"fields");
        for (name, json) in fields {
            // `null` is the same as a missing field.
            if OF_PAGE.contains(&name) || json == "null" {
                continue;
            }
            part(name.as_bytes());
            // A client may send the same value with other spaces and escapes.
            match serde_json::from_str::<Value>(json) {
                Ok(value) => part(value.to_string().as_bytes()),
                Err(_) => part(json.as_bytes()),
            }
        }
        Self(hash.finalize().into())
    }

    /// Returns the hash of the request to a tree of this name.
    pub(super) fn in_tree(self, tree: &str) -> Self {
        Self(Sha256::new().chain_update(self.0).chain_update(tree).finalize().into())
    }

    /// Returns the hash as bytes.
    pub(super) fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

/// Returns the cursor of a position in the answers to a request.
pub(super) fn encoded(request: &RequestHash, position: &str) -> String {
    URL_SAFE_NO_PAD.encode([&digest(request, position), position.as_bytes()].concat())
}

/// Returns the position of a cursor.
pub(super) fn position(request: &RequestHash, cursor: &str) -> Result<String, Refusal> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| Refusal::cursor())?;
    let (digested, position) = bytes.split_at_checked(CHECKED).ok_or_else(Refusal::cursor)?;
    let position = std::str::from_utf8(position).map_err(|_| Refusal::cursor())?;
    if digested == digest(request, position) { Ok(position.to_owned()) } else { Err(Refusal::cursor()) }
}

fn digest(request: &RequestHash, position: &str) -> [u8; CHECKED] {
    let digest = Sha256::new().chain_update(request.0).chain_update(position).finalize();
    let mut first = [0; CHECKED];
    first.copy_from_slice(&digest[..CHECKED]);
    first
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the hash of a request without arguments.
    fn request(path: &str, fields: &[(&str, &str)]) -> RequestHash {
        RequestHash::of(path, &[], fields.iter().copied())
    }

    proptest! {
        #[test]
        fn rejects_arbitrary_text_as_cursor(text in "\\PC{0,60}|[A-Za-z0-9_-]{0,60}", at in "\\PC{0,40}") {
            let list = request("/v1/list", &[]);
            prop_assert!(position(&list, &text).is_err());
            prop_assert_eq!(position(&list, &encoded(&list, &at)).ok(), Some(at));
        }
    }

    #[test]
    fn cursor_is_valid_only_for_its_call() {
        let (list, glob) = (request("/v1/list", &[]), request("/v1/glob", &[]));
        for at in ["", "a", "/d/k\u{1b}9", "ann/\u{10ffff}"] {
            let cursor = encoded(&list, at);
            assert_eq!(position(&list, &cursor).ok().as_deref(), Some(at));
            assert!(position(&glob, &cursor).is_err());
            for cut in 0..cursor.len() {
                assert!(position(&list, &cursor[..cut]).is_err(), "{cut} of {cursor}");
            }
        }
        let (one, other) = (list.in_tree("one"), list.in_tree("other"));
        assert!(
            position(&one, &encoded(&one, "a")).is_ok() && position(&other, &encoded(&one, "a")).is_err()
        );
        for made_up in ["", "00", "zzz", "99999999", "\0", "Li4vLi4v", "é"] {
            assert!(position(&list, made_up).is_err(), "{made_up}");
        }
    }

    #[test]
    fn hash_ignores_spelling_and_fields_of_page() {
        let first = request("/v1/search", &[("in", r#"["/é","/b"]"#), ("query", r#""a b""#)]);
        for same in [
            &[("in", "[ \"/\\u00e9\",\n\"/b\" ]"), ("query", r#""a\u0020b""#)][..],
            &[("cursor", r#""x""#), ("in", r#"["/é","/b"]"#), ("limit", "3"), ("query", r#""a b""#)],
            &[("in", r#"["/é","/b"]"#), ("query", r#""a b""#), ("wait_ms", "5")],
            &[("in", r#"["/é","/b"]"#), ("mode", "null"), ("query", r#""a b""#)],
        ] {
            assert_eq!(request("/v1/search", same), first, "{same:?}");
        }
        for other in [
            &[("in", r#"["/é","/b"]"#)][..],
            &[("in", r#"["/é","/b"]"#), ("query", r#""a c""#)],
            &[("in", r#"["/é"]"#), ("query", r#""a b""#)],
            &[("in", r#"["/é","/b"]"#), ("mode", r#""words""#), ("query", r#""a b""#)],
            &[("kinds", r#"["/é","/b"]"#), ("query", r#""a b""#)],
        ] {
            assert_ne!(request("/v1/search", other), first, "{other:?}");
        }
        let of = |agent: &str| {
            let arguments = [("agent".to_owned(), agent.to_owned())];
            RequestHash::of("/v1/agents/{agent}/daily/list", &arguments, std::iter::empty())
        };
        assert_ne!(of("a"), of("b"));
    }
}
