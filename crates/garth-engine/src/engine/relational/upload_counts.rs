//! Counts of uploads that are in progress in this process, or were discarded.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

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
        let all = owners.values().fold(0_u64, |sum, of| sum.saturating_add(of.bytes));
        let fits = all.saturating_sub(before).saturating_add(bytes) <= room;
        if let Some(of_owner) = owners.get_mut(owner) {
            let counted = if fits { bytes } else { 0 };
            of_owner.bytes = of_owner.bytes.saturating_sub(before).saturating_add(counted);
        }
        Ok(fits)
    }

    /// Ends the count of an upload that had `bytes`.
    pub fn end(&self, owner: &str, bytes: u64) {
        let mut owners = lock(&self.in_progress);
        let Some(of_owner) = owners.get_mut(owner) else { return };
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

fn minute_of(time: Timestamp) -> i64 {
    time.0.div_euclid(MINUTE)
}
