//! Steady writes under retention, collected in the background as in a server: what is stored levels off.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use garth_engine::model::{Batch, Op};
use garth_engine::rule::retention::Retention;
use garth_engine::{AccountStore, DataDir, Env, TreePath};

use super::running_clock::RunningClock;
use super::{About, Proof, Proven, Report, Setting, append, bytes_below, hold, remove, sound, write};
use crate::data::random::Random;

/// Files that are written in turn.
const FILES: u64 = 200;
/// Limit on the bytes of a write.
const LONGEST: u64 = 800;
/// Time from one commit to the next at a steady rate: 200 a second.
const PERIOD: Duration = Duration::from_millis(5);
/// One commit in this many is durable, so that a slow disk does not set the rate.
const DURABLE_EVERY: u64 = 8;
/// Minutes of the account's clock that a run takes: 40 grace periods.
const MINUTES: u64 = 400;
/// Sizes that a run takes: often enough to see the largest between two removals. One in `NOTED_EVERY` is in
/// the report: at full size one a minute.
const SAMPLES: u64 = 80;
const NOTED_EVERY: usize = 4;
/// Part of its commits that a run keeps.
const KEPT: u64 = 40;
/// Size in the last quarter of the run, at most, of that in the second quarter.
const GROWTH: f64 = 1.25;
/// Pause of a writer that waits for a collection, and the limit on the number of pauses: a minute.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSES: u64 = 60_000;

/// Steady writes under retention. The size is the number of commits.
#[derive(Clone, Copy, Debug, Default)]
pub struct SteadyState {
    /// True if commits are made at a steady rate. False if they are made as fast as possible, and each minute
    /// waits for the collection that is due.
    pub steady: bool,
    /// True if nothing is removed: a negative control.
    pub keeps_all: bool,
}

impl Proof for SteadyState {
    fn about(&self) -> About {
        About {
            name: "steady-state",
            claim: "Under retention the size of an account that is written steadily levels off.",
            full: 240_000,
            ci: 6_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let (env, clock) = RunningClock::start();
        let folder = setting.folder.join("data");
        let data = DataDir::builder(garth_engine::rule::sample::registry()).env(env.clone()).open(&folder)?;
        block_on(data.create_account("steady"))?;
        let fs = block_on(data.account("steady"))?;
        let commits = (!self.keeps_all).then_some(setting.size / KEPT);
        block_on(fs.set_retention(Retention { commits, ..Retention::default() }))?;
        let mut run = Run { fs, env, clock, steady: self.steady, random: Random::new(setting.seed) };
        let sizes = run.write(&folder, setting.size)?;
        sound(&*run.fs)?;
        let state = block_on(run.fs.retention())?;
        let counts = ["commits", "commits that left the log", "bytes stored", "bytes of the database"];
        let last = sizes.last().copied().unwrap_or_default();
        let mut report = Report::of(counts)
            .with("commits", setting.size)
            .with("commits that left the log", state.folded.0)
            .with("bytes stored", last.stored)
            .with("bytes of the database", last.database);
        for (number, size) in (1..).zip(sizes.iter().skip(NOTED_EVERY - 1).step_by(NOTED_EVERY)) {
            let Size { stored, database, wal, folder } = size;
            report.note(format!(
                "minute {number}: {stored} bytes stored, {database} in the database and packs, {wal} in its log, \
                 {folder} in the folder"
            ));
        }
        level(&sizes, |size| size.stored, "stored", &report)?;
        level(&sizes, |size| size.database, "in the database and packs", &report)?;
        Ok(report)
    }
}

/// Bytes of an account at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    /// Stored bytes, as the limit counts them.
    stored: u64,
    /// The database with its free pages, and the content in packs. Does not shrink.
    database: u64,
    /// Write-ahead log, whose length depends on the last checkpoint alone.
    wal: u64,
    /// All files of the data folder.
    folder: u64,
}

/// Checks that the largest size of the last quarter is hardly larger than that of the second.
fn level(sizes: &[Size], of: fn(&Size) -> u64, what: &str, report: &Report) -> Proven<()> {
    let quarter = sizes.len() / 4;
    let most = |sizes: &[Size]| sizes.iter().map(of).max().unwrap_or_default();
    let (second, last) = (most(&sizes[quarter..2 * quarter]), most(&sizes[3 * quarter..]));
    hold(last as f64 <= second as f64 * GROWTH, || {
        format!(
            "the bytes {what} do not level off: {second} in the second quarter, {last} in the last: {report}"
        )
    })
}

/// Account that is written.
struct Run {
    fs: Arc<dyn AccountStore>,
    env: Env,
    clock: RunningClock,
    steady: bool,
    random: Random,
}

impl Run {
    /// Makes the commits, and collects each minute what is due. Returns the sizes in equal intervals.
    fn write(&mut self, folder: &Path, commits: u64) -> Proven<Vec<Size>> {
        let (minute, interval) = ((commits / MINUTES).max(1), (commits / SAMPLES).max(1));
        let (mut sizes, mut due) = (Vec::new(), self.env.instant());
        for n in 1..=commits {
            let batch = Batch::new(self.draw(n)?);
            let batch = if n % DURABLE_EVERY == 0 { batch } else { batch.visible() };
            block_on(self.fs.commit(batch))?;
            self.pace(&mut due);
            if n % minute == 0 {
                self.clock.skip(Duration::from_secs(60));
                self.collect()?;
            }
            if n % interval == 0 {
                sizes.push(self.size(folder)?);
            }
        }
        Ok(sizes)
    }

    /// Waits until the next commit is due at the steady rate.
    fn pace(&self, due: &mut Instant) {
        if self.steady {
            *due += PERIOD;
            self.env.sleep(due.saturating_duration_since(self.env.instant()));
        }
    }

    /// Returns the operations of a commit: a file is replaced, extended, or removed and created again.
    fn draw(&mut self, n: u64) -> Proven<Vec<Op>> {
        let path = format!("/d{}/f{}", n % FILES / 20, n % FILES);
        let mut text = format!("{n}\n");
        let length = 1 + self.random.below(LONGEST);
        while (text.len() as u64) < length {
            text.push_str(&format!("{:016x}\n", self.random.next()));
        }
        Ok(match self.random.below(10) {
            0 => vec![remove(&path)?.if_exists(), write(&path, text)?],
            1..4 => vec![append(&path, text)?],
            _ => vec![write(&path, text)?],
        })
    }

    /// Does what the timer of a server does each minute.
    fn collect(&self) -> Proven<()> {
        let is_due = || -> Proven<bool> {
            let due = block_on(self.fs.collect_next())?;
            Ok(due.is_some_and(|due| due <= self.env.now()))
        };
        let mut pauses = 0;
        while is_due()? && !self.steady {
            pauses += 1;
            hold(pauses < PAUSES, || "the collection that is due does not end".to_owned())?;
            self.env.sleep(PAUSE);
        }
        Ok(())
    }

    fn size(&self, folder: &Path) -> Proven<Size> {
        let usage = block_on(self.fs.usage(&TreePath::root()))?;
        Ok(Size {
            stored: usage.stored(),
            database: usage.pages + usage.free + usage.packs,
            wal: usage.wal,
            folder: bytes_below(folder)?,
        })
    }
}
