//! The model test on the SQLite engine.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use garth::FileSystem;
use garth::engine::sqlite::SqliteFs;
use garth_testkit::contract::Subject;
use garth_testkit::model::{ModelConfig, run};

/// Memory, so that a million commits do not wait for a disk: what is compared is meaning, not durability.
const MEMORY: &str = "/dev/shm";

/// Plays `ops` random operations on SQLite and on the memory engine, and compares every answer.
pub(super) fn equal(ops: u64, seed: u64) -> Result<()> {
    let stats = run(ModelConfig { ops, seed }, subject)?;
    println!("seed {seed}: no difference in {stats:?}");
    Ok(())
}

async fn subject() -> Subject {
    let (env, clock) = Subject::clock();
    let base = if Path::new(MEMORY).is_dir() { MEMORY.into() } else { std::env::temp_dir() };
    let folder = tempfile::tempdir_in(base).expect("a temporary folder can be made");
    let path = folder.path().to_owned();
    let open = move || -> Arc<dyn FileSystem> {
        SqliteFs::open(&path, env.clone()).expect("the engine opens what it wrote")
    };
    let fs = open();
    Subject {
        reopen: Some(Box::new(move || Box::pin(std::future::ready(open())))),
        keep: Box::new(folder),
        ..Subject::new(fs, clock)
    }
}
