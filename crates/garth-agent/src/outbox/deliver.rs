//! Delivers a claimed event to a sink: adds the texts that it only refers to, and masks secrets.

use super::queued::{Queued, memory_state};
use super::sink::{Sink, SinkError};
use crate::memory::event::{Payload, Record};
use crate::memory::{CONTENT, Event, EventType, MAX_CONTENT, SKILL, sha256};
use crate::small_file::is_no_file;
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, ByteRange};
use garth_engine::path::TreePath;
use garth_engine::text::secret::masked;

/// Result of an attempt.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// The sink has accepted the event.
    Done,
    /// There is nothing to deliver: the memory is not visible any more, or its text was replaced. The commit
    /// that did so wrote a newer event. Otherwise repair does, because no version is noted for this one.
    Hidden,
    /// It was not attempted: too little time was left, or its file has moved.
    Untried,
    /// The sink did not accept the event.
    Failed(SinkError),
}

/// Delivers an event.
pub(super) async fn deliver(fs: &dyn FileSystem, sink: &dyn Sink, queued: &Queued) -> End {
    match ready(fs, queued).await {
        Ok(Ready::Event(event)) => match sink.deliver(&event).await {
            Ok(()) => End::Done,
            Err(error) => End::Failed(error),
        },
        // The memory may have moved with its outbox after the claim. The event is given back, to be delivered
        // from its new path.
        Ok(Ready::Hidden) if !is_unchanged_at_path(fs, queued).await => End::Untried,
        Ok(Ready::Hidden) => End::Hidden,
        Err(error) => End::Failed(SinkError::new(format!("the tree could not be read: {error}"))),
    }
}

/// Returns true if the file of an event is unchanged since the claim.
async fn is_unchanged_at_path(fs: &dyn FileSystem, queued: &Queued) -> bool {
    fs.stat(&At::from(&queued.path)).await.is_ok_and(|entry| entry.etag == queued.etag)
}

enum Ready {
    Event(Box<Event>),
    Hidden,
}

async fn ready(fs: &dyn FileSystem, queued: &Queued) -> Result<Ready> {
    let mut event = queued.event.clone();
    let is_upsert = matches!(event.event_type, EventType::UpsertContext | EventType::UpsertRelation);
    // An upsert that outlived its memory's directory is in the outbox of the account.
    if is_upsert && !memory_state(fs, &queued.dir).await?.is_some_and(|memory| memory.is_active) {
        return Ok(Ready::Hidden);
    }
    for record in event.payload.records.iter_mut().flatten() {
        if !fill(fs, &queued.dir, record).await? {
            return Ok(Ready::Hidden);
        }
    }
    mask(&mut event.payload);
    Ok(Ready::Event(Box::new(event)))
}

/// Masks secrets in all texts and reasons.
fn mask(payload: &mut Payload) {
    let texts = payload.records.iter_mut().flatten().filter_map(|record| record.text.as_mut());
    let reasons = payload.edges.iter_mut().flatten().map(|edge| &mut edge.reason);
    for text in texts.chain(reasons) {
        *text = masked(text).into_owned();
    }
}

/// Sets the text that a record refers to. Returns false if the file has another text by now.
async fn fill(fs: &dyn FileSystem, dir: &TreePath, record: &mut Record) -> Result<bool> {
    let (None, Some(wanted)) = (&record.text, &record.text_ref) else { return Ok(true) };
    // The memory may have moved since the event was written: its text is at its current place.
    let name = wanted.path.rsplit_once('/').map_or("", |(_, name)| name);
    if name != CONTENT && name != SKILL {
        return Ok(false);
    }
    let at = At::Path(TreePath::from_row(dir.key(), name));
    let bytes = match fs.fetch(&at, ByteRange { offset: 0, length: MAX_CONTENT as u64 + 1 }).await {
        Ok((_, bytes)) => bytes,
        Err(error) if is_no_file(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    // An event must not deliver text that is newer than itself: a later event carries that.
    if sha256(&bytes) != wanted.sha256 {
        return Ok(false);
    }
    record.text = Some(String::from_utf8_lossy(&bytes).into_owned());
    Ok(true)
}
