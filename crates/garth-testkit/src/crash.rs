//! Crashes under load: `kill -9` or loss of power, many times on one data folder. After each crash everything
//! acknowledged must exist, and nothing may exist in part.
//!
//! The harness stores the journal of acknowledgements in its own memory, where no crash reaches it. Planted
//! faults (`Config::fault`) run through the same code as negative controls. The reasons are in
//! `docs/decisions/crash-tests-with-negative-controls.md`.

mod attempts;
mod batch_writers;
mod crash_moment;
pub mod host_cuts;
mod http_writers;
mod journal;
mod kill;
mod loop_disk;
pub mod retention_crash;
mod writers_crash;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::Arc;
use std::time::Duration;

use garth_engine::Env;

pub use self::attempts::{Attempt, WRITERS, Workload};
pub use self::batch_writers::{read_all, write_until_killed};
use self::crash_moment::{Moment, Phase};
pub use self::journal::{Acknowledged, Findings, Journal, Observed, Seen, WriterLog, check};
use self::kill::kill;
pub use self::loop_disk::Disk;
pub use self::writers_crash::{By, WritersCrash};
use crate::data::random::Random;
use crate::tools::on_disk;

/// Limit on the time that writers work before the crash, in milliseconds.
const LONGEST_WORK: u64 = 250;
/// Limit on the wait for an acknowledgement: half of the crashes come right after one.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Limit on the time between the power cut and the end of the process, in milliseconds. Acknowledgements in
/// this time must fail or be true.
const LONGEST_DELAY: u64 = 20;
/// Limit on the findings of each kind that a violation lists.
const SHOWN: usize = 10;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Seed of values and times.
    pub seed: u64,
    /// Crashes.
    pub rounds: u32,
    /// Path of the binary `garth`.
    pub garth: PathBuf,
    /// Writers of the run.
    pub writers: Writers,
    /// `GARTH_FAULT` of the writing process: a negative control.
    pub fault: Option<&'static str>,
}

/// The writers, which are the processes that crash.
#[derive(Clone, Debug)]
pub enum Writers {
    /// Clients of `garth serve`, one file per put.
    Http,
    /// The binary `crash-writer` at this path, two files per batch.
    Batches(PathBuf),
}

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Seed of the run.
    pub seed: u64,
    /// Crashes survived and checked.
    pub rounds: u32,
    /// Puts (or batches) acknowledged before a crash.
    pub acknowledged: u64,
    /// Puts not acknowledged before the crash, or acknowledged during it, when an acknowledgement may be
    /// wrong.
    pub in_flight: u64,
    /// In-flight puts that exist completely afterwards.
    pub kept: u64,
    /// Acknowledged puts that are missing or differ.
    pub lost: u64,
    /// Values that nobody wrote, and puts that exist in part.
    pub partial: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, rounds, acknowledged, in_flight, kept, lost, partial } = self;
        write!(
            f,
            "seed {seed}: {rounds} crashes, {acknowledged} acknowledged, {in_flight} in flight ({kept} of them kept), \
             {lost} lost, {partial} partial"
        )
    }
}

/// Reason why a run ended early.
#[derive(Clone, Debug)]
pub enum Violation {
    /// The harness could not work; names what is missing.
    Harness(String),
    /// A promise is broken.
    Broken {
        /// Report up to and including the round that shows it.
        report: Report,
        /// First few findings of each kind.
        what: Vec<String>,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Harness(why) => f.write_str(why),
            Self::Broken { report, what } => write!(f, "{report}\n{}", what.join("\n")),
        }
    }
}

impl std::error::Error for Violation {}

impl From<String> for Violation {
    fn from(why: String) -> Self {
        Self::Harness(why)
    }
}

/// Kills the writing process at a random time of each round.
///
/// # Errors
/// The first round that breaks a promise, or the reason why the harness cannot work.
pub fn kill_rounds(config: &Config) -> Result<Report, Violation> {
    let folder = tempfile::tempdir_in(on_disk()).map_err(|e| format!("no temporary folder: {e}"))?;
    let data = folder.path().join("data");
    Run::new(config, data, false)?.rounds(|child, _, _| {
        kill(child);
        Ok(())
    })
}

