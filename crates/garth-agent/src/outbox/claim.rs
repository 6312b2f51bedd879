//! Finds due events, and claims the first one of each memory.

use std::collections::{HashMap, HashSet};

use super::order::{Verdict, is_superseded, verdict};
use super::queued::{Keep, OutboxFile, Queued, load, places};
use crate::memory::EventStatus;
use crate::registry::projections;
use garth_engine::error::{ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Author, Batch, FindCursor, FindQuery, Op, Precondition, Timestamp, VersionId};
use garth_engine::path::TreePath;

/// Limit on the events that are claimed, or removed, in one commit.
pub const CLAIM: usize = 64;

/// Limit on the bytes of events that are claimed in one commit: they stay in memory until they are finished.
const MAX_CLAIMED: u64 = 8 << 20;

/// Limit on the events of one URI that are read, the oldest first.
const MAX_SHARED: usize = 1000;

/// Author of a worker's commits.
pub(super) fn author() -> Author {
    Author::agent("outbox")
}

/// Returns a batch for the files of the worker. Rules of the memory's directory do not apply to them. It is
/// visible but not durable: a power cut may revert it, and the worker then repeats it. A full account takes
/// it: the events of a memory that was deleted must end as well, and each ends after a few attempts.
pub(super) fn batch() -> Batch {
    Batch::default().author(author()).overriding_rules().visible().even_when_full()
}

/// Returns the key of events that wait until a time, in milliseconds.
pub(super) fn waiting(from: i64) -> String {
    format!("waiting\0{:015}", from.max(0))
}

/// Returns a time in milliseconds since 1970.
pub(super) fn millis(time: Timestamp) -> i64 {
    time.0.div_euclid(1_000_000)
}

/// Limits on the events to claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Limit on all events.
    pub all: usize,
    /// Limit on the events that have failed before.
    pub again: usize,
}

/// Page of due events.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) events: Vec<Queued>,
    /// Files that are not events, or are not valid in their place.
    pub(super) refused: Vec<(TreePath, VersionId)>,
    pub(super) next: Option<FindCursor>,
}

/// Reads a page of due events.
pub(super) async fn due(
    fs: &dyn FileSystem,
    account: &str,
    now: Timestamp,
    after: Option<FindCursor>,
) -> Result<Due> {
    // `to` is excluded, so the current millisecond is included.
    let query = FindQuery::new(projections::EVENT_DUE).from(waiting(0)).to(waiting(millis(now) + 1));
    let answer = fs.find(&query.after(after).limit(CLAIM)).await?;
    let mut due = Due { next: answer.next, ..Due::default() };
    for found in load(fs, account, places(answer.items), Keep::Head).await? {
        match found {
            // Found by key, which may be outdated by now: the file decides.
            OutboxFile::Event(event) if !event.is_dead && event.is_due(now) => due.events.push(*event),
            OutboxFile::Refused { path, etag, is_dead: false, why } => {
                tracing::warn!(account, %path, %why, "an event cannot be read; it is moved to dlq");
                due.refused.push((path, etag));
            }
            OutboxFile::Event(_) | OutboxFile::Refused { .. } => {}
        }
    }
    Ok(due)
}

/// Decisions on the events of a page.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) claims: Vec<Queued>,
    /// Events that newer ones replace.
    pub(super) superseded: Vec<Queued>,
}

