//! Quotas in a model run. Views have none, so nothing is compared there.

use std::any::Any;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::quota::{Limits, MAX_COUNTED, Quota};
use garth_engine::{AccountStore, Result, TreePath};

use super::comparisons::{Checked, same};
use super::steps::Room;
use crate::tools::Fs;

/// Returns the quotas of a filesystem; `None` if it does not support them.
async fn all(fs: &Fs) -> Option<Result<Vec<Quota>>> {
    let any = fs as &dyn Any;
    match (any.downcast_ref::<SqliteFs>(), any.downcast_ref::<MemoryFs>()) {
        (Some(sqlite), _) => Some(sqlite.quotas().await),
        (None, memory) => memory.map(MemoryFs::quotas),
    }
}

async fn set(fs: &Fs, path: &TreePath, limits: Limits) -> Option<Result<Quota>> {
    let any = fs as &dyn Any;
    match (any.downcast_ref::<SqliteFs>(), any.downcast_ref::<MemoryFs>()) {
        (Some(sqlite), _) => Some(sqlite.set_quota(path, limits).await),
        (None, memory) => memory.map(|memory| memory.set_quota(path, limits)),
    }
}

async fn remove(fs: &Fs, path: &TreePath) -> Option<Result<()>> {
    let any = fs as &dyn Any;
    match (any.downcast_ref::<SqliteFs>(), any.downcast_ref::<MemoryFs>()) {
        (Some(sqlite), _) => Some(sqlite.remove_quota(path).await),
        (None, memory) => memory.map(|memory| memory.remove_quota(path)),
    }
}

/// Compares the quotas of both sides and their usage.
pub(super) async fn same_quotas(subject: &Fs, model: &MemoryFs) -> Checked {
    let Some(found) = all(subject).await else { return Ok(()) };
    same("quotas", found, model.quotas()).map(drop)
}

/// Sets the quota of a path to its usage plus `room`, or removes it.
pub(super) async fn play(subject: &Fs, model: &MemoryFs, path: &TreePath, room: Option<Room>) -> Checked {
    let Some(room) = room else {
        let Some(removed) = remove(subject, path).await else { return Ok(()) };
        return same("the removal of a quota", removed, model.remove_quota(path)).map(drop);
    };
    // A quota that rejects nothing first: its answer is the usage.
    let most = Limits::default().bytes(MAX_COUNTED);
    let Some(found) = set(subject, path, most).await else { return Ok(()) };
    let Some(Quota { used, .. }) = same("a quota", found, model.set_quota(path, most))? else {
        return Ok(());
    };
    let limit = |used: u64, room: Option<i64>| room.map(|room| used.saturating_add_signed(room));
    let mut limits =
        Limits { bytes: limit(used.bytes, room.bytes), entries: limit(used.entries, room.entries) };
    // A quota without any limit is rejected.
    if limits == Limits::default() {
        limits = most;
    }
    if let Some(found) = set(subject, path, limits).await {
        same("a quota near what is used", found, model.set_quota(path, limits))?;
    }
    same_quotas(subject, model).await
}
