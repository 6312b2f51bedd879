//! The workloads, each asking the same of every side. Times are of the work alone:
//! what it needs is made before.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use garth::model::{Batch, Op};

use crate::figures::Outcome;
use crate::side::garth::{Garth, path};
use crate::side::raw::Raw;
use crate::side::{PIECE, Side};

/// How many of each; `quick` takes less to try the program out.
pub(crate) struct Sizes {
    files: usize,
    reads: usize,
    creates: usize,
    durable_creates: usize,
    appends: usize,
    pieces: u64,
    tree: usize,
    list: usize,
    deep: usize,
}

impl Sizes {
    /// Full size, or a tenth.
    pub(crate) fn new(quick: bool) -> Self {
        let full = Self {
            files: 1_000,
            reads: 20_000,
            creates: 64 * 100,
            durable_creates: 1_000,
            appends: 10_016, // 32 times 313
            pieces: 256,
            tree: 5_000,
            list: 10_000,
            deep: 1_000_000,
        };
        if !quick {
            return full;
        }
        Self {
            reads: 2_000,
            creates: 640,
            durable_creates: 100,
            appends: 1_024,
            pieces: 32,
            deep: 100_000,
            ..full
        }
    }
}

/// How many operations a run of appends is, for whoever inserts the same rows.
pub(crate) fn appends(quick: bool) -> u64 {
    Sizes::new(quick).appends as u64
}

/// Bytes of a small file.
const SMALL: usize = 4096;
/// Files of one batch.
const BATCH: usize = 64;
/// Appends under way at once. Groups of 32.
const GROUP: usize = 32;
/// Bytes of one append.
const APPEND: usize = 200;

/// stat, then read, of the same small files in turn.
pub(crate) async fn files(side: &impl Side, sizes: &Sizes) -> Result<Outcome> {
    side.mkdir("/agents").await?;
    side.mkdir("/agents/notes").await?;
    let paths: Vec<String> = (0..sizes.files).map(|i| format!("/agents/notes/note-{i:05}.md")).collect();
    for batch in paths.chunks(BATCH) {
        side.create(batch.iter().zip(0..).map(|(path, i)| (path.clone(), text(i))).collect(), false).await?;
    }
    // A step that shares no factor with the count visits every file, no two neighbours in a row.
    let order = |i: usize| &paths[i * 389 % paths.len()];
    for i in 0..sizes.files {
        side.read(order(i)).await?;
    }
    let start = Instant::now();
    for i in 0..sizes.reads {
        ensure!(side.stat(order(i)).await? == SMALL as u64, "stat tells the size");
    }
    let stat = start.elapsed();
    let start = Instant::now();
    for i in 0..sizes.reads {
        ensure!(side.read(order(i)).await? == SMALL as u64, "read gives the file");
    }
    let read = start.elapsed();
    Ok(Outcome::of("stat", stat, sizes.reads as u64).and("read", read, sizes.reads as u64))
}

/// Small files in batches.
pub(crate) async fn create(side: &impl Side, sizes: &Sizes, indexed: bool) -> Result<Outcome> {
    side.mkdir("/notes").await?;
    let mut spent = Duration::ZERO;
    for first in (0..sizes.creates).step_by(BATCH) {
        let files =
            (first..first + BATCH).map(|i| (format!("/notes/note-{i:06}.md"), text(i as u64))).collect();
        let start = Instant::now();
        side.create(files, indexed).await?;
        spent += start.elapsed();
    }
    Ok(Outcome::of("create", spent, sizes.creates as u64))
}

/// Small files, each durable before the next.
pub(crate) async fn create_one(side: &impl Side, sizes: &Sizes) -> Result<Outcome> {
    side.mkdir("/notes").await?;
    let files: Vec<_> = (0..sizes.durable_creates)
        .map(|i| vec![(format!("/notes/note-{i:06}.md"), text(i as u64))])
        .collect();
    let start = Instant::now();
    for file in files {
        side.create(file, false).await?;
    }
    Ok(Outcome::of("create", start.elapsed(), sizes.durable_creates as u64))
}

/// The same on files of the machine.
pub(crate) fn create_one_raw(raw: &Raw, sizes: &Sizes) -> Result<Outcome> {
    let files: Vec<_> =
        (0..sizes.durable_creates).map(|i| (format!("note-{i:06}.md"), text(i as u64))).collect();
    let start = Instant::now();
    for (name, content) in &files {
        raw.create(name, content)?;
    }
    Ok(Outcome::of("create", start.elapsed(), sizes.durable_creates as u64))
}

