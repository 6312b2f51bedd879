//! Deletes a memory, with the edges that lead to it.

use super::event::{Event, EventType, Payload};
use super::file_names::{OUTBOX, RELATIONS};
use super::state::State;
use super::uri::Uri;
use super::write_ops::{in_account_outbox, outlive, upsert_relation, write_event, write_event_of_account};
use super::{Memories, edge};
use crate::boxed;
use crate::once::{Outcome, PENDING};
use crate::retry::retry;
use garth_engine::error::{Advice, Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::model::{At, ByteRange, Op, Page, Precondition, Seq};
use garth_engine::path::TreePath;
use garth_engine::rule::projection::MAX_FILE;

/// Limit on the edges of other memories that one commit rewrites; the worker of the outbox rewrites the
/// others.
const MAX_REWRITTEN: usize = if cfg!(test) { 20 } else { 10_000 };

/// Limit on the bytes of their files: each is written, and repeated in an event.
const MAX_REWRITTEN_BYTES: usize = 4 << 20;

/// Limit on the waiting events of a memory that is deleted. One with more is still in use.
const MAX_TAKEN: usize = 1000;

/// Range read of a waiting file. A longer one has no key, and is not an event.
const HEAD: ByteRange = ByteRange { offset: 0, length: MAX_FILE + 1 };

/// Treatment of the edges that lead to a memory.
pub(super) enum Incoming<'a> {
    /// Remove them.
    Removed,
    /// Redirect them to this URI.
    To(&'a str),
}

impl Memories<'_> {
    /// Deletes a memory of any status, with the edges that lead to it. Its history stays.
    ///
    /// # Errors
    /// `AccessDenied` for another account; `NotFound` if no file of it exists; from the filesystem.
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
        // Without atomic commits, on a host folder, a partly removed directory must not count as a memory.
        ops.push(Op::rename(uri.dir(), away.clone()).with_parents());
        self.rewrite(uri, &Incoming::Removed, &mut ops, &mut conditions).await?;
        ops.push(write_event_of_account(&event)?);
        ops.push(Op::remove_tree(away));
        let batch = self.batch(ops, conditions).message(format!("delete {uri}")).even_when_full();
        self.once.commit(self.fs, batch, outcome).await
    }

    /// Removes the events of a memory that moved to another owner from its directory. Those that do not
    /// outlive it are deleted: they carry old state, and a new event replaces them.
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

    /// Returns the waiting events of a memory. `conditions` fixes their content until the commit: one that is
    /// in delivery by then would have to outlive the memory.
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
                // It was delivered in between.
                Err(error) if error.is(ErrorKind::NotFound) => continue,
                Err(error) => return Err(error),
            };
            conditions.push((at, Precondition::Etag(entry.etag)));
            events.extend(Event::parse(&bytes).ok().map(|event| (path, event)));
        }
        // Without keys no worker delivers them, so they need not be kept.
        if listing.more && self.fs.capabilities(&dir).find {
            let message = format!("{uri}: has more than {MAX_TAKEN} waiting events");
            let advice = "run `garth outbox run` first";
            return Err(Error::new(ErrorKind::Conflict, message).advising(Advice::Command, advice));
        }
        Ok(events)
    }

    /// Rewrites the edges that lead to a memory, as many as one commit takes. Each memory with such an edge
    /// gets an event.
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
            // Another change of these edges in between must not be overwritten.
            conditions.push((file.clone().into(), Precondition::Etag(memory.etag)));
            ops.push(Op::write(file, text));
            if memory.is_memory {
                ops.push(write_event(&memory.from, &upsert_relation(&self.env, &memory.from, &edges)?)?);
            }
        }
        Ok(())
    }
}
