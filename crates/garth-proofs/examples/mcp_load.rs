//! Calls a second of tools, and their latency, by the library, over MCP on pipes and over MCP on HTTP; and
//! the tokens of the list of tools and of their answers. The servers run with the binary of the argument, all
//! on one data folder with 200 files of 4 KiB:
//!
//! ```sh
//! cargo build --profile prove -p garth-cli
//! cargo run --profile prove -p garth-proofs --example mcp_load -- target/prove/garth 2 5
//! ```
//!
//! The second argument is the number of seconds for which each way makes each call in a round (2), the third
//! the number of rounds (5); a first round is not counted. In a round the ways take turns; the figures are
//! medians of the rounds. The library makes the reads and commits of a tool in this process, without its text
//! and JSON. Over HTTP the key is bound to the agent and the user.
#![allow(clippy::print_stdout, reason = "its purpose is to print figures")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use garth::Chat;
use garth::fs::{Follow, resolve};
use garth_agent::count::count;
use garth_agent::files::{Files, Grep};
use garth_agent::search::{SearchRequest, Searcher};
use garth_engine::Env;
use garth_engine::model::{At, Batch, ByteRange, Op};
use garth_testkit::data::random::Random;
use serde_json::{Value, json};

use self::mcp_messages::{Lifecycle, Message, ToolResult};
use self::served::{Connection, Request, ServerProcess, text_of};

#[allow(dead_code, reason = "the proofs use all of it")]
#[path = "../src/mcp_messages.rs"]
mod mcp_messages;
#[allow(dead_code, reason = "the proofs use all of it")]
#[path = "../src/served.rs"]
mod served;

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// Agent and user of every call.
const WHO: (&str, &str) = ("default", "ann");
/// Files of the tree.
const FILES: u64 = 200;
/// Files of a directory.
const PER_DIRECTORY: u64 = 20;
/// Bytes of a file.
const SIZE: usize = 4 << 10;
/// Bytes of a written file.
const WRITTEN: usize = 1 << 10;
/// Every file of this many has the word that is searched.
const RARE: u64 = 50;
/// Words of the texts.
const WORDS: &str = "agent answer archive budget camera coffee deploy editor figure garden harbor island \
    journal kernel ladder market notebook orchard packet quarter river server ticket umbrella village window";
/// Bytes that `read_file` reads at once.
const READ: u64 = 256 << 10;

/// Call that is measured.
#[derive(Clone, Copy)]
enum Job {
    ReadFile,
    WriteFile,
    Grep,
    Search,
    Recall,
}

impl Job {
    const ALL: [Self; 5] = [Self::ReadFile, Self::WriteFile, Self::Grep, Self::Search, Self::Recall];

    /// Returns the name of the tool.
    const fn name(self) -> &'static str {
        match self {
            Self::ReadFile => "read_file",
            Self::WriteFile => "write_file",
            Self::Grep => "grep",
            Self::Search => "search",
            Self::Recall => "recall",
        }
    }

    /// Returns the arguments of the call with a number.
    fn arguments(self, number: u64) -> Value {
        match self {
            Self::ReadFile => json!({"path": file(number % FILES)}),
            Self::WriteFile => json!({"path": written(number), "content": content(number)}),
            Self::Grep => json!({"pattern": PATTERN, "path": "/tree"}),
            Self::Search => json!({"query": QUESTION}),
            Self::Recall => json!({"question": QUESTION}),
        }
    }
}

/// Expression for the rare word.
const PATTERN: &str = "zeppelin \\w+";
/// Question that the files with the rare word answer.
const QUESTION: &str = "Where does the zeppelin land?";

/// Returns the path of a file of the tree.
fn file(number: u64) -> String {
    format!("/tree/{:02}/{number:03}.md", number / PER_DIRECTORY)
}

/// Returns the path of a written file.
fn written(number: u64) -> String {
    format!("/written/{}.md", number % 64)
}

/// Returns content that differs from that of the call before on the same path.
fn content(number: u64) -> String {
    let line = format!("line of call {number}\n");
    line.repeat(WRITTEN.div_ceil(line.len())).chars().take(WRITTEN).collect()
}

