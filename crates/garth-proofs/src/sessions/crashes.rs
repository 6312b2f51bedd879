//! Sessions under many appenders, and under kills and power cuts while they are appended to, packed, swapped,
//! compacted and collected: no acknowledged message is lost, and derived files are complete or absent.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use garth_agent::session::{
    Append, ChildChange, Collect, Compact, Create, Derive, Draft, EntryKind, PackOptions, Sessions, Source,
    Spawn,
};
use garth_engine::model::Op;
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::crash::{By, Disk};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, Worker, hold, run, say, sound};
use garth_testkit::tools::on_disk;
use serde_json::{Value, json};

use crate::support::opened;
use crate::worker_binary::agent_worker;

/// Session that all workers use.
const SESSION: &str = "work";
/// Appenders that run next to the workers that pack, swap and collect.
const WRITERS: u64 = 4;
/// Upper bound of the acknowledgements before a crash, and of the delay after the last one, in microseconds.
const HEARD: u64 = 30;
const LONGEST: u64 = 20_000;
/// Packs, swaps and derivations that a round waits for before its crash.
const DERIVED: u64 = 3;
/// Jobs of the workers that create and collect derived files, each in a loop.
const MAKERS: [&str; 4] = ["pack", "swap", "derive", "collect"];

/// Concurrent appenders to one session. The size is the number of messages of each.
#[derive(Clone, Copy, Debug)]
pub struct SessionAppenders {
    /// Number of appenders.
    pub writers: u64,
}

impl Proof for SessionAppenders {
    fn about(&self) -> About {
        About {
            name: "session-appenders",
            claim: "Appenders to one session lose, duplicate and tear no line.",
            full: 50,
            ci: 8,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        let Self { writers } = *self;
        appenders(setting.folder, writers, setting.size)?;
        Ok(Report::of(["appends answered"]).with("appends answered", writers * setting.size))
    }
}

/// Crashes while a session is appended to, packed, swapped, compacted and collected. The size is the number
/// of crashes.
#[derive(Clone, Copy, Debug)]
pub struct SessionCrashes {
    /// Kind of crash.
    pub by: By,
    /// `GARTH_FAULT` of the working process: a negative control.
    pub fault: Option<&'static str>,
}

impl Proof for SessionCrashes {
    fn about(&self) -> About {
        let name = match self.by {
            By::Kill => "session-kills",
            By::Cut => "session-cuts",
        };
        About {
            name,
            claim: "A crash loses no message, and derived files are complete or absent.",
            full: 100,
            ci: 12,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        crashed(&agent_worker(setting), self.by, setting.size, setting.seed, self.fault)
    }
}

const COUNTS: [&str; 6] = [
    "crashes",
    "appends answered",
    "messages kept without an answer",
    "packs built again",
    "chunks followed",
    "sources followed",
];

fn of(fs: &dyn FileSystem) -> Proven<Sessions<'_>> {
    Ok(Sessions::new(fs, "ann", "coder")?)
}

fn file(name: &str) -> Proven<TreePath> {
    Ok(TreePath::parse(&format!("/users/ann/agents/coder/session/{SESSION}/{name}"))?)
}

/// Returns a message of an appender. Every seventh is long.
fn message(writer: u64, n: u64) -> Draft {
    let text =
        if n.is_multiple_of(7) { format!("{writer} {n} ").repeat(2000) } else { format!("{writer} {n}") };
    Draft::user(text).with("id", &format!("msg-by-{writer}-{n}"))
}

/// Appends one message with an event.
async fn appended(fs: &dyn FileSystem, writer: u64, n: u64) -> Proven<()> {
    let event = Draft::event("tool.started").with("id", &format!("ev-by-{writer}-{n}"));
    let append = Append::messages([message(writer, n)]).and_events([event]).run("r");
    of(fs)?.append(SESSION, &append).await?;
    Ok(())
}

/// Counts the messages of each writer. Fails if lines are torn or out of order.
fn counted(text: &str) -> Proven<BTreeMap<u64, u64>> {
    hold(text.is_empty() || text.ends_with('\n'), || "the last line is torn".to_owned())?;
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let line: Value =
            serde_json::from_str(line).map_err(|error| Broken::because(format!("`{line}`: {error}")))?;
        let id = line["id"].as_str().unwrap_or_default();
        let of = |id: &str| {
            let (writer, n) = id.split_once("-by-")?.1.split_once('-')?;
            Some((writer.parse::<u64>().ok()?, n.parse::<u64>().ok()?))
        };
        // Events of the other workers have no writer.
        let Some((writer, n)) = of(id) else { continue };
        let count = counts.entry(writer).or_insert(0);
        *count += 1;
        hold(*count == n, || format!("message {n} of {writer} is its number {count}"))?;
    }
    Ok(counts)
}

