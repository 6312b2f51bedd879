//! Crashes while a collection removes the past and others commit. Acknowledged commits that are still
//! readable must be whole, earlier ones must be gone for good, and the next collection must complete.

use std::collections::BTreeMap;
use std::io::stdin;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, ChangesQuery, Kind, MAX_PAGE, Moment, Op, Seq, WalkPage};
use garth_engine::rule::retention::Retention;
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem};

use super::{By, Disk};
use crate::data::random::Random;
use crate::proof::numbered_text::text;
use crate::proof::{
    About, Broken, Proof, Proven, Report, Setting, Worker, account, at, closed, hold, read, remove, run, say,
    sound, write,
};

/// Folder of the account.
const FOLDER: &str = "account";
/// Directory of everything that the writers write.
const TOP: &str = "/w";
/// Writers of a round.
const WRITERS: usize = 4;
/// Directories that each writer writes in turn, and the files of each, which have one text.
const PLACES: usize = 3;
const FILES: [&str; 2] = ["one", "two"];
/// One commit in this many removes a directory instead.
const REMOVES_EVERY: u64 = 7;
/// Commits that the log keeps.
const KEPT: u64 = 30;
/// Limit on the lines that are heard before a crash. One crash in four comes right after a line.
const HEARD: u64 = 64;
/// Limit on the time after that line, in microseconds.
const LONGEST_WAIT: u64 = 30_000;
/// Limit on the time between a power cut and the end of the process, in milliseconds. Acknowledgements in
/// this time must fail or be true.
const LONGEST_DELAY: u64 = 20;

/// Crashes during collections with a retention. The size is the number of crashes.
#[derive(Clone, Copy, Debug)]
pub struct RetentionCrash {
    /// Kind of crash.
    pub by: By,
    /// `GARTH_FAULT` of the process that crashes: a negative control.
    pub fault: Option<&'static str>,
}

impl Proof for RetentionCrash {
    fn about(&self) -> About {
        let (name, ci) = match self.by {
            By::Kill => ("retention-kills", 10),
            By::Cut => ("retention-cuts", 6),
        };
        let claim = "A crash while the past is removed loses no acknowledged commit that is readable, and brings \
                     nothing back.";
        About { name, claim, full: 100, ci }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let disk = match self.by {
            By::Kill => None,
            By::Cut => Some(Disk::new().map_err(Broken::because)?),
        };
        let mount_point = disk.as_ref().map(Disk::mount_point);
        let base = mount_point.as_deref().unwrap_or(setting.folder);
        let folder = base.join(FOLDER);
        std::fs::create_dir(&folder)?;
        // The folder itself must survive the first cut.
        std::fs::File::open(base)?.sync_all()?;
        let mut crashes = Crashes {
            disk,
            fault: self.fault,
            random: Random::new(setting.seed),
            report: Report::of(COUNTS),
        };
        let mut journal = Journal::default();
        let seed = setting.seed;
        for round in 0..setting.size {
            let told = |why: Broken| Broken::because(format!("seed {seed}, round {round}: {why}"));
            crashes.crash(&setting.worker(), &folder, round, &mut journal).map_err(told)?;
            crashes.check(&folder, round, &mut journal).map_err(told)?;
        }
        Ok(crashes.report)
    }
}

/// Counts of a run.
const COUNTS: [&str; 5] = [
    "crashes",
    "commits acknowledged",
    "of these gone by retention",
    "states compared",
    "crashes inside a removal",
];

/// Commit of a writer, as its message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    round: u64,
    writer: usize,
    /// Number among the commits of the writer in this round, counted from 1.
    n: u64,
}

impl Step {
    fn message(self) -> String {
        let Self { round, writer, n } = self;
        format!("{round} {writer} {n}")
    }

    /// Returns the commit with this message; `None` for a commit of no writer.
    fn parse(message: &str) -> Option<Self> {
        let [round, writer, n] = words(message)?;
        Some(Self { round, writer: usize::try_from(writer).ok()?, n })
    }

    fn removes(self) -> bool {
        self.n.is_multiple_of(REMOVES_EVERY)
    }

    /// Returns the directory that the commit writes or removes.
    fn place(self) -> String {
        format!("{}/{}", top(self.writer), self.n % PLACES as u64)
    }

    /// Returns the text of both files.
    fn text(self) -> String {
        text(&format!("{} in round {}", self.place(), self.round), self.n)
    }

    fn ops(self) -> Proven<Vec<Op>> {
        let place = self.place();
        if self.removes() {
            return Ok(vec![remove(&place)?.if_exists()]);
        }
        FILES.into_iter().map(|file| write(&format!("{place}/{file}"), self.text())).collect()
    }

