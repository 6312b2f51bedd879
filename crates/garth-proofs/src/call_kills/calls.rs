//! Calls of a writer, in rounds with files of their own, and the effects that each must have once.

use std::collections::BTreeMap;

use garth_testkit::proof::{Proven, hold};
use serde_json::{Value, json};

use crate::served::{Answer, Connection, Request, broken_off, text_of};

/// Calls of a round.
pub(super) const ROUND: u64 = 12;
/// Kinds of the calls of a round, in their order.
pub(super) const KINDS: [&str; ROUND as usize] = [
    "PUT /v1/fs",
    "PATCH /v1/fs",
    "POST /v1/uploads",
    "POST /v1/uploads",
    "POST /v1/batch of parts",
    "POST /v1/batch",
    "POST /v1/tree/edit",
    "POST /v1/admin/keys/create",
    "DELETE /v1/fs",
    "PUT /v1/fs",
    "PATCH /v1/fs with a bound key",
    "POST /v1/batch with a bound key",
];
/// Agent and user of the bound key.
pub(super) const BOUND: (&str, &str) = ("scout", "ann");
/// Length of the first part of a file: more than an upload holds in memory.
const FIRST: usize = (1 << 20) + 1000;
/// Length of the second part.
const SECOND: usize = 1000;

/// API keys of the writers.
#[derive(Clone)]
pub(super) struct Keys {
    pub(super) admin: String,
    pub(super) bound: String,
}

/// Calls of one writer.
pub(super) struct Calls {
    writer: u64,
    keys: Keys,
    /// Content of the last uploads, in the order of the parts.
    staged: [Value; 2],
}

impl Calls {
    pub(super) fn new(writer: u64, keys: Keys) -> Self {
        Self { writer, keys, staged: [Value::Null, Value::Null] }
    }

    /// Returns call `n`. Each one needs the effects of those before it in its round.
    pub(super) fn call(&self, n: u64) -> Request {
        let (writer, round) = (self.writer, n / ROUND);
        let in_round = |name: &str| format!("/w{writer}/r{round}/{name}");
        let bytes = |method, name: &str| Request::new(method, format!("/v1/fs{}", in_round(name)));
        let upload = |length| {
            let target = format!("/v1/uploads?path={}", in_round("parts"));
            Request::new("POST", target).body(part(n, length))
        };
        let append = |path: String| json!({"op": "append", "path": path, "text": format!("batch {n}\n")});
        let call = match n % ROUND {
            0 => bytes("PUT", "file").body(format!("first {n}\n")),
            1 => bytes("PATCH", "file").body(format!("second {n}\n")),
            2 => upload(FIRST),
            3 => upload(SECOND),
            4 => {
                let [first, second] = &self.staged;
                let write = json!({"op": "write", "path": in_round("parts"), "staged": first});
                let append = json!({"op": "append", "path": in_round("parts"), "staged": second});
                Request::post("batch", &json!({"ops": [write, append]}))
            }
            5 => {
                let write = json!({"op": "write", "path": in_round("gone"), "text": "there\n"});
                Request::post("batch", &json!({"ops": [append(in_round("log")), write]}))
            }
            6 => {
                let edit = json!({"path": in_round("file"), "old": "second", "new": "third"});
                Request::post("tree/edit", &edit)
            }
            7 => Request::post("admin/keys/create", &json!({"label": label(writer, round)})),
            8 => bytes("DELETE", "gone"),
            // A repeat of the removal must not remove this file.
            9 => bytes("PUT", "gone").body("there again\n"),
            10 => Request::new("PATCH", format!("/v1/fs{}", note(writer, round))).body(format!("note {n}\n")),
            _ => Request::post("batch", &json!({"ops": [append(note(writer, round))]})),
        };
        call.key(if n % ROUND >= 10 { &self.keys.bound } else { &self.keys.admin })
    }

    /// Remembers the part of an answer that a later call names.
    pub(super) fn learn(&mut self, n: u64, answer: &Answer) {
        if let Some(part) = (n % ROUND).checked_sub(2).filter(|part| *part < 2) {
            let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            self.staged[part as usize] = answer["staged"].clone();
        }
    }

