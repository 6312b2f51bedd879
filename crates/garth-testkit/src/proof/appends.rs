//! Many writers of one file in one process, and the cost of ten thousand small appends.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, ByteRange, HistoryPage, MAX_PAGE, Precondition, Seq};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem};

use super::{
    About, Broken, Proof, Proven, Report, Setting, account, append, at, bytes_below, closed, hold, read, run,
    sound, write,
};
use crate::data::random::Random;

/// Limit on the bytes of the data folder after [`ManyAppends`], once it is closed: until then the write-ahead
/// log is there, whose length depends on when checkpoints ran.
pub const MOST_BYTES: u64 = 5_000_000;
/// Appends in flight at the same time, so that commits are grouped.
const IN_FLIGHT: u64 = 32;
/// Bytes of each appended line.
const LINE: usize = 200;

/// Writers that append to one file at the same time. The size is the lines of each.
#[derive(Clone, Copy, Debug)]
pub struct Appenders {
    /// Writers.
    pub writers: u64,
}

impl Proof for Appenders {
    fn about(&self) -> About {
        About { name: "appenders", claim: "Appenders to one file lose no line.", full: 157, ci: 10 }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let Self { writers } = *self;
        appenders(setting, writers)?;
        Ok(written(writers, setting.size, 0))
    }
}

/// Writers that raise one counter by compare-and-swap. The size is the increments of each.
#[derive(Clone, Copy, Debug)]
pub struct CompareAndSwap {
    /// Writers.
    pub writers: u64,
}

