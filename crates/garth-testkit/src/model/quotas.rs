//! Quotas in a model run.

use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::quota::{Limits, MAX_COUNTED, Quota};
use garth_engine::{Result, TreePath};

use super::comparisons::{Checked, same};
use super::steps::Room;
use crate::subject::Store;

/// Returns the quotas of a subject; `None` if it has no account.
async fn all(store: &Store) -> Option<Result<Vec<Quota>>> {
    match store {
        Store::Account(account) => Some(account.quotas().await),
        Store::Memory(memory) => Some(memory.quotas()),
        Store::Absent => None,
    }
}

async fn set(store: &Store, path: &TreePath, limits: Limits) -> Option<Result<Quota>> {
    match store {
        Store::Account(account) => Some(account.set_quota(path, limits).await),
        Store::Memory(memory) => Some(memory.set_quota(path, limits)),
        Store::Absent => None,
    }
}

async fn remove(store: &Store, path: &TreePath) -> Option<Result<()>> {
    match store {
        Store::Account(account) => Some(account.remove_quota(path).await),
        Store::Memory(memory) => Some(memory.remove_quota(path)),
        Store::Absent => None,
    }
}

/// Compares the quotas of both sides and their usage, if the subject has an account. Returns false if not.
pub(super) async fn same_quotas(store: &Store, model: &MemoryFs) -> Checked<bool> {
    let Some(found) = all(store).await else { return Ok(false) };
    same("quotas", found, model.quotas()).map(|_| true)
}

/// Sets the quota of a path to its usage plus `room`, or removes it. Returns false if the subject has no
/// account.
pub(super) async fn play(
    store: &Store,
    model: &MemoryFs,
    path: &TreePath,
    room: Option<Room>,
) -> Checked<bool> {
    let Some(room) = room else {
        let Some(removed) = remove(store, path).await else { return Ok(false) };
        return same("the removal of a quota", removed, model.remove_quota(path)).map(|_| true);
    };
    // A quota that rejects nothing first: its answer is the usage.
    let most = Limits::default().bytes(MAX_COUNTED);
    let Some(found) = set(store, path, most).await else { return Ok(false) };
    let Some(Quota { used, .. }) = same("a quota", found, model.set_quota(path, most))? else {
        return Ok(true);
    };
    let limit = |used: u64, room: Option<i64>| room.map(|room| used.saturating_add_signed(room));
    let mut limits =
        Limits { bytes: limit(used.bytes, room.bytes), entries: limit(used.entries, room.entries) };
    // A quota without any limit is rejected.
    if limits == Limits::default() {
        limits = most;
    }
    if let Some(found) = set(store, path, limits).await {
        same("a quota near what is used", found, model.set_quota(path, limits))?;
    }
    same_quotas(store, model).await
}
