//! Counts of uploads that are in progress in this process, or were discarded.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::model::Timestamp;
use crate::threads::lock::lock;

/// Nanoseconds for which discarded bytes are counted together.
const MINUTE: i64 = 60_000_000_000;

/// Seconds for which the bytes of a discarded upload are counted; up to a minute longer.
pub const DISCARDED: i64 = 3600;

/// Number of uploads of an owner, and the bytes of room that they take.
#[derive(Clone, Copy, Debug, Default)]
pub struct UploadCount {
    /// Number of uploads.
    pub uploads: u64,
    /// Bytes of room.
    pub bytes: u64,
}

/// Uploads of an owner that are in progress, and discarded ones.
#[derive(Clone, Debug, Default)]
pub struct OwnUploads {
    /// Uploads in progress. Their bytes include those of discarded uploads.
    pub count: UploadCount,
    /// Times from which bytes of discarded uploads are counted no longer, in order, with these bytes.
    freed: Vec<(Timestamp, u64)>,
}

impl OwnUploads {
    /// Returns the time from which at least `bytes` of discarded uploads are counted no longer; `None` if
    /// they have fewer.
    pub fn freed_at(&self, bytes: u64) -> Option<Timestamp> {
        let mut sum = 0_u64;
        self.freed.iter().find_map(|(time, freed)| {
            sum = sum.saturating_add(*freed);
            (sum >= bytes).then_some(*time)
        })
    }

    /// Returns the time from which no bytes of discarded uploads are counted; `None` if none are now.
    pub fn all_freed_at(&self) -> Option<Timestamp> {
        self.freed.last().map(|(time, _)| *time)
    }
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

    /// Counts the bytes of an upload that is discarded `now`, for [`DISCARDED`] seconds.
    pub fn discard(&self, owner: &str, bytes: u64, now: Timestamp) {
        let mut owners = lock(&self.discarded);
        owners.retain(|_, minutes| {
            minutes.retain(|minute, _| *minute >= minute_of(now));
            !minutes.is_empty()
        });
        if bytes > 0 {
            let minutes = owners.entry(owner.to_owned()).or_default();
            add(minutes, last_minute(now), bytes);
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
    pub fn of(&self, owner: &str, now: Timestamp) -> OwnUploads {
        let mut count = lock(&self.in_progress).get(owner).copied().unwrap_or_default();
        let mut owners = lock(&self.discarded);
        let Some(minutes) = owners.get_mut(owner) else { return OwnUploads { count, freed: Vec::new() } };
        // What was discarded while the clock was ahead would take room until the clock gets there again.
        let last = last_minute(now);
        let ahead = minutes.split_off(&last.saturating_add(1));
        add(minutes, last, ahead.into_values().fold(0, u64::saturating_add));
        let mut freed = Vec::new();
        for (minute, bytes) in minutes.range(minute_of(now)..) {
            count.bytes = count.bytes.saturating_add(*bytes);
            freed.push((Timestamp(minute.saturating_add(1).saturating_mul(MINUTE)), *bytes));
        }
        OwnUploads { count, freed }
    }
}

fn add(minutes: &mut BTreeMap<i64, u64>, minute: i64, bytes: u64) {
    if bytes > 0 {
        let of_minute = minutes.entry(minute).or_default();
        *of_minute = of_minute.saturating_add(bytes);
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

/// Returns the last minute in which an upload counts that is discarded now.
fn last_minute(now: Timestamp) -> i64 {
    minute_of(now.plus_seconds(DISCARDED))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000_000_000);

    /// Returns the bytes that count, and the time from which none do.
    fn bytes(counts: &UploadCounts, now: Timestamp) -> (u64, Option<Timestamp>) {
        let uploads = counts.of("her", now);
        (uploads.count.bytes, uploads.all_freed_at())
    }

    #[test]
    fn discarded_bytes_are_freed_in_order() {
        let counts = UploadCounts::default();
        for (minutes, bytes) in [(0, 100), (2, 10), (2, 5)] {
            counts.discard("her", bytes, NOW.plus_seconds(60 * minutes));
        }
        let now = NOW.plus_seconds(120);
        let uploads = counts.of("her", now);
        assert_eq!(uploads.count.bytes, 115);
        let [first, last] = [1, 101].map(|bytes| uploads.freed_at(bytes).unwrap());
        assert_eq!(last.0 - first.0, 2 * MINUTE);
        assert_eq!((uploads.freed_at(100), uploads.freed_at(115)), (Some(first), Some(last)));
        assert_eq!((uploads.freed_at(116), uploads.all_freed_at()), (None, Some(last)));
        assert!(first >= NOW.plus_seconds(DISCARDED) && first <= NOW.plus_seconds(DISCARDED + 60));
        for (time, left) in
            [(Timestamp(first.0 - 1), 115), (first, 15), (Timestamp(last.0 - 1), 15), (last, 0)]
        {
            assert_eq!(bytes(&counts, time).0, left, "{time:?}");
        }
        assert_eq!(counts.of("another", now).all_freed_at(), None);
    }

    #[test]
    fn bytes_discarded_by_a_clock_ahead_are_freed_in_an_hour() {
        let counts = UploadCounts::default();
        counts.discard("her", 100, NOW.plus_seconds(80 * 365 * 24 * 3600));
        counts.discard("her", 10, NOW);
        let (counted, freed) = bytes(&counts, NOW);
        assert_eq!(counted, 110);
        let freed = freed.unwrap();
        assert!(freed <= NOW.plus_seconds(DISCARDED + 60), "{freed:?}");
        assert_eq!(bytes(&counts, freed), (0, None));
    }

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
