//! Looks for events that are due, and takes those that are the first of their memories.

use std::collections::{HashMap, HashSet};

use super::order::{Verdict, is_superseded, verdict};
use super::queued::{Found, Keep, Queued, load, places};
use crate::memory::EventStatus;
use crate::registry::projections;
use garth_engine::error::{ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Author, Batch, FindCursor, FindQuery, Op, Precondition, Timestamp, VersionId};
use garth_engine::path::TreePath;

/// Most events that are claimed, or removed, in one commit.
pub const CLAIM: usize = 64;

/// Most bytes of events that are claimed in one commit: they are held in memory until they are done.
const MAX_CLAIMED: u64 = 8 << 20;

/// Most events of one URI that are looked at; of more, the first made.
const MAX_SHARED: usize = 1000;

/// Who commits what a worker does.
pub(super) fn author() -> Author {
    Author::agent("outbox")
}

/// A commit of a worker: of files that are its own, whatever rules say of the memory's directory, and as
/// durable as what comes next. What a power cut takes back is done again.
pub(super) fn batch() -> Batch {
    Batch::default().author(author()).overriding_rules().visible()
}

/// The key of what waits until a moment.
pub(super) fn waiting(from: i64) -> String {
    format!("waiting\0{:015}", from.max(0))
}

/// A moment in whole milliseconds.
pub(super) fn millis(time: Timestamp) -> i64 {
    time.0.div_euclid(1_000_000)
}

/// Events that may be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Limit on all events.
    pub all: usize,
    /// Limit on the events among these that failed before.
    pub again: usize,
}

/// A page of what is due.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) events: Vec<Queued>,
    /// Files that are no events, or must not lie where they do.
    pub(super) refused: Vec<(TreePath, VersionId)>,
    pub(super) next: Option<FindCursor>,
}

/// Reads a page of what is due.
pub(super) async fn due(
    fs: &dyn FileSystem,
    account: &str,
    now: Timestamp,
    after: Option<FindCursor>,
) -> Result<Due> {
    let query = FindQuery::new(projections::EVENT_DUE).from(waiting(0)).to(waiting(millis(now) + 1));
    let answer = fs.find(&query.after(after).limit(CLAIM)).await?;
    let mut due = Due { next: answer.next, ..Due::default() };
    for found in load(fs, account, places(answer.items), Keep::Head).await? {
        match found {
            Found::Event(event) if !event.is_dead && event.is_due(now) => due.events.push(*event),
            Found::Refused { path, etag, is_dead: false, why } => {
                tracing::warn!(account, %path, %why, "an event cannot be read; it is moved to dlq");
                due.refused.push((path, etag));
            }
            Found::Event(_) | Found::Refused { .. } => {}
        }
    }
    Ok(due)
}

/// What is to be done with the events of a page.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) claims: Vec<Queued>,
    /// For which newer ones stand.
    pub(super) superseded: Vec<Queued>,
}

/// Chooses by the other events of each memory, as many to claim as there is room for.
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
            Verdict::Claim if bytes + event.size > MAX_CLAIMED && !choice.claims.is_empty() => {}
            Verdict::Claim => {
                again += usize::from(event.event.retry_count > 0);
                bytes += event.size;
                // also those that another stands for: who has not seen that one must not claim them now
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

/// The events about a URI.
struct Shared {
    events: Vec<Queued>,
    /// Whether these are all.
    is_whole: bool,
}

async fn shared(fs: &dyn FileSystem, account: &str, uri: &str) -> Result<Shared> {
    let (mut events, mut after) = (Vec::new(), None);
    loop {
        let query = FindQuery::new(projections::EVENT_MEMORY).equal(uri).limit(MAX_SHARED);
        let answer = fs.find(&query.after(after)).await?;
        for found in load(fs, account, places(answer.items), Keep::Head).await? {
            if let Found::Event(event) = found {
                events.push(*event);
            }
        }
        after = answer.next;
        if after.is_none() || events.len() >= MAX_SHARED {
            return Ok(Shared { events, is_whole: after.is_none() });
        }
    }
}

/// Claims events until a moment, and removes what they stand for. `None` if others were faster.
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
        if let Found::Event(event) = found {
            claimed.push(*event);
        }
    }
    let is_same = |event: &Queued| choice.claims.iter().any(|chosen| chosen.etag == event.etag);
    if claimed.len() != choice.claims.len() || !claimed.iter().all(is_same) {
        return Ok(None);
    }
    let mut batch = batch().message("claim events");
    for Queued { event, etag, path, .. } in &mut claimed {
        event.seq.get_or_insert(etag.seq.0);
        event.status = EventStatus::Processing;
        event.lease_until = Some(until.to_rfc3339());
        batch = batch
            .require(&*path, Precondition::Etag(*etag))
            .op(Op::write(&*path, event.to_json()?).must_exist());
    }
    for old in &choice.superseded {
        batch = batch.require(&old.path, Precondition::Etag(old.etag)).op(Op::remove_file(&old.path));
    }
    let commit = match fs.commit(batch).await {
        Ok(commit) => commit,
        Err(error) if is_lost(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    for (number, event) in claimed.iter_mut().enumerate() {
        event.etag = commit.version(number);
    }
    Ok(Some(claimed))
}

/// Returns true if a commit failed because others have changed what it is about.
pub(super) fn is_lost(error: &garth_engine::error::Error) -> bool {
    let kinds = [ErrorKind::Conflict, ErrorKind::IsADirectory, ErrorKind::AlreadyExists, ErrorKind::NotEmpty];
    error.is_absent() || kinds.contains(&error.kind())
}
