//! Lost answers: the caller gives up, or the process ends between commit and answer. A caller that then asks
//! by the commit id, and commits again under it if there is no such commit, has committed once.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures::FutureExt;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, ChangesQuery, CommitId, MAX_PAGE, Seq};
use garth_engine::runtime::failpoint::Failure;
use garth_engine::{Env, FileSystem};

use super::{About, Broken, Proof, Proven, Report, Setting, account, append, hold, read, run, say, sound};
use crate::data::random::Random;

/// File to which each commit appends its id.
const LINES: &str = "/lines";
/// Ends of the committing process: at a point of its commit, in their order, or killed at any time.
const ENDS: [&str; 7] = ["plan", "apply", "index", "before-commit", "after-commit", "answer", "killed"];
/// Limit on the time until a caller gives up or a process is killed, in microseconds: about twice a commit.
const LONGEST: u64 = 3000;

/// Reaction of a caller to a lost answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Asks by the id, and commits again under it if there is no such commit.
    SameId,
    /// Commits again under another id: the negative control.
    OtherId,
}

/// Counts of lost answers.
const COUNTS: [&str; 3] = ["answers lost", "commits that were there", "commits made by a retry"];

/// Callers that give up before the answer, each after a while.
#[derive(Clone, Copy, Debug)]
pub struct CallersGone {
    /// Retry after a lost answer.
    pub retry: Retry,
}

impl Proof for CallersGone {
    fn about(&self) -> About {
        About {
            name: "callers-gone",
            claim: "A commit whose caller gave up is there once after a retry.",
            full: 1_000,
            ci: 150,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        given_up(setting, self.retry)
    }
}

/// Processes that end between a commit and its answer: at each point of a commit in turn, or at any time.
#[derive(Clone, Copy, Debug)]
pub struct ProcessesEnded {
    /// Retry after a lost answer.
    pub retry: Retry,
}

impl Proof for ProcessesEnded {
    fn about(&self) -> About {
        About {
            name: "processes-ended",
            claim: "A commit whose process ended before the answer is there once after a retry.",
            full: 1_000,
            ci: 42,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        ended(setting.folder, &setting.worker(), setting.size, setting.seed, self.retry)
    }
}

/// A commit that was attempted.
struct Tried {
    id: CommitId,
    batch: Batch,
}

impl Tried {
    fn new(random: &mut Random) -> Proven<Self> {
        let id = CommitId(u128::from(random.next()) << 64 | u128::from(random.next()));
        Ok(Self { id, batch: batch(id)? })
    }