/// Cuts the power of the disk at a random time of each round. Needs root.
///
/// # Errors
/// As [`kill_rounds`].
pub fn cut_rounds(config: &Config) -> Result<Report, Violation> {
    let mut disk = Disk::new()?;
    let data = disk.mount_point().join("data");
    Run::new(config, data, true)?.rounds(|child, delay, moment| {
        // Errors are returned last: the process must not outlive the round.
        let cut = disk.cut();
        moment.advance(Phase::Crashed);
        Env::system().sleep(delay);
        kill(child);
        cut?;
        disk.restore()
    })
}

struct Run<'a> {
    config: &'a Config,
    workload: Workload,
    data: PathBuf,
    /// True if an acknowledgement given during the crash may be wrong; see [`crash_moment`].
    doubtful: bool,
    /// Standard error of the processes, off the disk that loses its power.
    logs: tempfile::TempDir,
    key: Option<String>,
    random: Random,
    report: Report,
}

impl<'a> Run<'a> {
    fn new(config: &'a Config, data: PathBuf, doubtful: bool) -> Result<Self, String> {
        let files = match config.writers {
            Writers::Http => 1,
            Writers::Batches(_) => batch_writers::FILES,
        };
        Ok(Self {
            config,
            workload: Workload { seed: config.seed, files },
            data,
            doubtful,
            logs: tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?,
            key: None,
            random: Random::new(config.seed),
            report: Report { seed: config.seed, ..Report::default() },
        })
    }

    fn rounds(
        mut self,
        mut crash: impl FnMut(&mut Child, Duration, &Moment) -> Result<(), String>,
    ) -> Result<Report, Violation> {
        let mut journals = Vec::new();
        for round in 0..self.config.rounds {
            let mut journal = self.write(round, &mut crash)?;
            self.report.acknowledged += journal.acknowledged();
            self.report.in_flight += journal.in_flight();
            self.report.rounds += 1;
            let found = self.check(&[(round, &journal)])?;
            self.fsck()?;
            if round == 0 {
                // Not earlier: the first writers create the account.
                self.set_quotas()?;
            }
            self.report.kept += found.kept.len() as u64;
            // From now on, the next rounds must not change what this one has left.
            journal.settle(&found);
            journals.push((round, journal));
        }
        // Data of each round must survive all later crashes.
        self.check(&journals.iter().map(|(round, journal)| (*round, journal)).collect::<Vec<_>>())?;
        Ok(self.report)
    }

    /// Lets the writers work for a while, crashes them, and returns the journal.
    fn write(
        &mut self,
        round: u32,
        crash: &mut impl FnMut(&mut Child, Duration, &Moment) -> Result<(), String>,
    ) -> Result<Journal, Violation> {
        let moment = Arc::new(Moment::new(self.doubtful));
        let work = Duration::from_millis(self.random.below(LONGEST_WORK));
        let delay = Duration::from_millis(self.random.below(LONGEST_DELAY));
        // Drawn before the writers start, so that a seed gives the same times whatever the machine does.
        let on_acknowledgement = self.random.below(2) == 0;
        let mut crash = |child: &mut Child| {
            Env::system().sleep(work);
            if on_acknowledgement {
                moment.await_acknowledgement(LONGEST_WAIT);
            }
            moment.advance(Phase::Crashing);
            crash(child, delay, &moment)
        };
        match &self.config.writers {
            Writers::Http => {
                let mut server = self.serve(self.config.fault)?;
                let writers = server.client.write(self.workload, round, &moment);
                // The writers are joined even if the crash failed, so that no thread outlives the round.
                let crashed = crash(&mut server.child);
                let journal = writers.journal();
                crashed?;
                journal.map_err(|why| self.broken(vec![why]))
            }
            Writers::Batches(writer) => {
                let command = self.command(writer, self.config.fault)?;
                let (mut child, reader) =
                    batch_writers::start(command, &self.data, self.workload, round, &moment)?;
                let crashed = crash(&mut child);
                let journal = reader.journal();
                crashed?;
                journal.map_err(|why| self.broken(vec![why]))
            }
        }
    }

