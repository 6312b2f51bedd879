//! Commands for operators: list events, retry those in `dlq`, drop one, send the current state again.

use std::collections::BTreeSet;

use super::claim::{batch, is_lost};
use super::current_state::{tell, write_current_state};
use super::finish::removed;
use super::queued::{Keep, MemoryState, OutboxFile, Queued, in_outbox, lies, load, memory_state, places};
use crate::boxed;
use crate::memory::{Event, EventStatus, EventType, RELATIONS, Status, Uri};
use crate::registry::projections;
use crate::small_file::is_no_file;
use garth_engine::env::Env;
use garth_engine::error::{Advice, Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Batch, FindCursor, FindItem, FindQuery, Ino, Op, Precondition, Timestamp};
use garth_engine::path::TreePath;

/// Number of memories whose events are written again in one call.
const AT_ONCE: usize = 16;

/// Number of keys read at a time.
const PAGE: usize = 1000;

/// Listed event.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Path of its file.
    pub path: TreePath,
    /// Event without its payload, or the reason why the file is not an event.
    pub event: Result<Event, String>,
    /// True if the event is in `dlq`, or its status is `FAILED`.
    pub is_failed: bool,
}

/// Page of events.
#[derive(Debug)]
pub struct Listing {
    /// Events: failed ones first, by their creation time; then the others by their due time.
    pub items: Vec<Listed>,
    /// Cursor of the next page. A page with few items, or none, is not always the last.
    pub next: Option<FindCursor>,
}

/// Returns a page of the events of an account, up to 100; with `failed` only those in `dlq` or with the
/// status `FAILED`.
///
/// # Errors
/// `Unsupported` if the tree cannot find by key; from the storage.
#[boxed]
pub async fn list(
    fs: &dyn FileSystem,
    account: &str,
    failed: bool,
    after: Option<FindCursor>,
) -> Result<Listing> {
    let answer = fs.find(&FindQuery::new(projections::EVENT_DUE).after(after).limit(100)).await?;
    let is_failed = |item: &FindItem| {
        item.key.starts_with("failed") || lies(&item.path).is_some_and(|(_, is_dead)| is_dead)
    };
    let wanted: Vec<FindItem> = answer.items.into_iter().filter(|item| !failed || is_failed(item)).collect();
    let found = load(fs, account, places(wanted), Keep::Head).await?;
    let items = found.into_iter().map(|found| match found {
        OutboxFile::Event(queued) => {
            Listed { path: queued.path, event: Ok(queued.event), is_failed: queued.is_dead }
        }
        OutboxFile::Refused { path, is_dead, why, .. } => {
            Listed { path, event: Err(why), is_failed: is_dead }
        }
    });
    Ok(Listing { items: items.collect(), next: answer.next })
}

/// Result of a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// The event waits for delivery again.
    Again,
    /// Its memories have changed. The event was removed, and new events carry their current state.
    Anew,
}

/// Retries an event that failed for good or waits for its next attempt, immediately and with all its
/// attempts.
///
/// # Errors
/// - `NotFound`: no such event.
/// - `InvalidArgument`: the file is not a valid event.
/// - `Busy`: a worker holds the event.
/// - `Conflict`: the event changed in between.
/// - Errors of the storage.
#[boxed]
pub async fn retry(fs: &dyn FileSystem, env: &Env, account: &str, id: &str) -> Result<Retried> {
    let queued = match sought(fs, account, id).await? {
        OutboxFile::Event(queued) => free(env.now(), queued)?,
        OutboxFile::Refused { path, why, .. } => {
            return Err(Error::at(ErrorKind::InvalidArgument, &path, format!("{why}; drop it")));
        }
    };
    let require = batch().require(&queued.path, Precondition::Etag(queued.etag));
    // Delivering old state after newer events have been delivered would set the sink's index back.
    if is_overtaken(fs, account, &queued).await? {
        let here = Uri::of_dir(account, &queued.dir).map(|uri| uri.to_string());
        // All URIs of the event, and the one at which the memory is now.
        let about: BTreeSet<String> = queued.uris.iter().cloned().chain(here).collect();
        let mut batch = require.message("create new events").op(Op::remove_file(&queued.path));
        for uri in about {
            batch = write_current_state(fs, env, &uri.parse()?, batch).await?;
        }
        fs.commit(batch).await?;
        return Ok(Retried::Anew);
    }
    let mut event = queued.event.clone();
    event.status = EventStatus::Pending;
    event.retry_count = 0;
    // Newer events have passed a dead one. Without its sequence number it takes the place of this commit,
    // after them.
    event.seq = event.seq.filter(|_| !queued.is_dead);
    (event.next_attempt_at, event.lease_until, event.last_error) = (None, None, None);
    let mut batch = require.message("try again").op(Op::write(&queued.path, event.to_json()?).must_exist());
    let back = in_outbox(&queued.dir, queued.path.name().unwrap_or_default());
    if back != queued.path {
        batch = batch.op(Op::rename(&queued.path, back).no_replace());
    }
    fs.commit(batch).await?;
    Ok(Retried::Again)
}

