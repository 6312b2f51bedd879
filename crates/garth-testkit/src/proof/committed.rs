//! Answers that are lost: the caller gives up, the process ends between commit and answer, the connection is
//! cut. Whoever then asks by the commit's id, and commits again under it where there is none, has committed
//! once.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, ChangesQuery, CommitId, MAX_PAGE, Seq};
use garth_engine::runtime::failpoint::Failure;
use garth_engine::{Env, FileSystem};
use serde_json::{Value, json};

use super::{Broken, Proven, account, append, hold, read, run, sound};
use crate::random::Random;

/// The file that each commit appends its id to.
const LINES: &str = "/lines";
/// Where the process that commits ends: at a point of its commit, in their order, or killed at any moment.
const ENDS: [&str; 7] = ["plan", "apply", "index", "before-commit", "after-commit", "answer", "killed"];
/// Longest time until a caller gives up or a process is killed, in microseconds: about twice a commit.
const LONGEST: u64 = 3000;

/// What a caller does about a lost answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Asks by the id, and commits again under it if there is none.
    SameId,
    /// Commits again under another id: the negative control.
    OtherId,
}

/// What became of commits whose answers were lost.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Answers lost.
    pub lost: u64,
    /// Those of commits that were there.
    pub kept: u64,
    /// Those of commits that were not, and were made by a retry.
    pub retried: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, kept, retried } = self;
        write!(f, "{lost} answers lost: {kept} commits were there, {retried} were made by a retry, each once")
    }
}

/// One commit and its id.
struct Tried {
    id: CommitId,
    batch: Batch,
}

impl Tried {
    fn new(random: &mut Random) -> Proven<Self> {
        let id = CommitId(u128::from(random.next()) << 64 | u128::from(random.next()));
        Ok(Self { id, batch: batch(id)? })
    }

    /// Finds out what became of it, and brings it about.
    async fn settle(&self, fs: &dyn FileSystem, retry: Retry, report: &mut Report) -> Proven<()> {
        report.lost += 1;
        let found = fs.committed(self.id).await?.filter(|_| retry == Retry::SameId);
        let first = match found {
            Some(commit) => {
                report.kept += 1;
                commit
            }
            None => {
                report.retried += 1;
                let id = if retry == Retry::SameId { self.id } else { CommitId(!self.id.0) };
                fs.commit(self.batch.clone().id(id)).await?
            }
        };
        if retry == Retry::OtherId {
            return Ok(());
        }
        let again = fs.commit(self.batch.clone()).await?;
        hold(again.replayed && (again.seq, &again.outcomes) == (first.seq, &first.outcomes), || {
            format!("a retry is answered by {again:?}, the first was {first:?}")
        })
    }
}

fn batch(id: CommitId) -> Proven<Batch> {
    Ok(Batch::new([append(LINES, format!("{id}\n"))?]).id(id))
}

/// Gives up `rounds` commits, each after a while, on two instances of an account in `folder`.
///
/// # Errors
/// What was committed twice, not at all, or answered in another way.
pub fn given_up(folder: &Path, rounds: u64, seed: u64, retry: Retry) -> Proven<Report> {
    let mut random = Random::new(seed);
    let mut report = Report::default();
    let first = account(folder, Env::system())?;
    let second = SqliteFs::open(folder, Env::system(), garth::agent::registry())?;
    let mut tried = Vec::new();
    run(async {
        for _ in 0..rounds {
            let this = Tried::new(&mut random)?;
            match random.below(4) {
                0 => drop(first.commit(this.batch.clone())),
                1 => drop(first.commit(this.batch.clone()).now_or_never()),
                _ => {
                    let while_it_waits = Duration::from_micros(random.below(LONGEST));
                    drop(tokio::time::timeout(while_it_waits, first.commit(this.batch.clone())).await);
                }
            }
            // The second instance may be asked while the first still has the batch in its queue: what it then
            // commits under the id is the commit, and the first finds it there.
            let asked = if random.one_in(2) { &first } else { &second };
            this.settle(&**asked, retry, &mut report).await?;
            tried.push(this.id);
        }
        // behind what is still queued
        first.sync().await?;
        once(&first, &tried).await
    })?;
    sound(&*first)?;
    Ok(report)
}

