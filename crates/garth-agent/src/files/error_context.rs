//! Errors with what their reader knows or needs: the path as it was written, and the current version of a
//! changed file.

use garth_engine::error::{Error, ErrorKind, OptionalExt as _};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Op, Precondition};
use garth_engine::path::TreePath;

/// Characters of an invalid path that an error shows. A path may be as long as a line of a batch.
const MAX_SHOWN: usize = 500;

/// Adds the path as it was written: to errors without a path, such as those of invalid paths, and where a
/// link led to another path.
#[doc(hidden)]
pub fn with_path(path: &str) -> impl FnOnce(Error) -> Error {
    move |error| match error.path() {
        None if error.is(ErrorKind::InvalidArgument) || error.is(ErrorKind::NameTooLong) => {
            let shown: String = path.chars().take(MAX_SHOWN).collect();
            error.clone().reworded(|failure| format!("{shown}: {failure}")).with_source(error)
        }
        Some(found) => match TreePath::parse(path) {
            // A path above the one written is part of it, so the error is clear as it is.
            Ok(written) if !written.is_within(found) => {
                let said = error.clone().reworded(|failure| format!("{failure} (at {found})"));
                said.mapped(|_| Some(written)).with_source(error)
            }
            _ => error,
        },
        None => error,
    }
}

/// Returns the conditions of a batch on versions, also those of its checks.
#[doc(hidden)]
pub fn version_conditions(preconditions: &[(At, Precondition)], ops: &[Op]) -> Vec<(At, Precondition)> {
    let checks = ops.iter().filter_map(|op| match op {
        Op::Check { at, that } => Some((at.clone(), that.clone())),
        _ => None,
    });
    let all = preconditions.iter().cloned().chain(checks);
    all.filter(|(_, that)| matches!(that, Precondition::Version(_) | Precondition::Etag(_))).collect()
}

/// Adds the current version to the conflict of a batch, if one of its conditions on versions did not hold.
#[doc(hidden)]
pub async fn with_current_version(
    fs: &dyn FileSystem,
    conditions: &[(At, Precondition)],
    error: Error,
) -> Error {
    for (at, that) in conditions {
        let (At::Path(path), Precondition::Version(wanted) | Precondition::Etag(wanted)) = (at, that) else {
            continue;
        };
        // The error is about another path.
        if error.path().is_some_and(|of| of != path) {
            continue;
        }
        let Ok(there) = fs.stat(at).await.optional() else { continue };
        let current = there.map(|entry| match that {
            Precondition::Etag(_) => entry.etag,
            _ => entry.version,
        });
        // Several conditions may name a version; only one that differs can have failed.
        if current != Some(*wanted) {
            let message = match current {
                Some(current) => format!("changed since {wanted}: the current version is {current}"),
                None => format!("changed since {wanted}: it does not exist"),
            };
            return Error::at(ErrorKind::Conflict, path, message).with_source(error);
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_beginning_of_long_invalid_path() {
        let long = format!("/{}", "é".repeat(5000));
        let error = with_path(&long)(Error::new(ErrorKind::NameTooLong, "too long"));
        assert_eq!(error.message(), format!("/{}: too long", "é".repeat(MAX_SHOWN - 1)));
    }

    #[test]
    fn names_path_as_it_was_written() {
        let at = |path: &str| {
            let path = TreePath::parse(path).expect("a path");
            with_path("/link/b")(Error::at(ErrorKind::NotFound, &path, "missing")).to_string()
        };
        assert_eq!(at("/target/b"), "/link/b: missing (at /target/b)");
        // The link itself, or a directory above it, is part of the path.
        assert_eq!(at("/link"), "/link: missing");
        let other = with_path("/link/b")(Error::new(ErrorKind::Io, "the disk failed"));
        assert_eq!(other.to_string(), "the disk failed");
    }
}
