//! Paths of the tree in fields.

use garth_engine::path::{MAX_PATH, PathError};
use garth_engine::{Error, Name, TreePath};

use crate::errors::Refusal;

/// Returns the path that a text names. Slashes at its end are ignored, as on the command line.
pub(crate) fn tree_path(text: &str) -> Result<TreePath, Refusal> {
    // With its slashes: a path on the command line has the same limit.
    if text.len() > MAX_PATH {
        return Err(Error::from(PathError::PathTooLong { bytes: text.len() }).into());
    }
    let path = match text.trim_end_matches('/') {
        "" if text.starts_with('/') => "/",
        path => path,
    };
    Ok(TreePath::parse(path).map_err(Error::from)?)
}

/// Returns the path of a position. Stored paths may be longer than those of requests.
pub(crate) fn stored_path(text: &str) -> Result<TreePath, Refusal> {
    let names = text.strip_prefix('/').ok_or_else(Refusal::cursor)?;
    let mut path = TreePath::root();
    for name in names.split('/').filter(|_| !names.is_empty()) {
        let joined = Name::parse(name).and_then(|name| path.join(&name));
        path = joined.map_err(|_| Refusal::cursor())?;
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_at_the_end_are_ignored() {
        let read = |text: &str| tree_path(text).map(|path| path.to_string());
        for (text, path) in [("/", "/"), ("//", "/"), ("/a", "/a"), ("/a/", "/a"), ("/a b/c//", "/a b/c")] {
            assert_eq!(read(text).ok().as_deref(), Some(path), "{text}");
        }
        let (fits, long) = ("/a".repeat(MAX_PATH / 2), format!("/a{}", "/".repeat(MAX_PATH)));
        assert_eq!(read(&fits).ok().as_deref(), Some(&*fits));
        for text in ["", "a", "a/", " /a", "//a", "/a//b", "/./", "/a/../", "/..", "/a\0/", &long] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn positions_hold_paths_of_any_stored_length() {
        let long = "/x".repeat(3000);
        for path in ["/", "/a", "/a b/c", long.as_str()] {
            assert_eq!(stored_path(path).unwrap().as_str(), path);
        }
        for other in ["", "a", "//", "/a//b", "/a/", "/..", "/a\0"] {
            assert!(stored_path(other).is_err(), "{other:?}");
        }
    }
}
