//! Settings that the proof, its worker processes and the sink must agree on.

/// Account in the URIs.
pub(super) const ACCOUNT: &str = "default";
/// Length of a lease, in milliseconds.
pub(super) const LEASE: u64 = 1_500;
/// Timeout of one delivery, in milliseconds.
pub(super) const TIMEOUT: u64 = 400;
