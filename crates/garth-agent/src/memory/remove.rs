//! Removes a memory, with the edges that lead to it.

use super::event::{Event, EventType, Payload};
use super::file_names::{OUTBOX, RELATIONS};
use super::state::State;
use super::uri::Uri;
use super::write_ops::{in_account_outbox, outlive, upsert_relation, write_event, write_event_of_account};
use super::{Memories, edge};
use crate::boxed;
use crate::once::{Outcome, PENDING};
use crate::retry::retry;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::model::{At, ByteRange, Op, Page, Precondition, Seq};
use garth_engine::path::TreePath;
use garth_engine::rule::projection::MAX_FILE;

/// Most edges of others that one commit rewrites; the rest is done beside it, in steps.
const MAX_REWRITTEN: usize = if cfg!(test) { 20 } else { 10_000 };

/// Most bytes of the files that they are in: each is written, and told of.
const MAX_REWRITTEN_BYTES: usize = 4 << 20;

/// Most waiting events of a memory that are taken along; one that has more is not at rest.
const MAX_TAKEN: usize = 1000;

/// As much of a waiting file as an event can have: one that is longer has no key, and is none.
const HEAD: ByteRange = ByteRange { offset: 0, length: MAX_FILE + 1 };

/// What is done with the edges that lead to a memory.
pub(super) enum Incoming<'a> {
    /// They go.
    Removed,
    /// They lead elsewhere.
    To(&'a str),
}

impl Memories<'_> {
    /// Removes a memory, whatever its status, with the edges that lead to it. Its past stays.
    ///
    /// # Errors
    /// `AccessDenied` for another account's; `NotFound` if nothing is there; from the filesystem.
    #[boxed]
    pub async fn delete(&self, uri: &Uri) -> Result<Seq> {
        self.check_place(uri)?;
        self.check_change(uri)?;
        self.once.run(retry(|| self.delete_once(uri, PENDING))).await
    }

    /// Deletes a memory, and records the outcome for a repeat.
    pub(super) async fn delete_once<T: Outcome>(&self, uri: &Uri, outcome: T) -> Result<T> {
        let state = State::read(self.fs, uri).await?;
        let there = [&state.meta, &state.content, &state.relations, &state.brief, &state.overview];
        if there.iter().all(|file| file.is_none()) {
            return Err(self.missing(uri).await);
        }
        let event = Event::new(&self.env, EventType::DeleteContext, &uri.to_string(), Payload::default())?;
        let away = in_account_outbox(&format!("{}.d", event.event_id));
        let (mut ops, mut conditions) = (Vec::new(), state.unchanged());
        ops.extend(outlive(uri, &self.waiting(uri, &mut conditions).await?));
        // where a batch is not atomic, a directory that is partly removed is no memory
        ops.push(Op::rename(uri.dir(), away.clone()).with_parents());
        self.rewrite(uri, &Incoming::Removed, &mut ops, &mut conditions).await?;
        ops.push(write_event_of_account(&event)?);
        ops.push(Op::remove_tree(away));
        let batch = self.batch(ops, conditions).message(format!("delete {uri}"));
        self.once.commit(self.fs, batch, outcome).await
    }

    /// Takes the events of a memory that moved to another owner out of its directory: those that do not
    /// outlive it are of what it was, and what is told of it now stands for them.
    pub(super) async fn take_events_out(
        &self,
        uri: &Uri,
        ops: &mut Vec<Op>,
        conditions: &mut Vec<(At, Precondition)>,
    ) -> Result<()> {
        let waiting = self.waiting(uri, conditions).await?;
        ops.extend(outlive(uri, &waiting));
        let others = waiting.into_iter().filter(|(_, event)| !event.outlives_memory());
        ops.extend(others.map(|(path, _)| Op::remove_file(path)));
        Ok(())
    }

    /// The waiting events of a memory. They must be as they are here when it goes: one that is being told by
    /// then would outlive it, too.
    async fn waiting(
        &self,
        uri: &Uri,
        conditions: &mut Vec<(At, Precondition)>,
    ) -> Result<Vec<(TreePath, Event)>> {
        let dir = uri.file(OUTBOX);
        let page = Page::default().limit(MAX_TAKEN);
        let Some(listing) = self.fs.list(&At::from(&dir), &page).await.optional()? else {
            return Ok(Vec::new());
        };
        let mut events = Vec::new();
        for item in listing.items.iter().filter(|item| item.name.as_str().ends_with(".json")) {
            let path = TreePath::from_row(dir.key(), item.name.as_str());
            let at = At::from(&path);
            let (entry, bytes) = match self.fs.fetch(&at, HEAD).await {
                Ok(found) => found,
                // done meanwhile
                Err(error) if error.is(ErrorKind::NotFound) => continue,
                Err(error) => return Err(error),
            };
            conditions.push((at, Precondition::Etag(entry.etag)));
            events.extend(Event::parse(&bytes).ok().map(|event| (path, event)));
        }
        // without a worker nobody ever does them, and nobody is told
        if listing.more && self.fs.capabilities(&dir).find {
            let message =
                format!("{uri}: has more than {MAX_TAKEN} waiting events; run garth outbox run first");
            return Err(Error::new(ErrorKind::Busy, message));
        }
        Ok(events)
    }

    /// Rewrites the edges that lead to a memory, as many as one commit takes; each memory that has such gets
    /// an event.
    pub(super) async fn rewrite(
        &self,
        uri: &Uri,
        incoming: &Incoming<'_>,
        ops: &mut Vec<Op>,
        conditions: &mut Vec<(At, Precondition)>,
    ) -> Result<()> {
        let to = uri.to_string();
        let (memories, _) = self.incoming(uri, MAX_REWRITTEN, MAX_REWRITTEN_BYTES).await?;
        let mut left = MAX_REWRITTEN;
        for memory in memories.into_iter().filter(|memory| memory.from != *uri) {
            let entries: Vec<edge::Entry> = serde_json::from_slice(&memory.bytes).unwrap_or_default();
            let leading = entries.iter().filter(|entry| entry.leads_to(&to)).count();
            let new = match incoming {
                Incoming::Removed => None,
                Incoming::To(new) => Some(*new),
            };
            let Some(entries) = edge::redirected(entries, &to, new) else { continue };
            let Some(rest) = left.checked_sub(leading) else { break };
            left = rest;
            let text = edge::to_json(&entries)?;
            let edges = edge::parse(text.as_bytes())?;
            let file = memory.from.file(RELATIONS);
            conditions.push((file.clone().into(), Precondition::Etag(memory.etag)));
            ops.push(Op::write(file, text));
            if memory.is_memory {
                ops.push(write_event(&memory.from, &upsert_relation(&self.env, &memory.from, &edges)?)?);
            }
        }
        Ok(())
    }
}