/// Returns the text of a file of the tree.
fn text(random: &mut Random, number: u64) -> String {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut text = format!("# File {number}\n");
    if number.is_multiple_of(RARE) {
        text.push_str("The zeppelin lands in the harbor.\n");
    }
    while text.len() < SIZE {
        let line: Vec<&str> = (0..12).map(|_| words[random.below(words.len() as u64) as usize]).collect();
        text.push_str(&line.join(" "));
        text.push('\n');
    }
    text.truncate(SIZE);
    text
}

/// Figures of the calls of one round.
struct Sample {
    per_second: f64,
    /// Latency in milliseconds.
    p50: f64,
    p99: f64,
}

impl Sample {
    fn of(mut times: Vec<Duration>, elapsed: Duration) -> Self {
        times.sort_unstable();
        let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
        let at = |share: usize| at(share).as_secs_f64() * 1e3;
        Self { per_second: times.len() as f64 / elapsed.as_secs_f64(), p50: at(50), p99: at(99) }
    }
}

/// Makes calls in this process, one after the other.
fn by_library(chat: &Chat, env: &Env, job: Job, time: Duration) -> Result<Sample> {
    let (mut times, begun) = (Vec::new(), env.instant());
    while begun.elapsed() < time {
        let number = times.len() as u64;
        let arguments = job.arguments(number);
        let sent = env.instant();
        block_on(call_library(chat, env, job, &arguments))?;
        times.push(sent.elapsed());
    }
    Ok(Sample::of(times, begun.elapsed()))
}

async fn call_library(chat: &Chat, env: &Env, job: Job, arguments: &Value) -> Result<()> {
    let fs = &**chat.files();
    let path = arguments["path"].as_str().unwrap_or_default();
    match job {
        Job::ReadFile => {
            let path = resolve(fs, path, Follow::Yes).await?;
            fs.fetch(&At::from(&path), ByteRange { offset: 0, length: READ }).await?;
        }
        Job::WriteFile => {
            let path = resolve(fs, path, Follow::Yes).await?;
            let content = arguments["content"].as_str().unwrap_or_default().to_owned();
            fs.commit(Batch::new([Op::write(&path, content).with_parents()])).await?;
        }
        Job::Grep => {
            Files::new(fs).grep(&Grep::new(PATTERN).below(path)).await?;
        }
        Job::Search => {
            Searcher::new(fs, "default").env(env.clone()).search(&SearchRequest::new(QUESTION)).await?;
        }
        Job::Recall => {
            chat.recall(QUESTION).await?;
        }
    }
    Ok(())
}

/// Process of `garth mcp`. Killed when dropped.
struct Pipe {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Id of the last request.
    last: u64,
}

impl Pipe {
    fn start(garth: &Path, data: &Path) -> Result<Self> {
        let mut child = Command::new(garth)
            .args(["mcp", "--agent", WHO.0, "--user", WHO.1, "--data"])
            .arg(data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Self { child, input, output, last: 0 })
    }

    /// Makes calls, `in_flight` of them at once.
    fn calls(&mut self, env: &Env, (job, in_flight): (Job, usize), time: Duration) -> Result<Sample> {
        let (mut times, mut sent, begun) = (Vec::new(), HashMap::new(), env.instant());
        for _ in 0..in_flight {
            self.send(env, job, &mut sent)?;
        }
        let mut line = String::new();
        while !sent.is_empty() {
            line.clear();
            self.output.read_line(&mut line)?;
            let answered = env.instant();
            check(line.as_bytes())?;
            let sent_at = sent.remove(&id_of(&line)?).ok_or("an answer to no request")?;
            times.push(answered - sent_at);
            if answered - begun < time {
                self.send(env, job, &mut sent)?;
            }
        }
        Ok(Sample::of(times, begun.elapsed()))
    }

