//! Calls of a server that is killed, sent again under their idempotency keys, while others write: each has
//! one effect, and a repeat gets the answer of the first try.

mod calls;

use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Proof, Proven, Report, Setting, hold, sound};
use serde_json::json;

use self::calls::{BOUND, Calls, KINDS, Keys, ROUND, labels};
use crate::retry_kills::Form;
use crate::served::{Answer, Connection, Request, ServerProcess, broken_off, kill_under_calls, text_of};
use crate::support::opened;

/// Writers, each with its own files and keys.
const WRITERS: u64 = 4;
/// Answers before a kill, at least. After two kills one writer has made all calls of a round.
const LEAST: u64 = WRITERS * ROUND / 2;
/// Further answers before a kill, at most.
const HEARD: u64 = WRITERS * ROUND;
/// Upper bound of the delay after the last answer, in microseconds.
const LONGEST: u64 = 40_000;

/// Kills of a server under load: bytes of files, uploads in parts, batches, edits and keys, with a free and a
/// bound key. The size is the number of kills.
#[derive(Clone, Copy, Debug)]
pub struct CallKills {
    /// Form of the requests.
    pub form: Form,
}

impl Proof for CallKills {
    fn about(&self) -> About {
        About {
            name: "call-kills",
            claim: "A call of a server that is killed and sent again under its key has one effect and one answer.",
            full: 50,
            ci: 3,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        killed(&setting.folder.join("data"), &setting.garth(), setting.size, setting.seed, self.form)
    }
}

const COUNTS: [&str; 4] =
    ["kills", "calls answered", "repeats answered as the first try", "calls under way when killed"];

/// Calls of one writer since the last kill.
struct Writer {
    calls: Calls,
    number: u64,
    form: Form,
    /// First call since the last kill.
    first: u64,
    /// Calls since then that were answered.
    heard: Vec<(Request, Answer)>,
}

impl Writer {
    fn new(number: u64, keys: &Keys, form: Form) -> Self {
        Self { calls: Calls::new(number, keys.clone()), number, form, first: 0, heard: Vec::new() }
    }

    /// Returns the number of the next call.
    fn next(&self) -> u64 {
        self.first + self.heard.len() as u64
    }

    fn request(&self) -> Request {
        let call = self.calls.call(self.next());
        match self.form {
            Form::Keyed => call.once(format!("{}-{}", self.number, self.next())),
            Form::Plain => call,
        }
    }

    fn hear(&mut self, request: Request, answer: Answer) -> Proven<()> {
        hold(answer.is_ok(), || format!("{} is answered {}", request.name(), answer.shown()))?;
        self.calls.learn(self.next(), &answer);
        self.heard.push((request, answer));
        Ok(())
    }

    /// Makes calls until the connection fails, and returns that failure. Sends a message for each answer.
    fn call_until_killed(&mut self, address: &str, answers: &mpsc::Sender<()>) -> Proven<io::Error> {
        let mut connection = match Connection::open(address) {
            Ok(connection) => connection,
            Err(error) => return Ok(error),
        };
        loop {
            let request = self.request();
            match connection.ask(&request) {
                Ok(answer) => self.hear(request, answer)?,
                Err(error) => return Ok(error),
            }
            // The receiver may have heard enough.
            answers.send(()).ok();
        }
    }

    /// Sends the answered calls again, finishes the pending one, and counts the effects of all.
    fn settle(&mut self, server: &ServerProcess, report: &mut Report) -> Proven<()> {
        let mut connection = Connection::open(&server.address)?;
        // The server may have carried it out, or a part of it.
        let pending = self.request();
        let answer = connection.ask(&pending).map_err(|error| broken_off(&pending, &error))?;
        self.hear(pending, answer)?;
        report.add("calls under way when killed", 1);
        for (n, (request, answer)) in (self.first..).zip(&self.heard) {
            let again = connection.ask(request).map_err(|error| broken_off(request, &error))?;
            hold(again == *answer, || {
                let (name, before) = (request.name(), answer.shown());
                format!("{name}, call {n} of {}, was answered {before}, now {}", self.number, again.shown())
            })?;
            report.add("repeats answered as the first try", 1);
            report.add_in("repeats", KINDS[(n % ROUND) as usize], 1);
        }
        let labels = labels(&mut connection, &server.key)?;
        let last = self.next() - 1;
        // Earlier rounds were counted after earlier kills.
        for round in self.first / ROUND..=last / ROUND {
            self.calls.check(&mut connection, round, last, &labels)?;
        }
        self.first = self.next();
        self.heard.clear();
        Ok(())
    }
}

/// Kills a server `kills` times while writers call it. After each kill sends the answered and the pending
/// calls again.
///
/// # Errors
/// An effect that is missing or exists twice, or a repeat with another answer.
fn killed(data: &Path, garth: &Path, kills: u64, seed: u64, form: Form) -> Proven<Report> {
    let (mut random, mut report) = (Random::new(seed), Report::of(COUNTS));
    let mut server = ServerProcess::start(garth, data, None)?;
    let keys = prepare(&server)?;
    let mut writers: Vec<Writer> = (0..WRITERS).map(|number| Writer::new(number, &keys, form)).collect();
    for _ in 0..kills {
        let answers = LEAST + random.below(HEARD);
        let delay = Duration::from_micros(random.below(LONGEST));
        kill_under_calls(server, &mut writers, (answers, delay), Writer::call_until_killed)?;
        report.add("kills", 1);
        report.add("calls answered", writers.iter().map(|writer| writer.heard.len() as u64).sum::<u64>());
        server = ServerProcess::start(garth, data, Some(&keys.admin))?;
        for writer in &mut writers {
            writer.settle(&server, &mut report)?;
        }
    }
    drop(server);
    sound(&*opened(data)?)?;
    Ok(report)
}

/// Creates a bound key, and its agent and chat.
fn prepare(server: &ServerProcess) -> Proven<Keys> {
    let mut connection = Connection::open(&server.address)?;
    let (agent, user) = BOUND;
    let settings = Request::new("PUT", format!("/v1/fs/agents/{agent}/settings.json"));
    let settings = settings.body(json!({"owner": user}).to_string());
    connection.ok(&settings.key(&server.key))?;
    let new = json!({
        "label": "bound", "binding": {"agent": agent, "user": user}, "scopes": ["files:read", "files:write"],
    });
    let made = connection.ok(&Request::post("admin/keys/create", &new).key(&server.key))?;
    let keys = Keys { admin: server.key.clone(), bound: text_of(&made["secret"]) };
    connection.ok(&Request::new("PUT", "/v1/fs/first").body("first\n").key(&keys.bound))?;
    Ok(keys)
}
