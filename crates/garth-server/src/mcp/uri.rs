//! URIs of files as resources: `garth://` and the percent-encoded path, such as `garth:///notes/a%20b.md`.

use std::fmt::Write as _;

use garth_engine::TreePath;

/// Scheme of the URI of a file.
pub(super) const SCHEME: &str = "garth://";

/// Returns the URI of a file.
pub(super) fn file_uri(path: &TreePath) -> String {
    let mut uri = SCHEME.to_owned();
    for byte in path.as_str().bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                uri.push(char::from(byte));
            }
            // Writing to a text does not fail.
            _ => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
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
            assert_eq!(file_uri(&TreePath::parse(path).unwrap()), uri);
        }
    }
}
