//! Calls of an administrator of an account: its rules, quotas, overlays and snapshots, and the maintenance of
//! its storage.

pub(super) mod accounts;
mod commits;
pub(super) mod overlays;
pub(super) mod quotas;
pub(super) mod rules;
pub(super) mod snapshots;
