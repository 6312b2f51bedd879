//! Deletion events for memories that were removed by hand, with their directory or without it: one for each
//! URI under which an index may still have the memory, as far as the log knows.

use std::sync::Arc;

use super::super::Memories;
use super::super::event::{Event, EventStatus, EventType, LEASE, Payload};
use super::super::file_names::{META, OUTBOX};
use super::super::meta::{Meta, Status};
use super::super::remove::Incoming;
use super::super::state::{State, read_all};
use super::super::uri::Uri;
use super::super::write_ops::write_event_of_account;
use crate::registry::projections;
use crate::retry::retry;
use crate::small_file::sha256;
use garth_engine::error::{ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::{FileSystem, FileSystemExt};
use garth_engine::model::{At, Batch, CommitId, FindQuery, HistoryPage, Moment, Page, Seq, Timestamp};
use garth_engine::path::TreePath;

/// Limit on the events of a removed memory that are read.
const MAX_EVENTS: usize = 1000;

/// End of a memory whose directory still exists, with some of its files or with other files.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    /// Commit that removed its meta. It identifies the end, which is reported once, even after its events are
    /// removed.
    seq: Seq,
    gone: MissingEvents,
}

/// Events that a removed memory still needs.
#[derive(Clone, Debug, Default)]
pub(super) struct MissingEvents {
    /// URIs under which an index may have it, without an event about its end.
    pub(super) uris: Vec<Uri>,
    /// Time until which events about it may be in flight to a sink.
    pub(super) not_before: Option<Timestamp>,
}

