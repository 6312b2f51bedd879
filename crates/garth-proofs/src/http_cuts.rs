//! Connections that are cut during a put: a client that puts again under the same idempotency key has put
//! once.

use std::path::Path;
use std::time::Duration;

use garth_engine::Env;
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Proof, Proven, Report, Setting, hold};
use serde_json::{Value, json};

use crate::served::{Connection, Request, ServerProcess};

/// Limit on the time until a connection is cut, in microseconds: about twice a commit.
const LONGEST: u64 = 3000;

/// Connections that are cut before or during the response to a put. The size is the number of puts.
#[derive(Clone, Copy, Debug)]
pub struct HttpCuts;

impl Proof for HttpCuts {
    fn about(&self) -> About {
        About {
            name: "http-cuts",
            claim: "A put whose connection was cut is there once after a retry.",
            full: 1_000,
            ci: 60,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        cut(setting.folder, &setting.garth(), setting.size, setting.seed)
    }
}

/// Counts of lost answers.
const COUNTS: [&str; 3] = ["answers lost", "puts that were there", "puts made by a retry"];

/// Cuts the connection of `rounds` puts to a server, before or during the response, and puts again under the
/// same idempotency key. `garth` is the binary.
///
/// # Errors
/// A put that was made twice or not at all.
fn cut(data: &Path, garth: &Path, rounds: u64, seed: u64) -> Proven<Report> {
    let mut random = Random::new(seed);
    let mut report = Report::of(COUNTS);
    let server = ServerProcess::start(garth, data, None)?;
    let ask = |call: &str, body: &Value| -> Proven<Value> {
        Connection::open(&server.address)?.ok(&Request::post(call, body).key(&server.key))
    };
    for round in 0..rounds {
        let path = format!("/cut/{round}");
        let put = Request::post("put", &json!({"path": path, "value": round}));
        let put = put.key(&server.key).once(format!("key-{round}"));
        // One in four is cut before the server has the complete request.
        let part = random.one_in(4).then(|| random.below(1000) as usize);
        let bytes = put.bytes();
        let sent = part.map_or(bytes.len(), |part| bytes.len() * part / 1000);
        let mut connection = Connection::open(&server.address)?;
        connection.send(&bytes[..sent])?;
        Env::system().sleep(Duration::from_micros(random.below(LONGEST)));
        drop(connection);
        report.add("answers lost", 1);
        let before = ask("get", &json!({"path": path}))?;
        match before["found"].as_bool() {
            Some(true) => report.add("puts that were there", 1),
            _ => report.add("puts made by a retry", 1),
        }
        Connection::open(&server.address)?.ok(&put)?;
        let history = ask("history", &json!({"path": path}))?;
        let versions = history["versions"].as_array().map_or(0, Vec::len);
        hold(versions == 1, || format!("{path} was put {versions} times"))?;
    }
    Ok(report)
}
