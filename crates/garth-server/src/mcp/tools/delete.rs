//! The tool `delete`: a file, or a directory with everything below it.

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{Batch, Op, VersionId};
use garth_engine::{ErrorKind, FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::ToolAnswer;
use super::past::before;
use super::paths::{absolute, shown};
use super::versions::{IfVersion, commit_at};
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
        ..required: IfVersion<'a>;
    }
}

/// Runs the tool.
pub(super) async fn delete(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: DeleteFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    let fs = &**fs;
    let version = fields.required.version()?;
    let path = resolve::resolve(fs, &absolute(call, &fields.path), Follow::No).await?;
    let op = if fields.recursive { Op::remove_tree(&path) } else { Op::remove(&path) };
    let commit = match commit_at(fs, call, (&path, version), Batch::new([op])).await? {
        Err(error) if error.is(ErrorKind::NotEmpty) => {
            return Err(Refusal::from(error).hinting("set recursive to delete what is below it, too"));
        }
        commit => commit?,
    };
    // The state before the deletion, with all that was below the path.
    let restore_at = before(VersionId { seq: commit.seq, ..commit.version(0) });
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
    restore_at: VersionId,
}
