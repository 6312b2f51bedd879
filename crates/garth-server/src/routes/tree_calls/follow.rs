//! Pages of changes for callers that wait for them. A caller that waits holds no room for its answer, and
//! reads nothing until there is a commit.

use std::sync::Arc;
use std::time::Duration;

use garth_engine::FileSystem;
use garth_engine::model::{Changes, ChangesQuery, Seq};
use tokio::time::{Instant, sleep_until};

use super::log_position::check_since;
use crate::answers::{PAGE, Room};
use crate::errors::Refusal;
use crate::routes::call::Call;
use crate::routes::open::files_of;

/// Longest time that a call waits for a change, in milliseconds.
pub(super) const MAX_WAIT: u64 = 60_000;
/// Limit on the bytes of the paths of a call that waits, because they are held meanwhile.
const MAX_WAITING: usize = 4 << 10;

/// Returns a page of changes, with the room for its answer. With `wait_ms`, the page has only durable
/// commits; if there is none, it waits for one.
pub(super) async fn page(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    mut asked: ChangesQuery,
    wait_ms: Option<u64>,
) -> Result<(Changes, Room), Refusal> {
    let Some(wait_ms) = wait_ms else {
        let room = room(call).await?;
        return Ok((fs.changes(&asked).await?, room));
    };
    let bytes: usize = asked.within.iter().map(|path| path.as_str().len()).sum();
    if bytes > MAX_WAITING {
        let message = format!(
            "with \"wait_ms\", the paths of \"within\" have at most {MAX_WAITING} bytes; name a directory above them"
        );
        return Err(Refusal::validation(message));
    }
    let place = call.consumers.place(call.key.share())?;
    let mut end = Instant::now() + Duration::from_millis(wait_ms);
    loop {
        let room = room(call).await?;
        // Opened again, because the reach of the request may have changed while it waited.
        let fs = files_of(&call.reach).await?;
        let found = fs.changes(&asked).await?;
        check_since(asked.since.seq, found.head)?;
        if !found.commits.is_empty() || Instant::now() >= end {
            place.settle(&*fs, last_of(&found)).await?;
            return Ok((found, room));
        }
        asked.since = found.until;
        if found.until.seq < found.head {
            continue;
        }
        drop((room, found));
        let is_stopped = tokio::select! {
            biased;
            woken = fs.wait(asked.since.seq) => woken.map(|_| false)?,
            () = sleep_until(end) => false,
            () = call.stopping.stopped() => true,
        };
        if is_stopped {
            end = Instant::now();
        }
    }
}

/// Returns the last commit that a page shows, also in part, or has looked at.
pub(super) fn last_of(found: &Changes) -> Seq {
    Seq(found.until.seq.0 + u64::from(found.until.changes > 0))
}

/// Waits for room for an answer.
async fn room(call: &Call<'_>) -> Result<Room, Refusal> {
    let room = call.answers.answer(call.key.share(), PAGE).await?;
    let mut standing = call.standing;
    standing.renew().await?;
    Ok(room)
}
