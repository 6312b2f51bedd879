//! Calls of an administrator: API keys, rules, quotas, retention, overlays and snapshots, and the maintenance
//! of the storage.

pub(super) mod accounts;
pub(super) mod answers;
mod commits;
pub(super) mod keys;
pub(super) mod overlays;
pub(super) mod quotas;
pub(super) mod retention;
pub(super) mod rules;
pub(super) mod snapshots;
pub(super) mod usage;
