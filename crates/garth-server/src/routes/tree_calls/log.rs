//! Calls on the version log: versions of a node, commits of its bytes, changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use garth_engine::FileSystem;
use garth_engine::model::{
    BlameRun, ByteRange, ChangesQuery, CommitChanges, CommitInfo, HistoryPage, LogPosition, MAX_SUBTREES,
    Seq, VersionId,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::address::Address;
use super::answer::{Answer, Items, MAX_ANSWER, NextPage, page};
use super::follow::{self, MAX_WAIT};
use super::log_position::{check_since, position, position_text};
use super::paging::{Paged, SealedPage};
use crate::errors::Refusal;
use crate::fields::{MAX_INTEGER, fields, integer, path_fields, strings};
use crate::routes::call::Call;

/// Limit on the versions, and on the runs of bytes, of a page.
const MAX_VERSIONS: usize = 1000;
/// Default limit on the versions of a page.
const DEFAULT_VERSIONS: usize = 100;
/// Limit on the changes of a page.
const MAX_CHANGES: usize = 10_000;
/// Default limit on the changes of a page.
const DEFAULT_CHANGES: usize = 1000;

fields! {
    /// Returns versions of a node, or of the nodes that a path named, newest first.
    pub(crate) struct HistoryFields<'a> {
        ..address: Address;
        ..page: Paged<MAX_VERSIONS, DEFAULT_VERSIONS>;
    }
}

pub(in crate::routes) async fn history(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: HistoryFields<'_>,
) -> Result<Bytes, Refusal> {
    let start = fields.page.start(fs, call).await?;
    let before = start.after.as_deref().map(|text| text.parse::<VersionId>().map_err(|_| Refusal::cursor()));
    let asked = HistoryPage::default().before(before.transpose()?).limit(fields.page.limit);
    let (fs, asked) = (&*start.fs, &asked);
    let found = fields.address.of(call).run(fs, |at| async move { fs.history(&at, asked).await }).await?;
    page(&found.items, found.more, |version| start.cursor(call, &version.id.to_string()))
}

fields! {
    /// Returns the commit that wrote each byte of a range of a file.
    pub(crate) struct BlameFields<'a> {
        /// First byte.
        offset: u64 = integer(0, MAX_INTEGER), or 0;
        /// Limit on the bytes. Default: to the end.
        length: Option<u64> = integer(0, MAX_INTEGER);
        ..address: Address;
        ..page: Paged<MAX_VERSIONS, MAX_VERSIONS>;
    }
}

pub(in crate::routes) async fn blame(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: BlameFields<'_>,
) -> Result<Bytes, Refusal> {
    let start = fields.page.start(fs, call).await?;
    let offset = start.number()?.unwrap_or(fields.offset);
    let end = fields.offset.saturating_add(fields.length.unwrap_or(u64::MAX));
    let range = ByteRange { offset, length: end.saturating_sub(offset) };
    let (fs, limit) = (&*start.fs, fields.page.limit);
    let found =
        fields.address.of(call).run(fs, |at| async move { fs.blame(&at, range, limit).await }).await?;
    let (mut runs, mut commits, mut next) = (Items::default(), Items::default(), found.next);
    let mut shown = BTreeSet::new();
    for run in &found.runs {
        let commit = found.commits.iter().find(|commit| Some(commit.seq) == run.commit);
        // At least one run, so that the caller gets further.
        if runs.bytes() > 0 && runs.bytes() + commits.bytes() > MAX_ANSWER {
            next = Some(run.range.offset);
            break;
        }
        runs.add(run)?;
        if let Some(commit) = commit.filter(|commit| shown.insert(commit.seq)) {
            commits.add(commit)?;
        }
    }
    let next = next.map(|next| start.cursor(call, &next.to_string()));
    Answer::of("runs", runs).items("commits", commits).page(next.as_deref())
}

/// Commits that wrote the bytes of a file.
#[allow(dead_code)] // It only describes the answer, which is written item by item.
#[derive(JsonSchema)]
pub(in crate::routes) struct BlameAnswer {
    /// Runs of bytes, one after the other.
    runs: Vec<BlameRun>,
    /// Commits of these runs.
    commits: Vec<CommitInfo>,
    #[schemars(flatten)]
    next: NextPage,
}

fields! {
    /// Returns the changes after a commit, oldest first.
    pub(crate) struct ChangesFields<'a> {
        /// Sequence of the commit after which to begin.
        since: u64 = integer(0, MAX_INTEGER), or 0;
        /// Only changes below one of these paths. An empty array is no filter.
        within: Vec<String> = strings().of("path").at_most(MAX_SUBTREES), or Vec::new();
        /// Milliseconds to wait if there is no such change. Shows only durable commits. Default: no wait, and
        /// visible commits as well.
        wait_ms: Option<u64> = integer(0, MAX_WAIT);
        ..page: SealedPage<MAX_CHANGES, DEFAULT_CHANGES>;
    }
}

pub(in crate::routes) async fn changes(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: ChangesFields<'_>,
) -> Result<Bytes, Refusal> {
    let start = fields.page.start(fs, call).await?;
    let since = start.after.as_deref().map(position).transpose()?;
    let since = since.unwrap_or_else(|| LogPosition::from(Seq(fields.since)));
    let mut asked = ChangesQuery::since(since).limit(fields.page.limit);
    asked.within = path_fields("within", &fields.within)?;
    if start.is_past() && fields.wait_ms.is_some() {
        let message = "\"at\" names a past state, which nothing follows; leave \"wait_ms\" out";
        return Err(Refusal::validation(message));
    }
    let (found, room) = follow::page(&start.fs, call, asked, fields.wait_ms).await?;
    check_since(since.seq, found.head)?;
    let until = found.until;
    let is_last = until.seq >= found.head;
    // The position also counts changes that the caller does not reach, so it is sealed.
    let next = if is_last { None } else { Some(start.sealed_cursor(call, &position_text(until))?) };
    let answer = Answer::new().with("commits", &found.commits)?;
    let answer = answer.with("until", &Until { seq: until.seq })?.with("head", &found.head)?;
    Ok(room.hold(answer.page(next.as_deref())?))
}

/// Changes after a commit.
#[allow(dead_code)] // It only describes the answer, which is written field by field.
#[derive(JsonSchema)]
pub(in crate::routes) struct ChangesAnswer {
    /// Commits with their changes, oldest first. The first and the last one may show a part of their changes.
    commits: Vec<CommitChanges>,
    /// Position at which the next call begins.
    until: Until,
    /// Last commit.
    head: Seq,
    #[schemars(flatten)]
    next: NextPage,
}

/// Position in the log.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ChangesPosition")]
struct Until {
    /// Last commit before the position.
    seq: Seq,
}
