//! Cost of clients that wait for changes, and the time until a commit has reached all of them. The server
//! runs with the binary beside this one:
//!
//! ```sh
//! cargo run --profile prove -p garth-proofs --example waiting_consumers -- target/prove/garth 1000
//! ```
//!
//! It needs a limit of open files above the number of clients.
#![allow(clippy::print_stdout, reason = "its purpose is to print figures")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use garth_engine::Env;
use serde_json::Value;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Time over which the work of idle clients is measured.
const IDLE: Duration = Duration::from_secs(60);
/// Commits that are sent to all clients.
const COMMITS: usize = 50;
/// Ticks of the processor time of a process in a second.
const TICKS: f64 = 100.0;

/// Server that is killed when dropped.
struct Server {
    child: Child,
    address: String,
    key: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: waiting_consumers GARTH CLIENTS";
    let (garth, count) = (arguments.next().ok_or(usage)?, arguments.next().ok_or(usage)?.parse::<usize>()?);
    let (folder, env) = (tempfile::tempdir()?, Env::system());
    let server = start(&garth, folder.path())?;
    write(&server)?;
    let before = memory(&server)?;
    let mut clients = (0..count).map(|_| open(&server)).collect::<Result<Vec<_>>>()?;
    for client in &mut clients {
        until(client, ": waiting")?;
    }
    let held = (memory(&server)?.saturating_sub(before)) as f64 / count as f64;
    println!("{count} clients: {held:.1} KiB of memory each, {} threads", threads(&server)?);
    let spent = processor(&server)?;
    env.sleep(IDLE);
    let share = (processor(&server)? - spent) / IDLE.as_secs_f64() * 100.0;
    println!("idle for {} s: {share:.2}% of a processor", IDLE.as_secs());
    let mut times = Vec::new();
    for _ in 0..COMMITS {
        let began = env.instant();
        write(&server)?;
        for client in &mut clients {
            until(client, "event: commit")?;
        }
        times.push(env.instant() - began);
    }
    times.sort_unstable();
    let at =
        |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default().as_secs_f64() * 1000.0;
    println!("commit until the last client has it: median {:.1} ms, 95% {:.1} ms", at(50), at(95));
    Ok(())
}

fn start(garth: &str, data: &std::path::Path) -> Result<Server> {
    let mut child = Command::new(garth)
        .args(["serve", "--listen", "127.0.0.1:0", "--json", "--data"])
        .arg(data.join("data"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let ready: Value = serde_json::from_str(&line)?;
    let text = |name: &str| ready[name].as_str().unwrap_or_default().to_owned();
    Ok(Server { child, address: text("url").replace("http://", ""), key: text("key") })
}

/// Opens a stream of changes.
fn open(server: &Server) -> Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(&server.address)?;
    let key = &server.key;
    // Without chunks around the events.
    write!(
        stream,
        "GET /v1/tree/changes/stream HTTP/1.0\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n"
    )?;
    Ok(BufReader::with_capacity(2 << 10, stream))
}

/// Reads a stream until a line.
fn until(client: &mut BufReader<TcpStream>, due: &str) -> Result<()> {
    let mut line = String::new();
    while line.trim_end() != due {
        line.clear();
        if client.read_line(&mut line)? == 0 {
            return Err("a stream has ended".into());
        }
    }
    Ok(())
}

/// Makes one commit.
fn write(server: &Server) -> Result<()> {
    let mut stream = TcpStream::connect(&server.address)?;
    let body = r#"{"ops":[{"op":"write","path":"/measured","text":"x","parents":true}]}"#;
    let (key, length) = (&server.key, body.len());
    write!(
        stream,
        "POST /v1/batch HTTP/1.0\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.contains("\"ok\":true") { Ok(()) } else { Err(answer.into()) }
}

fn status(server: &Server, name: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
    Ok(line.split_whitespace().next().unwrap_or_default().parse()?)
}

/// Returns the memory of the server in KiB.
fn memory(server: &Server) -> Result<u64> {
    status(server, "VmRSS:")
}

fn threads(server: &Server) -> Result<u64> {
    status(server, "Threads:")
}

/// Returns the processor time of the server in seconds.
fn processor(server: &Server) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id()))?;
    // After the name in parentheses; user and system time are the fields 14 and 15.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    Ok((ticks(11) + ticks(12)) / TICKS)
}