    /// Returns the files of the writer after this commit, by path.
    fn files(self) -> BTreeMap<String, String> {
        let mut last = [None; PLACES];
        for n in 1..=self.n {
            let step = Self { n, ..self };
            last[(n % PLACES as u64) as usize] = (!step.removes()).then_some(step);
        }
        let written = last.into_iter().flatten();
        written.flat_map(|step| FILES.map(|file| (format!("{}/{file}", step.place()), step.text()))).collect()
    }
}

/// Returns the directory of a writer.
fn top(writer: usize) -> String {
    format!("{TOP}/{writer}")
}

/// Returns the words of a line as numbers; `None` for any other line.
fn words<const N: usize>(line: &str) -> Option<[u64; N]> {
    let numbers: Option<Vec<u64>> = line.split(' ').map(|word| word.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// Runs in the child: commits and collects until it is killed, or until the power is cut. Prints `done WRITER
/// N SEQ` for each commit, `late WRITER N SEQ` for one that started after the cut, and `collected OLDEST
/// FOLDED` after a collection.
pub(crate) fn write_and_collect(folder: &Path, round: u64) -> Proven<()> {
    let fs = account(folder, Env::system())?;
    block_on(fs.set_retention(Retention { commits: Some(KEPT), ..Retention::default() }))?;
    // The texts of a round follow from its own commits alone.
    let fresh = [remove(TOP)?.if_exists(), write(&format!("{TOP}/round"), round.to_string())?];
    block_on(fs.commit(Batch { message: "fresh".to_owned(), ..Batch::new(fresh) }))?;
    let cut = Arc::new(AtomicBool::new(false));
    // The parent reports the cut on stdin, because only it knows when the cut was made.
    let told = Arc::clone(&cut);
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = stdin().read_line(&mut line);
        told.store(true, Ordering::Release);
    });
    say("ready")?;
    std::thread::scope(|scope| {
        let (fs, cut) = (&fs, &cut);
        for writer in 0..WRITERS {
            scope.spawn(move || say_failure(write_as(fs, round, writer, cut)));
        }
        scope.spawn(move || say_failure(collect(fs)));
    });
    Ok(())
}

/// Prints `failed` with the reason why a thread of the child has ended. Printed by the thread itself: the
/// others go on.
fn say_failure(ended: Proven<()>) {
    if let Err(error) = ended {
        // Without a reader nobody misses the line.
        let _ = say(&format!("failed: {}", error.to_string().replace('\n', " ")));
    }
}

fn write_as(fs: &SqliteFs, round: u64, writer: usize, cut: &AtomicBool) -> Proven<()> {
    for n in 1.. {
        let step = Step { round, writer, n };
        let batch = Batch { message: step.message(), ..Batch::new(step.ops()?) };
        // Read before the commit starts: a commit that started earlier may be acknowledged during the cut.
        let word = if cut.load(Ordering::Acquire) { "late" } else { "done" };
        let commit = block_on(fs.commit(batch))?;
        say(&format!("{word} {writer} {n} {}", commit.seq.0))?;
    }
    Ok(())
}

fn collect(fs: &SqliteFs) -> Proven<()> {
    loop {
        // No other process has the account open, so a grace period is not needed.
        block_on(fs.gc(Duration::ZERO))?;
        let state = block_on(fs.retention())?;
        // Steps of a collection may be acknowledged before they are durable.
        block_on(fs.sync())?;
        say(&format!("collected {} {}", state.oldest.0, state.folded.0))?;
    }
}

/// Acknowledged facts.
#[derive(Debug, Default)]
struct Journal {
    /// Commits, unless an earlier check has found that they are gone by retention.
    acknowledged: BTreeMap<u64, Step>,
    oldest: u64,
    folded: u64,
    /// Last acknowledged commit of each writer in this round.
    last: [u64; WRITERS],
    /// Commits of each writer that were acknowledged during a power cut, which a real machine would not have
    /// reported.
    doubtful: [u64; WRITERS],
}

impl Journal {
    /// Records a line of the child. `is_sure` is false for one that was heard after a power cut.
    fn note(&mut self, line: &str, round: u64, is_sure: bool) -> Proven<()> {
        let strange = || Broken::because(format!("the writer said `{line}`"));
        let (word, rest) = line.split_once(' ').ok_or_else(strange)?;
        match word {
            "done" | "late" => {
                let [writer, n, seq] = words(rest).ok_or_else(strange)?;
                let writer = usize::try_from(writer).ok().filter(|writer| *writer < WRITERS);
                let writer = writer.ok_or_else(strange)?;
                if is_sure || word == "late" {
                    self.acknowledged.insert(seq, Step { round, writer, n });
                    self.last[writer] = n;
                } else {
                    self.doubtful[writer] += 1;
                }
            }
            "collected" => {
                let [oldest, folded] = words(rest).ok_or_else(strange)?;
                if is_sure {
                    hold(oldest >= self.oldest && folded >= self.folded, || self.goes_back(oldest, folded))?;
                    (self.oldest, self.folded) = (oldest, folded);
                }
            }
            // After a cut everything fails.
            _ if !is_sure => {}
            _ => return Err(strange()),
        }
        Ok(())
    }

