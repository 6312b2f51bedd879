//! Collection beside readers, snapshots, views of the past, open files and writers, under a retention that
//! ends the past all the time: nothing that somebody holds goes away.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Moment, Op, Seq};
use garth_engine::rule::retention::Retention;
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem};

use super::numbered_text::{number, text};
use super::waits::Waits;
use super::{About, Broken, Proof, Proven, Report, Setting, account, at, hold, read, remove, sound, write};
use crate::data::random::Random;

/// Writers, and files of each.
const WRITERS: u64 = 4;
const FILES: u64 = 8;
/// One commit in this many replaces the file by a new one of the same name, so that a name ends.
const NEW_FILE_EVERY: u64 = 5;
/// Commits that the log keeps.
const KEPT: u64 = 200;
/// Time from one commit of a writer to its next, at a steady rate: 100 commits a second of all writers.
const PERIOD: Duration = Duration::from_millis(40);
/// Times that each holder looks at what it holds, each after another collection.
const LOOKS: u64 = 3;
/// Rounds of each thread beside the writers, however soon these are done.
const LEAST: u64 = 3;
/// Pause of a thread that waits for a collection.
const PAUSE: Duration = Duration::from_millis(1);
/// Longest that a file of a holder can be, in bytes.
const WHOLE: usize = 1 << 20;

/// Collection beside readers. The size is the number of commits beside it; before, a fifth of them is made
/// without a collection, for comparison.
#[derive(Clone, Copy, Debug)]
pub struct GcBesideReaders {
    /// True if writers commit at a steady rate, false if they do so as fast as they can.
    pub steady: bool,
}

impl Proof for GcBesideReaders {
    fn about(&self) -> About {
        About {
            name: "gc-beside-readers",
            claim: "A collection under retention takes away nothing that readers, snapshots, views or open files \
                    hold.",
            full: 60_000,
            ci: 1_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let fs = account(setting.folder, Env::system())?;
        let load = Load::new(&fs, setting.seed, self.steady)?;
        let mut report = Report::of([
            "commits",
            "reads of files",
            "snapshots held",
            "views held",
            "open files held",
            "collections",
            "commits that left the log",
        ]);
        let mut jobs = Load::readers().to_vec();
        let quiet = load.phase(setting.size / 5, &jobs, &mut report)?;
        let retention = Retention { commits: Some(KEPT), ..Retention::default() };
        block_on(fs.set_retention(retention))?;
        jobs.push(("collections", Load::collect));
        let beside = load.phase(setting.size, &jobs, &mut report)?;
        load.release(&mut report)?;
        let more = beside.quantile(0.999).saturating_sub(quiet.quantile(0.999));
        report.note(format!("waits without collections: {quiet}"));
        report.note(format!("waits beside collections: {beside}"));
        report.note(format!("p99.9 beside collections is {:.1} ms longer", more.as_secs_f64() * 1e3));
        Ok(report)
    }
}

/// Name of a count, and one round of the thread whose rounds it counts.
type Job<'a> = (&'static str, fn(&Load<'a>, u64) -> Proven<()>);

/// State that the threads share.
#[derive(Debug)]
struct Load<'a> {
    fs: &'a SqliteFs,
    env: Env,
    seed: u64,
    steady: bool,
    /// Number of the last acknowledged text of each file.
    acknowledged: Vec<AtomicU64>,
    /// Collections that were completed.
    collections: AtomicU64,
    /// True once the writers of a phase are done, or a thread has failed.
    done: AtomicBool,
}

fn name(file: u64) -> String {
    format!("/d{}/f{}", file / FILES, file % FILES)
}

impl<'a> Load<'a> {
    /// Writes the first text of each file.
    fn new(fs: &'a SqliteFs, seed: u64, steady: bool) -> Proven<Self> {
        let files = 0..WRITERS * FILES;
        let first = files.clone().map(|file| write(&name(file), text(&name(file), 0)));
        block_on(fs.commit(Batch::new(first.collect::<Proven<Vec<_>>>()?)))?;
        let acknowledged = files.map(|_| AtomicU64::new(0)).collect();
        let (collections, done) = (AtomicU64::new(0), AtomicBool::new(false));
        Ok(Self { fs, env: Env::system(), seed, steady, acknowledged, collections, done })
    }