    /// Reads the data after the crash and compares it with the journals.
    fn check(&mut self, rounds: &[(u32, &Journal)]) -> Result<Findings, Violation> {
        let mut all = Findings::default();
        let mut server = match self.config.writers {
            // Without the fault: only the process that crashed is the negative control.
            Writers::Http => Some(self.serve(None).map_err(|error| self.broken(vec![error.to_string()]))?),
            Writers::Batches(_) => None,
        };
        for (round, journal) in rounds {
            let observed = match (&server, &self.config.writers) {
                (None, Writers::Batches(writer)) => {
                    batch_writers::observe(self.command(writer, None)?, &self.data, self.workload, *round)
                }
                (Some(server), _) => server.client.observe(self.workload, *round, journal),
                (None, Writers::Http) => Err("there is no server".into()),
            };
            match observed {
                Ok(observed) => {
                    let found = check(self.workload, *round, journal, &observed);
                    all.lost.extend(found.lost);
                    all.partial.extend(found.partial);
                    all.disorder.extend(found.disorder);
                    all.kept.extend(found.kept);
                }
                Err(error) => all.disorder.push(self.with_log(&error).to_string()),
            }
        }
        if let Some(server) = &mut server {
            kill(&mut server.child);
        }
        self.report.lost += all.lost.len() as u64;
        self.report.partial += all.partial.len() as u64;
        if all.is_clean() {
            return Ok(all);
        }
        let what =
            [all.lost, all.partial, all.disorder].into_iter().flat_map(|part| part.into_iter().take(SHOWN));
        Err(self.broken(what.collect()))
    }

    /// Sets quotas that reject nothing on everything that is written. From then on `fsck` compares their
    /// counters with the tree.
    fn set_quotas(&self) -> Result<(), Violation> {
        for path in ["/", "/crash", "/agents"] {
            let output = match &self.config.writers {
                Writers::Http => self.garth(&["quota", "set", path, "--max-bytes", "1T"])?,
                Writers::Batches(writer) => self.writer(writer, "quota", path)?,
            };
            if !output.status.success() {
                let why = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(Violation::Harness(format!("no quota can be set: {why}")));
            }
        }
        Ok(())
    }

    fn garth(&self, arguments: &[&str]) -> Result<Output, String> {
        let mut command = Command::new(&self.config.garth);
        let output = command.args(arguments).arg("--data").arg(&self.data).output();
        output.map_err(|e| format!("cannot start garth ({e}); {}", http_writers::BUILD_IT))
    }

    /// Runs a command of the batch writer. `garth` cannot be used here: it opens the folder with the larger
    /// registry of agents, after which the folder is read-only for the writers.
    fn writer(&self, writer: &Path, verb: &str, path: &str) -> Result<Output, String> {
        let output = Command::new(writer).arg(verb).arg(&self.data).args([path, "0"]).output();
        output.map_err(|e| format!("cannot start {} ({e})", writer.display()))
    }

    fn fsck(&self) -> Result<(), Violation> {
        let output = match &self.config.writers {
            Writers::Http => self.garth(&["fsck", "--json"])?,
            Writers::Batches(writer) => self.writer(writer, "fsck", "/")?,
        };
        if output.status.success() {
            return Ok(());
        }
        let [said, complained] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        Err(self.broken(vec![format!("garth fsck: {}\n{said:.2000}\n{complained:.2000}", output.status)]))
    }

    fn broken(&self, what: Vec<String>) -> Violation {
        Violation::Broken { report: self.report.clone(), what }
    }

    fn serve(&mut self, fault: Option<&str>) -> Result<http_writers::Server, Violation> {
        let command = self.command(&self.config.garth, fault)?;
        let serve = http_writers::serve(command, &self.data, &mut self.key);
        serve.map_err(|error| self.with_log(&error))
    }

    fn command(&self, program: &Path, fault: Option<&str>) -> Result<Command, String> {
        let mut command = Command::new(program);
        command.stderr(self.log()?);
        // A fault in the environment of the test must not reach a process that is to be sound.
        command.env_remove("GARTH_FAULT").envs(fault.map(|fault| ("GARTH_FAULT", fault)));
        Ok(command)
    }

    fn log(&self) -> Result<File, String> {
        File::create(self.logs.path().join("stderr")).map_err(|e| format!("no room for a log: {e}"))
    }

    fn with_log(&self, error: &str) -> Violation {
        let log = std::fs::read_to_string(self.logs.path().join("stderr")).unwrap_or_default();
        Violation::Harness(format!("{error}\n{log:.2000}"))
    }
}
