//! Event file in an outbox: its place, memory and state, and the check that it is valid there.

use bytes::Bytes;

use crate::memory::event::Payload;
use crate::memory::{DLQ, Event, EventStatus, EventType, META, Meta, OUTBOX, Status, Uri};
use crate::small_file::is_no_file;
use garth_engine::error::{ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, ByteRange, Entry, FindItem, Ino, Seq, Timestamp, VersionId};
use garth_engine::path::TreePath;

/// Position in the order of events: the commit that wrote the event; within a commit moves and deletions,
/// then memories, then edges; then by id.
pub(super) type Place = (u64, u8, String);

/// Event file.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub(super) path: TreePath,
    /// Directory of the outbox: that of a memory, or the root.
    pub(super) dir: TreePath,
    pub(super) ino: Ino,
    pub(super) etag: VersionId,
    pub(super) size: u64,
    /// True if the event is in `dlq`, or its status is `FAILED`.
    pub(super) is_dead: bool,
    /// URI of the event; for a move the old and the new one.
    pub(super) uris: Vec<String>,
    /// Event; without its payload if read with [`Keep::Head`].
    pub(super) event: Event,
}

/// Content of a file in an outbox.
#[derive(Debug)]
pub(super) enum OutboxFile {
    Event(Box<Queued>),
    /// Not an event, or not valid in its place.
    Refused {
        path: TreePath,
        etag: VersionId,
        is_dead: bool,
        why: String,
    },
}

/// Part of an event to keep in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    All,
    Head,
}

impl Queued {
    /// Returns its position in the order of events.
    pub(super) fn place(&self) -> Place {
        let rank = match self.event.event_type {
            EventType::MoveContext | EventType::DeleteContext => 0,
            EventType::UpsertContext => 1,
            EventType::UpsertRelation => 2,
        };
        // The id breaks ties, so that all workers agree on one order.
        (self.seq().0, rank, self.event.event_id.clone())
    }

    /// Returns the commit that wrote the event.
    pub(super) fn seq(&self) -> Seq {
        // A claim rewrites the file, so it stores the first commit in `seq`. Before that, the version of the
        // file is the commit.
        Seq(self.event.seq.unwrap_or(self.etag.seq.0))
    }

    /// Returns true while a worker's lease on it lasts.
    pub(super) fn is_held(&self, now: Timestamp) -> bool {
        self.event.status == EventStatus::Processing && is_later(self.event.lease_until.as_deref(), now)
    }

    /// Returns true if it can be claimed.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        match self.event.status {
            EventStatus::Pending => !is_later(self.event.next_attempt_at.as_deref(), now),
            EventStatus::Processing => !self.is_held(now),
            EventStatus::Failed => false,
        }
    }

    /// Returns true if it carries the current state of the memory or of its edges, so that a later event of
    /// the same kind replaces it.
    pub(super) fn is_upsert(&self) -> bool {
        matches!(self.event.event_type, EventType::UpsertContext | EventType::UpsertRelation)
    }
}

/// Returns true if a time is later than `now`. A time that cannot be parsed is not.
fn is_later(moment: Option<&str>, now: Timestamp) -> bool {
    moment.and_then(|text| Timestamp::parse_rfc3339(text).ok()).is_some_and(|moment| moment > now)
}

/// Returns the directory that has the outbox of an event file, and true for a file in `dlq`.
pub(super) fn lies(path: &TreePath) -> Option<(TreePath, bool)> {
    let above = path.parent()?;
    let is_dead = above.name() == Some(DLQ);
    let outbox = if is_dead { above.parent()? } else { above };
    if outbox.name() != Some(OUTBOX) {
        return None;
    }
    Some((outbox.parent()?, is_dead))
}

/// Reads event files; skips those that no longer exist.
pub(super) async fn load(
    fs: &dyn FileSystem,
    account: &str,
    items: impl IntoIterator<Item = (TreePath, Ino)>,
    keep: Keep,
) -> Result<Vec<OutboxFile>> {
    let items: Vec<_> = items.into_iter().collect();
    let (mut found, mut rest) = (Vec::new(), items.as_slice());
    while !rest.is_empty() {
        let asked: Vec<_> = rest.iter().map(|(path, _)| (At::from(path), ByteRange::ALL)).collect();
        let answers = fs.fetch_many(&asked).await?.items;
        let answered = answers.len();
        for ((path, _), answer) in rest.iter().zip(answers) {
            match answer {
                Ok((entry, bytes)) => found.extend(read(account, path, &entry, &bytes, keep)),
                Err(error) if is_no_file(&error) => {}
                // Too large for an answer, such as 20 MiB, and so not an event.
                Err(error) if error.is(ErrorKind::TooLarge) => {}
                Err(error) => return Err(error),
            }
        }
        // One answer may hold fewer items than asked for.
        rest = &rest[answered..];
    }
    Ok(found)
}

/// Returns the paths and inodes of found items.
pub(super) fn places(items: Vec<FindItem>) -> impl Iterator<Item = (TreePath, Ino)> {
    items.into_iter().map(|item| (item.path, item.ino))
}

fn read(account: &str, path: &TreePath, entry: &Entry, bytes: &Bytes, keep: Keep) -> Option<OutboxFile> {
    let (dir, is_dead) = lies(path)?;
    let refused = |why: String| OutboxFile::Refused { path: path.clone(), etag: entry.etag, is_dead, why };
    let mut event = match Event::parse(bytes) {
        Ok(event) => event,
        Err(error) => return Some(refused(error.message().to_owned())),
    };
    let here = match dir.is_root() {
        true => Ok(None),
        false => Uri::of_dir(account, &dir)
            .map(Some)
            .ok_or("event: its directory does not belong to a memory".to_owned()),
    };
    // Anyone who may write to the memory's directory can put a file here.
    if let Err(why) = here.and_then(|here| event.check(account, path.name(), here.as_ref())) {
        return Some(refused(why));
    }
    let uris = std::iter::once(event.uri.clone()).chain(event.payload.new_uri.clone()).collect();
    // A page of events is held in memory; most payloads are not needed to decide on their order.
    if keep == Keep::Head {
        event.payload = Payload::default();
    }
    let is_dead = is_dead || event.status == EventStatus::Failed;
    Some(OutboxFile::Event(Box::new(Queued {
        path: path.clone(),
        dir,
        ino: entry.ino,
        etag: entry.etag,
        size: entry.size,
        is_dead,
        uris,
        event,
    })))
}

/// State of the memory whose outbox contains an event.
#[derive(Clone, Debug)]
pub(super) struct MemoryState {
    pub(super) etag: VersionId,
    pub(super) version: u64,
    pub(super) is_active: bool,
}

/// Returns the state of the memory in a directory; `None` without a readable `.meta.json`.
pub(super) async fn memory_state(fs: &dyn FileSystem, dir: &TreePath) -> Result<Option<MemoryState>> {
    let (entry, bytes) = match fs.fetch(&At::Path(meta_of(dir)), ByteRange::ALL).await {
        Ok(found) => found,
        Err(error) if is_no_file(&error) || error.is(ErrorKind::TooLarge) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Meta::parse(&bytes).ok().map(|meta| MemoryState {
        etag: entry.etag,
        version: meta.version,
        is_active: meta.status == Status::Active,
    }))
}

pub(super) fn meta_of(dir: &TreePath) -> TreePath {
    TreePath::from_row(dir.key(), META)
}

/// Returns a path in the outbox of a directory.
pub(super) fn in_outbox(dir: &TreePath, name: &str) -> TreePath {
    TreePath::from_row(TreePath::from_row(dir.key(), OUTBOX).key(), name)
}