    /// Returns the jobs of the threads beside the writers, without the collection.
    fn readers() -> [Job<'a>; 4] {
        [
            ("reads of files", Load::read_files),
            ("snapshots held", Load::hold_snapshot),
            ("views held", Load::hold_view),
            ("open files held", Load::hold_file),
        ]
    }

    /// Has the writers make `commits` commits while the other threads do their jobs. Returns the waits of the
    /// commits.
    fn phase(&self, commits: u64, jobs: &[Job<'a>], report: &mut Report) -> Proven<Waits> {
        self.done.store(false, Ordering::Relaxed);
        let panicked = |_| Broken::because("a thread of the proof panicked");
        let (waits, rounds) = std::thread::scope(|scope| {
            let beside: Vec<_> =
                jobs.iter().map(|(_, job)| scope.spawn(move || self.until_done(*job))).collect();
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| scope.spawn(move || self.write(writer, commits / WRITERS)))
                .collect();
            // All are joined before an error is returned, so that `done` ends the others.
            let waits: Vec<_> = writers.into_iter().map(|thread| thread.join().map_err(panicked)).collect();
            self.done.store(true, Ordering::Relaxed);
            let rounds: Vec<_> = beside.into_iter().map(|thread| thread.join().map_err(panicked)).collect();
            (waits, rounds)
        });
        for ((count, _), rounds) in jobs.iter().zip(rounds) {
            report.add(count, rounds??);
        }
        let mut all = Waits::default();
        for waits in waits {
            all.join(waits??);
        }
        report.add("commits", all.count());
        Ok(all)
    }

    /// Repeats a job until the writers are done. Returns the number of rounds.
    fn until_done(&self, job: fn(&Self, u64) -> Proven<()>) -> Proven<u64> {
        let mut rounds = 0;
        while rounds < LEAST || !self.done.load(Ordering::Relaxed) {
            job(self, rounds).inspect_err(|_| self.done.store(true, Ordering::Relaxed))?;
            rounds += 1;
        }
        Ok(rounds)
    }

    fn write(&self, writer: u64, commits: u64) -> Proven<Waits> {
        let (mut waits, mut due) = (Waits::default(), self.env.instant());
        for commit in 0..commits {
            if self.done.load(Ordering::Relaxed) {
                break;
            }
            let file = writer * FILES + commit % FILES;
            let (place, last) = (name(file), &self.acknowledged[file as usize]);
            let n = last.load(Ordering::Acquire) + 1;
            let mut ops = vec![write(&place, text(&place, n))?];
            if commit % NEW_FILE_EVERY == 0 {
                ops.insert(0, remove(&place)?);
            }
            let begun = self.env.instant();
            let committed = block_on(self.fs.commit(Batch::new(ops)));
            committed.inspect_err(|_| self.done.store(true, Ordering::Relaxed))?;
            waits.add(self.env.instant() - begun);
            last.store(n, Ordering::Release);
            if self.steady {
                due += PERIOD;
                self.env.sleep(due.saturating_duration_since(self.env.instant()));
            }
        }
        Ok(waits)
    }

    fn random(&self, round: u64) -> Random {
        Random::new(self.seed ^ round.wrapping_mul(0x9E37_79B9))
    }

    /// Reads a file: it has a text that is not older than what was acknowledged before.
    fn read_files(&self, round: u64) -> Proven<()> {
        let file = self.random(round).below(WRITERS * FILES);
        let (place, last) = (name(file), self.acknowledged[file as usize].load(Ordering::Acquire));
        let n = self.numbered(self.fs, &place)?;
        hold(n >= last, || format!("{place} has text {n} after text {last} was acknowledged"))
    }

    /// Reads a file of a state. Returns the number of its text.
    fn numbered(&self, fs: &dyn FileSystem, place: &str) -> Proven<u64> {
        let found = block_on(read(fs, place))?;
        number(place, &found).ok_or_else(|| Broken::because(format!("{place} has {found:.100}")))
    }