/// Appends `each` messages of each of `writers` to one session concurrently.
///
/// # Errors
/// A line that is missing, duplicated, torn or out of its writer's order.
fn appenders(folder: &Path, writers: u64, each: u64) -> Proven<()> {
    let fs = opened(folder)?;
    run(async {
        of(&*fs)?.create(&Create::new(SESSION)).await?;
        let write = |writer| {
            let fs = Arc::clone(&fs);
            tokio::spawn(async move {
                for n in 1..=each {
                    appended(&*fs, writer, n).await?;
                }
                Proven::Ok(())
            })
        };
        for task in (0..writers).map(write).collect::<Vec<_>>() {
            task.await??;
        }
        for log in ["messages.jsonl", "events.jsonl"] {
            let counts = counted(&fs.read_to_string(&file(log)?).await?)?;
            let all = (0..writers).all(|writer| counts.get(&writer) == Some(&each));
            hold(all, || format!("{log}: of {each} lines each {counts:?} are there"))?;
        }
        Ok(())
    })?;
    sound(&*fs)?;
    Ok(())
}

/// Runs in the child process: appends, packs, swaps, derives and collects, and reports each result, until the
/// process is killed or an operation fails.
pub(crate) fn work_until_crash(folder: &Path, seed: u64) -> Proven<()> {
    let fs = opened(folder)?;
    say("ready")?;
    let writers = (0..WRITERS).map(|writer| {
        let fs = Arc::clone(&fs);
        std::thread::spawn(move || -> Proven<()> {
            let text = block_on(fs.read_to_string(&file("messages.jsonl")?))?;
            let done = counted(&text)?.get(&writer).copied().unwrap_or(0);
            for n in done + 1.. {
                block_on(appended(&*fs, writer, n))?;
                say(&format!("said {writer} {n}"))?;
            }
            Ok(())
        })
    });
    let makers = (0..).zip(MAKERS).map(|(number, what)| {
        let (fs, random) = (Arc::clone(&fs), Random::new(seed.wrapping_add(number)));
        std::thread::spawn(move || -> Proven<()> {
            let mut random = random;
            for n in 0_u64.. {
                match block_on(make(&*fs, what, &mut random, seed, n)) {
                    // Other writers changed the session first on every retry.
                    Err(error) if error.reason().starts_with("Conflict") => {}
                    done => done?,
                }
                say(&format!("made {what}"))?;
            }
            Ok(())
        })
    });
    let mut why = "nobody works".to_owned();
    for thread in writers.collect::<Vec<_>>().into_iter().chain(makers.collect::<Vec<_>>()) {
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(broken)) => why = broken.reason().to_owned(),
            Err(_) => why = "a thread panicked".to_owned(),
        }
    }
    say(&format!("failed: {}", why.replace('\n', " ")))
}

