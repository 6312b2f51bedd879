//! The tool `history`: versions of a file, or the commits below a directory.

mod commits;
mod listed;

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::error::OptionalExt as _;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{At, HistoryPage, Timestamp, Version, VersionId};
use garth_engine::{FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use self::commits::commits_below;
use self::listed::{Found, ListedVersion};
use super::answer::{Lines, ToolAnswer, distinct};
use super::past::moved_to;
use super::paths::{place, shown, text_path};
use super::versions::version;
use crate::errors::Refusal;
use crate::fields::{fields, integer, string_of};
use crate::routes::call::Call;

/// Limit on the versions of an answer.
const MAX_VERSIONS: u64 = 100;

fields! {
    /// Lists the versions of a path, also a deleted one, newest first: version, time, size, author, message
    /// if any. Use them in `read_file` or `restore`.
    pub(crate) struct HistoryFields<'a> {
        /// Path.
        path: Cow<'a, str> = string_of("path");
        /// Limit.
        limit: usize = integer(1, MAX_VERSIONS), or 20;
        /// Version to continue before.
        before: Option<Cow<'a, str>> = string_of("version");
    }
}

/// Runs the tool.
pub(super) async fn history(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: HistoryFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    let before = version("before", fields.before.as_deref())?;
    let asked = place(call, &fields.path, text_path).await?;
    let path = resolve::resolve(&**fs, &asked, Follow::Yes).await?;
    let found = match is_directory(&**fs, &path).await? {
        true => commits_below(fs, &path, before, fields.limit).await?,
        false => versions_of(&**fs, &path, before, fields.limit).await?,
    };
    let times: Vec<Timestamp> = found.versions.iter().map(|(time, _)| *time).collect();
    let times = distinct(&times, before.is_some());
    let (mut lines, mut versions) = (Lines::default(), Vec::new());
    let count = found.versions.len();
    lines.push(&format!("{}:", shown(path.as_str())));
    for ((_, mut listed), time) in found.versions.into_iter().zip(times) {
        listed.time = time;
        if !lines.push(&listed.text()) {
            break;
        }
        versions.push(listed);
    }
    let is_cut = versions.len() < count;
    let before = if is_cut { versions.last().map(|last| last.version) } else { found.before };
    match before {
        Some(before) => lines.end_with(&format!("There are older ones: call again with before = {before}.")),
        None if versions.is_empty() => lines.end_with("There are no older versions."),
        None => {}
    }
    ToolAnswer::new(lines.into_text(), &VersionsListed { versions, before })
}

/// Returns true if a path is a directory, or was one when it last existed.
async fn is_directory(fs: &dyn FileSystem, path: &TreePath) -> Result<bool, Refusal> {
    if let Some(entry) = fs.stat(&At::from(path)).await.optional()? {
        return Ok(entry.is_dir());
    }
    // The newest version of a deleted path is its deletion.
    let page = HistoryPage::default().limit(2);
    let versions = fs.history(&At::from(path), &page).await?;
    let last = versions.items.iter().find_map(|version| version.entry.as_deref());
    Ok(last.is_some_and(|entry| entry.is_dir()))
}

async fn versions_of(
    fs: &dyn FileSystem,
    path: &TreePath,
    before: Option<VersionId>,
    limit: usize,
) -> Result<Found, Refusal> {
    let page = HistoryPage::default().before(before).limit(limit);
    let found = fs.history(&At::from(path), &page).await?;
    let before = found.items.last().filter(|_| found.more).map(|last| last.id);
    let mut versions = Vec::with_capacity(found.items.len());
    for Version { id, commit, entry, .. } in &found.items {
        let mut listed = ListedVersion::of(*id, commit);
        match entry.as_deref() {
            Some(entry) => listed.size = Some(entry.size),
            None => listed.moved_to = moved_to(fs, *id).await.map(|to| to.as_str().to_owned()),
        }
        versions.push((commit.time, listed));
    }
    Ok(Found { versions, before })
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct VersionsListed {
    versions: Vec<ListedVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<VersionId>,
}