impl Memories<'_> {
    /// Returns the missing events of a memory that was in a directory and exists nowhere now.
    pub(super) async fn went(&self, past: &Arc<dyn FileSystem>, uri: &Uri) -> Result<MissingEvents> {
        let now = State::read(self.fs, uri).await?;
        let left = [&now.meta, &now.content, &now.relations, &now.brief, &now.overview];
        // A memory of which files are left is judged like any other.
        if left.iter().any(|file| file.is_some()) || self.fs.lookup(uri.file(OUTBOX)).await?.is_some() {
            return Ok(MissingEvents::default());
        }
        match self.last_meta(past, uri).await? {
            Some(meta) => self.to_tell(past, uri, &meta).await,
            None => Ok(MissingEvents::default()),
        }
    }

    /// Returns the end of a memory that was ACTIVE, and whose meta and text were removed, if no event about
    /// it was written.
    pub(super) async fn ended(&self, uri: &Uri) -> Result<Option<Ended>> {
        if !self.has_log(uri) {
            return Ok(None);
        }
        let page = HistoryPage::default().limit(2);
        let history = self.fs.history(&uri.file(META).into(), &page).await.optional()?;
        let versions = history.unwrap_or_default().items;
        let [last, before, ..] = &*versions else { return Ok(None) };
        let (None, Some(meta)) = (&last.entry, &before.entry) else { return Ok(None) };
        // If the meta was moved, the memory is found at its new place.
        if self.fs.stat(&At::Node(meta.ino)).await.optional()?.is_some() {
            return Ok(None);
        }
        let seq = last.id.seq;
        let past = match self.fs.as_of(&Moment::Seq(Seq(seq.0.saturating_sub(1)))).await {
            Ok(past) => past,
            // The state before is no longer stored, so the memory is unknown.
            Err(error) if matches!(error.kind(), ErrorKind::Gone | ErrorKind::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        let meta = self.last_meta(&past, uri).await?;
        let Some(meta) = meta.filter(|meta| meta.status == Status::Active) else { return Ok(None) };
        let mut gone = self.to_tell(&past, uri, &meta).await?;
        let mut untold = Vec::new();
        for uri in gone.uris {
            if self.fs.committed(id_of_end(&uri, seq)).await?.is_none() {
                untold.push(uri);
            }
        }
        gone.uris = untold;
        Ok((!gone.uris.is_empty()).then_some(Ended { seq, gone }))
    }

    async fn last_meta(&self, past: &Arc<dyn FileSystem>, uri: &Uri) -> Result<Option<Meta>> {
        let [meta] = read_all(&**past, &[uri.file(META)]).await?;
        Ok(meta.and_then(|file| Meta::parse(file.bytes.as_ref()?).ok()))
    }

    /// Returns the events to write for a memory with this last meta.
    async fn to_tell(&self, past: &Arc<dyn FileSystem>, uri: &Uri, meta: &Meta) -> Result<MissingEvents> {
        let known = meta.uri.parse().ok().filter(|said: &Uri| said.account() == self.account);
        let mut gone = MissingEvents { uris: vec![known.unwrap_or_else(|| uri.clone())], not_before: None };
        let longest = self.env.now().plus_seconds(LEASE.as_secs().cast_signed());
        for event in self.waited(past, uri).await? {
            let lease = event.lease_until.as_deref().filter(|_| event.status == EventStatus::Processing);
            let lease = lease.and_then(|lease| Timestamp::parse_rfc3339(lease).ok());
            gone.not_before = gone.not_before.max(lease.map(|lease| lease.min(longest)));
            // Until the event of a move is delivered, an index has the memory under its old URI.
            let old = event.uri.parse().ok().filter(|_| event.event_type == EventType::MoveContext);
            gone.uris.extend(old.filter(|old| !gone.uris.contains(old)));
        }
        let mut untold = Vec::new();
        for gone in std::mem::take(&mut gone.uris) {
            // A memory exists under this URI, so indexes keep it.
            let is_there = gone != *uri && self.fs.lookup(gone.file(META)).await?.is_some();
            if !is_there && !self.is_told_gone(&gone).await? {
                untold.push(gone);
            }
        }
        Ok(MissingEvents { uris: untold, ..gone })
    }

    /// Returns the waiting events of a removed memory.
    async fn waited(&self, past: &Arc<dyn FileSystem>, uri: &Uri) -> Result<Vec<Event>> {
        let outbox = uri.file(OUTBOX);
        let page = Page::default().limit(MAX_EVENTS);
        let Some(listing) = past.list(&At::from(&outbox), &page).await.optional()? else {
            return Ok(Vec::new());
        };
        let mut events = Vec::new();
        for item in listing.items.iter().filter(|item| item.name.as_str().ends_with(".json")) {
            let path = TreePath::from_row(outbox.key(), item.name.as_str());
            let file = match read_all(&**past, std::array::from_ref(&path)).await {
                Ok([file]) => file,
                // The retention of its path class has ended its content.
                Err(error) if error.is(ErrorKind::Gone) => None,
                Err(error) => return Err(error),
            };
            let event = file.and_then(|file| Event::parse(file.bytes.as_ref()?).ok());
            let speaks = |event: &Event| event.check(&self.account, path.name(), Some(uri)).is_ok();
            events.extend(event.filter(speaks));
        }
        Ok(events)
    }

    /// Returns true if an event of its deletion or move is waiting.
    async fn is_told_gone(&self, uri: &Uri) -> Result<bool> {
        if !self.fs.capabilities(&uri.dir()).find {
            return Ok(false);
        }
        let query = FindQuery::new(projections::EVENT_MEMORY).equal(&uri.to_string()).limit(100);
        for item in self.fs.find(&query).await?.items {
            let event = self.fs.read_file(&item.path).await.ok();
            let event = event.and_then(|bytes| Event::parse(&bytes).ok());
            let ends = |event: &Event| {
                let types = [EventType::DeleteContext, EventType::MoveContext];
                event.uri == uri.to_string() && types.contains(&event.event_type)
            };
            if event.is_some_and(|event| ends(&event)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes the event of a deletion, due from a time on, and removes the edges that lead to the memory.
    pub(super) async fn tell_gone(&self, uri: &Uri, not_before: Option<Timestamp>) -> Result<()> {
        retry(|| self.tell_gone_once(uri, not_before, None)).await
    }

    /// Writes the event of the end of a memory whose directory still exists.
    pub(super) async fn tell_ended(&self, ended: &Ended) -> Result<()> {
        for uri in &ended.gone.uris {
            let id = id_of_end(uri, ended.seq);
            retry(|| self.tell_gone_once(uri, ended.gone.not_before, Some(id))).await?;
        }
        Ok(())
    }

    async fn tell_gone_once(
        &self,
        uri: &Uri,
        not_before: Option<Timestamp>,
        id: Option<CommitId>,
    ) -> Result<()> {
        let mut event =
            Event::new(&self.env, EventType::DeleteContext, &uri.to_string(), Payload::default())?;
        event.next_attempt_at = not_before.map(|time| time.to_rfc3339());
        let mut conditions = State::read(self.fs, uri).await?.unchanged();
        let mut ops = vec![write_event_of_account(&event)?];
        self.rewrite(uri, &Incoming::Removed, &mut ops, &mut conditions).await?;
        let message = format!("repair {uri}: deleted");
        let batch = self.batch(ops, conditions).message(message).visible();
        self.fs.commit(Batch { id, ..batch }).await?;
        Ok(())
    }
}

/// Returns the id of the commit that writes the event of the end of a memory.
fn id_of_end(uri: &Uri, seq: Seq) -> CommitId {
    let digest = sha256(format!("end of {uri} in {seq}").as_bytes());
    CommitId(u128::from_str_radix(&digest[..32], 16).unwrap_or_default())
}
