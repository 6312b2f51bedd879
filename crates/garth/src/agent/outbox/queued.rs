//! An event as it lies in an outbox: where, for which node, in which state, and whether it may lie there.

use bytes::Bytes;

use crate::agent::node::event::Payload;
use crate::agent::node::{DLQ, Event, EventStatus, EventType, META, Meta, OUTBOX, Status, Uri};
use crate::error::{ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::{At, ByteRange, Entry, FindItem, Ino, Seq, Timestamp, VersionId};
use crate::path::TreePath;

/// Where in the order of events one is: the commit that made it; of one commit what moved or went comes
/// first, then the node, then its edges; then by id.
pub(super) type Place = (u64, u8, String);

/// An event file.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub(super) path: TreePath,
    /// The directory that has the outbox: a node's, or the root.
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

    /// Whether it says what the node, or its edges, are now: a later one of the same kind stands for it.
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
                Err(error) if is_absent(&error) => {}
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

pub(super) fn is_absent(error: &crate::error::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory)
        || error.is(ErrorKind::NotPermitted)
}

fn read(account: &str, path: &TreePath, entry: &Entry, bytes: &Bytes, keep: Keep) -> Option<Found> {
    let (dir, is_dead) = lies(path)?;
    let refused = |why: String| Found::Refused { path: path.clone(), etag: entry.etag, is_dead, why };
    let mut event = match Event::parse(bytes) {
        Ok(event) => event,
        Err(error) => return Some(refused(error.message().to_owned())),
    };
    if let Err(why) = check(account, path, &dir, &event) {
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

/// Refuses an event that its place does not speak for: whoever writes files in one node's directory must not
/// tell an index about nodes of others.
fn check(account: &str, path: &TreePath, dir: &TreePath, event: &Event) -> Result<(), String> {
    if path.name() != Some(&*format!("{}.json", event.event_id)) {
        return Err("event: its file has another name than its event_id".to_owned());
    }
    let node = |text: &str| -> Result<Uri, String> {
        let uri: Uri = text.parse().map_err(|error: crate::error::Error| error.message().to_owned())?;
        uri.check_account(account).map_err(|error| error.message().to_owned())?;
        Ok(uri)
    };
    let uri = node(&event.uri)?;
    let mut about = vec![uri.clone()];
    let has = match event.event_type {
        EventType::UpsertContext => event.payload.records.is_some(),
        EventType::UpsertRelation => event.payload.edges.is_some(),
        EventType::MoveContext => event.payload.new_uri.is_some(),
        EventType::DeleteContext => true,
    };
    if !has {
        return Err("event: its payload is not that of its type".to_owned());
    }
    if let Some(new) = &event.payload.new_uri {
        about.push(node(new)?);
    }
    if !dir.is_root() {
        let here = Uri::of_dir(account, dir).ok_or("event: its directory is no node's")?;
        if about.iter().any(|uri| uri.space() != here.space()) {
            return Err(format!("event: is about a node of another owner than {here}"));
        }
    }
    for record in event.payload.records.iter().flatten() {
        let is_own = record.uri == event.uri
            && record.filters.account_id == account
            && record.filters.owner_space == uri.space().to_string();
        if !is_own {
            return Err("event: a record is of another node, account or owner".to_owned());
        }
    }
    for edge in event.payload.edges.iter().flatten() {
        if edge.from_uri != event.uri {
            return Err("event: an edge leads from another node".to_owned());
        }
        node(&edge.to_uri)?;
    }
    Ok(())
}

/// What is known of the node whose outbox an event lies in.
#[derive(Clone, Debug)]
pub(super) struct NodeState {
    pub(super) etag: VersionId,
    pub(super) version: u64,
    pub(super) is_active: bool,
}

/// The node of a directory, as its meta says; none without a meta that can be read.
pub(super) async fn node_state(fs: &dyn FileSystem, dir: &TreePath) -> Result<Option<NodeState>> {
    let (entry, bytes) = match fs.fetch(&At::Path(meta_of(dir)), ByteRange::ALL).await {
        Ok(found) => found,
        Err(error) if is_absent(&error) || error.is(ErrorKind::TooLarge) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Meta::parse(&bytes).ok().map(|meta| NodeState {
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