    /// Reads all files of a state.
    fn shown(&self, fs: &dyn FileSystem) -> Proven<BTreeMap<u64, u64>> {
        (0..WRITERS * FILES).map(|file| Ok((file, self.numbered(fs, &name(file))?))).collect()
    }

    /// Waits for the next collection to end. Returns at once if there are none, or the writers are done.
    fn await_collection(&self) {
        let before = self.collections.load(Ordering::Acquire);
        while before > 0
            && self.collections.load(Ordering::Acquire) == before
            && !self.done.load(Ordering::Relaxed)
        {
            self.env.sleep(PAUSE);
        }
    }

    /// Holds a snapshot for some collections.
    fn hold_snapshot(&self, round: u64) -> Proven<()> {
        // Rounds begin at 0 in each phase. The one before has dropped its snapshots.
        let name = format!("held-{round}");
        block_on(self.fs.commit(Batch::new([Op::snapshot(&name)])))?;
        let show = || -> Proven<BTreeMap<u64, u64>> {
            let view = block_on(self.fs.as_of(&Moment::Snapshot(name.clone())))?;
            self.shown(&*view)
        };
        let before = show()?;
        for _ in 0..LOOKS {
            self.await_collection();
            let now = show()?;
            hold(now == before, || format!("snapshot {name} shows {now:?}, not {before:?}"))?;
        }
        block_on(self.fs.commit(Batch::new([Op::drop_snapshot(&name)])))?;
        Ok(())
    }

    /// Holds a view of the past for some collections, even once its state is before the oldest one.
    fn hold_view(&self, round: u64) -> Proven<()> {
        let head = block_on(self.fs.head())?.seq.0;
        let seq = Seq(head.saturating_sub(self.random(round).below(KEPT)).max(1));
        let view = match block_on(self.fs.as_of(&Moment::Seq(seq))) {
            // Others have committed meanwhile.
            Err(error) if error.is(ErrorKind::Gone) => {
                let oldest = block_on(self.fs.retention())?.oldest;
                return hold(seq < oldest, || format!("state {seq:?} is gone, the oldest is {oldest:?}"));
            }
            view => view?,
        };
        let before = self.shown(&*view)?;
        for _ in 0..LOOKS {
            self.await_collection();
            let now = self.shown(&*view)?;
            hold(now == before, || format!("the view of {seq:?} shows {now:?}, not {before:?}"))?;
        }
        Ok(())
    }

    /// Holds a file open that has lost its name, for some collections.
    fn hold_file(&self, round: u64) -> Proven<()> {
        let place = format!("/held/{round}");
        let written = text(&place, round);
        block_on(self.fs.commit(Batch::new([write(&place, written.clone())?])))?;
        let file = block_on(self.fs.open(&at(&place)?))?;
        block_on(self.fs.commit(Batch::new([remove(&place)?])))?;
        for _ in 0..LOOKS {
            self.await_collection();
            let now = block_on(file.read_at(0, WHOLE))?;
            hold(now == written.as_bytes(), || format!("{place} is open and has {} bytes", now.len()))?;
        }
        Ok(())
    }

    fn collect(&self, _round: u64) -> Proven<()> {
        // No other process has the account open, so a grace period is not needed.
        block_on(self.fs.gc(Duration::ZERO))?;
        self.collections.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Checks that everything goes that was held until now.
    fn release(&self, report: &mut Report) -> Proven<()> {
        // Ends the leases of views that were open when the timer ticked.
        self.fs.runtime().tick();
        block_on(self.fs.sync())?;
        for _ in 0..2 {
            block_on(self.fs.gc(Duration::ZERO))?;
        }
        let (state, head) = (block_on(self.fs.retention())?, block_on(self.fs.head())?.seq);
        hold((state.folded, state.oldest) == (state.oldest, Seq(head.0.saturating_sub(KEPT))), || {
            format!("nothing is held, and of {head:?} commits {state:?} is left")
        })?;
        report.add("commits that left the log", state.folded.0);
        sound(self.fs)
    }
}