    fn goes_back(&self, oldest: u64, folded: u64) -> String {
        format!(
            "the past goes back: it is readable from {oldest} on and removed up to {folded}, after {} and {}",
            self.oldest, self.folded
        )
    }
}

/// Crashes of a run.
struct Crashes {
    /// Disk that loses its power; `None` for kills.
    disk: Option<Disk>,
    fault: Option<&'static str>,
    random: Random,
    report: Report,
}

impl Crashes {
    /// Starts the writing process and crashes it.
    fn crash(&mut self, worker: &Path, folder: &Path, round: u64, journal: &mut Journal) -> Proven<()> {
        let place = folder.to_str().ok_or_else(|| Broken::because("the folder's path is not UTF-8"))?;
        (journal.last, journal.doubtful) = ([0; WRITERS], [0; WRITERS]);
        let heard = 1 + self.random.below(HEARD);
        let wait = if self.random.one_in(4) { 0 } else { self.random.below(LONGEST_WAIT) };
        let delay = Duration::from_millis(self.random.below(LONGEST_DELAY));
        let mut child = Worker::start_broken(worker, &["retain", place, &round.to_string()], self.fault)?;
        for _ in 0..heard {
            journal.note(&child.hear()?, round, true)?;
        }
        Env::system().sleep(Duration::from_micros(wait));
        if let Some(disk) = &self.disk {
            disk.cut().map_err(Broken::because)?;
            // It may have failed and ended already.
            let _ = child.tell("cut");
            Env::system().sleep(delay);
        }
        for line in child.kill()? {
            journal.note(&line, round, self.disk.is_none())?;
        }
        if let Some(disk) = &mut self.disk {
            disk.restore().map_err(Broken::because)?;
        }
        self.report.add("crashes", 1);
        self.report.add("commits acknowledged", journal.last.iter().sum::<u64>());
        Ok(())
    }

    /// Opens the account after the crash, compares it with what was acknowledged, and collects it.
    fn check(&mut self, folder: &Path, round: u64, journal: &mut Journal) -> Proven<()> {
        let fs = account(folder, Env::system())?;
        let state = block_on(fs.retention())?;
        let (oldest, folded) = (state.oldest.0, state.folded.0);
        hold(oldest >= journal.oldest && folded >= journal.folded, || journal.goes_back(oldest, folded))?;
        self.report.add("crashes inside a removal", u64::from(folded < oldest));
        let compared = run(compare(&fs, oldest, journal))?;
        self.report.add("states compared", compared);
        run(newest(&fs, round, journal))?;
        sound(&*fs)?;

        block_on(fs.gc(Duration::ZERO))?;
        let (state, head) = (block_on(fs.retention())?, block_on(fs.head())?.seq.0);
        let expected = Seq(head.saturating_sub(KEPT).max(oldest));
        hold((state.oldest, state.folded) == (expected, expected), || {
            format!("the next collection leaves {state:?} of {head} commits")
        })?;
        (journal.oldest, journal.folded) = (state.oldest.0, state.folded.0);
        run(compare(&fs, state.oldest.0, journal))?;
        let before = journal.acknowledged.len();
        journal.acknowledged.retain(|seq, _| *seq >= state.oldest.0);
        self.report.add("of these gone by retention", before - journal.acknowledged.len());
        sound(&*fs)?;
        block_on(fs.sync())?;
        // The disk cannot lose its power while the account is open here.
        closed(fs, folder).map(drop)
    }
}

/// Checks that the log is complete from `oldest` on, that each state in it is whole, that it has the
/// acknowledged commits, and that earlier states are gone. Returns the number of states that are whole.
async fn compare(fs: &SqliteFs, oldest: u64, journal: &Journal) -> Proven<u64> {
    let log = log_after(fs, oldest).await?;
    let head = fs.head().await?.seq.0;
    hold(log.keys().copied().eq(oldest + 1..=head), || {
        format!("the log from {oldest} to {head} has {:?}", log.keys())
    })?;
    let mut compared = 0;
    for (seq, message) in &log {
        // Other commits are those that begin a round.
        if let Some(step) = Step::parse(message) {
            whole(fs, *seq, step).await?;
            compared += 1;
        }
    }
    for (seq, step) in &journal.acknowledged {
        if *seq < oldest {
            let view = fs.as_of(&Moment::Seq(Seq(*seq))).await;
            hold(view.as_ref().is_err_and(|error| error.is(ErrorKind::Gone)), || {
                format!("state {seq} is answered by {view:?}, the oldest is {oldest}")
            })?;
        } else if *seq == oldest {
            whole(fs, *seq, *step).await?;
        } else {
            hold(log.get(seq) == Some(&step.message()), || {
                format!("commit {seq} was acknowledged as {step:?}, the log has {:?}", log.get(seq))
            })?;
        }
    }
    Ok(compared)
}

