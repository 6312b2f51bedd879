//! The tool `delete`: a file, or a directory with everything below it.

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{Batch, Op, Precondition, VersionId};
use garth_engine::{ErrorKind, FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::ToolAnswer;
use super::paths::{absolute, shown};
use super::versions::{conflict, expected, version};
use crate::errors::Refusal;
use crate::fields::{fields, flag, string_of};
use crate::routes::call::Call;

fields! {
    /// Deletes a file or empty directory. All versions are kept; `restore` brings it back.
    pub(crate) struct DeleteFields<'a> {
        /// Path.
        path: Cow<'a, str> = string_of("path");
        /// Deletes all below a directory, too.
        recursive: bool = flag(), or false;
        /// Fails unless this is the current version.
        if_version: Option<Cow<'a, str>> = string_of("version");
    }
}

/// Runs the tool.
pub(super) async fn delete(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: DeleteFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    let fs = &**fs;
    let version = version("if_version", fields.if_version.as_deref())?;
    let path = resolve::resolve(fs, &absolute(call, &fields.path), Follow::No).await?;
    let required = match version {
        Some(version) => Some(expected(fs, &path, version).await?.etag),
        None => None,
    };
    let op = if fields.recursive { Op::remove_tree(&path) } else { Op::remove(&path) };
    let batch = required
        .into_iter()
        .fold(Batch::new([op]), |batch, etag| batch.require(&path, Precondition::Etag(etag)));
    let commit = match fs.commit(batch).await {
        Err(error) if error.is(ErrorKind::NotEmpty) => {
            return Err(Refusal::from(error).advising("set recursive to delete what is below it, too"));
        }
        Err(error) if error.is(ErrorKind::Conflict) && error.path() == Some(&path) => match version {
            Some(version) => return Err(conflict(fs, &path, version).await),
            None => return Err(error.into()),
        },
        commit => commit?,
    };
    // The state before the deletion, with all that was below the path.
    let restore_at = commit.seq.0.saturating_sub(1).to_string();
    let text = format!("Deleted {}.", shown(path.as_str()));
    let hint = format!("To bring it back: `restore` with at = \"{restore_at}\".");
    let deleted = Deleted { path: &path, version: commit.version(0), restore_at };
    Ok(ToolAnswer::new(text, &deleted)?.hint(hint))
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct Deleted<'a> {
    path: &'a TreePath,
    version: VersionId,
    restore_at: String,
}
