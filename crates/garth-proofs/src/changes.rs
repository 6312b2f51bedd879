//! Consumers of a stream of changes that are killed and resumed while others write: each change reaches them
//! once, in the order of the log.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold};
use serde_json::{Value, json};

use crate::served::{Connection, Request, ServerProcess};
use crate::support::joined;

/// Clients that write, each in its own directory.
const WRITERS: u64 = 4;
/// Names of the files of a writer.
const FILES: u64 = 40;
/// Files of a long commit: more than a stream reads at once, so that it is cut.
const LONG: u64 = 400;
/// Upper bound of the bytes that a consumer receives before it is killed.
const HEARD: u64 = 40_000;
/// Bytes that a consumer reads at once.
const PIECE: usize = 4 << 10;
/// Directory of the first writer, which one of the consumers follows.
const OWN: &str = "/w0";
/// File that is written last.
const END: &str = "/w0/end";

/// Consumers that are killed and resumed. The size is the number of kills of each.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResumedConsumers {
    /// Plants a fault: consumers go on after the event before the last one.
    pub forgets: bool,
}

impl Proof for ResumedConsumers {
    fn about(&self) -> About {
        About {
            name: "changes",
            claim: "A consumer of changes that is killed and resumed misses and repeats nothing.",
            full: 100,
            ci: 8,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let server = ServerProcess::start(&setting.garth(), &setting.folder.join("data"), None)?;
        resumed(&server, setting.size, setting.seed, self.forgets)
    }
}

const COUNTS: [&str; 5] = ["kills", "commits written", "events", "commits in parts", "changes compared"];

/// Kills consumers while writers write. Compares what they have received with the log.
///
/// # Errors
/// A change that a consumer has missed or received twice.
fn resumed<'a>(server: &'a ServerProcess, kills: u64, seed: u64, forgets: bool) -> Proven<Report> {
    let (stop, mut report) = (AtomicBool::new(false), Report::of(COUNTS));
    let consumers = [None, Some(OWN)].map(|path| Consumer::new(server, path, forgets));
    let mut consumers = std::thread::scope(|scope| -> Proven<Vec<Consumer<'a>>> {
        let stop = &stop;
        let writers = (0..WRITERS).map(|number| {
            scope.spawn(move || {
                let written = write(server, number, seed, stop);
                // Consumers would wait for changes for ever.
                if written.is_err() {
                    stop.store(true, Ordering::Relaxed);
                }
                written
            })
        });
        let writers: Vec<_> = writers.collect();
        let killed = consumers.into_iter().enumerate().map(|(number, consumer)| {
            let random = Random::new(seed.wrapping_add(1000 + number as u64));
            scope.spawn(move || consumer.killed(kills, random, stop))
        });
        let killed: Vec<_> = killed.collect();
        let killed: Vec<Proven<Consumer<'a>>> = killed.into_iter().map(|thread| joined(thread)).collect();
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            report.add("commits written", joined(writer)?);
        }
        killed.into_iter().collect()
    })?;
    let end =
        Request::post("batch", &json!({"ops": [{"op": "write", "path": END, "text": "x", "parents": true}]}));
    Connection::open(&server.address)?.ok(&end.key(&server.key))?;
    for consumer in &mut consumers {
        consumer.finish()?;
        report.add("kills", consumer.kills);
        report.add("events", consumer.events);
        report.add("commits in parts", consumer.events - consumer.seen.len() as u64);
        report.add("changes compared", compare(server, consumer)?);
    }
    Ok(report)
}

/// Writes until `stop`. Returns the number of commits.
fn write(server: &ServerProcess, number: u64, seed: u64, stop: &AtomicBool) -> Proven<u64> {
    let mut connection = Connection::open(&server.address)?;
    let mut random = Random::new(seed.wrapping_add(number));
    let mut commits = 0;
    while !stop.load(Ordering::Relaxed) {
        let file = |n: u64| format!("/w{number}/{n}");
        let remove =
            |n: u64| json!({"remove": {"at": {"path": file(n)}, "what": "file", "missing_ok": true}});
        let write =
            |n: u64| json!({"write": {"at": {"path": file(n)}, "body": {"bytes": "eA=="}, "parents": true}});
        let body = match random.below(50) {
            0 => json!({"ops": (0..LONG).map(|n| write(FILES + n)).collect::<Vec<_>>()}),
            1..20 => json!({"ops": [write(random.below(FILES))], "durability": "visible"}),
            20..25 => json!({"ops": [remove(random.below(FILES))]}),
            _ => json!({"ops": [write(random.below(FILES)), write(random.below(FILES))]}),
        };
        connection.ok(&Request::post("tree/commit", &body).key(&server.key))?;
        commits += 1;
    }
    Ok(commits)
}

/// Commit as a consumer has received it: its sequence and changes.
type ReceivedCommit = (u64, Vec<Value>);

/// One consumer, with what it has received.
struct Consumer<'a> {
    server: &'a ServerProcess,
    /// Directory that it follows; `None` for all.
    path: Option<&'static str>,
    forgets: bool,
    /// Ids of the last event and of the one before.
    ids: [Option<String>; 2],
    seen: Vec<ReceivedCommit>,
    events: u64,
    kills: u64,
}

