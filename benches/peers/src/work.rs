//! Workloads, which are the same for every side. Times do not include the preparation.

pub(crate) mod content;
pub(crate) mod memories;
pub(crate) mod owners;
pub(crate) mod pictures;
pub(crate) mod prompt;
pub(crate) mod reset;
pub(crate) mod rules;
pub(crate) mod scale;
pub(crate) mod sessions;
pub(crate) mod views;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use garth_engine::model::{At, Batch, ByteRange, Op, SearchQuery, Seq};

use self::content::{SMALL, noise, text};
use crate::figures::Figures;
use crate::fixed::{DIRS, GROUP};
use crate::machine::disk_use;
use crate::replay;
use crate::side::garth::{Garth, path};
use crate::side::{Files, PIECE, Side};
use crate::size::Size;

/// Files of one batch.
const BATCH: usize = 64;
/// Size of one append, in bytes.
const APPEND: usize = 200;

/// Folder in which a run of appends leaves a copy of its rows.
pub(crate) const BEFORE_MERGING: &str = "before";

/// Returns the number of appends.
pub(crate) fn appends(size: Size) -> usize {
    size.of(10_016, GROUP)
}

/// Returns the number of puts.
pub(crate) fn puts(size: Size) -> usize {
    size.of(16_000, GROUP)
}

/// Returns the number of files of the tree that is renamed and removed.
pub(crate) fn tree_files(size: Size) -> usize {
    size.of(5_000, DIRS)
}

/// Measures stat, then read, of the same small files in turn.
pub(crate) async fn files(side: &impl Side, size: Size) -> Result<Figures> {
    let reads = size.of(20_000, 1_000);
    side.mkdir("/agents").await?;
    side.mkdir("/agents/notes").await?;
    let paths: Vec<String> = (0..1_000).map(|i| format!("/agents/notes/note-{i:05}.md")).collect();
    for batch in paths.chunks(BATCH) {
        side.create(batch.iter().zip(0..).map(|(path, i)| (path.clone(), text(i))).collect(), false).await?;
    }
    // The step is coprime to the count, so it visits every file, and never two neighbours in succession.
    let order = |i: usize| &paths[i * 389 % paths.len()];
    for i in 0..paths.len() {
        side.read(order(i)).await?;
    }
    let mut figures = Figures::default();
    let start = Instant::now();
    for i in 0..reads {
        ensure!(side.stat(order(i)).await? == SMALL as u64, "stat tells the size");
    }
    figures.time("stat", start.elapsed(), reads);
    let start = Instant::now();
    for i in 0..reads {
        ensure!(side.read(order(i)).await? == SMALL as u64, "read gives the file");
    }
    figures.time("read", start.elapsed(), reads);
    Ok(figures)
}

/// Creates small files in batches.
pub(crate) async fn create(side: &impl Files, size: Size, indexed: bool) -> Result<Figures> {
    let creates = size.of(6_400, BATCH);
    side.mkdir("/notes").await?;
    let mut spent = Duration::ZERO;
    for first in (0..creates).step_by(BATCH) {
        let files =
            (first..first + BATCH).map(|i| (format!("/notes/note-{i:06}.md"), text(i as u64))).collect();
        let start = Instant::now();
        side.create(files, indexed).await?;
        spent += start.elapsed();
    }
    let mut figures = Figures::default();
    figures.time("create", spent, creates);
    Ok(figures)
}

/// Creates searchable files, searches them, and searches again after the index is merged.
pub(crate) async fn create_indexed(garth: &Garth, size: Size) -> Result<Figures> {
    const TIMES: usize = 30;
    // Each of the two words is in one file of twenty.
    let query = SearchQuery::new("tinolu kasemi");
    let mut figures = create(garth, size, true).await?;
    for figure in ["search", "search merged"] {
        let start = Instant::now();
        for _ in 0..TIMES {
            ensure!(!garth.0.search(&query).await?.hits.is_empty(), "some file has the word");
        }
        figures.time(figure, start.elapsed(), TIMES);
        garth.0.gc(Duration::ZERO).await?;
    }
    Ok(figures)
}

/// Creates small files, each durable before the next.
pub(crate) async fn create_one(side: &impl Files, size: Size) -> Result<Figures> {
    let creates = size.of(1_000, 10);
    side.mkdir("/notes").await?;
    let files: Vec<_> =
        (0..creates).map(|i| vec![(format!("/notes/note-{i:06}.md"), text(i as u64))]).collect();
    let start = Instant::now();
    for file in files {
        side.create(file, false).await?;
    }
    let mut figures = Figures::default();
    figures.time("create", start.elapsed(), creates);
    Ok(figures)
}

