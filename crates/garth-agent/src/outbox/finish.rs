//! Finishes events after an attempt: removes them and notes the memory's version, puts them off, or moves
//! them to `dlq`.

use super::claim::{CLAIM, batch, is_lost};
use super::deliver::End;
use super::queued::{Queued, in_outbox, lies, memory_state};
use super::sink::SinkError;
use crate::memory::{DLQ, DONE, EventStatus, EventType};
use crate::small_file::is_no_file;
use garth_engine::error::{ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Batch, ByteRange, NamesPage, Op, Precondition, Timestamp, VersionId};
use garth_engine::path::TreePath;

/// Limit on the retries of an event: after 1, 4, 16, 64 and 256 seconds.
pub const MAX_RETRIES: u32 = 5;

/// Limit on the bytes that are kept of the name of an invalid event file. It leaves room for a version in the
/// new name.
const MAX_STEM: usize = 200;

/// Limit on the time that a sink can ask to wait, in seconds.
const MAX_ASKED: u64 = 3600;

/// Returns the delay after failure number `failures`, counted from 1, in seconds.
pub fn delay(failures: u32) -> i64 {
    4_i64.saturating_pow(failures.clamp(1, MAX_RETRIES) - 1)
}

/// Counts of finished events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Finished {
    pub(super) removed: usize,
    pub(super) put_off: usize,
    pub(super) given_up: usize,
    /// Events that another worker has claimed by now.
    pub(super) lost: usize,
}

/// Event, with the result of its attempt.
pub(super) type Ended = (Queued, End);

/// Records the results of events, up to [`CLAIM`] in a commit. Events that changed in between are left alone.
pub(super) async fn finish(fs: &dyn FileSystem, ended: &[Ended], now: Timestamp) -> Result<Finished> {
    let mut finished = Finished::default();
    for chunk in ended.chunks(CLAIM) {
        if commit(fs, chunk, now, &mut finished).await? {
            continue;
        }
        // One lost lease fails the commit of all, so each is tried alone.
        for one in chunk {
            if !commit(fs, std::slice::from_ref(one), now, &mut finished).await?
                && !commit_moved(fs, one, now, &mut finished).await?
            {
                finished.lost += 1;
            }
        }
    }
    Ok(finished)
}

