//! One day of use for each kind of agent, on the server and the command line: its users find their own data
//! and no other data. Each kind of data has its own word, so a word in the wrong place shows.

mod coder;
mod personal;
mod support;
mod team;
mod upgraded;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use ureq::Agent;

use super::garth::Garth;
use super::serve::Server;

/// A program with an API key.
struct Program {
    _server: Server,
    url: String,
    key: String,
    client: Agent,
}

impl Program {
    fn start(garth: &Garth) -> Self {
        let server = Server::start(garth);
        let client = Agent::config_builder().http_status_as_error(false).build().into();
        Self { url: server.url(), key: server.key(), client, _server: server }
    }

    /// Makes a call. Returns its status and answer.
    fn call(&self, call: &str, body: &Value) -> (u16, Value) {
        let request = self.client.post(&format!("{}/v1/{call}", self.url));
        let request = request.header("Authorization", format!("Bearer {}", self.key));
        let mut answer = request.send_json(body).expect("an answer");
        let status = answer.status().as_u16();
        (status, answer.body_mut().read_json().expect("JSON"))
    }

    /// Makes a call that must succeed.
    fn ok(&self, call: &str, body: &Value) -> Value {
        let (status, answer) = self.call(call, body);
        assert_eq!(status, 200, "{call} {body}: {answer}");
        answer
    }

    /// Makes a call for an asker. `who` has the fields that name the asker.
    fn by(&self, who: &Value, call: &str, body: Value) -> Value {
        self.ok(call, &with(who, body))
    }

    /// Continues or creates the session of an asker with a session key. Returns its name.
    fn current(&self, who: &Value) -> String {
        let current = self.by(who, "sessions/current", json!({"create": true}));
        current["session"]["name"].as_str().expect("a name").to_owned()
    }

    /// Appends a message.
    fn say(&self, who: &Value, session: &str, text: &str) {
        let message = json!({"role": "user", "content": text});
        self.by(who, "sessions/append", json!({"name": session, "messages": [message]}));
    }

    /// Returns the system prompt of an agent for an asker.
    fn prompt(&self, agent: &str, who: &Value) -> String {
        let built = self.ok(&format!("agents/{agent}/prompt"), &without_agent(who));
        built["content"].as_str().expect("a text").to_owned()
    }

    /// Adds a text to today's memory.
    fn remember(&self, agent: &str, who: &Value, text: &str) {
        self.ok(&format!("agents/{agent}/daily/add"), &with(&without_agent(who), json!({"text": text})));
    }

    /// Returns all texts that an asker can list, recall and read, as one text.
    fn everything(&self, who: &Value, question: &str) -> String {
        let sessions = self.by(who, "sessions/list", json!({}));
        let memories = self.by(who, "memories/list", json!({}));
        let recalled = self.by(who, "recall", json!({"question": question, "budget": 8000}));
        [sessions, memories, recalled].map(|answer| answer.to_string()).join("\n")
    }
}

fn with(who: &Value, body: Value) -> Value {
    let (Value::Object(mut all), Value::Object(more)) = (who.clone(), body) else { panic!("fields") };
    all.extend(more);
    Value::Object(all)
}

fn without_agent(who: &Value) -> Value {
    let mut who = who.clone();
    who.as_object_mut().expect("fields").remove("agent");
    who
}

/// Returns the words of a text that begin with `canary`.
fn canaries(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| word.starts_with("canary")).map(str::to_owned).collect()
}

/// Asserts that a text has exactly these words that begin with `canary`.
fn assert_canaries(text: &str, expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|word| (*word).to_owned()).collect();
    assert_eq!(canaries(text), expected, "{text}");
}