    fn send(&mut self, env: &Env, job: Job, sent: &mut HashMap<u64, Instant>) -> Result<()> {
        self.last += 1;
        let mut message: Value = serde_json::from_str(&message(job.name(), &job.arguments(self.last)).body)?;
        message["id"] = json!(self.last);
        let line = format!("{message}\n");
        sent.insert(self.last, env.instant());
        Ok(self.input.write_all(line.as_bytes())?)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the id of an answer. Parsing the JSON of each would take time from the server.
fn id_of(line: &str) -> Result<u64> {
    let rest = line.strip_prefix("{\"jsonrpc\":\"2.0\",\"id\":").unwrap_or_default();
    let digits = rest.split(',').next().unwrap_or_default();
    match digits.parse() {
        Ok(id) => Ok(id),
        Err(_) => {
            let answer: Value = serde_json::from_str(line)?;
            Ok(answer["id"].as_u64().ok_or("an answer without an id")?)
        }
    }
}

/// Returns a call of a tool.
fn message(tool: &str, arguments: &Value) -> Message {
    Message::new(Lifecycle::Stateless, "tools/call", json!({"name": tool, "arguments": arguments}))
}

/// Checks that a tool has succeeded.
fn check(answer: &[u8]) -> Result<()> {
    let answer = String::from_utf8_lossy(answer);
    match answer.contains("\"isError\":false") {
        true => Ok(()),
        false => Err(format!("a call is answered `{answer:.300}`").into()),
    }
}

/// Client over HTTP.
struct Http<'a> {
    address: &'a str,
    /// Bound key.
    key: String,
}

impl<'a> Http<'a> {
    /// Creates the key.
    fn new(server: &'a ServerProcess) -> Result<Self> {
        let new = json!({
            "scopes": ["files:read", "files:write", "memory:read", "memory:write", "search:read"],
            "binding": {"agent": WHO.0, "user": WHO.1},
        });
        let request = Request::post("admin/keys/create", &new).key(&server.key);
        let made = Connection::open(&server.address)?.ok(&request)?;
        Ok(Self { address: &server.address, key: text_of(&made["secret"]) })
    }

    fn request(&self, query: &str, message: Message) -> Request {
        let headers = format!("content-type: application/json\r\n{}", message.headers);
        Request::new("POST", format!("/mcp{query}")).key(&self.key).headers(headers).body(message.body)
    }

    /// Makes calls on each of some connections.
    fn calls(&self, env: &Env, (job, connections): (Job, u64), time: Duration) -> Result<Sample> {
        let opened = (0..connections).map(|_| Connection::open(self.address));
        let opened = opened.collect::<std::io::Result<Vec<_>>>()?;
        let begun = env.instant();
        let times: Vec<Result<Vec<Duration>>> = std::thread::scope(|scope| {
            let threads = opened.into_iter().zip(0..).map(|(mut connection, client): (_, u64)| {
                scope.spawn(move || -> Result<Vec<Duration>> {
                    let (mut times, mut number) = (Vec::new(), client);
                    while begun.elapsed() < time {
                        number += connections;
                        let request = self.request("", message(job.name(), &job.arguments(number)));
                        let sent = env.instant();
                        let answer = connection.ask(&request)?;
                        times.push(sent.elapsed());
                        check(&answer.body)?;
                    }
                    Ok(times)
                })
            });
            let threads: Vec<_> = threads.collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|times| times.unwrap_or_else(|_| Err("a client panicked".into()))).collect()
        });
        let elapsed = begun.elapsed();
        Ok(Sample::of(times.into_iter().collect::<Result<Vec<_>>>()?.concat(), elapsed))
    }

    /// Calls a tool of all tools.
    fn call(&self, connection: &mut Connection, tool: &str, arguments: &Value) -> Result<ToolResult> {
        let answer = connection.ok(&self.request("?tools=all", message(tool, arguments)))?;
        let result = ToolResult::of(answer).ok_or_else(|| format!("{tool} is not a tool"))?;
        match result.is_error {
            true => Err(format!("{tool}: {}", result.text).into()),
            false => Ok(result),
        }
    }

    /// Writes the tree.
    fn fill(&self) -> Result<()> {
        let (mut connection, mut random) = (Connection::open(self.address)?, Random::new(1));
        for number in 0..FILES {
            let file = json!({"path": file(number), "content": text(&mut random, number)});
            self.call(&mut connection, "write_file", &file)?;
        }
        Ok(())
    }