/// Records the result of an event whose memory was moved meanwhile, at its new path.
async fn commit_moved(
    fs: &dyn FileSystem,
    (event, end): &Ended,
    now: Timestamp,
    finished: &mut Finished,
) -> Result<bool> {
    // A move keeps the inode, so the file is found even though its path is unknown.
    let names = match fs.names(&At::Node(event.ino), &NamesPage::default()).await {
        Ok(names) => names.items,
        Err(error) if is_no_file(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    let Some((path, (dir, _))) = names.into_iter().find_map(|path| Some((path.clone(), lies(&path)?))) else {
        return Ok(false);
    };
    let moved = Queued { path, dir, ..event.clone() };
    commit(fs, &[(moved, end.clone())], now, finished).await
}

/// Records results in one commit. Returns false if one of the events has changed since its claim.
async fn commit(
    fs: &dyn FileSystem,
    ended: &[Ended],
    now: Timestamp,
    finished: &mut Finished,
) -> Result<bool> {
    let (mut batch, mut sum) = (batch().message("finish events"), *finished);
    for (event, end) in ended {
        // A worker whose lease has ended must not remove what another one has claimed.
        batch = batch.require(&event.path, Precondition::Etag(event.etag));
        batch = match end {
            End::Done => {
                sum.removed += 1;
                removed(fs, batch, event).await?
            }
            End::Hidden => {
                sum.removed += 1;
                batch.op(Op::remove_file(&event.path))
            }
            End::Untried => {
                sum.put_off += 1;
                batch.op(released_event(event)?)
            }
            End::Failed(error) if event.event.retry_count >= MAX_RETRIES => {
                sum.given_up += 1;
                given_up(batch, event, error)?
            }
            End::Failed(error) => {
                sum.put_off += 1;
                batch.op(put_off(event, error, now)?)
            }
        };
    }
    match fs.commit(batch).await {
        Ok(_) => {
            // Counted only now: after a failed commit the events are tried one by one.
            *finished = sum;
            Ok(true)
        }
        Err(error) if is_lost(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a delivered event, and notes the version of its memory.
pub(super) async fn removed(fs: &dyn FileSystem, batch: Batch, event: &Queued) -> Result<Batch> {
    let batch = batch.op(Op::remove_file(&event.path));
    let is_whole = matches!(event.event.event_type, EventType::UpsertContext | EventType::MoveContext);
    // Edges have no version, and the account's outbox belongs to no memory.
    if event.dir.is_root() || !is_whole {
        return Ok(batch);
    }
    let Some(version) = version_of(fs, event).await? else { return Ok(batch) };
    let noted = noted(fs, &event.dir).await?;
    // The event of a move has no texts. Its version is noted only if the event of every earlier version was
    // delivered.
    let is_gap = event.event.event_type == EventType::MoveContext && noted.saturating_add(1) < version;
    // Events end in any order; the noted version must not go back.
    if version <= noted || is_gap {
        return Ok(batch);
    }
    // The directory exists as long as the event does.
    Ok(batch.op(Op::write(in_outbox(&event.dir, DONE), format!("{version}\n"))))
}

/// Returns the version that the memory had in the commit of the event; `None` if it is unknown, or the memory
/// is not ACTIVE.
async fn version_of(fs: &dyn FileSystem, event: &Queued) -> Result<Option<u64>> {
    let Some(now) = memory_state(fs, &event.dir).await?.filter(|memory| memory.is_active) else {
        return Ok(None);
    };
    if now.etag.seq <= event.seq() {
        return Ok(Some(now.version));
    }
    // The memory was written after the event, and the directory may have had another name then: it is found
    // by its inode.
    let dir = fs.stat(&At::from(&event.dir)).await?.ino;
    let then = match fs.as_of(&event.seq().into()).await {
        Ok(then) => then,
        Err(error)
            if matches!(error.kind(), ErrorKind::Gone | ErrorKind::NotFound | ErrorKind::Unsupported) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let names = match then.names(&At::Node(dir), &NamesPage::default()).await {
        Ok(names) => names.items,
        Err(error) if is_no_file(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(path) = names.first() else { return Ok(None) };
    Ok(memory_state(&*then, path).await?.map(|memory| memory.version))
}

/// Returns the version up to which events are delivered; 0 without a valid note.
pub(super) async fn noted(fs: &dyn FileSystem, dir: &TreePath) -> Result<u64> {
    match fs.fetch(&At::Path(in_outbox(dir, DONE)), ByteRange { offset: 0, length: 64 }).await {
        Ok((_, bytes)) => {
            Ok(std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0))
        }
        Err(error) if is_no_file(&error) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Returns the write of an event in its state before the claim.
fn released_event(event: &Queued) -> Result<Op> {
    let mut back = event.event.clone();
    back.status = EventStatus::Pending;
    back.lease_until = None;
    Ok(Op::write(&event.path, back.to_json()?).must_exist())
}

fn put_off(event: &Queued, error: &SinkError, now: Timestamp) -> Result<Op> {
    let mut failed = event.event.clone();
    failed.status = EventStatus::Pending;
    failed.lease_until = None;
    failed.retry_count = failed.retry_count.saturating_add(1);
    let asked = error.asked_for().map_or(0, |time| time.as_secs().min(MAX_ASKED));
    let wait = delay(failed.retry_count).max(asked.cast_signed());
    failed.next_attempt_at = Some(now.plus_seconds(wait).to_rfc3339());
    failed.last_error = Some(error.message().to_owned());
    Ok(Op::write(&event.path, failed.to_json()?).must_exist())
}

fn given_up(batch: Batch, event: &Queued, error: &SinkError) -> Result<Batch> {
    let mut failed = event.event.clone();
    failed.status = EventStatus::Failed;
    failed.lease_until = None;
    failed.next_attempt_at = None;
    failed.retry_count = failed.retry_count.saturating_add(1);
    failed.last_error = Some(error.message().to_owned());
    // Written before the rename, in one commit: an event in `dlq` always has its error.
    let batch = batch.op(Op::write(&event.path, failed.to_json()?).must_exist());
    Ok(batch.op(Op::rename(&event.path, in_dlq(&event.dir, &event.path)).with_parents()))
}

/// Returns the path of an event in `dlq`.
pub(super) fn in_dlq(dir: &TreePath, path: &TreePath) -> TreePath {
    TreePath::from_row(in_outbox(dir, DLQ).key(), path.name().unwrap_or_default())
}

/// Returns a path in `dlq` that cannot be that of an event.
fn aside(dir: &TreePath, path: &TreePath, version: VersionId) -> TreePath {
    let dlq = in_outbox(dir, DLQ);
    let stem = path.name().and_then(|name| name.strip_suffix(".json")).unwrap_or_default();
    let stem = &stem[..stem.floor_char_boundary(MAX_STEM)];
    // The version makes the name unique, and no event id has this form.
    TreePath::from_row(dlq.key(), &format!("{stem}.{version}.json"))
}

/// Moves files that are not valid events to `dlq`, byte for byte.
pub(super) async fn set_aside(fs: &dyn FileSystem, refused: &[(TreePath, VersionId)]) -> Result<usize> {
    let mut done = 0;
    for (path, etag) in refused {
        let Some((dir, false)) = lies(path) else { continue };
        let batch = batch()
            .message("move invalid events to dlq")
            .require(path, Precondition::Etag(*etag))
            .op(Op::rename(path, aside(&dir, path, *etag)).no_replace().with_parents());
        match fs.commit(batch).await {
            Ok(_) => done += 1,
            Err(error) if is_lost(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
