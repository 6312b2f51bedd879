//! Repair: completes the directories of memories that were written file by file, cut short by a crash, or
//! changed by other interfaces. A pure function of the files in a directory decides on the repair;
//! `docs/specs/repair.md` has the table.

mod follow_log;
mod inspect;
mod judge;
mod mend;
mod removed;
mod report;
mod unfinished_delete;

pub use self::follow_log::{Follow, Next};
use self::judge::{JudgeOptions, Verdict};
pub use self::report::{Finding, FindingReport, Report};
use super::Memories;
use super::list::Prefix;
use super::uri::Uri;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystemExt as _;

/// Number of memories that are read at a time.
const READ: usize = 32;

/// Attempts for a memory that others change meanwhile.
const TRIES: usize = 3;

/// Repair of the memories of an account.
///
/// ```
/// use garth_agent::memory::{Memories, Repair};
/// use garth::FileSystemExt;
///
/// # futures::executor::block_on(async {
/// let fs = garth::in_memory();
/// fs.mkdir_all("/users/alice/memories/preferences/coffee").await?;
/// fs.write("/users/alice/memories/preferences/coffee/content.md", "Black.\n").await?;
/// let memories = Memories::new(&fs, "default");
/// let report = Repair::new(memories.clone()).at_once(true).scan(|_| ()).await?;
/// assert_eq!(report.found["orphan"], 1);
/// assert!(memories.exists(&"ctx://default/users/alice/memories/preferences/coffee".parse()?).await?);
/// # Ok::<(), garth::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Repair<'a> {
    memories: Memories<'a>,
    dry_run: bool,
    at_once: bool,
}

impl<'a> Repair<'a> {
    /// Returns a repair of these memories. It leaves a memory that may still be being written alone until it
    /// has not changed for 60 seconds, and an edited one for one second.
    pub fn new(memories: Memories<'a>) -> Self {
        Self { memories, dry_run: false, at_once: false }
    }

    /// Only reports findings; changes nothing.
    #[must_use]
    pub fn dry_run(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }

    /// Repairs memories that may still be being written or edited as well.
    #[must_use]
    pub fn at_once(self, at_once: bool) -> Self {
        Self { at_once, ..self }
    }

    /// Repairs every memory of the account.
    ///
    /// # Errors
    /// From the filesystem. A failure of one memory is in the report.
    pub async fn scan(&self, mut told: impl FnMut(&FindingReport<'_>) + Send) -> Result<Report> {
        let mut report = Report::default();
        self.unfinished(&mut report, &mut told).await?;
        let mut after = None;
        loop {
            let (memories, next) = self.memories.candidates(&Prefix::Account, after).await?;
            for some in memories.chunks(READ) {
                self.look(some, &mut report, &mut told).await?;
            }
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        self.settle(&report).await?;
        Ok(report)
    }

    /// Repairs one memory immediately, also one that is BROKEN.
    ///
    /// # Errors
    /// `InvalidArgument`; `AccessDenied` for another account; `NotFound` for a URI without a directory; from
    /// the filesystem.
    pub async fn retry(&self, uri: &Uri, mut told: impl FnMut(&FindingReport<'_>) + Send) -> Result<Report> {
        self.memories.check(uri)?;
        if self.memories.fs.lookup(&uri.dir()).await?.is_none() {
            return Err(super::missing(uri));
        }
        let mut report = Report::default();
        let asked = JudgeOptions { now: self.memories.env.now(), at_once: true, retry: true };
        self.one(uri, &asked, &mut report, &mut told).await?;
        self.settle(&report).await?;
        Ok(report)
    }

    /// Syncs the repairs, so that they survive loss of power.
    async fn settle(&self, report: &Report) -> Result<()> {
        if !self.dry_run && !report.found.is_empty() {
            self.memories.fs.sync().await?;
        }
        Ok(())
    }

    fn asked(&self) -> JudgeOptions {
        JudgeOptions { now: self.memories.env.now(), at_once: self.at_once, retry: false }
    }

    /// Repairs some memories.
    async fn look(
        &self,
        memories: &[Uri],
        report: &mut Report,
        told: &mut (impl FnMut(&FindingReport<'_>) + Send),
    ) -> Result<()> {
        let asked = self.asked();
        let known: Vec<Uri> =
            memories.iter().filter(|uri| self.memories.check(uri).is_ok()).cloned().collect();
        let mut doubtful = Vec::new();
        self.memories
            .read_found(&known, |uri, found| {
                report.memories += 1;
                match found.map(|found| judge::at_first_sight(&found, &asked)) {
                    Ok(Some(Verdict::Broken)) => report.broken(uri),
                    Ok(Some(Verdict::Unknown(status))) => report.unknown(uri, &status),
                    Ok(Some(_)) => {}
                    Ok(None) => doubtful.push(uri.clone()),
                    Err(error) => report.failed(&uri.to_string(), &error),
                }
            })
            .await?;
        for uri in &doubtful {
            report.memories -= 1;
            self.one(uri, &asked, report, told).await?;
        }
        Ok(())
    }

    /// Reads one memory again, and repairs it.
    async fn one(
        &self,
        uri: &Uri,
        asked: &JudgeOptions,
        report: &mut Report,
        told: &mut (impl FnMut(&FindingReport<'_>) + Send),
    ) -> Result<()> {
        report.memories += 1;
        let name = uri.to_string();
        for tries in 1.. {
            let verdict = match self.memories.judged(uri, asked).await {
                Ok(verdict) => verdict,
                Err(error) => {
                    report.failed(&name, &error);
                    return Ok(());
                }
            };
            let (found, around, mend) = match verdict {
                (_, _, Verdict::Sound) => return Ok(()),
                (_, _, Verdict::Broken) => {
                    report.broken(uri);
                    return Ok(());
                }
                (_, _, Verdict::Unknown(status)) => {
                    report.unknown(uri, &status);
                    return Ok(());
                }
                (_, _, Verdict::Waits(finding, until)) => {
                    report.waiting += 1;
                    told(&FindingReport { memory: &name, finding, until: Some(until) });
                    return Ok(());
                }
                (found, around, Verdict::Mend(mend)) => (found, around, mend),
            };
            if !self.dry_run {
                match self.memories.mend(&found, &around, &mend).await {
                    Ok(()) => {}
                    // Another writer was faster.
                    Err(error) if is_race(&error) && tries < TRIES => continue,
                    Err(error) => {
                        report.failed(&name, &error);
                        return Ok(());
                    }
                }
            }
            if mend.finding == Finding::Broken {
                tracing::warn!(memory = %name, "a memory is broken: some of it is missing");
                report.broken(uri);
            }
            *report.found.entry(mend.finding.as_str()).or_default() += 1;
            told(&FindingReport { memory: &name, finding: mend.finding, until: None });
            return Ok(());
        }
        Ok(())
    }
}

fn is_race(error: &Error) -> bool {
    use ErrorKind as Kind;
    let kinds = [Kind::Conflict, Kind::NotFound, Kind::AlreadyExists, Kind::NotADirectory, Kind::NotEmpty];
    kinds.contains(&error.kind())
}