/// Ends the process that commits, `rounds` times: at each point of a commit in turn, or at any moment.
/// `binary` is `proof-worker`.
///
/// # Errors
/// As for [`given_up`]; what was answered before the end and is not there.
pub fn ended(folder: &Path, binary: &Path, rounds: u64, seed: u64, retry: Retry) -> Proven<Report> {
    let mut random = Random::new(seed);
    let mut report = Report::default();
    let mut tried = Vec::new();
    account(folder, Env::system())?;
    for end in ENDS.into_iter().cycle().take(usize::try_from(rounds).unwrap_or(usize::MAX)) {
        let this = Tried::new(&mut random)?;
        let answered = commit_elsewhere(folder, binary, this.id, end, random.below(LONGEST))?;
        // nobody else has it open: what the log of the database holds is found as after a crash
        let fs = SqliteFs::open(folder, Env::system(), garth::agent::registry())?;
        run(async {
            let found = fs.committed(this.id).await?.is_some();
            hold(found || !answered, || format!("{end}: what was answered is not there"))?;
            hold(found || !["after-commit", "answer"].contains(&end), || format!("{end}: it is not there"))?;
            this.settle(&*fs, retry, &mut report).await
        })?;
        tried.push(this.id);
    }
    let fs = SqliteFs::open(folder, Env::system(), garth::agent::registry())?;
    run(once(&fs, &tried))?;
    sound(&*fs)?;
    Ok(report)
}

/// Has another process commit and end; whether it was answered first.
fn commit_elsewhere(folder: &Path, binary: &Path, id: CommitId, end: &str, micros: u64) -> Proven<bool> {
    let place = folder.to_str().ok_or_else(|| Broken::because("the folder's path is not UTF-8"))?;
    let mut child = Command::new(binary)
        .args(["commit", place, &format!("{:032x}", id.0), end])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut said = BufReader::new(child.stdout.take().ok_or_else(|| Broken::because("no pipe"))?);
    let mut line = String::new();
    said.read_line(&mut line)?;
    hold(line == "ready\n", || format!("the worker began with `{line}`"))?;
    if end == "killed" {
        Env::system().sleep(Duration::from_micros(micros));
        child.kill()?;
    }
    line.clear();
    said.read_line(&mut line)?;
    child.wait()?;
    Ok(line == "answered\n")
}

/// The other process's part: commits and ends at a point, or waits to be killed.
pub(super) fn commit_and_end(folder: &Path, id: &str, end: &str) -> Proven<()> {
    let id = u128::from_str_radix(id, 16).map_err(|_| Broken::because("the id is no number"))?;
    let fs = SqliteFs::open(folder, Env::system(), garth::agent::registry())?;
    if end != "killed" {
        fs.runtime().failpoints().arm(end, Failure::Abort, 0);
    }
    say("ready")?;
    futures::executor::block_on(fs.commit(batch(CommitId(id))?))?;
    say("answered")?;
    loop {
        Env::system().sleep(Duration::from_secs(60));
    }
}

fn say(line: &str) -> Proven<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Each id is in the log once, and so is what its commit did.
async fn once(fs: &Arc<SqliteFs>, tried: &[CommitId]) -> Proven<()> {
    let mut commits: HashMap<CommitId, u64> = HashMap::new();
    let mut query = ChangesQuery::since(Seq(0)).limit(MAX_PAGE);
    loop {
        let page = fs.changes(&query).await?;
        for commit in page.commits {
            *commits.entry(commit.commit.id.unwrap_or(CommitId(0))).or_default() += 1;
        }
        if page.until == page.head.into() {
            break;
        }
        query.since = page.until;
    }
    let text = read(&**fs, LINES).await?;
    let mut lines: HashMap<&str, u64> = HashMap::new();
    for line in text.lines() {
        *lines.entry(line).or_default() += 1;
    }
    for id in tried {
        let times = (commits.get(id).copied(), lines.get(id.to_string().as_str()).copied());
        hold(times == (Some(1), Some(1)), || format!("commit {id}: in the log and done {times:?} times"))?;
    }
    let all = tried.len();
    hold(commits.len() == all && lines.len() == all, || "there are commits that nobody tried".to_owned())
}

/// A server that puts are sent to.
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
        // it may have ended by itself
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Cuts the connection of `rounds` puts to a server, before or while they are answered, and puts again under
/// the same idempotency key. `garth` is the binary.
///
/// # Errors
/// What was put twice or not at all.
pub fn cut(data: &Path, garth: &Path, rounds: u64, seed: u64) -> Proven<Report> {
    let mut random = Random::new(seed);
    let mut report = Report::default();
    let server = Server::start(garth, data)?;
    for round in 0..rounds {
        let (key, path) = (format!("key-{round}"), format!("/cut/{round}"));
        let put = json!({"path": path, "value": round});
        // one in four is cut before the server has the whole request
        let part = random.one_in(4).then(|| random.below(1000) as usize);
        let connection =
            server.send("put", &key, &put, |whole| part.map_or(whole, |part| whole * part / 1000))?;
        Env::system().sleep(Duration::from_micros(random.below(LONGEST)));
        drop(connection);
        report.lost += 1;
        let before = server.ask("get", "none", &json!({"path": path}))?;
        match before["found"].as_bool() {
            Some(true) => report.kept += 1,
            _ => report.retried += 1,
        }
        server.ask("put", &key, &put)?;
        let history = server.ask("history", "none", &json!({"path": path}))?;
        let versions = history["versions"].as_array().map_or(0, Vec::len);
        hold(versions == 1, || format!("{path} was put {versions} times"))?;
    }
    Ok(report)
}
