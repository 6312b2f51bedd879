//! garth compared with itself: the same call on a small and on a large store of unrelated data. The stores
//! take long to fill, so they are filled once and measured alternately.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use garth_engine::model::{
    At, Batch, ByteRange, FindQuery, HistoryPage, Op, Page, SearchQuery, Seq, SetAttrs,
};
use garth_engine::{DataDir, FileSystemExt, TreePath};

use super::commit_grouped;
use crate::figures::Figures;
use crate::side::garth::{Garth, path};
use crate::side::{Files, Side};
use crate::size::Size;

/// Calls of one repetition.
const TIMES: usize = 1_000;

/// Lists two directories of ten entries, one of which has many entries deeper down.
pub(crate) async fn deep(garth: &Garth, size: Size, runs: usize) -> Result<Figures> {
    let entries = size.of(1_000_000, 1_000);
    for top in ["/shallow", "/deep"] {
        for child in 0..10 {
            garth.mkdir(&format!("{top}/{child}")).await?;
        }
    }
    for dir in 0..entries / 1_000 {
        let dir = format!("/deep/{}/{dir}", dir % 10);
        garth.mkdir(&dir).await?;
        garth.create((0..999).map(|i| (format!("{dir}/{i}"), Bytes::new())).collect(), false).await?;
    }
    let mut figures = Figures::default();
    for _ in 0..runs {
        for (name, top) in [("deep", "/deep"), ("shallow", "/shallow")] {
            let start = Instant::now();
            for _ in 0..TIMES {
                ensure!(garth.entries(top).await? == 10, "ten children");
            }
            figures.time(name, start.elapsed(), TIMES);
        }
    }
    Ok(figures)
}

/// Reads a file with few and one with many versions as of the middle of its history.
pub(crate) async fn versions(garth: &Garth, size: Size, runs: usize) -> Result<Figures> {
    let overwrite = |at: TreePath, i: usize| Batch::from(Op::write(at, format!("version {i:>32}"))).visible();
    let mut middles = Vec::new();
    for (at, count) in [("/few", 100), ("/many", size.of(100_000, 1_000))] {
        let first = garth.0.head().await?.seq.0;
        commit_grouped(garth, count, move |i| overwrite(path(at), i)).await?;
        middles.push((&at[1..], At::Path(path(at)), Seq(first + count as u64 / 2)));
    }
    let mut figures = Figures::default();
    for _ in 0..runs {
        read_middles(garth, &middles, "", &mut figures).await?;
    }
    Ok(figures)
}

/// Reads a path that few files and one that many files had one after another, as of the middle, and lists its
/// latest history.
pub(crate) async fn lives(garth: &Garth, size: Size, runs: usize) -> Result<Figures> {
    let replace = |at: TreePath, i: usize| {
        let write = Op::write(at.clone(), format!("file {i:>35}")).create_new();
        // A new file each time, so the path has many inodes instead of one with many versions.
        Batch::new([Op::remove(at).if_exists(), write]).visible()
    };
    let mut middles = Vec::new();
    for (at, count) in [("/few", 100), ("/many", size.of(100_000, 1_000))] {
        let first = garth.0.head().await?.seq.0;
        commit_grouped(garth, count, move |i| replace(path(at), i)).await?;
        middles.push((&at[1..], At::Path(path(at)), Seq(first + count as u64 / 2)));
    }
    let (page, mut figures) = (HistoryPage::default(), Figures::default());
    for _ in 0..runs {
        read_middles(garth, &middles, " read", &mut figures).await?;
        for (name, at, _) in &middles {
            let start = Instant::now();
            for _ in 0..TIMES / 10 {
                ensure!(garth.0.history(at, &page).await?.items.len() == page.limit, "a full page");
            }
            figures.time(format!("{name} history"), start.elapsed(), TIMES / 10);
        }
    }
    Ok(figures)
}

async fn read_middles(
    garth: &Garth,
    middles: &[(&str, At, Seq)],
    figure: &str,
    figures: &mut Figures,
) -> Result<()> {
    for (name, at, seq) in middles {
        let past = garth.0.as_of(&(*seq).into()).await?;
        let start = Instant::now();
        for _ in 0..TIMES {
            ensure!(past.read(at, ByteRange::ALL).await?.len() == 40, "what it was");
        }
        figures.time(format!("{name}{figure}"), start.elapsed(), TIMES);
    }
    Ok(())
}

/// Measures an account of 1,000 names and one of many, all with one common word. The larger one is `default`,
/// which the HTTP rows use afterwards.
pub(crate) async fn names(folder: &Path, size: Size, runs: usize) -> Result<Figures> {
    let data = garth::builder().open(folder)?;
    let mut accounts = Vec::new();
    for (name, account, count) in [("few", "few", 1_000), ("many", "default", size.of(1_000_000, 1_000))] {
        data.create_account(account).await?;
        let garth = Garth(data.account(account).await?);
        for dir in 0..count / 1_000 {
            let files = (0..1_000).map(|i| {
                let op = Op::write(path(&named(dir, i)), format!("{{\"common\":\"rare{dir}x{i}\"}}"));
                op.create_new().with_parents()
            });
            garth.0.commit(Batch::new(files).visible()).await?;
        }
        // Merges the search index before the measurement.
        garth.0.gc(Duration::ZERO).await?;
        accounts.push((name, garth));
    }
    let mut figures = Figures::default();
    for _ in 0..runs {
        for (name, garth) in &accounts {
            ask_names(name, garth, &mut figures).await?;
        }
    }
    Ok(figures)
}

