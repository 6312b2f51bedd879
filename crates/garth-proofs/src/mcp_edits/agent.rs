//! Agent that makes steps over `/mcp`, and checks each answer.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc;

use garth_testkit::data::random::Random;
use garth_testkit::proof::{Broken, Proven, Report, hold};
use serde_json::{Value, json};

use super::board::{AGENTS, Board, FILE, Part};
use super::fault::Fault;
use super::versions::Steps;
use crate::mcp_messages::{Lifecycle, Message, ToolResult};
use crate::served::{Connection, Request, text_of};

/// Versions in which the server seeks a text that is no longer in the file.
const SOUGHT: u64 = 20;
/// Step that the planted fault loses.
const LOST: u64 = 5;

/// Way in which a step is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    /// `edit_file` on the agent's own line, which fits whatever the other agent does.
    Own,
    /// `edit_file` on the own line with `if_version`.
    OwnAtVersion,
    /// `write_file` of the complete file with `if_version`.
    File,
    /// `edit_file` on the shared line.
    Shared,
    /// `edit_file` on the shared line with `if_version`.
    SharedAtVersion,
}

impl StepKind {
    /// All ways.
    const ALL: [Self; 5] = [Self::Own, Self::OwnAtVersion, Self::File, Self::Shared, Self::SharedAtVersion];

    /// Returns true if the step requires that nobody has changed the file.
    fn names_version(self) -> bool {
        matches!(self, Self::OwnAtVersion | Self::File | Self::SharedAtVersion)
    }
}

/// Step of an agent, before it is sent.
pub(super) struct Step {
    kind: StepKind,
    part: Part,
    tool: &'static str,
    arguments: Value,
    /// File when the step was prepared, and its version.
    board: Board,
    version: String,
}

/// Reason why a call has no answer that can be used.
pub(super) enum Stop {
    /// The connection ended.
    Ended(io::Error),
    /// The answer breaks a promise.
    Broken(Broken),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Ended(error)
    }
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<Stop> for Broken {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Ended(error) => Self::because(format!("a tool has no answer: {error}")),
            Stop::Broken(broken) => broken,
        }
    }
}

/// Client of an agent.
pub(super) struct Agent {
    number: usize,
    key: String,
    random: Random,
    fault: Option<Fault>,
    /// Acknowledged steps.
    made: Steps,
    /// Step that was sent and has no answer.
    pending: Option<Step>,
    /// True if the pending step was made.
    is_pending_made: bool,
    acknowledged: BTreeMap<String, u64>,
    refused: BTreeMap<String, u64>,
}

