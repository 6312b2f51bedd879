//! Uploads that arrive.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::engine::sqlite::tables::staged::UploadCount;
use crate::threads::lock::lock;

/// Uploads in progress in this process, by owner, with the bytes that they have or are expected to have.
#[derive(Debug, Default)]
pub(crate) struct Arriving(Mutex<HashMap<String, UploadCount>>);

impl Arriving {
    /// Counts an upload that begins.
    pub(super) fn begin(&self, owner: &str) {
        lock(&self.0).entry(owner.to_owned()).or_default().uploads += 1;
    }

    /// Counts an upload with `bytes`, which had `before`.
    pub(super) fn count(&self, owner: &str, before: u64, bytes: u64) {
        let mut owners = lock(&self.0);
        let Some(of_owner) = owners.get_mut(owner) else { return };
        of_owner.bytes = of_owner.bytes.saturating_sub(before).saturating_add(bytes);
    }

    /// Counts an upload that had `bytes` no longer.
    pub(super) fn end(&self, owner: &str, bytes: u64) {
        let mut owners = lock(&self.0);
        let Some(of_owner) = owners.get_mut(owner) else { return };
        of_owner.bytes = of_owner.bytes.saturating_sub(bytes);
        of_owner.uploads = of_owner.uploads.saturating_sub(1);
        if of_owner.uploads == 0 {
            owners.remove(owner);
        }
    }

    /// Returns the uploads of an owner.
    pub(crate) fn of(&self, owner: &str) -> UploadCount {
        lock(&self.0).get(owner).copied().unwrap_or_default()
    }
}
