//! Connections that are cut during a put: a client that puts again under the same idempotency key has put
//! once.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use garth_engine::Env;
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold};
use serde_json::{Value, json};

/// Limit on the time until a connection is cut, in microseconds: about twice a commit.
const LONGEST: u64 = 3000;

/// Server that receives the puts.
struct Server {
    child: Child,
    address: String,
    key: String,
}

impl Server {
    fn start(garth: &Path, data: &Path) -> Proven<Self> {
        let mut child = Command::new(garth)
            .args(["serve", "--listen", "127.0.0.1:0", "--json", "--data"])
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        if let Some(said) = child.stdout.take() {
            BufReader::new(said).read_line(&mut line)?;
        }
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        let server = Self { child, address: text("url").replace("http://", ""), key: text("key") };
        hold(!server.key.is_empty(), || format!("the server began with `{line}`"))?;
        Ok(server)
    }

    fn send(
        &self,
        call: &str,
        key: &str,
        body: &Value,
        bytes: impl FnOnce(usize) -> usize,
    ) -> Proven<TcpStream> {
        let body = body.to_string();
        let request = format!(
            "POST /v1/{call} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nidempotency-key: {key}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.address,
            self.key,
            body.len()
        );
        let mut connection = TcpStream::connect(&self.address)?;
        connection.write_all(&request.as_bytes()[..bytes(request.len())])?;
        Ok(connection)
    }

    fn ask(&self, call: &str, key: &str, body: &Value) -> Proven<Value> {
        let mut answer = String::new();
        self.send(call, key, body, |whole| whole)?.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        hold(head.starts_with("HTTP/1.1 200"), || format!("{call} is answered by `{answer}`"))?;
        serde_json::from_str(body).map_err(|_| Broken::because(format!("{call} is answered by `{body}`")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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
    let server = Server::start(garth, data)?;
    for round in 0..rounds {
        let (key, path) = (format!("key-{round}"), format!("/cut/{round}"));
        let put = json!({"path": path, "value": round});
        // One in four is cut before the server has the complete request.
        let part = random.one_in(4).then(|| random.below(1000) as usize);
        let connection =
            server.send("put", &key, &put, |whole| part.map_or(whole, |part| whole * part / 1000))?;
        Env::system().sleep(Duration::from_micros(random.below(LONGEST)));
        drop(connection);
        report.add("answers lost", 1);
        let before = server.ask("get", "none", &json!({"path": path}))?;
        match before["found"].as_bool() {
            Some(true) => report.add("puts that were there", 1),
            _ => report.add("puts made by a retry", 1),
        }
        server.ask("put", &key, &put)?;
        let history = server.ask("history", "none", &json!({"path": path}))?;
        let versions = history["versions"].as_array().map_or(0, Vec::len);
        hold(versions == 1, || format!("{path} was put {versions} times"))?;
    }
    Ok(report)
}
