//! The tool `write_file`: a complete file.

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::compute::working;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{At, Batch, ByteRange, Entry, Op, Outcome, VersionId};
use garth_engine::{ErrorKind, FileSystem, FileSystemExt as _, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{ToolAnswer, bytes};
use super::paths::{absolute, refuse_slash, shown};
use super::versions::{commit_at, expected, version};
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
    if !is_new && let Some(entry) = same(fs, &path, &fields.content).await {
        if let Some(version) = version {
            expected(fs, call, &path, version).await?;
        }
        return unchanged(&path, &entry);
    }
    let body = fs.body(&path, fields.content.into_owned()).await?;
    let op = Op::write(&path, body).with_parents();
    let op = if is_new { op.create_new() } else { op };
    let commit = match commit_at(fs, call, (&path, version), Batch::new([op])).await? {
        Err(error) if error.is(ErrorKind::AlreadyExists) && is_new => {
            return Err(Refusal::from(error).hinting("read it, or write it without if_version"));
        }
        commit => commit?,
    };
    let done = commit.outcomes.first().copied().unwrap_or(Outcome::unchanged(commit.version(0), 0));
    let word = if done.created { "Created" } else { "Replaced" };
    let text = format!("{word} {}: {}, version {}.", shown(path.as_str()), bytes(done.size), done.version);
    let written = FileWritten { path: &path, version: done.version, created: done.created, size: done.size };
    ToolAnswer::new(text, &written)
}

/// Returns the file at a path if it has this content, which a write would leave as it is. A file that expires
/// is written again.
async fn same(fs: &dyn FileSystem, path: &TreePath, content: &str) -> Option<Entry> {
    let at = At::from(path);
    let is_alike =
        |entry: &Entry| entry.is_file() && entry.size == content.len() as u64 && entry.expires_at.is_none();
    fs.stat(&at).await.ok().filter(is_alike)?;
    let range = ByteRange { offset: 0, length: content.len() as u64 };
    let (entry, bytes) = fs.fetch(&at, range).await.ok()?;
    working(bytes.len());
    (is_alike(&entry) && bytes == content.as_bytes()).then_some(entry)
}

fn unchanged(path: &TreePath, entry: &Entry) -> Result<ToolAnswer, Refusal> {
    let (version, size) = (entry.etag, entry.size);
    let text = format!("{} is unchanged: it has this content; version {version}.", shown(path.as_str()));
    ToolAnswer::new(text, &FileWritten { path, version, created: false, size })
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct FileWritten<'a> {
    path: &'a TreePath,
    version: VersionId,
    created: bool,
    size: u64,
}
