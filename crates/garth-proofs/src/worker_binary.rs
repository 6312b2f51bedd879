//! Binary of this crate that is the other process of a proof.

use std::path::PathBuf;

use garth_testkit::proof::Setting;

/// Returns the path of `agent-proof-worker`.
pub(crate) fn agent_worker(setting: &Setting<'_>) -> PathBuf {
    setting.binaries.join("agent-proof-worker")
}