/// Creates or collects derived files, concurrently with the appends.
async fn make(fs: &dyn FileSystem, what: &str, random: &mut Random, seed: u64, n: u64) -> Proven<()> {
    let sessions = of(fs)?;
    match what {
        "pack" => {
            let mut options = PackOptions::default();
            options.budget = Some(2000 + random.below(20_000));
            options.fresh = random.one_in(4);
            match sessions.pack(SESSION, &options).await {
                Err(error) if error.is(ErrorKind::BudgetTooSmall) => {}
                done => drop(done?),
            }
        }
        "swap" => {
            let out = sessions.swapped(SESSION).await?;
            if out.len() > 20 || !out.is_empty() && random.one_in(3) {
                sessions.swap_in(SESSION, &random.pick(&out).id).await?;
            } else {
                let source: Source = format!("tail:{}", 1 + random.below(3)).parse()?;
                sessions.swap_out(SESSION, &source, "out").await?;
                sessions.dedup(SESSION, &[source]).await?;
            }
        }
        "derive" => {
            let mut derive = Derive::default();
            let fact = |id| json!({"id": format!("f{id}"), "text": format!("{n}"), "source": "tail:2"});
            derive.facts = Some((0..=random.below(4)).map(|id| format!("{}\n", fact(id))).collect());
            sessions.derive(SESSION, &derive).await?;
            sessions.compact(SESSION, &Compact::default()).await?;
            if random.one_in(8) {
                let id = format!("c-{seed}-{n}");
                sessions.spawn(SESSION, &Spawn::new(&id, "do it")).await?;
                sessions.set_child(SESSION, &id, &ChildChange::done("done")).await?;
            }
        }
        _ => {
            // Pauses as a server does. A collector without pauses would remove each pack before a crash could
            // leave one to check.
            Env::system().sleep(Duration::from_millis(20));
            drop(sessions.collect(SESSION, &Collect::default()).await?);
        }
    }
    Ok(())
}

/// Lets a process work on a session and ends it with a crash, `rounds` times. Checks the session after each
/// crash. `fault` is the `GARTH_FAULT` of that process: a negative control.
///
/// # Errors
/// Data that is lost or torn, or a reference that is invalid.
fn crashed(binary: &Path, by: By, rounds: u64, seed: u64, fault: Option<&str>) -> Proven<Report> {
    let mut disk = match by {
        By::Cut => Some(Disk::new().map_err(Broken::because)?),
        By::Kill => None,
    };
    let kept = tempfile::tempdir_in(on_disk())?;
    let folder = disk.as_ref().map_or_else(|| kept.path().to_owned(), Disk::mount_point).join("data");
    let text = folder.to_str().ok_or_else(|| Broken::because("the folder's path is no text"))?;
    let (mut random, mut report) = (Random::new(seed), Report::of(COUNTS));
    let fs = opened(&folder)?;
    run(async {
        of(&*fs)?.create(&Create::new(SESSION)).await?;
        // A session without messages would have no valid `tail` source.
        appended(&*fs, WRITERS, 1).await?;
        // With these limits a collection removes everything that is unused at once.
        fs.apply(Op::write(file("context/gc.policy")?, "pack_ttl=0s\nswap_ttl=0s\n")).await?;
        Ok(())
    })?;
    drop(fs);
    let mut before = Logs::default();
    for round in 0..rounds {
        let told = |why: Broken| Broken::because(format!("seed {seed}, round {round}: {why}"));
        let number = (seed << 20 | round).to_string();
        let mut child = Worker::start_broken(binary, &["sessions", text, &number], fault)?;
        let (mut heard, mut due) = (BTreeMap::new(), 1 + random.below(HEARD));
        // On a fast machine the appends may be acknowledged before anything is derived from them.
        let mut derived = 0;
        while due > 0 || derived < DERIVED {
            let line = child.hear()?;
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["said", writer, n] => {
                    let number = |text: &str| text.parse::<u64>().map_err(|_| Broken::because("no number"));
                    heard.insert(number(writer)?, number(n)?);
                    report.add("appends answered", 1);
                    due = due.saturating_sub(1);
                }
                ["made", what] => {
                    derived += u64::from(*what != "collect");
                    report.add_in("work beside them", *what, 1);
                }
                _ => return Err(told(Broken::because(format!("the worker said `{line}`")))),
            }
        }
        Env::system().sleep(Duration::from_micros(random.below(LONGEST)));
        if let Some(disk) = &disk {
            // The cut precedes the end of the process, so that nothing is written in between.
            disk.cut().map_err(Broken::because)?;
        }
        drop(child);
        if let Some(disk) = &mut disk {
            disk.restore().map_err(Broken::because)?;
        }
        report.add("crashes", 1);
        let fs = opened(&folder).map_err(told)?;
        before = run(look(&*fs, &before, &heard, &mut report)).map_err(told)?;
        if round % 10 == 9 || round + 1 == rounds {
            sound(&*fs).map_err(told)?;
        }
    }
    Ok(report)
}