    /// Prints the tokens of the list of tools, and of an answer of each tool.
    fn print_tokens(&self) -> Result<()> {
        let mut connection = Connection::open(self.address)?;
        println!("\n| list of tools | tools | tokens |\n|---|--:|--:|");
        for (name, query) in [("as shipped", ""), ("all", "?tools=all")] {
            let message = Message::new(Lifecycle::Stateless, "tools/list", json!({}));
            let mut answer = connection.ok(&self.request(query, message))?;
            let tools = answer["result"]["tools"].take();
            let number = tools.as_array().map_or(0, Vec::len);
            println!("| {name} | {number} | {} |", count(&json!({"tools": tools}).to_string()));
        }
        println!("\n| answer of | tokens of the text | of `structuredContent` |\n|---|--:|--:|");
        let mut restore_at = Value::Null;
        for (tool, mut arguments) in answers() {
            if tool == "restore" {
                arguments["at"] = restore_at.take();
            }
            let result = self.call(&mut connection, tool, &arguments)?;
            let structured = result.structured.to_string();
            println!("| `{tool}` | {} | {} |", count(&result.text), count(&structured));
            if tool == "delete" {
                restore_at = result.structured["restore_at"].clone();
            }
        }
        Ok(())
    }
}

/// Returns a typical call of each tool, in an order in which all succeed.
fn answers() -> [(&'static str, Value); 15] {
    let fact = "Ann takes her coffee black.";
    let plan = "/notes/plan.md";
    [
        ("ls", json!({"path": "/tree/00"})),
        ("read_file", json!({"path": file(0)})),
        ("write_file", json!({"path": plan, "content": "wash up\ncall Bob\n"})),
        ("edit_file", json!({"path": plan, "old_string": "call Bob", "new_string": "call Carol"})),
        ("glob", json!({"pattern": "/tree/0[01]/*.md"})),
        ("grep", json!({"pattern": PATTERN, "path": "/tree"})),
        ("search", json!({"query": QUESTION})),
        ("move", json!({"from": plan, "to": "/notes/done.md"})),
        ("history", json!({"path": "/notes/done.md"})),
        ("delete", json!({"path": "/notes/done.md"})),
        ("restore", json!({"path": "/notes/done.md"})),
        ("remember", json!({"text": fact})),
        ("recall", json!({"question": QUESTION})),
        ("forget", json!({"text": fact})),
        ("memory", json!({"command": "view", "path": "/memories"})),
    ]
}

/// Returns the median of a figure of some samples.
fn median(samples: &[Sample], figure: impl Fn(&Sample) -> f64) -> f64 {
    let mut figures: Vec<f64> = samples.iter().map(figure).collect();
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let garth = arguments.next().ok_or("usage: mcp_load GARTH [SECONDS [ROUNDS]]")?;
    let seconds: f64 = arguments.next().map_or(Ok(2.0), |seconds| seconds.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let (garth, time, env) = (Path::new(&garth), Duration::from_secs_f64(seconds), Env::system());
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let server = ServerProcess::start(garth, &data, None)?;
    let http = Http::new(&server)?;
    http.fill()?;
    let mut pipe = Pipe::start(garth, &data)?;
    let chat = block_on(garth::open(&data)?.agent(WHO.0).user(WHO.1).open())?;

    println!("| tool | way | calls/s | p50 | p99 |\n|---|---|--:|--:|--:|");
    for job in Job::ALL {
        let mut samples: [Vec<Sample>; 5] = Default::default();
        for round in 0..=rounds {
            let measured = [
                by_library(&chat, &env, job, time)?,
                pipe.calls(&env, (job, 1), time)?,
                pipe.calls(&env, (job, 8), time)?,
                http.calls(&env, (job, 1), time)?,
                http.calls(&env, (job, 32), time)?,
            ];
            // The first round warms the caches.
            if round > 0 {
                samples.iter_mut().zip(measured).for_each(|(samples, sample)| samples.push(sample));
            }
        }
        let ways =
            ["library", "pipes, 1 at once", "pipes, 8 at once", "HTTP, 1 connection", "HTTP, 32 connections"];
        for (way, samples) in ways.into_iter().zip(&samples) {
            let [per_second, p50, p99] = [
                median(samples, |sample| sample.per_second),
                median(samples, |sample| sample.p50),
                median(samples, |sample| sample.p99),
            ];
            println!("| `{}` | {way} | {per_second:.0} | {p50:.2} ms | {p99:.2} ms |", job.name());
        }
    }
    http.print_tokens()
}
