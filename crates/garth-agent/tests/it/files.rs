//! Operations on files: search of lines, paths by pattern, differences, exact edits, batches, restores.

use std::sync::Arc;

use garth_agent::files::{Files, Grep, Limits};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Op};
use garth_engine::{Env, FileSystem};
use garth_testkit::data::random::Random;
use garth_testkit::tools::p as path;

mod batch;
mod diff;
mod du;
mod edit;
mod glob;
mod grep;
mod restore;

type Fs = Arc<dyn FileSystem>;

/// Runs a check on each engine.
async fn each(check: impl AsyncFn(Fs)) {
    check(memory()).await;
    let folder = tempfile::tempdir().unwrap();
    let stored: Fs = SqliteFs::open(folder.path(), Env::system(), garth_agent::registry()).unwrap();
    check(stored).await;
}

fn memory() -> Fs {
    Arc::new(MemoryFs::new(Env::system(), garth_agent::registry()))
}

/// Writes files in one commit.
async fn write(fs: &Fs, files: &[(&str, &str)]) {
    let ops = files.iter().map(|(at, text)| Op::write(path(at), (*text).to_owned()).with_parents());
    fs.commit(Batch::new(ops)).await.unwrap();
}

/// Returns some paths, a few of them deep, with names that sort differently by segment and by byte.
fn random_paths(random: &mut Random) -> Vec<String> {
    let names = ["a", "a-b", "a.md", "b", "b.md"];
    let mut paths: Vec<String> = Vec::new();
    for _ in 0..random.below(14) {
        let depth = 1 + random.below(4);
        let path: String = (0..depth).map(|_| format!("/{}", random.pick(&names))).collect();
        // No file is also a directory.
        let is_above = |one: &str, other: &str| one == other || one.starts_with(&format!("{other}/"));
        if !paths.iter().any(|known| is_above(known, &path) || is_above(&path, known)) {
            paths.push(path);
        }
    }
    paths
}

/// Returns a text of a few short lines.
fn random_text(random: &mut Random) -> String {
    let lines = ["a", "b", "ab", "ba", "", "abba", "c"];
    let mut text = String::new();
    for _ in 0..random.below(9) {
        text.push_str(random.pick(&lines));
        text.push_str(if random.one_in(5) { "\r\n" } else { "\n" });
    }
    if random.one_in(3) {
        text.push('a');
    }
    text
}

/// Writes a few files in one commit, and returns their paths and texts.
async fn write_random(fs: &Fs, random: &mut Random) -> Vec<(String, String)> {
    let paths = random_paths(random);
    let files: Vec<(String, String)> = paths.into_iter().map(|path| (path, random_text(random))).collect();
    let written: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    write(fs, &written).await;
    files
}

/// Returns limits that end most pages early.
fn random_limits(random: &mut Random) -> Limits {
    let mut limits = Limits::default();
    limits.items = 1 + random.below(4) as usize;
    limits.bytes = 1 + random.below(200) as usize;
    limits.read = 1 + random.below(40);
    limits.names = 1 + random.below(6) as usize;
    limits
}

#[tokio::test]
async fn limit_of_zero_is_refused() {
    let fs = memory();
    let sets: [fn(&mut Limits); 4] = [
        |limits| limits.items = 0,
        |limits| limits.bytes = 0,
        |limits| limits.read = 0,
        |limits| limits.names = 0,
    ];
    for set in sets {
        let mut asked = Grep::new("a");
        set(&mut asked.limits);
        assert!(Files::new(&fs).grep(&asked).await.is_err());
    }
}

#[tokio::test]
async fn search_of_lines_counts_its_steps() {
    let env = Env::system();
    let fs: Fs = Arc::new(MemoryFs::new(env.clone(), garth_agent::registry()));
    let text = "some line\n".repeat(20_000);
    write(&fs, &[("/long.txt", text.as_str())]).await;
    let (bytes, tree) = (text.len() as u64, Arc::clone(&fs));
    let search = async move { Files::new(&tree).grep(&Grep::new("no such line")).await };
    assert!(env.compute("account", 0, search).await.unwrap().unwrap().files.is_empty());
    assert!(env.computed().steps >= bytes);
}
