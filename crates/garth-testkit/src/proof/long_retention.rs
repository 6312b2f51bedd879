//! A retention that is set on a long log: how long the removal takes in the background, and what it costs
//! those who write meanwhile.

use std::time::{Duration, Instant};

use futures::executor::block_on;
use garth_engine::model::{Batch, Moment, Seq};
use garth_engine::rule::retention::Retention;
use garth_engine::{AccountStore, DataDir, Env, ErrorKind};

use super::running_clock::RunningClock;
use super::waits::{Waits, commit_beside};
use super::{About, Broken, Proof, Proven, Report, Setting, hold, sound, write};

/// Threads that write the log, and files of each that they overwrite.
const WRITERS: u64 = 8;
const FILES: u64 = 500;
/// Commits that the log keeps.
const KEPT: u64 = 1000;
/// Grace period of a collection in the background.
const GRACE: Duration = Duration::from_secs(600);
/// Pause between two looks at how far the removal is.
const PAUSE: Duration = Duration::from_millis(10);
/// Limit on the time of a removal.
const LONGEST: Duration = Duration::from_secs(4 * 3600);
/// Largest log that `fsck` reads afterwards, in commits: a longer one takes minutes.
const CHECKED: u64 = 100_000;

/// Retention on a long log. The size is the number of commits.
#[derive(Clone, Copy, Debug)]
pub struct LongRetention;

impl Proof for LongRetention {
    fn about(&self) -> About {
        About {
            name: "long-retention",
            claim: "A retention that is set on a long log takes effect in the background while others write.",
            full: 1_000_000,
            ci: 4_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let (env, clock) = RunningClock::start();
        let data = DataDir::builder(garth_engine::rule::sample::registry()).env(env.clone());
        let data = data.open(&setting.folder.join("data"))?;
        block_on(data.create_account("long"))?;
        let fs = block_on(data.account("long"))?;
        fill(&*fs, setting.size)?;
        // The rate of a writer without other work, for comparison.
        let quiet = commit_beside(&*fs, Duration::ZERO, &mut || {
            env.sleep(Duration::from_micros(5 * setting.size));
            Ok(())
        })?;
        let target = Seq(block_on(fs.head())?.seq.0.saturating_sub(KEPT));
        let mut announced = Duration::ZERO;
        let beside = commit_beside(&*fs, Duration::ZERO, &mut || {
            announced = collect(&*fs, &env, &clock, target)?;
            Ok(())
        })?;
        let state = block_on(fs.retention())?;
        let gone = block_on(fs.as_of(&Moment::Seq(Seq(1))));
        hold(gone.as_ref().is_err_and(|error| error.is(ErrorKind::Gone)), || {
            format!("state 1 is answered by {gone:?}, the oldest is {:?}", state.oldest)
        })?;
        if setting.size <= CHECKED {
            sound(&*fs)?;
        }
        let mut report = Report::of(["commits", "commits that left the log"])
            .with("commits", setting.size)
            .with("commits that left the log", state.folded.0);
        report.note(format!("{:.1} s until the oldest state was announced", announced.as_secs_f64()));
        let took = beside.0.as_secs_f64();
        report.note(format!("{took:.1} s until its past was removed, without the grace period"));
        let share = 1.0 - rate(&beside) / rate(&quiet);
        report.note(format!("the collection took {:.0}% of the writer's time", share.max(0.0) * 100.0));
        report.note(format!("waits without a collection: {}", quiet.1));
        report.note(format!("waits beside the collection: {}", beside.1));
        Ok(report)
    }
}

/// Returns the commits in a second.
fn rate((took, waits): &(Duration, Waits)) -> f64 {
    waits.count() as f64 / took.as_secs_f64()
}

/// Makes `commits` commits that overwrite files.
fn fill(fs: &dyn AccountStore, commits: u64) -> Proven<()> {
    let write_as = |writer: u64| -> Proven<()> {
        for n in 0..commits / WRITERS {
            let op = write(&format!("/d{writer}/f{}", n % FILES), format!("text {n} of writer {writer}\n"))?;
            block_on(fs.commit(Batch::new([op]).visible()))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let write_as = &write_as;
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write_as(writer))).collect();
        for writer in writers {
            writer.join().map_err(|_| Broken::because("a writer panicked"))??;
        }
        Proven::Ok(())
    })?;
    block_on(fs.sync())?;
    Ok(())
}

/// Sets the retention and collects in the background until the past before `target` is removed. Returns the
/// time until the oldest state was announced.
fn collect(fs: &dyn AccountStore, env: &Env, clock: &RunningClock, target: Seq) -> Proven<Duration> {
    let begun = env.instant();
    block_on(fs.set_retention(Retention { commits: Some(KEPT), ..Retention::default() }))?;
    wait_until(fs, env, begun, |oldest, _| oldest >= target)?;
    let announced = env.instant() - begun;
    clock.skip(GRACE);
    wait_until(fs, env, begun, |_, folded| folded >= target)?;
    Ok(announced)
}

/// Starts collections that are due until the first readable commit, and the one up to which the past is
/// removed, satisfy `enough`.
fn wait_until(
    fs: &dyn AccountStore,
    env: &Env,
    begun: Instant,
    enough: impl Fn(Seq, Seq) -> bool,
) -> Proven<()> {
    loop {
        block_on(fs.collect_next())?;
        let state = block_on(fs.retention())?;
        if enough(state.oldest, state.folded) {
            return Ok(());
        }
        hold(env.instant() - begun < LONGEST, || format!("the past is not removed: {state:?}"))?;
        env.sleep(PAUSE);
    }
}
