//! Errors with what their reader knows or needs: the current version of a changed file.

use garth_engine::error::{Error, ErrorKind, OptionalExt as _};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Op, Precondition};

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