/// Removes an event without delivering it. Its memory counts as delivered.
///
/// # Errors
/// As [`retry`].
#[boxed]
pub async fn drop_event(fs: &dyn FileSystem, env: &Env, account: &str, id: &str) -> Result<()> {
    let batch = match sought(fs, account, id).await? {
        OutboxFile::Event(queued) => {
            let queued = free(env.now(), queued)?;
            let require = batch().require(&queued.path, Precondition::Etag(queued.etag));
            // Notes the version of the memory as well, or repair would write the event again.
            removed(fs, require.message("drop an event"), &queued).await?
        }
        OutboxFile::Refused { path, etag, .. } => {
            batch().require(&path, Precondition::Etag(etag)).op(Op::remove_file(&path))
        }
    };
    fs.commit(batch).await?;
    Ok(())
}

fn free(now: Timestamp, queued: Box<Queued>) -> Result<Box<Queued>> {
    if queued.is_held(now) {
        let message = "a worker is delivering this event; try again in a minute";
        return Err(Error::at(ErrorKind::Busy, &queued.path, message));
    }
    Ok(queued)
}

/// Returns the event with an id, in any outbox of the account.
async fn sought(fs: &dyn FileSystem, account: &str, id: &str) -> Result<OutboxFile> {
    let (mut after, name) = (None, format!("{id}.json"));
    loop {
        let answer = fs.find(&FindQuery::new(projections::EVENT_DUE).after(after).limit(PAGE)).await?;
        let place = answer.items.into_iter().find(|item| item.path.name() == Some(&*name));
        if let Some(item) = place
            && let Some(found) = load(fs, account, [(item.path, item.ino)], Keep::All).await?.pop()
        {
            return Ok(found);
        }
        after = answer.next;
        if after.is_none() {
            let error = Error::new(ErrorKind::NotFound, format!("{id}: no such event"));
            return Err(error.advising(Advice::Command, "`garth outbox list` lists them"));
        }
    }
}

/// Returns true if the memories of an event have changed after it.
async fn is_overtaken(fs: &dyn FileSystem, account: &str, queued: &Queued) -> Result<bool> {
    let here = Uri::of_dir(account, &queued.dir).map(|uri| uri.to_string());
    let memory = async |uri: &str| -> Result<Option<MemoryState>> {
        memory_state(fs, &uri.parse::<Uri>()?.dir()).await
    };
    let (seq, event) = (queued.seq(), &queued.event);
    // Compares commits: the memory must not have been written after the event's own commit.
    let is_as_then =
        |memory: Option<MemoryState>| memory.is_some_and(|memory| memory.is_active && memory.etag.seq <= seq);
    Ok(!match event.event_type {
        EventType::UpsertContext => here == Some(event.uri.clone()) && is_as_then(memory(&event.uri).await?),
        EventType::UpsertRelation => {
            let at = At::Path(TreePath::from_row(queued.dir.key(), RELATIONS));
            let written = match fs.stat(&at).await {
                Ok(entry) => entry.etag.seq <= seq,
                Err(error) if is_no_file(&error) => false,
                Err(error) => return Err(error),
            };
            let is_active = memory(&event.uri).await?.is_some_and(|memory| memory.is_active);
            here == Some(event.uri.clone()) && written && is_active
        }
        EventType::DeleteContext => memory(&event.uri).await?.is_none(),
        EventType::MoveContext => {
            let new = queued.uris.get(1).cloned();
            let moved = match &new {
                Some(new) => is_as_then(memory(new).await?),
                None => false,
            };
            here == new && moved && memory(&event.uri).await?.is_none()
        }
    })
}

/// Writes events with the current state of `ACTIVE` memories below a directory, a limited number of them in a
/// call. Returns their number, and the cursor of the next call.
///
/// # Errors
/// `Unsupported` if the tree cannot find by key; from the storage.
#[boxed]
pub async fn resend(
    fs: &dyn FileSystem,
    env: &Env,
    account: &str,
    below: &TreePath,
    after: Option<FindCursor>,
) -> Result<(usize, Option<FindCursor>)> {
    let query = FindQuery::new(projections::MEMORY_STATUS).equal(Status::Active.as_str());
    let answer = fs.find(&query.within(below.clone()).after(after).limit(AT_ONCE)).await?;
    let metas: Vec<(TreePath, Ino)> = places(answer.items).collect();
    let mut told = 0;
    for (path, _) in metas {
        let Some(uri) = path.parent().and_then(|dir| Uri::of_dir(account, &dir)) else { continue };
        // New events are growth.
        let batch = Batch { even_when_full: false, ..batch().message("create new events") };
        let Some(batch) = tell(fs, env, &uri, &batch).await? else { continue };
        match fs.commit(batch).await {
            Ok(_) => told += 1,
            // The commit that changed it has written an event of its own.
            Err(error) if is_lost(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((told, answer.next))
}