    /// Fails unless the calls of a round, up to call `last`, each had one effect. `labels` are the numbers of
    /// keys by label.
    pub(super) fn check(
        &self,
        server: &mut Connection,
        round: u64,
        last: u64,
        labels: &BTreeMap<String, u64>,
    ) -> Proven<()> {
        let (writer, first) = (self.writer, round * ROUND);
        let done = |call: u64| last >= first + call;
        let folder = format!("/w{writer}/r{round}");
        for (path, calls) in [
            (format!("{folder}/file"), vec![0, 1, 6]),
            (format!("{folder}/parts"), vec![4]),
            (format!("{folder}/log"), vec![5]),
            (format!("{folder}/gone"), vec![5, 8, 9]),
            (note(writer, round), vec![10, 11]),
        ] {
            let due = calls.iter().filter(|call| done(**call)).count();
            let found = self.versions(server, &path)?;
            hold(found == due, || format!("{path} has {found} versions, not {due}"))?;
        }
        let line = |call: u64, text: &str| match done(call) {
            true => format!("{text} {}\n", first + call),
            false => String::new(),
        };
        let parts = if done(4) { [part(first + 2, FIRST), part(first + 3, SECOND)].concat() } else { vec![] };
        let gone = match (done(5), done(8), done(9)) {
            (.., true) => "there again\n",
            (true, false, _) => "there\n",
            _ => "",
        };
        let second = if done(6) { "third" } else { "second" };
        for (path, due) in [
            (format!("{folder}/file"), (line(0, "first") + &line(1, second)).into_bytes()),
            (format!("{folder}/parts"), parts),
            (format!("{folder}/log"), line(5, "batch").into_bytes()),
            (format!("{folder}/gone"), gone.as_bytes().to_vec()),
            (note(writer, round), (line(10, "note") + &line(11, "batch")).into_bytes()),
        ] {
            let found = self.content(server, &path)?;
            hold(found == due, || {
                format!("{path} has {} bytes that are not the {} written", found.len(), due.len())
            })?;
        }
        let (label, due) = (label(writer, round), u64::from(done(7)));
        let keys = labels.get(&label).copied().unwrap_or_default();
        hold(keys == due, || format!("{keys} keys are labelled `{label}`, not {due}"))
    }

    /// Returns the key whose tree has a path.
    fn key_of(&self, path: &str) -> &str {
        if path.starts_with("/note-") { &self.keys.bound } else { &self.keys.admin }
    }

    /// Returns the number of versions of a file, its removals included; 0 if it never existed.
    fn versions(&self, server: &mut Connection, path: &str) -> Proven<usize> {
        let history = Request::post("tree/history", &json!({"path": path})).key(self.key_of(path));
        let answer = server.ask(&history).map_err(|error| broken_off(&history, &error))?;
        let found: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        hold(answer.is_ok() || answer.status == 404, || format!("{}: {}", history.name(), answer.shown()))?;
        Ok(found["items"].as_array().map_or(0, Vec::len))
    }

    /// Returns the content of a file; nothing if it is missing.
    fn content(&self, server: &mut Connection, path: &str) -> Proven<Vec<u8>> {
        let read = Request::new("GET", format!("/v1/fs{path}")).key(self.key_of(path));
        let answer = server.ask(&read).map_err(|error| broken_off(&read, &error))?;
        hold(answer.is_ok() || answer.status == 404, || format!("{}: {}", read.name(), answer.shown()))?;
        Ok(if answer.is_ok() { answer.body } else { Vec::new() })
    }
}

/// Returns the number of keys by label.
pub(super) fn labels(server: &mut Connection, admin: &str) -> Proven<BTreeMap<String, u64>> {
    let (mut labels, mut cursor) = (BTreeMap::new(), Value::Null);
    loop {
        let page = json!({"limit": 500, "cursor": cursor});
        let page = server.ok(&Request::post("admin/keys/list", &page).key(admin))?;
        for key in page["items"].as_array().into_iter().flatten() {
            *labels.entry(text_of(&key["label"])).or_default() += 1;
        }
        if page["has_more"] != true {
            return Ok(labels);
        }
        cursor = page["next_cursor"].clone();
    }
}

/// Returns the path of the file of a round in the tree of the bound key.
fn note(writer: u64, round: u64) -> String {
    format!("/note-{writer}-{round}")
}

/// Returns the label of the key of a round.
fn label(writer: u64, round: u64) -> String {
    format!("made by {writer} in {round}")
}

/// Returns the bytes that call `n` uploads. Equal ones would be stored once.
fn part(n: u64, length: usize) -> Vec<u8> {
    n.to_le_bytes().into_iter().cycle().take(length).collect()
}