impl Proof for CompareAndSwap {
    fn about(&self) -> About {
        About {
            name: "compare-and-swap",
            claim: "Of writers that replace one version, one wins.",
            full: 50,
            ci: 5,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let Self { writers } = *self;
        let conflicts = cas_writers(setting, writers)?;
        Ok(written(writers, setting.size, conflicts))
    }
}

/// File of many small appends, each a durable commit. The size is their number.
#[derive(Clone, Copy, Debug)]
pub struct ManyAppends;

impl Proof for ManyAppends {
    fn about(&self) -> About {
        About {
            name: "many-appends",
            claim: "Every version of a file of many small appends is readable, and they take little space.",
            full: 10_000,
            ci: 10_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let report = many_appends(setting.folder, setting.size)?;
        hold(report["bytes once closed"] < MOST_BYTES, || format!("more than {MOST_BYTES} bytes: {report}"))?;
        Ok(report)
    }
}

/// Returns the report of writers of one file.
fn written(writers: u64, each: u64, conflicts: u64) -> Report {
    Report::of(["writers", "writes kept", "conflicts"])
        .with("writers", writers)
        .with("writes kept", writers * each)
        .with("conflicts", conflicts)
}

/// Runs `writers` writers that append lines to one file at the same time, each as many as the size says.
///
/// # Errors
/// A line that is missing, duplicated, torn or out of the order of its writer.
fn appenders(setting: &Setting<'_>, writers: u64) -> Proven<()> {
    let (fs, each) = (setting.account("account")?, setting.size);
    run(async {
        let tasks: Vec<_> = (0..writers)
            .map(|who| {
                let fs = Arc::clone(&fs);
                tokio::spawn(async move {
                    for n in 0..each {
                        fs.commit(Batch::new([append("/lines", format!("{who} {n}\n"))?])).await?;
                    }
                    Proven::Ok(())
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        let text = read(&*fs, "/lines").await?;
        let mut next = vec![0; writers as usize];
        for line in text.lines() {
            let parsed = line.split_once(' ').and_then(|(who, n)| Some((who.parse::<usize>().ok()?, n)));
            let expected = parsed.and_then(|(who, n)| Some((next.get_mut(who)?, n)));
            let Some((expected, n)) = expected else {
                return Err(Broken::because(format!("nobody wrote the line `{line}`")));
            };
            hold(n == expected.to_string(), || format!("the line `{line}` is not the writer's next one"))?;
            *expected += 1;
        }
        hold(next.iter().all(|written| *written == each), || {
            format!("of {each} lines each {next:?} are there")
        })?;
        let head = fs.head().await?.seq;
        // The file was created by the first append, so there is exactly one commit per line.
        hold(head == Seq(writers * each), || format!("{head} commits for {} appends", writers * each))
    })?;
    sound(&*fs)
}

/// Runs `writers` writers that increment one counter by compare-and-swap, each as often as the size says.
/// Returns the number of conflicts.
///
/// # Errors
/// A version with two winners, or none.
fn cas_writers(setting: &Setting<'_>, writers: u64) -> Proven<u64> {
    let (fs, each) = (setting.account("account")?, setting.size);
    let conflicts = run(async {
        fs.commit(Batch::new([write("/counter", "0")?])).await?;
        let raise = |fs: Arc<dyn AccountStore>| async move {
            let (mut won, mut conflicts) = (0, 0);
            while won < each {
                let version = fs.stat(&at("/counter")?).await?.etag;
                let count: u64 = read(&*fs, "/counter")
                    .await?
                    .parse()
                    .map_err(|_| Broken::because("the counter is no number"))?;
                let next = Batch {
                    preconditions: vec![(at("/counter")?, Precondition::Etag(version))],
                    ..Batch::new([write("/counter", (count + 1).to_string())?])
                };
                match fs.commit(next).await {
                    Ok(_) => won += 1,
                    Err(error) if error.is(ErrorKind::Conflict) => conflicts += 1,
                    Err(error) => return Err(error.into()),
                }
            }
            Proven::Ok(conflicts)
        };
        let tasks: Vec<_> = (0..writers).map(|_| tokio::spawn(raise(Arc::clone(&fs)))).collect();
        let mut conflicts = 0;
        for task in tasks {
            conflicts += task.await??;
        }
        let mut page = HistoryPage::default().limit(MAX_PAGE);
        let mut expected = writers * each;
        loop {
            let versions = fs.history(&at("/counter")?, &page).await?.items;
            let Some(last) = versions.last() else { break };
            page.before = Some(last.id);
            for version in &versions {
                let bytes = fs.open_version(version.id).await?.read_at(0, 64).await?;
                hold(bytes == expected.to_string(), || {
                    format!("version {} holds {bytes:?} where {expected} should be", version.id)
                })?;
                expected = expected.wrapping_sub(1);
            }
        }
        // The first version holds 0, after which the count wraps around.
        hold(expected == u64::MAX, || format!("the versions end before {expected}"))?;
        Proven::Ok(conflicts)
    })?;
    sound(&*fs)?;
    Ok(conflicts)
}

/// Returns the line of one append: varying words, like those of agents.
fn line(n: u64) -> Bytes {
    const WORDS: [&str; 16] = [
        "garden", "letter", "river", "engine", "winter", "signal", "copper", "market", "window", "forest",
        "memory", "silver", "bridge", "candle", "harbor", "thread",
    ];
    let mut random = Random::new(n);
    let mut text = format!("{n:06}");
    while text.len() < LINE - 1 {
        text.push(' ');
        text.push_str(random.pick(&WORDS));
    }
    text.truncate(LINE - 1);
    text.push('\n');
    text.into()
}

/// Appends `appends` lines of 200 bytes to one file, each in a durable commit of its own, 32 in flight at
/// once. Then compares every version.
///
/// # Errors
/// A version that is missing or has other bytes.
fn many_appends(folder: &Path, appends: u64) -> Proven<Report> {
    let fs = account(folder, Env::system())?;
    run(async {
        let next = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let tasks: Vec<_> = (0..IN_FLIGHT)
            .map(|_| {
                let (fs, next) = (Arc::clone(&fs), Arc::clone(&next));
                tokio::spawn(async move {
                    loop {
                        let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        if n >= appends {
                            return Proven::Ok(());
                        }
                        fs.commit(Batch::new([append("/log", line(n))?])).await?;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        Proven::Ok(())
    })?;
    let open = bytes_below(folder)?;
    let compared = run(compare(&fs, appends, 500))?;
    sound(&*fs)?;
    let merged = block_on(fs.gc(std::time::Duration::ZERO))?.merged;
    let compared = compared + run(compare(&fs, appends, 500))?;
    sound(&*fs)?;
    closed(fs, folder)?;
    let closed = bytes_below(folder)?;
    let counts = [
        "appends",
        "bytes appended",
        "bytes while open",
        "bytes once closed",
        "extents merged",
        "versions compared",
    ];
    Ok(Report::of(counts)
        .with("appends", appends)
        .with("bytes appended", appends * LINE as u64)
        .with("bytes while open", open)
        .with("bytes once closed", closed)
        .with("extents merged", merged)
        .with("versions compared", compared))
}

/// Checks the size of every version, and the bytes of `sample` of them. Returns the number of the latter.
async fn compare(fs: &SqliteFs, appends: u64, sample: u64) -> Proven<u64> {
    let now = read(fs, "/log").await?;
    hold(now.len() as u64 == appends * LINE as u64, || format!("the file has {} bytes", now.len()))?;
    let mut lines: Vec<&str> = now.split_inclusive('\n').collect();
    // Appends in flight are committed in any order; each line begins with its number of a fixed width.
    lines.sort_unstable();
    let kept = lines.iter().zip(0..).all(|(kept, n)| kept.as_bytes() == line(n));
    hold(kept, || "the file has other lines than were appended".to_owned())?;
    let mut page = HistoryPage::default().limit(1000);
    let (mut expected, mut compared) = (appends, 0);
    loop {
        let versions = fs.history(&at("/log")?, &page).await?.items;
        let Some(last) = versions.last() else { break };
        page.before = Some(last.id);
        for version in &versions {
            let size = version.entry.as_ref().map_or(0, |entry| entry.size);
            hold(size == expected * LINE as u64, || format!("version {} has {size} bytes", version.id))?;
            // Each read grows with the version: comparing all bytes of all versions would be quadratic.
            if expected % appends.div_ceil(sample) == 0 {
                let bytes = fs.open_version(version.id).await?.read_at(0, now.len()).await?;
                hold(bytes == now.as_bytes()[..size as usize], || {
                    format!("version {} is no beginning of the file", version.id)
                })?;
                let then = fs.as_of(&garth_engine::model::Moment::Seq(version.id.seq)).await?;
                let tail = ByteRange { offset: size - LINE as u64, length: u64::MAX };
                let tail = then.read(&at("/log")?, tail).await?;
                hold(bytes.ends_with(&tail), || format!("the past of {} ends in other bytes", version.id))?;
                compared += 1;
            }
            expected -= 1;
        }
    }
    hold(expected == 0, || format!("{expected} versions are missing"))?;
    Ok(compared)
}
