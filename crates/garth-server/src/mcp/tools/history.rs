//! The tool `history`: versions of a path.

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::FileSystem;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{At, HistoryPage, Version, VersionId};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{Lines, ToolAnswer, bytes, minute};
use super::paths::{by, place, shown, text_path};
use super::versions::version;
use crate::errors::Refusal;
use crate::fields::{fields, integer, string_of};
use crate::routes::call::Call;

/// Limit on the versions of an answer.
const MAX_VERSIONS: u64 = 100;
/// Limit on the bytes of the message of a commit in the answer.
const MAX_MESSAGE: usize = 200;

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
    let page = HistoryPage::default().before(before).limit(fields.limit);
    let (fs, page) = (&**fs, &page);
    let asked = place(call, &fields.path, text_path).await?;
    let (path, found) = resolve::retry(fs, &asked, Follow::Yes, |path| async move {
        let found = fs.history(&At::from(&path), page).await?;
        Ok((path, found))
    })
    .await?;
    let (mut lines, mut versions) = (Lines::default(), Vec::new());
    lines.push(&format!("{}:", shown(path.as_str())));
    for version in &found.items {
        let listed = ListedVersion::of(version);
        if !lines.push(&listed.text()) {
            break;
        }
        versions.push(listed);
    }
    let has_more = found.more || versions.len() < found.items.len();
    let before = versions.last().filter(|_| has_more).map(|last| last.version);
    match before {
        Some(before) => lines.end_with(&format!("There are older ones: call again with before = {before}.")),
        None if versions.is_empty() => lines.end_with("There are no older versions."),
        None => {}
    }
    ToolAnswer::new(lines.into_text(), &VersionsListed { versions, before })
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct VersionsListed {
    versions: Vec<ListedVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<VersionId>,
}

/// Version of a path.
#[derive(Serialize, JsonSchema)]
struct ListedVersion {
    version: VersionId,
    time: String,
    /// Size; none if this version removed the node, or moved it away.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl ListedVersion {
    fn of(Version { id, commit, entry, .. }: &Version) -> Self {
        let message = commit.message.get(..commit.message.floor_char_boundary(MAX_MESSAGE));
        Self {
            version: *id,
            time: minute(commit.time),
            size: entry.as_deref().map(|entry| entry.size),
            author: by(&commit.author),
            message: message.filter(|message| !message.is_empty()).map(str::to_owned),
        }
    }

    fn text(&self) -> String {
        let size = self.size.map_or_else(|| "removed".to_owned(), bytes);
        let author = self.author.as_ref().map(|author| format!("  by {author}")).unwrap_or_default();
        let message =
            self.message.as_ref().map(|message| format!("  {}", shown(message))).unwrap_or_default();
        format!("{}  {}  {size}{author}{message}", self.version, self.time)
    }
}
