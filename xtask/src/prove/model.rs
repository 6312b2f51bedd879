//! The model test on the SQLite engine, and overlays beside those of the kernel.

use anyhow::Result;
use garth_testkit::model::{ModelConfig, on_host, run, sqlite};
use garth_testkit::mounted::Part;
use garth_testkit::overlayfs::{self, Lower};
use garth_testkit::stacked::{View, drawn};

/// Plays `ops` random operations on SQLite and on the memory engine, and compares every answer.
pub(super) fn equal(ops: u64, seed: u64) -> Result<()> {
    let stats = run(ModelConfig { ops, seed }, sqlite)?;
    println!("seed {seed}: no difference in {stats:?}");
    Ok(())
}

/// The same through scopes of one account.
pub(super) fn through_scopes(ops: u64, seed: u64) -> Result<()> {
    for depth in [1, 2] {
        let subject = || async move { sqlite().await.scoped(depth).await.counted_anew().await };
        let stats = run(ModelConfig { ops, seed }, subject)?;
        println!("seed {seed}, {depth} scopes: no difference in {stats:?}");
    }
    Ok(())
}

/// The same through mounts.
pub(super) fn through_mounts(ops: u64, seed: u64) -> Result<()> {
    for part in [Part::Root, Part::Directory] {
        let subject = || async move { sqlite().await.mounted(part).await.counted_anew().await };
        let stats = run(ModelConfig { ops, seed }, subject)?;
        println!("seed {seed}, {part:?} of a mount: no difference in {stats:?}");
    }
    Ok(())
}

/// The same through ten stacks of views.
pub(super) fn through_stacks(ops: u64, seed: u64) -> Result<()> {
    for seed in seed..seed + 10 {
        let views = drawn(seed, View::EQUAL);
        let subject = || async { sqlite().await.stacked(&views).await.counted_anew().await };
        let stats = run(ModelConfig { ops: ops.div_ceil(10), seed }, subject)?;
        println!("seed {seed}, {views:?}: no difference in {stats:?}");
    }
    Ok(())
}

/// Plays `ops` random operations on an overlay and on one of the kernel, and compares answers and trees.
pub(super) fn beside_overlayfs(ops: u64, seed: u64) -> Result<()> {
    for lower in [Lower::SameStore, Lower::OtherStore, Lower::Folder] {
        let stats = overlayfs::run(ModelConfig { ops, seed }, lower)?;
        println!("seed {seed}, {lower:?}: no difference in {stats:?}");
    }
    Ok(())
}

/// The model test on a folder of the host.
pub(super) fn on_a_folder(ops: u64, seed: u64) -> Result<()> {
    let stats = on_host(ModelConfig { ops, seed })?;
    println!("seed {seed}, a folder of the host: no difference in {stats:?}");
    Ok(())
}

/// The model test where every batch is planned from the rows that are fetched for it.
pub(super) fn in_rounds(ops: u64, seed: u64) -> Result<()> {
    garth::engine::planner::fetched::ask_for();
    equal(ops, seed)
}
