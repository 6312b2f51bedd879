//! Repair: makes the directories of nodes whole that were written file by file, cut short by a crash, or
//! changed by other hands. What is to be done with one is a pure function of what lies in it;
//! `docs/specs/repair.md` has the table.

mod deleted;
mod follow;
mod found;
mod judge;
mod mend;
mod went;

use std::collections::BTreeMap;

use serde::Serialize;

pub use self::follow::{Follow, Next};
use self::judge::Verdict;
use super::Nodes;
use super::list::Prefix;
use super::uri::Uri;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::Timestamp;

/// Nodes that are read at a time.
const READ: usize = 32;

/// Most broken nodes, and most failures, that a report has by name.
const MAX_NAMED: usize = 1000;

/// How often a node is looked at again that others change meanwhile.
const TRIES: usize = 3;

/// What repair finds of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// There is text and no meta: the rest was made of the text.
    Orphan,
    /// It was written step by step, and all of it is there: it is ACTIVE now.
    Activated,
    /// It cannot be made whole: it is BROKEN, until it is put again or a retry succeeds.
    Broken,
    /// Something lay where a file of the node belongs; it has another name now.
    Misplaced,
    /// Files or fields were missing that can be made.
    Incomplete,
    /// Somebody changed a layer: it counts as given.
    ChangedLayer,
    /// Somebody changed the text: layers were made again, given ones are stale.
    ChangedContent,
    /// Nobody was told of the node as it is.
    MissingEvent,
    /// Meta and text are gone: so is the rest, and whoever keeps an index is told.
    Deleted,
    /// It was moved by other hands, or a move was cut short.
    Moved,
    /// It is a copy of another node, or came from another owner: it is a node of its own now.
    Copied,
    /// A delete was cut short.
    UnfinishedDelete,
}

impl Finding {
    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Orphan => "orphan",
            Self::Activated => "activated",
            Self::Broken => "broken",
            Self::Misplaced => "misplaced",
            Self::Incomplete => "incomplete",
            Self::ChangedLayer => "changed_layer",
            Self::ChangedContent => "changed_content",
            Self::MissingEvent => "missing_event",
            Self::Deleted => "deleted",
            Self::Moved => "moved",
            Self::Copied => "copied",
            Self::UnfinishedDelete => "unfinished_delete",
        }
    }
}

/// What is asked of repair, beside the node itself.
#[derive(Clone, Copy, Debug)]
struct Asked {
    now: Timestamp,
    /// Whether nodes need not be at rest.
    at_once: bool,
    /// Whether a broken node is tried again.
    retry: bool,
}

/// What repair did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Directories of nodes that were looked at.
    pub nodes: u64,
    /// Nodes that were repaired (of a dry run: would be), by what was found.
    pub found: BTreeMap<&'static str, u64>,
    /// Nodes that wait until they are at rest.
    pub waiting: u64,
    /// Nodes that are BROKEN, those that just became so included.
    pub broken: u64,
    /// The first of them.
    pub broken_nodes: Vec<String>,
    /// Nodes that could not be repaired now: others changed them meanwhile, or the storage refused.
    pub failed: u64,
    /// The first of them, with why.
    pub failures: Vec<String>,
}

impl Report {
    /// Whether nothing was found, nothing waits and nothing is broken.
    pub fn is_sound(&self) -> bool {
        self.found.is_empty() && self.waiting == 0 && self.is_whole()
    }

    /// Whether no node is broken, and none could not be repaired.
    pub fn is_whole(&self) -> bool {
        self.broken == 0 && self.failed == 0
    }

    /// Nodes that were repaired, or would be.
    pub fn repaired(&self) -> u64 {
        self.found.values().sum()
    }

    fn broken(&mut self, uri: &Uri) {
        self.broken += 1;
        if self.broken_nodes.len() < MAX_NAMED {
            self.broken_nodes.push(uri.to_string());
        }
    }

    fn failed(&mut self, what: &str, error: &Error) {
        self.failed += 1;
        if self.failures.len() < MAX_NAMED {
            self.failures.push(format!("{what}: {error}"));
        }
    }
}

/// A node that something was found of.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Told<'a> {
    /// Which, or the directory of a delete that was cut short.
    pub node: &'a str,
    /// What.
    pub finding: Finding,
    /// Until when it has to be at rest before it is touched; none if it is repaired (or would be).
    pub until: Option<Timestamp>,
}

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
    /// `InvalidArgument`; `AccessDenied` for another account's; from the filesystem.
    pub async fn retry(&self, uri: &Uri, mut told: impl FnMut(&Told<'_>) + Send) -> Result<Report> {
        self.nodes.check(uri)?;
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
