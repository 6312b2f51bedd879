//! The model test on the SQLite engine.

use anyhow::Result;
use garth_testkit::model::{ModelConfig, run, sqlite};

/// Plays `ops` random operations on SQLite and on the memory engine, and compares every answer.
pub(super) fn equal(ops: u64, seed: u64) -> Result<()> {
    let stats = run(ModelConfig { ops, seed }, sqlite)?;
    println!("seed {seed}: no difference in {stats:?}");
    Ok(())
}