/// Returns the messages of the commits after `oldest`.
async fn log_after(fs: &SqliteFs, oldest: u64) -> Proven<BTreeMap<u64, String>> {
    let (mut log, mut query) = (BTreeMap::new(), ChangesQuery::since(Seq(oldest)).limit(MAX_PAGE));
    loop {
        let page = fs.changes(&query).await?;
        log.extend(page.commits.iter().map(|commit| (commit.commit.seq.0, commit.commit.message.clone())));
        if page.until.seq >= page.head {
            return Ok(log);
        }
        query = ChangesQuery::since(page.until).limit(MAX_PAGE);
    }
}

/// Checks that the state after a commit has the files of its writer.
async fn whole(fs: &SqliteFs, seq: u64, step: Step) -> Proven<()> {
    let view = fs.as_of(&Moment::Seq(Seq(seq))).await?;
    let files = files_of(&*view, step.writer).await?;
    hold(files == step.files(), || {
        format!("commit {seq} is {step:?}, acknowledged or not, and its state has {:?}", heads(&files))
    })
}

/// Checks that each writer's files are those of its last acknowledged commit, or of one that was in flight.
async fn newest(fs: &SqliteFs, round: u64, journal: &Journal) -> Proven<()> {
    for writer in 0..WRITERS {
        let files = files_of(fs, writer).await?;
        let last = journal.last[writer];
        let found =
            (last..=last + journal.doubtful[writer] + 1).any(|n| Step { round, writer, n }.files() == files);
        hold(found, || {
            format!("commit {last} of writer {writer} was acknowledged, and there is {:?}", heads(&files))
        })?;
    }
    Ok(())
}

/// Reads the files of a writer, by path.
async fn files_of(fs: &dyn FileSystem, writer: usize) -> Proven<BTreeMap<String, String>> {
    let walk = match fs.walk(&at(&top(writer))?, &WalkPage::default().limit(MAX_PAGE)).await {
        // Nothing was committed yet, or everything was removed.
        Err(error) if error.is(ErrorKind::NotFound) => return Ok(BTreeMap::new()),
        walk => walk?,
    };
    let mut files = BTreeMap::new();
    for item in walk.items.iter().filter(|item| item.kind == Kind::File) {
        let path = item.path.to_string();
        let content = read(fs, &path).await?;
        files.insert(path, content);
    }
    Ok(files)
}

/// Returns the first lines of files, which name the commits that wrote them.
fn heads(files: &BTreeMap<String, String>) -> Vec<&str> {
    files.values().filter_map(|content| content.lines().next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_follow_from_the_number_of_the_commit() {
        let step = |n| Step { round: 2, writer: 1, n };
        assert!(step(0).files().is_empty());
        assert_eq!(step(1).files().keys().collect::<Vec<_>>(), ["/w/1/1/one", "/w/1/1/two"]);
        assert_eq!(step(5).files().len(), 6);
        assert_eq!(step(7).files().len(), 4, "one directory was removed");
        assert_eq!(step(10).files().len(), 6);
        assert_eq!(Step::parse(&step(7).message()), Some(step(7)));
        assert_eq!(Step::parse("fresh"), None);
    }

    #[test]
    fn doubtful_acknowledgements_count_as_in_flight() {
        let mut journal = Journal::default();
        journal.note("done 1 3 40", 0, true).unwrap();
        journal.note("done 1 4 41", 0, false).unwrap();
        journal.note("late 2 9 42", 0, false).unwrap();
        journal.note("collected 10 5", 0, false).unwrap();
        journal.note("failed: why", 0, false).unwrap();
        assert_eq!(journal.acknowledged.keys().copied().collect::<Vec<_>>(), [40, 42]);
        assert_eq!((journal.last, journal.doubtful), ([0, 3, 9, 0], [0, 1, 0, 0]));
        assert_eq!((journal.oldest, journal.folded), (0, 0));
        assert!(journal.note("failed: why", 0, true).is_err());
        assert!(journal.note("done 9 1 1", 0, true).is_err());
    }
}