/// Appends to one file, 32 under way at once, each a durable commit and a version of its own.
pub(crate) async fn append(garth: &Garth, sizes: &Sizes) -> Result<Outcome> {
    let line = |i: usize| text(i as u64).slice(..APPEND);
    garth.create(vec![("/log.jsonl".to_owned(), Bytes::new())], false).await?;
    let each = sizes.appends / GROUP;
    let start = Instant::now();
    let tasks = (0..GROUP).map(|task| {
        let (fs, lines) = (garth.0.clone(), (0..each).map(move |i| line(task * each + i)));
        tokio::spawn(async move {
            for line in lines {
                let op = Op::append(path("/log.jsonl"), line).must_exist();
                fs.commit(Batch::new([op])).await?;
            }
            anyhow::Ok(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    let spent = start.elapsed();
    let appends = each * GROUP;
    ensure!(garth.stat("/log.jsonl").await? == (appends * APPEND) as u64, "no append was lost");
    let mut outcome = Outcome::of("append", spent, appends as u64);
    outcome.given = (appends * APPEND) as u64;
    Ok(outcome)
}

/// One large file, written and read in pieces.
pub(crate) async fn big(side: &impl Side, sizes: &Sizes) -> Result<Outcome> {
    let mut piece = noise();
    let mut pieces = (0..sizes.pieces).map(|index| {
        piece[..8].copy_from_slice(&index.to_le_bytes()); // no two alike, so that storing once does not help
        Bytes::copy_from_slice(&piece)
    });
    let start = Instant::now();
    side.write_big("/big.bin", &mut pieces).await?;
    let write = start.elapsed();
    let start = Instant::now();
    let length = side.read_big("/big.bin").await?;
    let read = start.elapsed();
    ensure!(length == sizes.pieces * PIECE as u64, "all of it comes back");
    Ok(Outcome::of("write", write, sizes.pieces).and("read", read, sizes.pieces))
}

/// A tree of 50 directories: renamed, then removed.
pub(crate) async fn tree(side: &impl Side, sizes: &Sizes) -> Result<Outcome> {
    side.mkdir("/old").await?;
    for dir in 0..50 {
        side.mkdir(&format!("/old/{dir}")).await?;
        let files = (0..sizes.tree / 50).map(|i| (format!("/old/{dir}/{i}.md"), text(i as u64)));
        side.create(files.collect(), false).await?;
    }
    let start = Instant::now();
    side.rename("/old", "/new").await?;
    let rename = start.elapsed();
    let start = Instant::now();
    side.remove_tree("/new").await?;
    let remove = start.elapsed();
    ensure!(side.names("/").await? == 0, "the tree is gone");
    Ok(Outcome::of("rename", rename, 1).and("remove", remove, 1))
}

/// A wide directory, listed ten times.
pub(crate) async fn list(side: &impl Side, sizes: &Sizes) -> Result<Outcome> {
    const TIMES: u64 = 10;
    side.mkdir("/wide").await?;
    for first in (0..sizes.list).step_by(500) {
        let files = (first..first + 500).map(|i| (format!("/wide/note-{i:06}.md"), Bytes::from_static(b"-")));
        side.create(files.collect(), false).await?;
    }
    let start = Instant::now();
    for _ in 0..TIMES {
        ensure!(side.names("/wide").await? == sizes.list, "all names are listed");
    }
    let names = start.elapsed();
    let start = Instant::now();
    for _ in 0..TIMES {
        ensure!(side.entries("/wide").await? == sizes.list, "all entries are listed");
    }
    let entries = start.elapsed();
    Ok(Outcome::of("names", names, TIMES).and("entries", entries, TIMES))
}

/// Two directories of ten, one with many entries deeper down, listed in turn.
pub(crate) async fn deep(side: &impl Side, sizes: &Sizes, runs: usize) -> Result<Outcome> {
    const TIMES: u64 = 1_000;
    for top in ["/shallow", "/deep"] {
        side.mkdir(top).await?;
        for child in 0..10 {
            side.mkdir(&format!("{top}/{child}")).await?;
        }
    }
    for dir in 0..sizes.deep / 1_000 {
        let dir = format!("/deep/{}/{dir}", dir % 10);
        side.mkdir(&dir).await?;
        side.create((0..999).map(|i| (format!("{dir}/{i}"), Bytes::new())).collect(), false).await?;
    }
    let mut outcome = Outcome::default();
    for _ in 0..runs {
        for (measure, top) in [("deep", "/deep"), ("shallow", "/shallow")] {
            let start = Instant::now();
            for _ in 0..TIMES {
                ensure!(side.entries(top).await? == 10, "ten children");
            }
            outcome = outcome.and(measure, start.elapsed(), TIMES);
        }
    }
    Ok(outcome)
}

/// 4 KiB of words, different for each seed.
fn text(seed: u64) -> Bytes {
    const SYLLABLES: [&str; 16] =
        ["ba", "re", "ti", "no", "lu", "ka", "se", "mi", "do", "vu", "pa", "ge", "li", "fo", "tu", "ra"];
    let mut random = Random::new(seed);
    let mut text = String::with_capacity(SMALL + 16);
    while text.len() < SMALL {
        // Two to four syllables: some 70,000 words, the short ones common, as in a language.
        for _ in 0..2 + random.next() % 3 {
            text.push_str(SYLLABLES[(random.next() % 16) as usize]);
        }
        text.push(if random.next().is_multiple_of(12) { '\n' } else { ' ' });
    }
    text.truncate(SMALL);
    text.into()
}

fn noise() -> Vec<u8> {
    let mut random = Random::new(1);
    (0..PIECE / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}

/// splitmix64 (Steele, Lea and Flood, 2014): the same stream for every side and run.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
