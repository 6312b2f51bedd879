//! Rows over HTTP: `garth serve` in its own process, called over loopback.

mod client;
mod computing;
mod server;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

pub(crate) use self::computing::beside_computing;

use self::client::{Ask, Connection, load, open, paced};
use self::server::{Server, Target};
use crate::figures::Figures;
use crate::options::Options;
use crate::process::told;
use crate::rows::Workload;
use crate::side::Which;
use crate::work::puts;

/// Values that `get` reads in turn.
const KEYS: usize = 1_000;
/// Puts per second in the busy measurement of `get`.
const BUSY: f64 = 1_500.0;

const GET: Ask = Ask { route: "/v1/get", body: |index| key_body(index % KEYS) };
const PUT: Ask = Ask { route: "/v1/put", body: put_body };
const SEARCH: Ask = Ask { route: "/v1/search", body: |_| br#"{"query":"common"}"#.to_vec() };

/// Measures `POST /v1/get`, compared with a bare handler with the same responses, and with concurrent puts.
pub(crate) fn get(options: &Options) -> Result<Figures> {
    let requests = options.size.of(64_000, 32);
    let (data, runtime) = (options.folder()?, runtime()?);
    let garth = Server::garth(options.garth()?, data.path())?;
    let answers = runtime.block_on(fill(&garth.target))?;
    let mut bare = Command::new(std::env::current_exe()?);
    bare.arg("bare");
    let bare = Server::start(bare, &answers)?;
    let mut figures = Figures::default();
    for run in 1..=options.runs {
        eprintln!("  {run}/{}", options.runs);
        for (name, server) in [("get", &garth), ("bare get", &bare)] {
            figures.time(name, runtime.block_on(load(&server.target, GET, requests))?, requests);
        }
        let spent = runtime.block_on(async {
            let (target, mut puts) = (garth.target.clone(), JoinSet::new());
            puts.spawn(async move { paced(&target, PUT, usize::MAX, BUSY).await });
            let spent = load(&garth.target, GET, requests).await?;
            // A load that failed early would leave the rest of the measurement without it.
            still_at_work(puts).await?;
            anyhow::Ok(spent)
        })?;
        figures.time("busy get", spent, requests);
    }
    Ok(figures)
}

/// Measures `POST /v1/put`, compared with fixed rows in plain SQLite.
pub(crate) fn put(options: &Options) -> Result<Figures> {
    let (requests, runtime) = (puts(options.size), runtime()?);
    let mut figures = Figures::default();
    for run in 1..=options.runs {
        eprintln!("  {run}/{}", options.runs);
        let data = options.folder()?;
        let garth = Server::garth(options.garth()?, data.path())?;
        let written = || told(&garth.process(), "io", "write_bytes:");
        let before = written()?;
        figures.time("put", runtime.block_on(load(&garth.target, PUT, requests))?, requests);
        figures.add("written", (written()? - before) / requests as f64);
        drop(garth);
        figures.merge(
            Which::Plain.called(),
            options.child(Workload::Put, Which::Plain, &options.folder()?, None, 1)?,
        );
    }
    Ok(figures)
}

/// Measures the latencies of each call at half of its maximum rate.
pub(crate) fn half_load(options: &Options) -> Result<Figures> {
    let (data, runtime) = (options.folder()?, runtime()?);
    let garth = Server::garth(options.garth()?, data.path())?;
    runtime.block_on(fill(&garth.target))?;
    let mut figures = Figures::default();
    for run in 1..=options.runs {
        eprintln!("  {run}/{}", options.runs);
        for (name, ask, requests) in [("get", GET, 64_000), ("put", PUT, 16_000)] {
            let requests = options.size.of(requests, 1_000);
            let latencies = runtime.block_on(async {
                // The maximum rate of this machine, measured right before.
                let full = load(&garth.target, ask, requests).await?;
                paced(&garth.target, ask, requests, requests as f64 / full.as_secs_f64() / 2.0).await
            })?;
            figures.latencies(name, latencies);
        }
    }
    Ok(figures)
}

/// Measures the slowest get without and with two concurrent searches for a word that all values have, in the
/// folder that `work::scale::names` has filled.
pub(crate) fn beside_searches(options: &Options, data: &TempDir) -> Result<Figures> {
    const RATE: f64 = 500.0;
    let requests = options.size.of(5_000, 100);
    let runtime = runtime()?;
    let garth = Server::garth(options.garth()?, data.path())?;
    runtime.block_on(fill(&garth.target))?;
    let mut figures = Figures::default();
    for run in 1..=options.runs {
        eprintln!("  over HTTP {run}/{}", options.runs);
        figures.latencies("quiet", runtime.block_on(paced(&garth.target, GET, requests, RATE))?);
        let latencies = runtime.block_on(async {
            let mut searches = JoinSet::new();
            for mut connection in open(&garth.target, 2).await? {
                searches.spawn(async move {
                    loop {
                        connection.post(SEARCH.route, &(SEARCH.body)(0)).await?;
                    }
                });
            }
            let latencies = paced(&garth.target, GET, requests, RATE).await?;
            still_at_work::<()>(searches).await?;
            anyhow::Ok(latencies)
        })?;
        figures.latencies("get", latencies);
    }
    Ok(figures)
}

/// Measures the memory of a server with idle connections. Afterwards each connection must still work.
pub(crate) fn idle(options: &Options) -> Result<Figures> {
    let runtime = runtime()?;
    let mut figures = Figures::default();
    for run in 1..=options.runs {
        eprintln!("  {run}/{}", options.runs);
        let data = options.folder()?;
        let garth = Server::garth(options.garth()?, data.path())?;
        for (name, count) in [("memory", 1_000), ("more memory", 10_000)] {
            let count = options.size.of(count, 10);
            let failures = runtime.block_on(async {
                let mut connections = open(&garth.target, count).await?;
                ask_each(&mut connections).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                figures.add(name, told(&garth.process(), "status", "VmRSS:")? * 1024.0);
                anyhow::Ok(ask_each(&mut connections).await)
            })?;
            figures.add("failures", failures as f64);
        }
    }
    Ok(figures)
}

/// Sends a request on each connection. Returns the number of failures.
async fn ask_each(connections: &mut [Connection]) -> usize {
    let mut failures = 0;
    for connection in connections {
        failures += usize::from(connection.post("/v1/list", b"{}").await.is_err());
    }
    failures
}

/// Stops the background load of a measurement. Fails if it had stopped before.
async fn still_at_work<T: 'static>(mut tasks: JoinSet<Result<T>>) -> Result<()> {
    if let Some(ended) = tasks.try_join_next() {
        ended??;
        anyhow::bail!("the background load ended before the measurement");
    }
    tasks.shutdown().await;
    Ok(())
}

/// Puts the values that `GET` reads. Returns the responses, one per line.
async fn fill(target: &Target) -> Result<Vec<u8>> {
    let mut connection = Connection::open(target).await?;
    let mut answers = Vec::new();
    for index in 0..KEYS {
        connection.post(PUT.route, &put_body(index)).await?;
        answers.extend(connection.post(GET.route, &key_body(index)).await?);
        answers.push(b'\n');
    }
    Ok(answers)
}

fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("cannot start the clients")
}

fn path(index: usize) -> String {
    format!("/user/{}/preferences/{index}", index % 50)
}

fn key_body(index: usize) -> Vec<u8> {
    serde_json::json!({ "agent_id": "default", "path": path(index) }).to_string().into_bytes()
}

fn put_body(index: usize) -> Vec<u8> {
    let value =
        serde_json::json!({ "tone": "direct", "language": "en", "number": index, "note": "x".repeat(150) });
    serde_json::json!({ "agent_id": "default", "path": path(index), "value": value }).to_string().into_bytes()
}
