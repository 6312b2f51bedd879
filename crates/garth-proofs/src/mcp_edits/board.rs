//! File that both agents change: a line for each of them, and one that both count up.

use garth_testkit::proof::{Broken, Proven};

/// Agents.
pub(super) const AGENTS: [&str; 2] = ["scout", "other"];
/// Name of the file.
pub(super) const FILE: &str = "plan.md";
/// Line number of the part that both agents change. Empty lines are between the parts, so that each change is
/// a range of its own.
const SHARED_LINE: u64 = 5;

/// Part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Line that only the agent with this number changes.
    Own(usize),
    /// Line that both change.
    Shared,
}

impl Part {
    /// Returns the number of its line.
    pub(super) fn line(self) -> u64 {
        match self {
            Self::Own(agent) => 1 + 2 * agent as u64,
            Self::Shared => SHARED_LINE,
        }
    }
}

/// Content of the file: the number of steps of each part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Board {
    pub(super) own: [u64; 2],
    pub(super) shared: u64,
}

impl Board {
    /// Parses the text of the file.
    ///
    /// # Errors
    /// Any other text.
    pub(super) fn parse(text: &str) -> Proven<Self> {
        let number = |line: usize, name: &str| -> Option<u64> {
            text.lines().nth(line)?.strip_prefix(name)?.strip_prefix(": ")?.parse().ok()
        };
        let board = number(0, AGENTS[0]).zip(number(2, AGENTS[1])).zip(number(4, "shared"));
        let board = board.map(|((first, second), shared)| Self { own: [first, second], shared });
        let board = board.filter(|board| board.text() == text);
        board.ok_or_else(|| Broken::because(format!("no steps lead to a file with {text:?}")))
    }

    /// Returns the text of the file.
    pub(super) fn text(&self) -> String {
        let [first, second, shared] = [Part::Own(0), Part::Own(1), Part::Shared].map(|part| self.line(part));
        format!("{first}\n{second}\n{shared}")
    }

    /// Returns the line of a part, with its end.
    pub(super) fn line(&self, part: Part) -> String {
        match part {
            Part::Own(agent) => format!("{}: {}\n", AGENTS[agent], self.own[agent]),
            Part::Shared => format!("shared: {}\n", self.shared),
        }
    }

    /// Returns the content after a step.
    pub(super) fn after(mut self, part: Part) -> Self {
        match part {
            Part::Own(agent) => self.own[agent] += 1,
            Part::Shared => self.shared += 1,
        }
        self
    }

    /// Returns the number of all steps.
    pub(super) fn steps(&self) -> u64 {
        self.own[0] + self.own[1] + self.shared
    }
}
