//! URIs of files as resources: `garth://` and the percent-encoded path, such as `garth:///notes/a%20b.md`.

use std::fmt::Write as _;

use garth_engine::TreePath;

use crate::routes::percent::decoded;

/// Scheme of the URI of a file.
pub(super) const SCHEME: &str = "garth://";

/// Returns the URI of a file.
pub(super) fn file_uri(path: &TreePath) -> String {
    format!("{SCHEME}{}", encoded(path.as_str()))
}

/// Returns the path of the file that a URI names; `None` for any other text.
pub(super) fn file_path(uri: &str) -> Option<TreePath> {
    let path = decoded(uri.strip_prefix(SCHEME)?.as_bytes())?;
    TreePath::parse(&path).ok()
}

/// Returns a path with the characters escaped that a URI cannot have.
pub(super) fn encoded(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                text.push(char::from(byte));
            }
            // Writing to a text does not fail.
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_of_a_file_is_its_encoded_path() {
        for (path, uri) in [
            ("/", "garth:///"),
            ("/notes/a.md", "garth:///notes/a.md"),
            ("/a b/50%/é?#", "garth:///a%20b/50%25/%C3%A9%3F%23"),
        ] {
            let path = TreePath::parse(path).unwrap();
            assert_eq!(file_uri(&path), uri);
            assert_eq!(file_path(uri), Some(path));
        }
    }

    #[test]
    fn other_texts_name_no_file() {
        for uri in
            ["", "/a", "garth:", "garth://a", "garth:///%", "garth:///%FF", "file:///a", "garth:///a\0"]
        {
            assert_eq!(file_path(uri), None, "{uri}");
        }
    }
}