/// Commits `count` batches, 32 concurrently.
pub(crate) async fn commit_grouped(
    garth: &Garth,
    count: usize,
    batch: impl Fn(usize) -> Batch + Copy + Send + 'static,
) -> Result<()> {
    let tasks = (0..GROUP).map(|first| {
        let fs = garth.0.clone();
        tokio::spawn(async move {
            for index in (first..count).step_by(GROUP) {
                fs.commit(batch(index)).await?;
            }
            anyhow::Ok(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    Ok(())
}

/// Appends to one file, each time as a durable commit with its own version. Leaves a copy of the rows for the
/// peer that inserts the same ones, then merges the log.
pub(crate) async fn append(garth: Garth, folder: &Path, size: Size) -> Result<Figures> {
    let (appends, log) = (appends(size), At::Path(path("/log.jsonl")));
    garth.create(vec![("/log.jsonl".to_owned(), Bytes::new())], false).await?;
    let first = garth.0.head().await?.seq.0;
    let mut figures = Figures::default();
    let start = Instant::now();
    commit_grouped(&garth, appends, |i| {
        Batch::from(Op::append(path("/log.jsonl"), text(i as u64).slice(..APPEND)).must_exist())
    })
    .await?;
    figures.time("append", start.elapsed(), appends);
    let before = folder.join(BEFORE_MERGING);
    // Before `gc`, because merged rows are fewer than those that the appends wrote.
    replay::keep(folder, &before)?;
    garth.0.gc(Duration::ZERO).await?;
    for version in (0..=appends).step_by(appends / GROUP) {
        let past = garth.0.as_of(&Seq(first + version as u64).into()).await?;
        let length = past.read(&log, ByteRange::ALL).await?.len();
        ensure!(length == version * APPEND, "every version is there to the byte");
    }
    // Closing the database merges its log, which would be counted otherwise.
    drop(garth);
    let on_disk = disk_use(folder)? - disk_use(&before)?;
    figures.add("disk", on_disk as f64 / (appends * APPEND) as f64);
    Ok(figures)
}

/// Writes and reads one large file in pieces.
pub(crate) async fn big(side: &impl Files, size: Size) -> Result<Figures> {
    let count = size.of(256, 1);
    let mut piece = noise();
    let mut pieces = (0..count as u64).map(|index| {
        // No two pieces are equal, so deduplication does not help.
        piece[..8].copy_from_slice(&index.to_le_bytes());
        Bytes::copy_from_slice(&piece)
    });
    let mut figures = Figures::default();
    let start = Instant::now();
    side.write_big("/big.bin", &mut pieces).await?;
    figures.time("write", start.elapsed(), count);
    let start = Instant::now();
    let length = side.read_big("/big.bin").await?;
    figures.time("read", start.elapsed(), count);
    ensure!(length == (count * PIECE) as u64, "all of it comes back");
    Ok(figures)
}

/// Renames a tree of [`DIRS`] directories, then removes it.
pub(crate) async fn tree(side: &impl Side, size: Size) -> Result<Figures> {
    side.mkdir("/old").await?;
    for dir in 0..DIRS {
        side.mkdir(&format!("/old/{dir}")).await?;
        let files = (0..tree_files(size) / DIRS).map(|i| (format!("/old/{dir}/{i}.md"), text(i as u64)));
        side.create(files.collect(), false).await?;
    }
    let mut figures = Figures::default();
    let start = Instant::now();
    side.rename("/old", "/new").await?;
    figures.time("rename", start.elapsed(), 1);
    let start = Instant::now();
    side.remove_tree("/new").await?;
    figures.time("remove", start.elapsed(), 1);
    ensure!(side.names("/").await? == 0, "the tree is gone");
    Ok(figures)
}

/// Lists a wide directory ten times.
pub(crate) async fn list(side: &impl Side, size: Size) -> Result<Figures> {
    const TIMES: usize = 10;
    let count = size.of(10_000, 500);
    side.mkdir("/wide").await?;
    for first in (0..count).step_by(500) {
        let files = (first..first + 500).map(|i| (format!("/wide/note-{i:06}.md"), Bytes::from_static(b"-")));
        side.create(files.collect(), false).await?;
    }
    let mut figures = Figures::default();
    let start = Instant::now();
    for _ in 0..TIMES {
        ensure!(side.names("/wide").await? == count, "all names are listed");
    }
    figures.time("names", start.elapsed(), TIMES);
    let start = Instant::now();
    for _ in 0..TIMES {
        ensure!(side.entries("/wide").await? == count, "all entries are listed");
    }
    figures.time("entries", start.elapsed(), TIMES);
    Ok(figures)
}
