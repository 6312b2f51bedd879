//! The tool `write_file`: a complete file.

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{Batch, Op, Outcome, VersionId};
use garth_engine::{ErrorKind, FileSystem, FileSystemExt as _, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{ToolAnswer, bytes};
use super::paths::{absolute, refuse_slash, shown};
use super::versions::{commit_at, version};
use crate::errors::Refusal;
use crate::fields::{fields, string, string_of};
use crate::routes::call::Call;

/// Version of a file that does not exist.
const NONE: &str = "none";

fields! {
    /// Creates a file with its missing directories, or replaces its content. To change a part or append, use
    /// `edit_file`. To not overwrite changes of others, pass if_version. Earlier versions are kept.
    pub(crate) struct WriteFileFields<'a> {
        /// Path.
        path: Cow<'a, str> = string_of("path");
        /// Complete text.
        content: Cow<'a, str> = string();
        /// Fails unless this is the current version; "none": unless no file exists.
        if_version: Option<Cow<'a, str>> = string_of("version");
    }
}

/// Runs the tool.
pub(super) async fn write_file(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: WriteFileFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    let is_new = fields.if_version.as_deref() == Some(NONE);
    let version = version("if_version", fields.if_version.as_deref().filter(|_| !is_new))?;
    let fs = &**fs;
    let asked = absolute(call, &fields.path);
    refuse_slash("path", &asked)?;
    let path = resolve::resolve(fs, &asked, Follow::Yes).await?;
    let body = fs.body(&path, fields.content.into_owned()).await?;
    let op = Op::write(&path, body).with_parents();
    let op = if is_new { op.create_new() } else { op };
    let commit = match commit_at(fs, (&path, version), Batch::new([op])).await? {
        Err(error) if error.is(ErrorKind::AlreadyExists) && is_new => {
            return Err(Refusal::from(error).advising("read it, or write it without if_version"));
        }
        commit => commit?,
    };
    let done = commit.outcomes.first().copied().unwrap_or(Outcome::unchanged(commit.version(0), 0));
    let word = if done.created { "Created" } else { "Replaced" };
    let text = format!("{word} {}: {}, version {}.", shown(path.as_str()), bytes(done.size), done.version);
    let written = FileWritten { path: &path, version: done.version, created: done.created, size: done.size };
    ToolAnswer::new(text, &written)
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct FileWritten<'a> {
    path: &'a TreePath,
    version: VersionId,
    created: bool,
    size: u64,
}
