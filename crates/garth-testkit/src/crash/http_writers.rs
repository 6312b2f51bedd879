//! Workload over HTTP: a real server, eight clients that put, and a reader that requests every value and its
//! history.

use std::collections::btree_map::Entry;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use garth_engine::model::VersionId;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::attempts::{Attempt, WRITERS, Workload};
use super::crash_moment::Moment;
use super::journal::{Acknowledged, Journal, Observed, Seen, WriterLog};
use super::kill::kill;

/// Longest wait for a response.
const PATIENCE: Duration = Duration::from_secs(30);
/// Limit on the versions of one response of `/v1/history`.
const HISTORY: u32 = 100;

/// Hint about a missing binary.
pub(super) const BUILD_IT: &str = "build it with `cargo build -p garth-cli`";

/// A server that accepts connections.
pub(super) struct Server {
    pub(super) child: Child,
    pub(super) client: Client,
}

/// Client of a server.
#[derive(Clone)]
pub(super) struct Client {
    agent: ureq::Agent,
    url: String,
    key: String,
}

/// Line that `garth serve --json` prints.
#[derive(Deserialize)]
struct Ready {
    url: String,
    key: Option<String>,
}

#[derive(Deserialize)]
struct PutAnswer {
    version_id: String,
}

#[derive(Deserialize)]
struct GetAnswer<'a> {
    found: bool,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct HistoryAnswer<'a> {
    #[serde(borrow)]
    versions: Vec<HistoryItem<'a>>,
}

#[derive(Deserialize)]
struct HistoryItem<'a> {
    version_id: String,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// Starts a server on a data folder. `key` is set by the first start of the folder and used by later ones.
pub(super) fn serve(mut command: Command, data: &Path, key: &mut Option<String>) -> Result<Server, String> {
    let mut child = command
        .args(["serve", "--listen", "127.0.0.1:0", "--json", "--data"])
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start {} ({e}); {BUILD_IT}", command.get_program().display()))?;
    let mut line = String::new();
    let stdout = child.stdout.take().ok_or("the server has no stdout")?;
    let ready = BufReader::new(stdout).read_line(&mut line).map_err(|e| e.to_string()).and_then(|_| {
        serde_json::from_str::<Ready>(&line)
            .map_err(|e| format!("the server did not start: it said `{line}` ({e})"))
    });
    let ready = match ready {
        Ok(ready) => ready,
        Err(error) => {
            kill(&mut child);
            return Err(error);
        }
    };
    // The server prints a key only when it creates the data folder.
    if ready.key.is_some() {
        *key = ready.key;
    }
    // A rejection is a response that the check reads, and not a failed request.
    let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false);
    let client = Client {
        agent: config.build().new_agent(),
        url: ready.url,
        key: key.clone().ok_or("the server's first start gave no key")?,
    };
    Ok(Server { child, client })
}

impl Client {
    fn post(&self, verb: &str, body: &str) -> Result<(u16, String), String> {
        let mut answer = self
            .agent
            .post(format!("{}/v1/{verb}", self.url))
            .header("Authorization", format!("Bearer {}", self.key))
            .content_type("application/json")
            .send(body)
            .map_err(|e| e.to_string())?;
        let text =
            answer.body_mut().with_config().limit(1 << 30).read_to_string().map_err(|e| e.to_string())?;
        Ok((answer.status().as_u16(), text))
    }

    fn put(&self, path: &str, value: &str) -> Result<VersionId, String> {
        let (status, text) =
            self.post("put", &format!(r#"{{"agent_id":"default","path":{},"value":{value}}}"#, json!(path)))?;
        let unexpected = || format!("put answered {status} `{text:.300}`");
        if status != 200 {
            return Err(unexpected());
        }
        let answer: PutAnswer = serde_json::from_str(&text).map_err(|_| unexpected())?;
        answer.version_id.parse().map_err(|_| unexpected())
    }

    /// Reads the value and the history of a path.
    fn see(&self, path: &str) -> Result<Seen, String> {
        let (status, text) = self.post("get", &json!({ "agent_id": "default", "path": path }).to_string())?;
        let unexpected = |what: &str| format!("{what} of {path} answered {status} `{text:.300}`");
        let got: GetAnswer<'_> = serde_json::from_str(&text).map_err(|_| unexpected("get"))?;
        if status != 200 || got.found != got.value.is_some() {
            return Err(unexpected("get"));
        }
        let current = got.value.map(|value| value.get().to_owned());

        let body = json!({ "agent_id": "default", "path": path, "limit": HISTORY }).to_string();
        let (status, text) = self.post("history", &body)?;
        let unexpected = || format!("history of {path} answered {status} `{text:.300}`");
        if status != 200 {
            return Err(unexpected());
        }
        let history: HistoryAnswer<'_> = serde_json::from_str(&text).map_err(|_| unexpected())?;
        let version = |item: HistoryItem<'_>| {
            Ok((item.version_id.parse().map_err(|_| unexpected())?, item.value.get().to_owned()))
        };
        Ok(Seen {
            current,
            versions: history.versions.into_iter().map(version).collect::<Result<_, String>>()?,
        })
    }

    /// Reads every path that a round may have written.
    pub(super) fn observe(
        &self,
        workload: Workload,
        round: u32,
        journal: &Journal,
    ) -> Result<Observed, String> {
        let mut observed = Observed::new();
        for path in journal.attempts(round).flat_map(|attempt| workload.paths(attempt)) {
            if let Entry::Vacant(unseen) = observed.entry(path) {
                let seen = self.see(unseen.key())?;
                unseen.insert(seen);
            }
        }
        Ok(observed)
    }

    /// Starts the writers. Each records a response before its next request, and continues until a request
    /// fails, which is a finding unless the crash has begun. (A server that acknowledges without a disk is
    /// detected later.)
    pub(super) fn write(&self, workload: Workload, round: u32, moment: &Arc<Moment>) -> Writers {
        let threads = (0..WRITERS).map(|writer| {
            let (client, moment) = (self.clone(), moment.clone());
            thread::spawn(move || client.write_as(workload, round, writer, &moment))
        });
        Writers(threads.collect())
    }

    fn write_as(
        &self,
        workload: Workload,
        round: u32,
        writer: u32,
        moment: &Moment,
    ) -> Result<WriterLog, String> {
        let mut log = WriterLog::default();
        loop {
            // Before the request, so that one that starts after the cut can be told from one that the cut
            // met.
            let begun = moment.phase();
            log.attempted += 1;
            let attempt = Attempt { round, writer, n: log.attempted };
            let answers: Result<Vec<_>, _> =
                workload.paths(attempt).iter().map(|path| self.put(path, &workload.value(attempt))).collect();
            match answers {
                Ok(versions) => {
                    let sure = moment.acknowledged(begun);
                    log.acknowledged.push(Acknowledged { versions, sure });
                }
                // The crash ends the connection; the last attempt counts as in flight.
                Err(_) if moment.has_come() => return Ok(log),
                Err(error) => return Err(format!("{attempt} failed before the crash: {error}")),
            }
        }
    }
}

/// Writers at work.
pub(super) struct Writers(Vec<JoinHandle<Result<WriterLog, String>>>);

impl Writers {
    /// Waits until they notice that the server is gone.
    pub(super) fn journal(self) -> Result<Journal, String> {
        let logs =
            self.0.into_iter().map(|thread| thread.join().map_err(|_| "a writer panicked".to_owned())?);
        Ok(Journal { writers: logs.collect::<Result<_, _>>()? })
    }
}
