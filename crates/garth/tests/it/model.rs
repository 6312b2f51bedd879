//! The model test on the SQLite engine, on a folder in memory where there is one: it is about meaning, not about disks.

use std::path::Path;
use std::sync::Arc;

use garth::FileSystem;
use garth::engine::sqlite::SqliteFs;
use garth_testkit::contract::Subject;
use garth_testkit::model::{ModelConfig, run};

async fn subject() -> Subject {
    let (env, clock) = Subject::clock();
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let path = folder.path().to_owned();
    let fs = SqliteFs::open(&path, env.clone()).unwrap();
    Subject {
        reopen: Some(Box::new(move || {
            let fs = SqliteFs::open(&path, env.clone()).unwrap() as Arc<dyn FileSystem>;
            Box::pin(std::future::ready(fs))
        })),
        keep: Box::new(folder),
        ..Subject::new(fs, clock)
    }
}

#[test]
fn random_operations_mean_the_same_as_on_the_specification() {
    let stats = run(ModelConfig::from_env(10_000), subject).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(stats.commits > 0 && stats.reopened > 0, "{stats:?}");
}