/// Returns the path of a value, which is `/names/{dir}/{file}` over HTTP.
fn named(dir: usize, file: usize) -> String {
    format!("/agents/default/kv/names/{dir}/{file}.json")
}

async fn ask_names(name: &str, garth: &Garth, figures: &mut Figures) -> Result<()> {
    let start = Instant::now();
    for i in 0..TIMES {
        garth.0.stat(&At::Path(path(&named(0, i)))).await?;
    }
    figures.time(format!("{name} stat"), start.elapsed(), TIMES);
    let page = Page::default().limit(100).with_entries();
    let start = Instant::now();
    for _ in 0..TIMES {
        let listing = garth.0.list(&At::Path(path("/agents/default/kv/names/0")), &page).await?;
        ensure!(listing.items.len() == 100, "a full page");
    }
    figures.time(format!("{name} list"), start.elapsed(), TIMES);
    for (figure, word, times) in [("rare", "rare0x500", 100), ("common", "common", 3)] {
        let query = SearchQuery::new(word);
        let start = Instant::now();
        for _ in 0..times {
            ensure!(!garth.0.search(&query).await?.hits.is_empty(), "the word is found");
        }
        figures.time(format!("{name} {figure}"), start.elapsed(), times);
    }
    Ok(())
}

/// Finds a tag of ten entries, a value of one entry, and the first page of a tag of all, among few and many
/// entries.
pub(crate) async fn find(folder: &Path, size: Size, runs: usize) -> Result<Figures> {
    let data = garth::builder().open(folder)?;
    let mut accounts = Vec::new();
    for (name, account, count) in [("few", "few", 1_000), ("many", "default", size.of(1_000_000, 1_000))] {
        data.create_account(account).await?;
        let garth = Garth(data.account(account).await?);
        for dir in 0..count / 1_000 {
            let files = (0..1_000).map(|i| {
                let tags = ["all".to_owned(), format!("ten-{}", dir * 100 + i / 10)];
                let attrs =
                    SetAttrs::new().searchable(false).tags(tags).metadata("number", format!("{dir}.{i}"));
                Op::write(path(&format!("/{dir}/{i}")), "").with_attrs(attrs).with_parents()
            });
            garth.0.commit(Batch::new(files).visible()).await?;
        }
        accounts.push((name, garth));
    }
    let mut figures = Figures::default();
    let asked = [
        ("tag", FindQuery::tag("ten-50"), 10),
        ("value", FindQuery::metadata("number", "0.500"), 1),
        ("page", FindQuery::tag("all").limit(100), 100),
    ];
    for _ in 0..runs {
        for (name, garth) in &accounts {
            for (figure, query, due) in &asked {
                let start = Instant::now();
                for _ in 0..TIMES {
                    ensure!(garth.0.find(query).await?.items.len() == *due, "what was asked for is found");
                }
                figures.time(format!("{name} {figure}"), start.elapsed(), TIMES);
            }
        }
    }
    Ok(figures)
}

/// Visits many accounts in turn, in a process that was started with a limit of 1,024 file descriptors, fewer
/// than they would need together. Counts the failures.
pub(crate) async fn accounts(folder: &Path, size: Size, runs: usize) -> Result<Figures> {
    // Without the limit the row would measure nothing.
    let limits = std::fs::read_to_string("/proc/self/limits").context("needs Linux")?;
    let limit = limits.lines().find(|line| line.starts_with("Max open files"));
    ensure!(limit.is_some_and(|line| line.contains(" 1024 ")), "started with 1,024 file descriptors");
    let data = garth::builder().open(folder)?;
    let count = size.of(10_000, 100);
    let mut failures = 0;
    for account in 0..count {
        failures += failed(account, data.create_account(&format!("a-{account}")).await.map_err(Into::into));
    }
    let mut figures = Figures::default();
    for _ in 0..runs {
        let start = Instant::now();
        for account in 0..count {
            failures += failed(account, visit(&data, account).await);
        }
        figures.time("visit", start.elapsed(), count);
    }
    figures.add("failures", failures as f64);
    Ok(figures)
}

/// Returns 1 for a failure, which it also prints, or else 0.
fn failed<T>(account: usize, outcome: Result<T>) -> usize {
    match outcome {
        Ok(_) => 0,
        Err(error) => {
            eprintln!("account {account}: {error:#}");
            1
        }
    }
}

async fn visit(data: &DataDir, account: usize) -> Result<()> {
    let fs = data.account(&format!("a-{account}")).await?;
    fs.write("/note.md", format!("of {account}")).await?;
    ensure!(fs.read_to_string("/note.md").await? == format!("of {account}"), "its own");
    Ok(())
}