impl Agent {
    pub(super) fn new(number: usize, key: String, random: Random, fault: Option<Fault>) -> Self {
        Self {
            number,
            key,
            random,
            fault,
            made: Steps::default(),
            pending: None,
            is_pending_made: false,
            acknowledged: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    fn name(&self) -> &'static str {
        AGENTS[self.number]
    }

    /// Creates the file.
    pub(super) fn create_file(&self, connection: &mut Connection) -> Proven<()> {
        let file = json!({"path": FILE, "content": Board::default().text(), "if_version": "none"});
        let created = self.call(connection, "write_file", &file)?;
        hold(!created.is_error, || format!("the file is not created: {}", created.text))
    }

    /// Makes steps until the connection fails, and returns that failure. Sends a message for each answer.
    pub(super) fn step_until_killed(
        &mut self,
        address: &str,
        answers: &mpsc::Sender<()>,
    ) -> Proven<io::Error> {
        let mut connection = match Connection::open(address) {
            Ok(connection) => connection,
            Err(error) => return Ok(error),
        };
        loop {
            let kind = match self.fault {
                Some(Fault::Unchecked) => StepKind::File,
                _ => self.random.pick(&StepKind::ALL),
            };
            let step = self.prepare(&mut connection, kind);
            match step.and_then(|step| self.send(&mut connection, step)) {
                Ok(_) => {
                    // The receiver may have heard enough.
                    answers.send(()).ok();
                }
                Err(Stop::Ended(error)) => return Ok(error),
                Err(Stop::Broken(broken)) => return Err(broken),
            }
        }
    }

    /// Reads the file, checks that it has the acknowledged steps, and returns a step from there.
    pub(super) fn prepare(&mut self, connection: &mut Connection, kind: StepKind) -> Result<Step, Stop> {
        let (board, version) = self.read(connection)?;
        let part = match kind {
            StepKind::Own | StepKind::OwnAtVersion => Part::Own(self.number),
            StepKind::Shared | StepKind::SharedAtVersion => Part::Shared,
            StepKind::File if self.random.one_in(2) => Part::Own(self.number),
            StepKind::File => Part::Shared,
        };
        let after = board.after(part);
        let (tool, mut arguments) = match kind {
            StepKind::File => ("write_file", json!({"path": FILE, "content": after.text()})),
            _ => {
                let (old, new) = (board.line(part), after.line(part));
                ("edit_file", json!({"path": FILE, "old_string": old, "new_string": new}))
            }
        };
        if kind.names_version() && self.fault != Some(Fault::Unchecked) {
            arguments["if_version"] = json!(version);
        }
        Ok(Step { kind, part, tool, arguments, board, version })
    }

    /// Sends a step. Returns false if it was refused because of the other agent.
    pub(super) fn send(&mut self, connection: &mut Connection, step: Step) -> Result<bool, Stop> {
        if self.fault == Some(Fault::Lost) && self.made.own == LOST && step.part == Part::Own(self.number) {
            self.made.add(step.part);
            return Ok(true);
        }
        let answer = self.call(connection, step.tool, &step.arguments);
        let answer = match answer {
            Err(Stop::Ended(error)) => {
                self.pending = Some(step);
                return Err(Stop::Ended(error));
            }
            answer => answer?,
        };
        let kind = format!("{:?}", step.kind);
        if !answer.is_error {
            self.made.add(step.part);
            *self.acknowledged.entry(kind).or_default() += 1;
            return Ok(true);
        }
        self.check_refusal(connection, &step, &answer.text)?;
        *self.refused.entry(kind).or_default() += 1;
        Ok(false)
    }

    /// Compares the acknowledged steps with those that the versions of the file have. Only the pending one
    /// may have been made as well.
    pub(super) fn settle(&mut self, found: Steps) -> Proven<()> {
        let mut with_pending = self.made;
        if let Some(step) = &self.pending {
            with_pending.add(step.part);
        }
        hold(found == self.made || found == with_pending, || {
            format!("{:?} of {} were acknowledged, and the file has {found:?}", self.made, self.name())
        })?;
        self.is_pending_made = found != self.made;
        self.made = found;
        Ok(())
    }

    /// Sends the pending step again, if there is one. One that was made is refused, and the refusal names the
    /// agent itself. Returns true if there was one.
    pub(super) fn repeat(&mut self, connection: &mut Connection) -> Proven<bool> {
        let Some(step) = self.pending.take() else { return Ok(false) };
        // The step of an agent with a fault may be made twice.
        if self.fault.is_some() {
            return Ok(true);
        }
        if !self.is_pending_made {
            self.send(connection, step)?;
            return Ok(true);
        }
        let answer = self.call(connection, step.tool, &step.arguments)?;
        let is_told = answer.is_error && answer.text.contains(&format!("agent {}", self.name()));
        hold(is_told, || {
            format!("a step of {} that was made is repeated, with the answer: {}", self.name(), answer.text)
        })?;
        Ok(true)
    }

    /// Adds the steps to a report.
    pub(super) fn count(&self, report: &mut Report) {
        for (counts, all, group) in [
            (&self.acknowledged, "steps acknowledged", "acknowledged"),
            (&self.refused, "steps refused", "refused"),
        ] {
            for (kind, count) in counts {
                report.add(all, *count);
                report.add_in(group, kind, *count);
            }
        }
    }

    /// Fails unless a refusal says what the other agent has changed since the step was prepared.
    fn check_refusal(&self, connection: &mut Connection, step: &Step, text: &str) -> Result<(), Stop> {
        let about = || format!("a step by {:?} of {} is refused with `{text}`", step.kind, self.name());
        hold(step.kind != StepKind::Own, about)?;
        if step.kind == StepKind::Shared && text.contains("old_string is not in") {
            let (board, _) = self.read(connection)?;
            let made = board.steps().saturating_sub(step.board.steps());
            return Ok(hold(made >= SOUGHT, || format!("{} after {made} steps", about()))?);
        }
        let other = 1 - self.number;
        let is_of_version = !step.kind.names_version() || text.contains(&format!("not {}", step.version));
        hold(is_of_version && text.contains("is now version ver_"), about)?;
        let is_by_other = text.contains(&format!("changed by agent {}", AGENTS[other]));
        hold(is_by_other && !text.contains(&format!("agent {}", self.name())), about)?;
        let lines = lines_in(text).unwrap_or_default();
        let may_differ = [Part::Own(other).line(), Part::Shared.line()];
        hold(!lines.is_empty() && lines.iter().all(|line| may_differ.contains(line)), about)?;
        Ok(())
    }

    /// Reads the file and its version. Fails unless it has the acknowledged steps of the agent.
    fn read(&self, connection: &mut Connection) -> Result<(Board, String), Stop> {
        let read = self.call(connection, "read_file", &json!({"path": FILE}))?;
        hold(!read.is_error, || format!("{FILE} cannot be read: {}", read.text))?;
        let board = Board::parse(&text_of(&read.structured["content"]))?;
        let is_complete = board.own[self.number] == self.made.own && board.shared >= self.made.shared;
        hold(is_complete, || {
            format!("{:?} of {} were acknowledged, and the file has {board:?}", self.made, self.name())
        })?;
        Ok((board, text_of(&read.structured["version"])))
    }

    /// Calls a tool. The agents use different lifecycles.
    fn call(&self, connection: &mut Connection, tool: &str, arguments: &Value) -> Result<ToolResult, Stop> {
        let params = json!({"name": tool, "arguments": arguments});
        let Message { headers, body } = Message::new(Lifecycle::ALL[self.number], "tools/call", params);
        let request = Request::new("POST", "/mcp").key(&self.key).body(body);
        let answer =
            connection.ask(&request.headers(format!("content-type: application/json\r\n{headers}")))?;
        let result = serde_json::from_slice(&answer.body).ok().and_then(ToolResult::of);
        Ok(result.ok_or_else(|| Broken::because(format!("{tool} is answered {}", answer.shown())))?)
    }
}

/// Returns the numbers of lines in a refusal: `(line 3)` or `(lines 3, 5)`.
fn lines_in(text: &str) -> Option<Vec<u64>> {
    let (_, rest) = text.split_once("(line")?;
    let (lines, _) = rest.split_once(')')?;
    lines.trim_start_matches('s').split(',').map(|line| line.trim().parse().ok()).collect()
}
