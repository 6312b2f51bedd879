//! Paths of the tree in fields.

use garth_engine::path::{MAX_PATH, PathError};
use garth_engine::{Error, TreePath};

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
}
