//! Bytes of uploads that arrive.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::threads::lock::lock;

/// Bytes of uploads in progress in this process, by owner.
#[derive(Debug, Default)]
pub(crate) struct Arriving(Mutex<HashMap<String, u64>>);

impl Arriving {
    pub(super) fn add(&self, owner: &str, bytes: u64) {
        *lock(&self.0).entry(owner.to_owned()).or_default() += bytes;
    }

    pub(super) fn take(&self, owner: &str, bytes: u64) {
        let mut owners = lock(&self.0);
        let Some(of_owner) = owners.get_mut(owner) else { return };
        *of_owner = of_owner.saturating_sub(bytes);
        if *of_owner == 0 {
            owners.remove(owner);
        }
    }

    /// Returns the bytes of an owner.
    pub(crate) fn of(&self, owner: &str) -> u64 {
        lock(&self.0).get(owner).copied().unwrap_or(0)
    }
}
