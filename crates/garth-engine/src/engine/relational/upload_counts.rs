//! Counts of uploads that are in progress in this process, or were discarded.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::model::Timestamp;
use crate::threads::lock::lock;

/// Nanoseconds for which discarded bytes are counted together.
const MINUTE: i64 = 60_000_000_000;

/// Number of uploads of an owner, and the bytes of room that they take.
#[derive(Clone, Copy, Debug, Default)]
pub struct UploadCount {
    /// Number of uploads.
    pub uploads: u64,
    /// Bytes of room.
    pub bytes: u64,
}

/// Uploads in progress in this process, by owner, with the bytes that they have or are expected to have; and
/// the bytes of discarded uploads.
#[derive(Debug, Default)]
pub struct UploadCounts {
    in_progress: Mutex<HashMap<String, UploadCount>>,
    /// Bytes of all uploads whose count has ended, and never fewer.
    ended: AtomicU64,
    /// By owner and the minute in which they end to count.
    discarded: Mutex<HashMap<String, BTreeMap<i64, u64>>>,
}

impl UploadCounts {
    /// Counts an upload that begins.
    pub fn begin(&self, owner: &str) {
        lock(&self.in_progress).entry(owner.to_owned()).or_default().uploads += 1;
    }

    /// Counts an upload with `bytes` instead of the `before` that it had.
    pub fn count(&self, owner: &str, before: u64, bytes: u64) {
        let mut owners = lock(&self.in_progress);
        let Some(of_owner) = owners.get_mut(owner) else { return };
        of_owner.bytes = of_owner.bytes.saturating_sub(before).saturating_add(bytes);
    }

    /// Counts an upload with `bytes` instead of the `before` that it had, if those of all owners are within
    /// `room`, and returns true. Otherwise its bytes count no longer: of uploads that would take the last
    /// room together, one goes on. No count ends while `room` runs: an upload that finishes meanwhile counts
    /// once or twice, never not at all.
    ///
    /// # Errors
    /// Errors of `room`. Nothing is changed.
    pub(crate) fn fit(
        &self,
        owner: &str,
        before: u64,
        bytes: u64,
        room: impl FnOnce() -> Result<u64>,
    ) -> Result<bool> {
        let mut owners = lock(&self.in_progress);
        let room = room()?;
        Ok(fit(&mut owners, owner, (before, bytes), room))
    }

    /// Returns a mark for [`Self::fit_since`].
    pub fn mark(&self) -> u64 {
        let _owners = lock(&self.in_progress);
        self.ended.load(Ordering::Relaxed)
    }

    /// Does what [`Self::fit`] does, with a `room` that was read after `mark` was taken, while counts could
    /// end. Those that have ended since count: their bytes may be in the room or not. So an upload that
    /// finishes meanwhile counts once or twice, never not at all.
    pub fn fit_since(&self, mark: u64, owner: &str, (before, bytes): (u64, u64), room: u64) -> bool {
        let mut owners = lock(&self.in_progress);
        let ended = self.ended.load(Ordering::Relaxed).saturating_sub(mark);
        fit(&mut owners, owner, (before, bytes), room.saturating_sub(ended))
    }

    /// Returns true if an upload that ends fits with `bytes` instead of the `before` with which it counts, as
    /// [`Self::fit_since`] does. Changes no count.
    pub fn fits_since(&self, mark: u64, (before, bytes): (u64, u64), room: u64) -> bool {
        let owners = lock(&self.in_progress);
        let ended = self.ended.load(Ordering::Relaxed).saturating_sub(mark);
        fits(&owners, (before, bytes), room.saturating_sub(ended))
    }

    /// Ends the count of an upload that had `bytes`.
    pub fn end(&self, owner: &str, bytes: u64) {
        let mut owners = lock(&self.in_progress);
        let Some(of_owner) = owners.get_mut(owner) else { return };
        self.ended.fetch_add(bytes, Ordering::Relaxed);
        of_owner.bytes = of_owner.bytes.saturating_sub(bytes);
        of_owner.uploads = of_owner.uploads.saturating_sub(1);
        if of_owner.uploads == 0 {
            owners.remove(owner);
        }
    }

    /// Counts the bytes of an upload that is discarded `now`, until a time and up to a minute longer.
    pub fn discard(&self, owner: &str, bytes: u64, now: Timestamp, until: Timestamp) {
        let mut owners = lock(&self.discarded);
        owners.retain(|_, minutes| {
            minutes.retain(|minute, _| *minute >= minute_of(now));
            !minutes.is_empty()
        });
        if bytes > 0 {
            let minutes = owners.entry(owner.to_owned()).or_default();
            let of_minute = minutes.entry(minute_of(until)).or_default();
            *of_minute = of_minute.saturating_add(bytes);
        }
    }

    /// Returns true if an upload is in progress.
    pub fn any(&self) -> bool {
        !lock(&self.in_progress).is_empty()
    }

    /// Returns the bytes of the uploads in progress of all owners.
    pub fn bytes(&self) -> u64 {
        lock(&self.in_progress).values().fold(0_u64, |sum, of| sum.saturating_add(of.bytes))
    }

    /// Returns the uploads of an owner. Discarded ones count with their bytes alone.
    pub fn of(&self, owner: &str, now: Timestamp) -> UploadCount {
        let UploadCount { uploads, bytes } = lock(&self.in_progress).get(owner).copied().unwrap_or_default();
        let owners = lock(&self.discarded);
        let minutes = owners.get(owner).into_iter().flat_map(|minutes| minutes.range(minute_of(now)..));
        let bytes = minutes.fold(bytes, |sum, (_, bytes)| sum.saturating_add(*bytes));
        UploadCount { uploads, bytes }
    }
}

/// Counts an upload of an owner with `bytes` instead of the `before` that it had, if the bytes of all owners
/// are within `room` then, and with none otherwise. Returns true in the first case.
fn fit(
    owners: &mut HashMap<String, UploadCount>,
    owner: &str,
    (before, bytes): (u64, u64),
    room: u64,
) -> bool {
    let fits = fits(owners, (before, bytes), room);
    if let Some(of_owner) = owners.get_mut(owner) {
        let counted = if fits { bytes } else { 0 };
        of_owner.bytes = of_owner.bytes.saturating_sub(before).saturating_add(counted);
    }
    fits
}

/// Returns true if the bytes of all owners are within `room`, with `bytes` instead of `before`.
fn fits(owners: &HashMap<String, UploadCount>, (before, bytes): (u64, u64), room: u64) -> bool {
    let all = owners.values().fold(0_u64, |sum, of| sum.saturating_add(of.bytes));
    all.saturating_sub(before).saturating_add(bytes) <= room
}

fn minute_of(time: Timestamp) -> i64 {
    time.0.div_euclid(MINUTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_that_end_while_room_is_read_count() {
        let counts = UploadCounts::default();
        counts.begin("a");
        counts.begin("b");
        counts.count("b", 0, 40);
        let mark = counts.mark();
        // Its bytes may be stored by now, and the room may have been read before.
        counts.end("b", 40);
        assert!(!counts.fit_since(mark, "a", (0, 61), 100));
        assert_eq!(counts.bytes(), 0, "it counts no longer");
        assert!(counts.fit_since(mark, "a", (0, 60), 100));
        assert!(counts.fit_since(counts.mark(), "a", (60, 100), 100));
        assert_eq!(counts.bytes(), 100);
    }
}
