//! Outbox under kills: workers in several processes deliver to a sink over HTTP that fails, hangs, and
//! responds twice or late. Every event has its effect or is superseded, those of a memory arrive in order,
//! and no two of them are leased at the same time.

mod bad_sink;
mod delivery_check;
mod delivery_worker;
mod shared_settings;

use std::path::Path;
use std::time::Duration;

use futures::executor::block_on;
use garth_agent::memory::edge::{self, Edge};
use garth_agent::memory::{Memories, Put, Repair, Uri};
use garth_agent::outbox::{counters, list};
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::{Env, ErrorKind};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, Worker, hold, sound};

use self::bad_sink::Sink;
use self::shared_settings::{ACCOUNT, LEASE, TIMEOUT};
use crate::support::account;
use crate::worker_binary::agent_worker;

pub(crate) use self::delivery_worker::work;

/// Number of memories that change.
const MEMORIES: u64 = 24;
/// Worker processes; each has two workers.
const PROCESSES: usize = 2;
/// Limit on the time until all events are delivered after the last kill, in seconds.
const PATIENCE: u64 = 180;

/// Fault of the workers: a negative control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// They count an event as delivered before it is.
    TellsLater,
    /// They claim events that others have leased.
    IgnoresLeases,
}

impl Fault {
    fn name(fault: Option<Self>) -> &'static str {
        match fault {
            None => "none",
            Some(Self::TellsLater) => "tells-later",
            Some(Self::IgnoresLeases) => "ignores-leases",
        }
    }
}

/// Events delivered to a sink that fails, hangs and responds late, while workers are killed. The size is the
/// number of kills.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deliveries {
    /// Fault of the workers: a negative control.
    pub fault: Option<Fault>,
}

impl Proof for Deliveries {
    fn about(&self) -> About {
        About {
            name: "outbox",
            claim: "Events reach a bad sink once and in order while workers are killed.",
            full: 100,
            ci: 8,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        outbox(setting.folder, &agent_worker(setting), setting.size, setting.seed, self.fault)
    }
}

/// Counts of a run.
const COUNTS: [&str; 9] = [
    "kills",
    "changes",
    "events",
    "leases",
    "requests",
    "requests repeated",
    "events delivered in order",
    "events superseded",
    "memories with their versions",
];

/// Changes memories while workers (`binary` is `proof-worker`) are killed `kills` times, and checks the final
/// state.
///
/// # Errors
/// An event that was lost, out of order, or leased twice.
fn outbox(folder: &Path, binary: &Path, kills: u64, seed: u64, fault: Option<Fault>) -> Proven<Report> {
    let fs = account(folder, Env::system())?;
    let sink = Sink::start(seed)?;
    let place = folder.to_str().ok_or_else(|| Broken::because("the folder's path is not UTF-8"))?;
    let start = || Worker::start(binary, &["outbox", place, &sink.url, Fault::name(fault)]);
    let mut workers = (0..PROCESSES).map(|_| start()).collect::<Proven<Vec<_>>>()?;
    let (mut random, mut report) = (Random::new(seed), Report::of(COUNTS));
    let env = Env::system();
    for _ in 0..kills {
        for _ in 0..4 + random.below(20) {
            report.add("changes", block_on(change(&fs, &mut random))?);
        }
        env.sleep(Duration::from_millis(20 + random.below(150)));
        // Dropped before the next one starts: killed.
        let one = random.below(PROCESSES as u64) as usize;
        drop(workers.remove(one));
        report.add("kills", 1);
        workers.push(start()?);
    }
    if fault == Some(Fault::IgnoresLeases) {
        // A worker that ignores leases may hold events for long; the observations so far are enough.
        env.sleep(Duration::from_millis(LEASE));
    } else {
        drain(&fs)?;
        // Time for deliveries that come later than they are counted.
        env.sleep(Duration::from_millis(2 * TIMEOUT));
    }
    drop(workers);
    let journal = sink.stop();
    block_on(delivery_check::all(&fs, &journal, &mut report))?;
    block_on(at_rest(&fs))?;
    sound(&*fs)?;
    Ok(report)
}

/// Checks that repair finds nothing to do and creates no events.
async fn at_rest(fs: &SqliteFs) -> Proven<()> {
    let memories = Memories::new(fs, ACCOUNT);
    let report = Repair::new(memories).at_once(true).scan(|_| ()).await?;
    hold(report.is_sound() && report.memories > 0, || format!("repair found something to do: {report:?}"))?;
    let count = counters(fs).await?;
    hold(count.waiting.events == 0, || format!("repair made {} events", count.waiting.events))
}

/// Waits until no event is left.
fn drain(fs: &SqliteFs) -> Proven<()> {
    let (env, mut count) = (Env::system(), counters_of(fs)?);
    let begun = env.instant();
    while count.0 > 0 {
        if env.instant().duration_since(begun).as_secs() >= PATIENCE {
            let left = block_on(left(fs))?;
            return Err(Broken::because(format!("{} events still wait after {PATIENCE} s: {left}", count.0)));
        }
        env.sleep(Duration::from_millis(50));
        count = counters_of(fs)?;
    }
    hold(count.1 == 0, || format!("{} events were given up", count.1))
}

/// Returns the remaining events as text.
async fn left(fs: &SqliteFs) -> Proven<String> {
    let items = list(fs, ACCOUNT, false, None).await?.items.into_iter();
    let words = items.map(|item| match item.event {
        Ok(event) => format!("\n{} {}", item.path, event.to_json().unwrap_or_else(|error| error.to_string())),
        Err(why) => format!("\n{} {why}", item.path),
    });
    Ok(words.collect())
}

fn counters_of(fs: &SqliteFs) -> Proven<(usize, usize)> {
    let count = block_on(counters(fs))?;
    Ok((count.waiting.events, count.failed.events))
}

fn uri(number: u64) -> Proven<Uri> {
    // Of two random memories, four pairs in nine have two owners.
    let owner = if number.is_multiple_of(3) { "users/ben" } else { "users/ann" };
    Ok(format!("ctx://{ACCOUNT}/{owner}/memories/events/n{number}").parse()?)
}

/// Changes a memory at random. Returns true if it succeeded.
async fn change(fs: &SqliteFs, random: &mut Random) -> Proven<bool> {
    let memories = Memories::new(fs, ACCOUNT);
    let (one, other) = (uri(random.below(MEMORIES))?, uri(random.below(MEMORIES))?);
    let changed = match random.below(20) {
        0..12 => {
            let text = format!("Fact {} about {one}.\n", random.below(1 << 40));
            let text = if random.below(10) == 0 { text.repeat(2_000) } else { text };
            memories.put(&one, &Put::new(text)).await.map(drop)
        }
        12..14 => memories.delete(&one).await.map(drop),
        14..16 => memories.move_to(&one, &other).await.map(drop),
        _ => memories.relate(&edge_of(&one, &other)?).await.map(drop),
    };
    match changed {
        Ok(()) => Ok(true),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::InvalidArgument
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

fn edge_of(from: &Uri, to: &Uri) -> Proven<Edge> {
    let text = format!(
        r#"[{{"from_uri":"{from}","to_uri":"{to}","relation_type":"about","weight":0.5,"reason":""}}]"#
    );
    edge::parse(text.as_bytes())?.pop().ok_or_else(|| Broken::because("there is no edge"))
}
