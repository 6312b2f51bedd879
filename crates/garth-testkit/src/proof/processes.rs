//! Several processes on one data folder: no stale read, no lost write, no starved writer.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::model::Batch;
use garth_engine::{Env, FileSystem};

use super::{
    About, Broken, Proof, Proven, Report, Setting, Worker, account, hold, millis, read, sound, write,
};

/// Counter that each process increments by compare-and-swap.
pub(crate) const COUNTER: &str = "/counter";
/// File that each process appends its lines to.
pub(crate) const LINES: &str = "/lines";

/// Processes on one account. The size is the number of commits that they make together.
#[derive(Clone, Copy, Debug)]
pub struct Processes {
    /// Processes.
    pub processes: usize,
}

impl Proof for Processes {
    fn about(&self) -> About {
        About {
            name: "processes",
            claim: "Processes on one data folder read nothing stale, lose no write and let each other write.",
            full: 20_000,
            ci: 400,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        // Values written by one process and read immediately by each of the others.
        let turns = setting.size.div_ceil(100).max(60);
        processes(setting.folder, &setting.worker(), self.processes, turns, setting.size)
    }
}

/// Results of processes that wrote at the same time.
#[derive(Debug, Default)]
struct Work {
    /// Acknowledged lines of each process; later only those written while all of them wrote.
    shares: Vec<u64>,
    /// Longest wait of each process for one commit, in milliseconds.
    longest_waits: Vec<f64>,
    /// Longest run of commits, while all of them wrote, without one of a waiting process.
    longest_passed_over: u64,
    /// Increments of the counter by compare-and-swap, all of them kept.
    counted: u64,
    /// Attempts that lost against another process.
    conflicts: u64,
}

/// Runs `processes` workers (`binary` is `proof-worker`) on one account below `folder`: `turns` values in
/// turn, then all at once until `commits` are made.
///
/// # Errors
/// A stale value, a lost write, or a starved process.
fn processes(folder: &Path, binary: &Path, processes: usize, turns: u64, commits: u64) -> Proven<Report> {
    open_together(&folder.join("new"), binary, processes)?;
    let folder = folder.join("account");
    let fs = account(&folder, Env::system())?;
    let place = folder.to_str().ok_or_else(|| Broken::because("the folder's path is not UTF-8"))?;
    in_turn(place, binary, processes, turns)?;
    block_on(fs.commit(Batch::new([write(COUNTER, "0")?, write(LINES, "")?])))?;
    let mut work =
        all_at_once(place, binary, processes, || Ok(block_on(fs.head())?.seq.0 >= turns + commits))?;
    let count = block_on(read(&*fs, COUNTER))?;
    hold(count == work.counted.to_string(), || {
        format!("{} increments were acknowledged, the counter is at {count}", work.counted)
    })?;
    check_lines(&block_on(read(&*fs, LINES))?, &mut work, processes)?;
    sound(&*fs)?;
    let counts =
        ["values read at once", "commits of others in a row at most", "counter increments", "conflicts"];
    let mut report = Report::of(counts)
        .with("values read at once", turns)
        .with("commits of others in a row at most", work.longest_passed_over)
        .with("counter increments", work.counted)
        .with("conflicts", work.conflicts);
    for (process, lines) in work.shares.iter().enumerate() {
        report.add_in("lines beside each other", format!("of process {process}"), *lines);
    }
    report.note(format!("longest waits {:.0?} ms", work.longest_waits));
    Ok(report)
}

/// Has all processes create the database of the account at the same time: each must be able to use it.
fn open_together(folder: &Path, binary: &Path, processes: usize) -> Proven<()> {
    for round in 0..3 {
        let folder = folder.join(round.to_string());
        std::fs::create_dir_all(&folder)?;
        let place = folder.to_str().ok_or_else(|| Broken::because("the folder's path is not UTF-8"))?;
        let workers: Vec<_> = (0..processes)
            .map(|_| {
                let (binary, place) = (binary.to_owned(), place.to_owned());
                // `start` waits for the worker, so each needs its own thread to start at the same time.
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
) -> Proven<Work> {
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
    let mut work = Work::default();
    for worker in &mut workers {
        let said = worker.hear()?;
        let numbers: Vec<u64> = said.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [appends, counts, conflicts, longest] = numbers[..] else {
            return Err(Broken::because(format!("a worker ended with `{said}`")));
        };
        work.shares.push(appends);
        work.counted += counts;
        work.conflicts += conflicts;
        work.longest_waits.push(millis(longest.cast_signed()));
    }
    Ok(work)
}

/// Checks that every acknowledged line exists once and in order, and that all processes made progress between
/// the start of the last one and the end of the first one.
fn check_lines(text: &str, work: &mut Work, processes: usize) -> Proven<()> {
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
    hold(written == work.shares, || {
        format!("{:?} lines were acknowledged, {written:?} are there", work.shares)
    })?;
    let first = |who| order.iter().position(|by| *by == who).unwrap_or(order.len());
    let last = |who| order.iter().rposition(|by| *by == who).unwrap_or(0);
    // Processes start and end at different times; only the lines in between, when all of them wrote, show
    // whether one of them starves.
    let begin = (0..processes).map(first).max().unwrap_or(0);
    let end = (0..processes).map(last).min().unwrap_or(0);
    let together = &order[begin.min(end)..=end];
    work.shares = (0..processes).map(|who| together.iter().filter(|by| **by == who).count() as u64).collect();
    for who in 0..processes {
        let gaps = together.split(|by| *by == who).map(<[usize]>::len);
        work.longest_passed_over = work.longest_passed_over.max(gaps.max().unwrap_or(0) as u64);
    }
    // A tenth of an equal share.
    let fair = together.len() as u64 / (10 * processes as u64);
    hold(work.shares.iter().all(|share| *share > fair), || {
        format!("of {} lines written side by side the processes have {:?}", together.len(), work.shares)
    })
}
