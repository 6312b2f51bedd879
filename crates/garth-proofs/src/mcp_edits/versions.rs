//! Versions of the file, as the account stores them: each is one step of its author.

use futures::executor::block_on;
use garth_engine::model::{At, HistoryPage, Version, VersionId};
use garth_engine::{AccountStore, TreePath};
use garth_testkit::proof::{Broken, Proven, hold};

use super::board::{AGENTS, Board, Part};

/// Versions that are read at once.
const PAGE: usize = 1_000;
/// Length in bytes that no version exceeds.
const LENGTH: usize = 4 << 10;

/// Steps of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) own: u64,
    pub(super) shared: u64,
}

impl Steps {
    /// Adds a step.
    pub(super) fn add(&mut self, part: Part) {
        match part {
            Part::Own(_) => self.own += 1,
            Part::Shared => self.shared += 1,
        }
    }
}

/// Steps in all versions that were read.
#[derive(Default)]
pub(super) struct Versions {
    last: Option<(VersionId, Board)>,
    steps: [Steps; 2],
}

impl Versions {
    /// Returns the steps that an agent has made.
    pub(super) fn steps_of(&self, agent: usize) -> Steps {
        self.steps[agent]
    }

    /// Reads the versions since the last ones. Returns their number.
    ///
    /// # Errors
    /// A version that differs from the one before it by anything but one step of its author.
    pub(super) fn read_new(&mut self, store: &dyn AccountStore, path: &str) -> Proven<u64> {
        let new = self.new_versions(store, path)?;
        let count = new.len() as u64;
        for version in new.into_iter().rev() {
            let file = block_on(store.open_version(version.id))?;
            let bytes = block_on(file.read_at(0, LENGTH))?;
            let board = Board::parse(&String::from_utf8_lossy(&bytes))?;
            match self.last {
                Some((_, before)) => self.steps_from(before, &board, &version)?,
                None => hold(board == Board::default(), || format!("the file began as {board:?}"))?,
            }
            self.last = Some((version.id, board));
        }
        Ok(count)
    }

    /// Returns the versions since the last ones, the newest first.
    fn new_versions(&self, store: &dyn AccountStore, path: &str) -> Proven<Vec<Version>> {
        let at = At::from(TreePath::parse(path)?);
        let last = self.last.as_ref().map(|(version, _)| *version);
        let (mut new, mut page) = (Vec::new(), HistoryPage::default().limit(PAGE));
        loop {
            let found = block_on(store.history(&at, &page))?;
            page = page.before(found.items.last().map(|version| version.id));
            for version in found.items {
                if Some(version.id) == last {
                    return Ok(new);
                }
                new.push(version);
            }
            if !found.more {
                hold(last.is_none(), || "a version with an acknowledged step is gone".to_owned())?;
                return Ok(new);
            }
        }
    }

    /// Counts the step from one version to the next.
    fn steps_from(&mut self, before: Board, board: &Board, version: &Version) -> Proven<()> {
        let author = version.commit.author.agent.as_deref();
        let agent = AGENTS.iter().position(|agent| author == Some(*agent));
        let agent = agent.ok_or_else(|| Broken::because(format!("{author:?} made a step")))?;
        let part = [Part::Own(agent), Part::Shared].into_iter().find(|part| before.after(*part) == *board);
        let part = part.ok_or_else(|| {
            Broken::because(format!("no step of {author:?} leads from {before:?} to {board:?}"))
        })?;
        self.steps[agent].add(part);
        Ok(())
    }
}