/// Selects the events to claim, within `room`. The other events of its memory decide on each.
pub(super) async fn choose(
    fs: &dyn FileSystem,
    account: &str,
    due: &[Queued],
    room: Room,
    now: Timestamp,
) -> Result<Choice> {
    let mut by_uri: HashMap<&str, Shared> = HashMap::new();
    let (mut choice, mut bytes, mut again, mut dropped) = (Choice::default(), 0, 0, HashSet::new());
    for event in due {
        for uri in &event.uris {
            if !by_uri.contains_key(&**uri) {
                by_uri.insert(uri, shared(fs, account, uri).await?);
            }
        }
        let shared = || event.uris.iter().filter_map(|uri| by_uri.get(&**uri));
        let is_known = |shared: &Shared| shared.events.iter().any(|other| other.ino == event.ino);
        // More than [`MAX_SHARED`] events share the URI. An event that is not among the oldest of them has
        // others before it, so it is left for later.
        if shared().any(|shared| !shared.is_whole && !is_known(shared)) {
            continue;
        }
        let all: Vec<&Queued> = shared().flat_map(|shared| &shared.events).collect();
        let mut drop = |old: &Queued| {
            if dropped.insert(old.ino) {
                choice.superseded.push(old.clone());
            }
        };
        match verdict(event, &all, now) {
            Verdict::Wait => {}
            Verdict::Superseded => drop(event),
            Verdict::Claim if choice.claims.len() >= room.all => {}
            Verdict::Claim if event.event.retry_count > 0 && again >= room.again => {}
            // One event may exceed the limit, or it would never be claimed.
            Verdict::Claim if bytes + event.size > MAX_CLAIMED && !choice.claims.is_empty() => {}
            Verdict::Claim => {
                again += usize::from(event.event.retry_count > 0);
                bytes += event.size;
                // Removed in the same commit as the claim: a worker that does not see the newer event yet
                // must not claim the older one now.
                for old in all.iter().filter(|old| old.place() < event.place()) {
                    if !old.is_held(now) && is_superseded(old, &all) {
                        drop(old);
                    }
                }
                choice.claims.push(event.clone());
            }
        }
    }
    Ok(choice)
}

/// Events about a URI.
struct Shared {
    events: Vec<Queued>,
    /// True if no others exist.
    is_whole: bool,
}

async fn shared(fs: &dyn FileSystem, account: &str, uri: &str) -> Result<Shared> {
    let (mut events, mut after) = (Vec::new(), None);
    loop {
        let query = FindQuery::new(projections::EVENT_MEMORY).equal(uri).limit(MAX_SHARED);
        let answer = fs.find(&query.after(after)).await?;
        for found in load(fs, account, places(answer.items), Keep::Head).await? {
            if let OutboxFile::Event(event) = found {
                events.push(*event);
            }
        }
        after = answer.next;
        if after.is_none() || events.len() >= MAX_SHARED {
            return Ok(Shared { events, is_whole: after.is_none() });
        }
    }
}

/// Claims events until a time, and removes the superseded ones. Returns `None` if another worker was faster.
///
/// # Errors
/// From the storage.
pub(super) async fn take(
    fs: &dyn FileSystem,
    account: &str,
    choice: Choice,
    until: Timestamp,
) -> Result<Option<Vec<Queued>>> {
    let items = choice.claims.iter().map(|event| (event.path.clone(), event.ino));
    let mut claimed = Vec::new();
    for found in load(fs, account, items, Keep::All).await? {
        if let OutboxFile::Event(event) = found {
            claimed.push(*event);
        }
    }
    // Selected without payload, and read again with it: a file that changed in between was claimed by another
    // worker.
    let is_same = |event: &Queued| choice.claims.iter().any(|chosen| chosen.etag == event.etag);
    if claimed.len() != choice.claims.len() || !claimed.iter().all(is_same) {
        return Ok(None);
    }
    let mut batch = batch().message("claim events");
    for Queued { event, etag, path, .. } in &mut claimed {
        // The write below gives the file a new version. The place in the order is that of the commit that
        // wrote the event.
        event.seq.get_or_insert(etag.seq.0);
        event.status = EventStatus::Processing;
        event.lease_until = Some(until.to_rfc3339());
        batch = batch
            .require(&*path, Precondition::Etag(*etag))
            .op(Op::write(&*path, event.to_json()?).must_exist());
    }
    for old in &choice.superseded {
        // On the condition that it is still as it was: another worker may deliver it by now.
        batch = batch.require(&old.path, Precondition::Etag(old.etag)).op(Op::remove_file(&old.path));
    }
    let commit = match fs.commit(batch).await {
        Ok(commit) => commit,
        Err(error) if is_lost(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    // The first operations of the batch wrote the claimed events, in this order.
    for (number, event) in claimed.iter_mut().enumerate() {
        event.etag = commit.version(number);
    }
    Ok(Some(claimed))
}

/// Returns true if a commit failed because another writer has changed its files.
pub(super) fn is_lost(error: &garth_engine::error::Error) -> bool {
    let kinds = [ErrorKind::Conflict, ErrorKind::IsADirectory, ErrorKind::AlreadyExists, ErrorKind::NotEmpty];
    error.is_absent() || kinds.contains(&error.kind())
}