    /// Finds out whether the commit exists, and commits again if it does not.
    async fn settle(&self, fs: &dyn FileSystem, retry: Retry, report: &mut Report) -> Proven<()> {
        report.add("answers lost", 1);
        // The negative control ignores the id, and must be caught by [`once`].
        let found = fs.committed(self.id).await?.filter(|_| retry == Retry::SameId);
        let first = match found {
            Some(commit) => {
                report.add("commits that were there", 1);
                commit
            }
            None => {
                report.add("commits made by a retry", 1);
                let id = if retry == Retry::SameId { self.id } else { CommitId(!self.id.0) };
                fs.commit(self.batch.clone().id(id)).await?
            }
        };
        if retry == Retry::OtherId {
            return Ok(());
        }
        // A retry after the commit is known to exist must return the results of the first one.
        let again = fs.commit(self.batch.clone()).await?;
        hold(again.replayed && (again.seq, &again.outcomes) == (first.seq, &first.outcomes), || {
            format!("a retry is answered by {again:?}, the first was {first:?}")
        })
    }
}

fn batch(id: CommitId) -> Proven<Batch> {
    Ok(Batch::new([append(LINES, format!("{id}\n"))?]).id(id))
}

/// Gives up commits, each after a while, on two instances of an account.
///
/// # Errors
/// A commit that was made twice or not at all, or that has different results.
fn given_up(setting: &Setting<'_>, retry: Retry) -> Proven<Report> {
    let mut random = Random::new(setting.seed);
    let mut report = Report::of(COUNTS);
    let (first, second) = (setting.account("account")?, setting.account("account")?);
    let mut tried = Vec::new();
    run(async {
        for _ in 0..setting.size {
            let this = Tried::new(&mut random)?;
            match random.below(4) {
                // Dropped before it is polled once, so only the retry makes the commit.
                0 => drop(first.commit(this.batch.clone())),
                1 => drop(first.commit(this.batch.clone()).now_or_never()),
                _ => {
                    let while_it_waits = Duration::from_micros(random.below(LONGEST));
                    drop(tokio::time::timeout(while_it_waits, first.commit(this.batch.clone())).await);
                }
            }
            // The second instance may be asked while the first still has the batch in its queue: the commit
            // that it then makes under the id is the only one, and the first instance finds it.
            let asked = if random.one_in(2) { &first } else { &second };
            this.settle(&**asked, retry, &mut report).await?;
            tried.push(this.id);
        }
        // After everything that is still queued.
        first.sync().await?;
        once(&*first, &tried).await
    })?;
    sound(&*first)?;
    Ok(report)
}

/// Ends the committing process `rounds` times: at each point of a commit in turn, or at any time. `binary` is
/// `proof-worker`.
///
/// # Errors
/// As [`given_up`]; an answered commit that is missing.
fn ended(folder: &Path, binary: &Path, rounds: u64, seed: u64, retry: Retry) -> Proven<Report> {
    let mut random = Random::new(seed);
    let mut report = Report::of(COUNTS);
    let mut tried = Vec::new();
    account(folder, Env::system())?;
    for end in ENDS.into_iter().cycle().take(usize::try_from(rounds).unwrap_or(usize::MAX)) {
        let this = Tried::new(&mut random)?;
        let answered = commit_elsewhere(folder, binary, this.id, end, random.below(LONGEST))?;
        // No other process has it open: the log of the database is recovered as after a crash.
        let fs = SqliteFs::open(folder, Env::system(), garth_engine::rule::sample::registry())?;
        run(async {
            let found = fs.committed(this.id).await?.is_some();
            hold(found || !answered, || format!("{end}: what was answered is not there"))?;
            // These points follow the durable commit in the database.
            hold(found || !["after-commit", "answer"].contains(&end), || format!("{end}: it is not there"))?;
            this.settle(&*fs, retry, &mut report).await
        })?;
        tried.push(this.id);
    }
    let fs = SqliteFs::open(folder, Env::system(), garth_engine::rule::sample::registry())?;
    run(once(&*fs, &tried))?;
    sound(&*fs)?;
    Ok(report)
}

/// Has another process commit and end. Returns true if it answered first.
fn commit_elsewhere(folder: &Path, binary: &Path, id: CommitId, end: &str, micros: u64) -> Proven<bool> {
    let place = folder.to_str().ok_or_else(|| Broken::because("the folder's path is not UTF-8"))?;
    let mut child = Command::new(binary)
        .args(["commit", place, &format!("{:032x}", id.0), end])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut said = BufReader::new(child.stdout.take().ok_or_else(|| Broken::because("no pipe"))?);
    let mut line = String::new();
    said.read_line(&mut line)?;
    hold(line == "ready\n", || format!("the worker began with `{line}`"))?;
    if end == "killed" {
        Env::system().sleep(Duration::from_micros(micros));
        child.kill()?;
    }
    line.clear();
    said.read_line(&mut line)?;
    child.wait()?;
    Ok(line == "answered\n")
}

/// Commits in the worker, which then ends at the point `end` or waits to be killed.
pub(crate) fn commit_and_end(folder: &Path, id: &str, end: &str) -> Proven<()> {
    let id = u128::from_str_radix(id, 16).map_err(|_| Broken::because("the id is no number"))?;
    let fs = SqliteFs::open(folder, Env::system(), garth_engine::rule::sample::registry())?;
    if end != "killed" {
        fs.runtime().failpoints().arm(end, Failure::Abort, 0);
    }
    say("ready")?;
    futures::executor::block_on(fs.commit(batch(CommitId(id))?))?;
    say("answered")?;
    loop {
        Env::system().sleep(Duration::from_secs(60));
    }
}

/// Checks that each id is in the log once, and that its commit took effect once.
async fn once(fs: &dyn FileSystem, tried: &[CommitId]) -> Proven<()> {
    let mut commits: HashMap<CommitId, u64> = HashMap::new();
    let mut query = ChangesQuery::since(Seq(0)).limit(MAX_PAGE);
    loop {
        let page = fs.changes(&query).await?;
        for commit in page.commits {
            *commits.entry(commit.commit.id.unwrap_or(CommitId(0))).or_default() += 1;
        }
        if page.until == page.head.into() {
            break;
        }
        query.since = page.until;
    }
    let text = read(fs, LINES).await?;
    let mut lines: HashMap<&str, u64> = HashMap::new();
    for line in text.lines() {
        *lines.entry(line).or_default() += 1;
    }
    for id in tried {
        let times = (commits.get(id).copied(), lines.get(id.to_string().as_str()).copied());
        hold(times == (Some(1), Some(1)), || format!("commit {id}: in the log and done {times:?} times"))?;
    }
    // Finds commits under any other id as well.
    let all = tried.len();
    hold(commits.len() == all && lines.len() == all, || "there are commits that nobody tried".to_owned())
}
