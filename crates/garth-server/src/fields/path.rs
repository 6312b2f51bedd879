//! Paths of the tree in fields.

use garth_engine::path::{MAX_PATH, PathError};
use garth_engine::{Error, Name, TreePath};

use crate::errors::Refusal;

/// Returns the path that a text names. Slashes at its end are ignored, as on the command line.
fn tree_path(text: &str) -> Result<TreePath, Refusal> {
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

/// Returns the path that a field has.
pub(crate) fn path_field(name: &str, text: &str) -> Result<TreePath, Refusal> {
    tree_path(text).map_err(|refusal| refusal.of_field(name))
}

/// Returns the paths that a field with an array has.
pub(crate) fn path_fields(name: &str, texts: &[String]) -> Result<Vec<TreePath>, Refusal> {
    let path = |(at, text): (usize, &String)| path_field(&format!("{name}[{at}]"), text);
    texts.iter().enumerate().map(path).collect()
}

/// Checks the form of a path that a call resolves as a shell does: it may have `.`, `..` and empty names.
pub(crate) fn shell_path_field<'p>(name: &str, text: &'p str) -> Result<&'p str, Refusal> {
    let check = || {
        if !text.starts_with('/') {
            return Err(PathError::NotAbsolute);
        }
        if text.len() > MAX_PATH {
            return Err(PathError::PathTooLong { bytes: text.len() });
        }
        let names = text.split('/').filter(|name| !["", ".", ".."].contains(name));
        names.map(Name::parse).try_for_each(|name| name.map(drop))
    };
    check().map(|()| text).map_err(|error| Refusal::from(Error::from(error)).of_field(name))
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
    use crate::errors::Code;

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
    fn refusals_of_paths_name_the_field_and_have_one_code() {
        let long = format!("/{}", "n".repeat(300));
        for text in ["", "a", "/a\0", &long] {
            let strict = path_field("path", text).map(drop);
            for refused in [strict, shell_path_field("path", text).map(drop)] {
                let refusal = refused.unwrap_err();
                assert_eq!(refusal.code, Code::InvalidPath, "{text}: {}", refusal.message);
                assert!(refusal.message.starts_with("\"path\": "), "{}", refusal.message);
            }
        }
        for text in ["/..", "/a//b", "/./a"] {
            assert_eq!(path_field("in", text).unwrap_err().code, Code::InvalidPath, "{text}");
            assert_eq!(shell_path_field("in", text).ok(), Some(text));
        }
        let many = path_fields("in", &["/a".to_owned(), "b".to_owned()]).unwrap_err();
        assert_eq!(many.message, "\"in[1]\": a path starts with `/`");
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
