//! Several processes on one data folder: no stale read, no lost write, no writer that the others keep out.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::model::Batch;
use garth_engine::{Env, FileSystem};

use super::child::Worker;
use super::worker::{COUNTER, LINES};
use super::{Broken, Proven, account, hold, millis, read, sound, write};

/// What three processes did.
#[derive(Clone, Debug)]
pub struct Report {
    /// Values written by one process and read at once by each of the others.
    pub turns: u64,
    /// Processes that wrote at the same time.
    pub processes: usize,
    /// Lines that each wrote while all were at it.
    pub shares: Vec<u64>,
    /// Longest time that each waited for one commit, in milliseconds.
    pub longest_waits: Vec<f64>,
    /// Most commits in a row, while all were at it, none of which was of one that was waiting.
    pub longest_passed_over: u64,
    /// Times that the counter was raised by compare-and-swap, all of them kept.
    pub counted: u64,
    /// Tries that lost against another process.
    pub conflicts: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} values read at once by the other processes; {} processes wrote {:?} lines beside each other, longest waits \
             {:.0?} ms, at most {} commits of others in between; counter raised {} times, {} conflicts",
            self.turns,
            self.processes,
            self.shares,
            self.longest_waits,
            self.longest_passed_over,
            self.counted,
            self.conflicts
        )
    }
}

/// Runs `processes` workers (`binary` is `proof-worker`) on one account below `folder`: `turns` values in
/// turn, then all at once until `commits` are made.
///
/// # Errors
/// What was stale, lost or kept out.
pub fn processes(folder: &Path, binary: &Path, processes: usize, turns: u64, commits: u64) -> Proven<Report> {
    open_together(&folder.join("new"), binary, processes)?;
    let folder = folder.join("account");
    let fs = account(&folder, Env::system())?;
    let place = folder.to_str().ok_or_else(|| Broken::because("the folder's path is not UTF-8"))?;
    in_turn(place, binary, processes, turns)?;
    block_on(fs.commit(Batch::new([write(COUNTER, "0")?, write(LINES, "")?])))?;
    let mut report =
        all_at_once(place, binary, processes, || Ok(block_on(fs.head())?.seq.0 >= turns + commits))?;
    report.turns = turns;
    let count = block_on(read(&*fs, COUNTER))?;
    hold(count == report.counted.to_string(), || {
        format!("{} increments were acknowledged, the counter is at {count}", report.counted)
    })?;
    check_lines(&block_on(read(&*fs, LINES))?, &mut report)?;
    sound(&*fs)?;
    Ok(report)
}

/// All make the account's database at the same moment: each must be able to use it.
fn open_together(folder: &Path, binary: &Path, processes: usize) -> Proven<()> {
    for round in 0..3 {
        let folder = folder.join(round.to_string());
        std::fs::create_dir_all(&folder)?;
        let place = folder.to_str().ok_or_else(|| Broken::because("the folder's path is not UTF-8"))?;
        let workers: Vec<_> = (0..processes)
            .map(|_| {
                let (binary, place) = (binary.to_owned(), place.to_owned());
                std::thread::spawn(move || Worker::start(&binary, &["serve", &place]))
            })
            .collect();
        for (n, worker) in workers.into_iter().enumerate() {
            let mut worker =
                worker.join().map_err(|_| Broken::because("a thread of the proof panicked"))??;
            worker.ask(&format!("write /{n} {n}"))?;
        }
    }
    Ok(())
}

fn in_turn(place: &str, binary: &Path, processes: usize, turns: u64) -> Proven<()> {
    let workers: Proven<Vec<_>> = (0..processes).map(|_| Worker::start(binary, &["serve", place])).collect();
    let mut workers = workers?;
    for turn in 0..turns {
        let writer = turn as usize % processes;
        workers[writer].ask(&format!("write /turn {turn}"))?;
        for reader in (0..processes).filter(|reader| *reader != writer) {
            let seen = workers[reader].ask("read /turn")?;
            hold(seen == turn.to_string(), || {
                format!("process {reader} reads {seen} after process {writer} was told that {turn} is kept")
            })?;
        }
    }
    Ok(())
}

fn all_at_once(
    place: &str,
    binary: &Path,
    processes: usize,
    mut enough: impl FnMut() -> Proven<bool>,
) -> Proven<Report> {
    let start = |n: usize| Worker::start(binary, &["hammer", place, &n.to_string()]);
    let mut workers = (0..processes).map(start).collect::<Proven<Vec<_>>>()?;
    for worker in &mut workers {
        worker.tell("go")?;
    }
    while !enough()? {
        Env::system().sleep(Duration::from_millis(20));
    }
    for worker in &mut workers {
        worker.tell("stop")?;
    }
    let mut report = Report {
        turns: 0,
        processes,
        shares: Vec::new(),
        longest_waits: Vec::new(),
        longest_passed_over: 0,
        counted: 0,
        conflicts: 0,
    };
    for worker in &mut workers {
        let said = worker.hear()?;
        let numbers: Vec<u64> = said.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [appends, counts, conflicts, longest] = numbers[..] else {
            return Err(Broken::because(format!("a worker ended with `{said}`")));
        };
        report.shares.push(appends);
        report.counted += counts;
        report.conflicts += conflicts;
        report.longest_waits.push(millis(longest.cast_signed()));
    }
    Ok(report)
}

/// Every acknowledged line is there once and in order; and all made progress from the last
/// one's start to the first one's end.
fn check_lines(text: &str, report: &mut Report) -> Proven<()> {
    let mut next: BTreeMap<usize, u64> = BTreeMap::new();
    let mut order = Vec::new();
    for line in text.lines() {
        let parsed = line.split_once(' ').and_then(|(who, n)| Some((who.parse().ok()?, n.parse().ok()?)));
        let Some((who, n)): Option<(usize, u64)> = parsed else {
            return Err(Broken::because(format!("nobody wrote the line `{line}`")));
        };
        let expected = next.entry(who).or_default();
        hold(n == *expected, || format!("process {who} wrote line {n} where {expected} should be"))?;
        *expected += 1;
        order.push(who);
    }
    let written: Vec<u64> = next.values().copied().collect();
    hold(written == report.shares, || {
        format!("{:?} lines were acknowledged, {written:?} are there", report.shares)
    })?;
    let first = |who| order.iter().position(|by| *by == who).unwrap_or(order.len());
    let last = |who| order.iter().rposition(|by| *by == who).unwrap_or(0);
    let begin = (0..report.processes).map(first).max().unwrap_or(0);
    let end = (0..report.processes).map(last).min().unwrap_or(0);
    let together = &order[begin.min(end)..=end];
    report.shares =
        (0..report.processes).map(|who| together.iter().filter(|by| **by == who).count() as u64).collect();
    for who in 0..report.processes {
        let gaps = together.split(|by| *by == who).map(<[usize]>::len);
        report.longest_passed_over = report.longest_passed_over.max(gaps.max().unwrap_or(0) as u64);
    }
    let fair = together.len() as u64 / (10 * report.processes as u64);
    hold(report.shares.iter().all(|share| *share > fair), || {
        format!("of {} lines written side by side the processes have {:?}", together.len(), report.shares)
    })
}