/// Logs of the session at the last check.
#[derive(Default)]
struct Logs {
    messages: String,
    events: String,
}

/// Checks the session after a crash. Returns its logs.
async fn look(
    fs: &dyn FileSystem,
    before: &Logs,
    heard: &BTreeMap<u64, u64>,
    report: &mut Report,
) -> Proven<Logs> {
    let sessions = of(fs)?;
    let text = async |name: &str| -> Proven<String> { Ok(fs.read_to_string(&file(name)?).await?) };
    let now = Logs { messages: text("messages.jsonl").await?, events: text("events.jsonl").await? };
    hold(now.messages.starts_with(&before.messages), || "messages that were there are not".to_owned())?;
    hold(now.events.starts_with(&before.events), || "events that were there are not".to_owned())?;
    let counts = counted(&now.messages)?;
    // Both are appended by one commit.
    hold(counts == counted(&now.events)?, || "a message came without its event".to_owned())?;
    for (writer, n) in heard {
        let there = counts.get(writer).copied().unwrap_or(0);
        hold(there >= *n, || format!("message {n} of {writer} was answered; {there} are there"))?;
        report.add("messages kept without an answer", there - n);
    }
    // Files that a session always has.
    for name in ["state", "cwd", "created_at", "updated_at", "meta.json", "latest.md"] {
        text(name).await?;
    }
    sessions.get(SESSION).await?;
    let markdown = fs.lookup(&file("context/pack.md")?).await?.filter(|file| file.size > 0);
    match sessions.replay(SESSION, None).await {
        Ok(packed) => {
            hold(packed.markdown == text("context/pack.md").await?, || {
                "pack.md is of another pack".to_owned()
            })?;
            report.add("packs built again", 1);
        }
        Err(error) if error.is(ErrorKind::NotFound) => {
            // The two files of a pack are written and removed together.
            hold(markdown.is_none(), || "pack.md is there without pack.json".to_owned())?;
        }
        Err(error) => return Err(error.into()),
    }
    for entry in sessions.swapped(SESSION).await? {
        sessions.swap_content(SESSION, &entry.id).await?;
        report.add("chunks followed", 1);
    }
    for kind in EntryKind::ALL {
        for line in text(kind.file()).await?.lines() {
            let entry: Value = serde_json::from_str(line)
                .map_err(|error| Broken::because(format!("{}: {error}", kind.file())))?;
            let why = sessions.why(SESSION, entry["id"].as_str().unwrap_or_default()).await?;
            report.add("sources followed", why.sources.len());
        }
    }
    for line in text("context/dedup/index.jsonl").await?.lines() {
        let entry: Value =
            serde_json::from_str(line).map_err(|error| Broken::because(format!("dedup: {error}")))?;
        for source in entry["refs"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            sessions.resolve(SESSION, &source.parse()?).await?;
            report.add("sources followed", 1);
        }
    }
    for child in sessions.children(SESSION).await? {
        let result = text(&format!("context/child/{}/result.md", child.id)).await?;
        hold(child.status.is_final() == (result == "done"), || {
            format!("{child:?} has the result `{result}`")
        })?;
    }
    Ok(now)
}
