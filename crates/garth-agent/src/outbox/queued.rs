//! An event as it lies in an outbox: where, for which memory, in which state, and whether it may lie there.

use bytes::Bytes;

use crate::memory::event::Payload;
use crate::memory::{DLQ, Event, EventStatus, EventType, META, Meta, OUTBOX, Status, Uri};
use crate::small_file::is_no_file;
use garth_engine::error::{ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, ByteRange, Entry, FindItem, Ino, Seq, Timestamp, VersionId};
use garth_engine::path::TreePath;

/// Where in the order of events one is: the commit that made it; of one commit what moved or went comes
/// first, then the memory, then its edges; then by id.
pub(super) type Place = (u64, u8, String);

/// An event file.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub(super) path: TreePath,
    /// The directory that has the outbox: a memory's, or the root.
    pub(super) dir: TreePath,
    pub(super) ino: Ino,
    pub(super) etag: VersionId,
    pub(super) size: u64,
    /// Whether it was given up.
    pub(super) is_dead: bool,
    /// The URI that it had before, and if it moved, the one that it has.
    pub(super) uris: Vec<String>,
    /// The event; without its payload unless that was asked for.
    pub(super) event: Event,
}

/// What a file of an outbox is.
#[derive(Debug)]
pub(super) enum Found {
    Event(Box<Queued>),
    /// No event, or one that must not lie there.
    Refused {
        path: TreePath,
        etag: VersionId,
        is_dead: bool,
        why: String,
    },
}

/// Whether the payload is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    All,
    Head,
}

impl Queued {
    /// Where it is in the order of events.
    pub(super) fn place(&self) -> Place {
        let rank = match self.event.event_type {
            EventType::MoveContext | EventType::DeleteContext => 0,
            EventType::UpsertContext => 1,
            EventType::UpsertRelation => 2,
        };
        (self.seq().0, rank, self.event.event_id.clone())
    }

    /// The commit that made it.
    pub(super) fn seq(&self) -> Seq {
        Seq(self.event.seq.unwrap_or(self.etag.seq.0))
    }

    /// Whether somebody holds it.
    pub(super) fn is_held(&self, now: Timestamp) -> bool {
        self.event.status == EventStatus::Processing && is_later(self.event.lease_until.as_deref(), now)
    }

    /// Whether it can be claimed by now.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        match self.event.status {
            EventStatus::Pending => !is_later(self.event.next_attempt_at.as_deref(), now),
            EventStatus::Processing => !self.is_held(now),
            EventStatus::Failed => false,
        }
    }

    /// Whether it says what the memory, or its edges, are now: a later one of the same kind stands for it.
    pub(super) fn is_upsert(&self) -> bool {
        matches!(self.event.event_type, EventType::UpsertContext | EventType::UpsertRelation)
    }
}

/// Whether a moment is later than now; one that cannot be read is not.
fn is_later(moment: Option<&str>, now: Timestamp) -> bool {
    moment.and_then(|text| Timestamp::parse_rfc3339(text).ok()).is_some_and(|moment| moment > now)
}

/// The directory that has the outbox of an event file, and whether it is of events that were given up.
pub(super) fn lies(path: &TreePath) -> Option<(TreePath, bool)> {
    let above = path.parent()?;
    let is_dead = above.name() == Some(DLQ);
    let outbox = if is_dead { above.parent()? } else { above };
    if outbox.name() != Some(OUTBOX) {
        return None;
    }
    Some((outbox.parent()?, is_dead))
}

/// Reads event files; leaves out what is there no more.
pub(super) async fn load(
    fs: &dyn FileSystem,
    account: &str,
    items: impl IntoIterator<Item = (TreePath, Ino)>,
    keep: Keep,
) -> Result<Vec<Found>> {
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
                // a file that is no event, such as one of 20 MiB
                Err(error) if error.is(ErrorKind::TooLarge) => {}
                Err(error) => return Err(error),
            }
        }
        rest = &rest[answered..];
    }
    Ok(found)
}

/// The paths and numbers that were found.
pub(super) fn places(items: Vec<FindItem>) -> impl Iterator<Item = (TreePath, Ino)> {
    items.into_iter().map(|item| (item.path, item.ino))
}

fn read(account: &str, path: &TreePath, entry: &Entry, bytes: &Bytes, keep: Keep) -> Option<Found> {
    let (dir, is_dead) = lies(path)?;
    let refused = |why: String| Found::Refused { path: path.clone(), etag: entry.etag, is_dead, why };
    let mut event = match Event::parse(bytes) {
        Ok(event) => event,
        Err(error) => return Some(refused(error.message().to_owned())),
    };
    let here = match dir.is_root() {
        true => Ok(None),
        false => Uri::of_dir(account, &dir).map(Some).ok_or("event: its directory is no memory's".to_owned()),
    };
    if let Err(why) = here.and_then(|here| event.check(account, path.name(), here.as_ref())) {
        return Some(refused(why));
    }
    let uris = std::iter::once(event.uri.clone()).chain(event.payload.new_uri.clone()).collect();
    if keep == Keep::Head {
        event.payload = Payload::default();
    }
    let is_dead = is_dead || event.status == EventStatus::Failed;
    Some(Found::Event(Box::new(Queued {
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

/// What is known of the memory whose outbox an event lies in.
#[derive(Clone, Debug)]
pub(super) struct MemoryState {
    pub(super) etag: VersionId,
    pub(super) version: u64,
    pub(super) is_active: bool,
}

/// The memory of a directory, as its meta says; none without a meta that can be read.
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

/// A name in the outbox of a directory.
pub(super) fn in_outbox(dir: &TreePath, name: &str) -> TreePath {
    TreePath::from_row(TreePath::from_row(dir.key(), OUTBOX).key(), name)
}
