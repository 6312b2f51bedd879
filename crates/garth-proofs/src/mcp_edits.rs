//! Two agents that edit one file at once over `/mcp`, on a server that is killed: no step of either is lost,
//! and each refused one says what the other agent has changed.

mod agent;
mod board;
mod fault;
mod versions;

use std::path::Path;
use std::time::Duration;

use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Proof, Proven, Report, Setting, hold, sound};
use serde_json::json;

use self::agent::{Agent, StepKind};
use self::board::AGENTS;
pub use self::fault::Fault;
use self::versions::Versions;
use crate::served::{Connection, Request, ServerProcess, kill_under_calls, text_of};
use crate::support::opened;

/// User of both agents, and the chat whose files both see.
const USER: &str = "ann";
const CHAT: &str = "work";
/// Steps before a kill: at least, and further ones at most.
const LEAST: u64 = 100;
const HEARD: u64 = 200;
/// Upper bound of the delay after the last step, in microseconds.
const LONGEST: u64 = 40_000;

/// Agents that count up lines of one file by `edit_file` and `write_file`. The size is the number of kills of
/// the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct McpEdits {
    /// Fault to plant.
    pub fault: Option<Fault>,
}

impl Proof for McpEdits {
    fn about(&self) -> About {
        About {
            name: "mcp-edits",
            claim: "Two agents that edit one file at once over MCP lose nothing when the server is killed.",
            full: 50,
            ci: 3,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        edited(setting, self.fault)
    }
}

const COUNTS: [&str; 5] =
    ["kills", "steps acknowledged", "steps refused", "steps under way when killed", "versions"];

/// Kills the server while both agents edit the file. After each kill compares the new versions of the file
/// with the acknowledged steps, and sends the pending ones again.
fn edited(setting: &Setting<'_>, fault: Option<Fault>) -> Proven<Report> {
    let (data, garth) = (setting.folder.join("data"), setting.garth());
    let (mut random, mut report) = (Random::new(setting.seed), Report::of(COUNTS));
    let mut server = ServerProcess::start(&garth, &data, None)?;
    let admin = server.key.clone();
    let mut agents = prepare(&server, &mut random, fault)?;
    let mut versions = Versions::default();
    for _ in 0..setting.size {
        if fault.is_none() {
            overtaken(&server, &mut agents)?;
        }
        let answers = LEAST + random.below(HEARD);
        let delay = Duration::from_micros(random.below(LONGEST));
        kill_under_calls(server, &mut agents, (answers, delay), Agent::step_until_killed)?;
        report.add("kills", 1);
        settle(&data, &mut agents, &mut versions, &mut report)?;
        server = ServerProcess::start(&garth, &data, Some(&admin))?;
        for agent in &mut agents {
            let is_pending = agent.repeat(&mut Connection::open(&server.address)?)?;
            report.add("steps under way when killed", is_pending);
        }
    }
    drop(server);
    settle(&data, &mut agents, &mut versions, &mut report)?;
    for agent in &agents {
        agent.count(&mut report);
    }
    sound(&*opened(&data)?)?;
    Ok(report)
}

/// Creates two agents of one user, a key for each, and the file.
fn prepare(server: &ServerProcess, random: &mut Random, fault: Option<Fault>) -> Proven<[Agent; 2]> {
    let mut connection = Connection::open(&server.address)?;
    let mut key = |agent: &str| -> Proven<String> {
        let settings = Request::new("PUT", format!("/v1/fs/agents/{agent}/settings.json"));
        let settings = settings.body(json!({"owner": USER}).to_string());
        connection.ok(&settings.key(&server.key))?;
        let new = json!({
            "label": agent,
            "binding": {"agent": agent, "user": USER, "chat": CHAT},
            "scopes": ["files:read", "files:write"],
        });
        let made = connection.ok(&Request::post("admin/keys/create", &new).key(&server.key))?;
        Ok(text_of(&made["secret"]))
    };
    let [first, second] = [key(AGENTS[0])?, key(AGENTS[1])?];
    let agents = [
        Agent::new(0, first, Random::new(random.next()), fault),
        Agent::new(1, second, Random::new(random.next()), fault),
    ];
    agents[0].create_file(&mut connection)?;
    Ok(agents)
}

/// Has the second agent make a step between the read and the write of the first one, in each way that must be
/// refused.
fn overtaken(server: &ServerProcess, agents: &mut [Agent; 2]) -> Proven<()> {
    let [first, second] = agents;
    let mut connection = Connection::open(&server.address)?;
    for kind in [StepKind::OwnAtVersion, StepKind::File, StepKind::Shared, StepKind::SharedAtVersion] {
        let step = first.prepare(&mut connection, kind)?;
        let other = if kind == StepKind::Shared { StepKind::Shared } else { StepKind::Own };
        let between = second.prepare(&mut connection, other)?;
        let is_made = second.send(&mut connection, between)?;
        hold(is_made, || format!("a step of {} is refused, although nobody else writes", AGENTS[1]))?;
        let is_made = first.send(&mut connection, step)?;
        hold(!is_made, || format!("a step by {kind:?} is made, although the other agent was faster"))?;
    }
    Ok(())
}

/// Compares the versions of the file since the last time with the acknowledged steps, while no server runs.
fn settle(data: &Path, agents: &mut [Agent; 2], versions: &mut Versions, report: &mut Report) -> Proven<()> {
    let read = versions.read_new(&*opened(data)?, &format!("/chats/{CHAT}/{}", board::FILE))?;
    report.add("versions", read);
    for agent in agents {
        agent.settle(versions.steps_of(agent.number()))?;
    }
    Ok(())
}
