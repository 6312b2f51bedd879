//! Repair: makes the directories of nodes whole that were written file by file, cut short by a crash, or
//! changed by other hands. What is to be done with one is a pure function of what lies in it;
//! `docs/specs/repair.md` has the table.

mod follow_log;
mod inspect;
mod judge;
mod mend;
mod removed;
mod report;
mod unfinished_delete;

pub use self::follow_log::{Follow, Next};
use self::judge::{Asked, Verdict};
pub use self::report::{Finding, Report, Told};
use super::Nodes;
use super::list::Prefix;
use super::uri::Uri;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystemExt as _;

/// Nodes that are read at a time.
const READ: usize = 32;

/// How often a node is looked at again that others change meanwhile.
const TRIES: usize = 3;

/// Repair of the nodes of an account.
///
/// ```
/// use garth::agent::node::{Nodes, Repair};
/// use garth::engine::memory::Memory;
/// use garth::{Env, FileSystemExt};
///
/// # futures::executor::block_on(async {
/// let fs = Memory::new(Env::system(), garth::agent::registry());
/// fs.mkdir_all("/users/alice/memories/preferences/coffee").await?;
/// fs.write("/users/alice/memories/preferences/coffee/content.md", "Black.\n").await?;
/// let nodes = Nodes::new(&fs, "default", Env::system());
/// let report = Repair::new(nodes.clone()).at_once(true).scan(|_| ()).await?;
/// assert_eq!(report.found["orphan"], 1);
/// assert!(nodes.exists(&"ctx://default/users/alice/memories/preferences/coffee".parse()?).await?);
/// # Ok::<(), garth::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Repair<'a> {
    nodes: Nodes<'a>,
    dry_run: bool,
    at_once: bool,
}

impl<'a> Repair<'a> {
    /// Repair of these nodes: what is being written is left alone until it was at rest for 60 seconds, what
    /// is edited for one.
    pub fn new(nodes: Nodes<'a>) -> Self {
        Self { nodes, dry_run: false, at_once: false }
    }

    /// Changes nothing, only tells.
    #[must_use]
    pub fn dry_run(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }

    /// Waits for nothing to be at rest.
    #[must_use]
    pub fn at_once(self, at_once: bool) -> Self {
        Self { at_once, ..self }
    }

    /// Looks at every node of the account.
    ///
    /// # Errors
    /// From the filesystem. What is wrong with one node is in the report.
    pub async fn scan(&self, mut told: impl FnMut(&Told<'_>) + Send) -> Result<Report> {
        let mut report = Report::default();
        self.unfinished(&mut report, &mut told).await?;
        let mut after = None;
        loop {
            let (nodes, next) = self.nodes.candidates(&Prefix::Account, after).await?;
            for some in nodes.chunks(READ) {
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

    /// Looks at one node, at once; one that is BROKEN is tried again.
    ///
    /// # Errors
    /// `InvalidArgument`; `AccessDenied` for another account's; `NotFound` for a URI without a directory;
    /// from the filesystem.
    pub async fn retry(&self, uri: &Uri, mut told: impl FnMut(&Told<'_>) + Send) -> Result<Report> {
        self.nodes.check(uri)?;
        if self.nodes.fs.lookup(&uri.dir()).await?.is_none() {
            return Err(super::missing(uri));
        }
        let mut report = Report::default();
        let asked = Asked { now: self.nodes.env.now(), at_once: true, retry: true };
        self.one(uri, &asked, &mut report, &mut told).await?;
        self.settle(&report).await?;
        Ok(report)
    }

    /// What was repaired survives from here on.
    async fn settle(&self, report: &Report) -> Result<()> {
        if !self.dry_run && !report.found.is_empty() {
            self.nodes.fs.sync().await?;
        }
        Ok(())
    }

    fn asked(&self) -> Asked {
        Asked { now: self.nodes.env.now(), at_once: self.at_once, retry: false }
    }

    /// Looks at some nodes.
    async fn look(
        &self,
        nodes: &[Uri],
        report: &mut Report,
        told: &mut (impl FnMut(&Told<'_>) + Send),
    ) -> Result<()> {
        let asked = self.asked();
        let known: Vec<Uri> = nodes.iter().filter(|uri| self.nodes.check(uri).is_ok()).cloned().collect();
        let mut doubtful = Vec::new();
        self.nodes
            .read_found(&known, |uri, found| {
                report.nodes += 1;
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
            report.nodes -= 1;
            self.one(uri, &asked, report, told).await?;
        }
        Ok(())
    }

    /// Looks at one node closely, and repairs it.
    async fn one(
        &self,
        uri: &Uri,
        asked: &Asked,
        report: &mut Report,
        told: &mut (impl FnMut(&Told<'_>) + Send),
    ) -> Result<()> {
        report.nodes += 1;
        let name = uri.to_string();
        for tries in 1.. {
            let verdict = match self.nodes.judged(uri, asked).await {
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
                    told(&Told { node: &name, finding, until: Some(until) });
                    return Ok(());
                }
                (found, around, Verdict::Mend(mend)) => (found, around, mend),
            };
            if !self.dry_run {
                match self.nodes.mend(&found, &around, &mend).await {
                    Ok(()) => {}
                    // others were faster
                    Err(error) if is_race(&error) && tries < TRIES => continue,
                    Err(error) => {
                        report.failed(&name, &error);
                        return Ok(());
                    }
                }
            }
            if mend.finding == Finding::Broken {
                tracing::warn!(node = %name, "a context node is broken: some of it is missing");
                report.broken(uri);
            }
            *report.found.entry(mend.finding.as_str()).or_default() += 1;
            told(&Told { node: &name, finding: mend.finding, until: None });
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