impl<'a> Consumer<'a> {
    fn new(server: &'a ServerProcess, path: Option<&'static str>, forgets: bool) -> Self {
        Self { server, path, forgets, ids: [None, None], seen: Vec::new(), events: 0, kills: 0 }
    }

    /// Receives events and is killed, as often as asked for, or until the writers have failed.
    fn killed(mut self, kills: u64, mut random: Random, stop: &AtomicBool) -> Proven<Self> {
        while self.kills < kills && !stop.load(Ordering::Relaxed) {
            self.receive(Some(random.below(HEARD) as usize))?;
            self.kills += 1;
        }
        Ok(self)
    }

    /// Receives events until the last file is there.
    fn finish(&mut self) -> Proven<()> {
        self.receive(None)
    }

    /// Connects and receives events: of `most` bytes, or to the end. Bytes after the last complete event are
    /// lost, as when a process is killed.
    fn receive(&mut self, most: Option<usize>) -> Proven<()> {
        let mut connection = self.connect()?;
        let (mut text, mut heard) = (Vec::new(), 0);
        loop {
            // Events end with an empty line.
            while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = text.drain(..end + 2).collect();
                let is_end = self.take(&String::from_utf8_lossy(&event))?;
                if is_end && most.is_none() {
                    return Ok(());
                }
            }
            let left = most.map_or(PIECE, |most| most.saturating_sub(heard).min(PIECE));
            if left == 0 {
                return Ok(());
            }
            let piece = connection.part(left).map_err(|error| self.ended(&error))?;
            heard += piece.len();
            text.extend(piece);
        }
    }

    fn connect(&self) -> Proven<Connection> {
        let last = match self.forgets {
            true => self.ids[1].as_ref(),
            false => self.ids[0].as_ref(),
        };
        let last = last.map_or_else(String::new, |id| format!("last-event-id: {id}\r\n"));
        let path = self.path.map_or_else(String::new, |path| format!("&in={path}"));
        // To a client of HTTP/1.0 the bytes of the stream are sent without chunks around them.
        let head = format!(
            "GET /v1/tree/changes/stream?since=0{path} HTTP/1.0\r\nhost: localhost\r\n\
             authorization: Bearer {}\r\n{last}\r\n",
            self.server.key
        );
        let mut connection = Connection::open(&self.server.address)?;
        connection.send(head.as_bytes())?;
        let status = connection.head_of_stream()?;
        hold(status == 200, || format!("a stream is refused with {status}"))?;
        Ok(connection)
    }

    /// Takes an event. Returns true for that of the last file.
    fn take(&mut self, event: &str) -> Proven<bool> {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
        hold(field("event: ") != Some("error"), || format!("a stream ends with {event}"))?;
        if let Some(id) = field("id: ") {
            let [last, _] = std::mem::take(&mut self.ids);
            self.ids = [Some(id.to_owned()), last];
        }
        // Comments and the first position have no data.
        let Some(data) = field("data: ") else { return Ok(false) };
        let (seq, changes) = parts(&serde_json::from_str(data).unwrap_or_default());
        self.events += 1;
        let is_end = changes.iter().any(|change| change["paths"][0] == END);
        add(&mut self.seen, seq, changes);
        Ok(is_end)
    }

    fn ended(&self, error: &io::Error) -> Broken {
        Broken::because(format!("a stream ended after {} events: {error}", self.events))
    }
}

/// Returns the sequence and the changes of a commit.
fn parts(commit: &Value) -> ReceivedCommit {
    let changes = commit["changes"].as_array().cloned().unwrap_or_default();
    (commit["commit"]["seq"].as_u64().unwrap_or_default(), changes)
}

/// Adds a commit, or a further part of the last one.
fn add(to: &mut Vec<ReceivedCommit>, seq: u64, changes: Vec<Value>) {
    match to.last_mut().filter(|(last, _)| *last == seq) {
        Some((_, before)) => before.extend(changes),
        None => to.push((seq, changes)),
    }
}

/// Compares what a consumer has received with the log, page by page. Returns the number of changes. Paths of
/// a change are those that the node had after its commit, so both show the same.
fn compare(server: &ServerProcess, consumer: &Consumer<'_>) -> Proven<u64> {
    let (mut log, mut cursor): (Vec<ReceivedCommit>, Value) = (Vec::new(), Value::Null);
    let within: Vec<&str> = consumer.path.into_iter().collect();
    let mut connection = Connection::open(&server.address)?;
    loop {
        let body = json!({"since": 0, "within": within, "limit": 1000, "cursor": cursor});
        let page = connection.ok(&Request::post("tree/changes", &body).key(&server.key))?;
        for commit in page["commits"].as_array().into_iter().flatten() {
            let (seq, changes) = parts(commit);
            add(&mut log, seq, changes);
        }
        if page["has_more"] != true {
            break;
        }
        cursor = page["next_cursor"].clone();
    }
    let about = consumer.path.unwrap_or("all");
    for (due, seen) in log.iter().zip(&consumer.seen) {
        hold(due == seen, || format!("a consumer of {about} received {seen:?} in place of {due:?}"))?;
    }
    let (due, seen) = (log.len(), consumer.seen.len());
    hold(due == seen, || format!("a consumer of {about} received {seen} commits of {due}"))?;
    Ok(log.iter().map(|(_, changes)| changes.len() as u64).sum())
}
