//! Resets and compactions under kills and power cuts, while messages with images are appended, and with
//! archives that cannot be written. No session is closed without its archive, no archive lacks a message, no
//! part separates a tool call from its result, and every image that a message names exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::executor::block_on;
use garth_agent::media::{Media, MediaKey};
use garth_agent::models::{Answer, Ask, ChatModel, ServiceError};
use garth_agent::session::{
    Append, Create, Draft, Export, List, Listed, MAX_LISTED, Role, SessionKey, Sessions, TranscriptFormat,
};
use garth_agent::workspace::{Asking, Extraction, Reset, Trim, Unpacked, Workspace, run_jobs};
use garth_engine::model::quota::Limits;
use garth_engine::model::{At, Op, Page};
use garth_engine::{AccountStore, Env, Error, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::crash::{By, Disk};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, Worker, hold, run, say, sound};
use garth_testkit::tools::on_disk;
use serde_json::{Value, json};

use crate::support::opened;
use crate::worker_binary::agent_worker;

/// Appenders that run next to the worker that compacts and resets.
const WRITERS: u64 = 3;
/// Upper bound of the acknowledgements before a crash, and of the delay after the last one, in microseconds.
const HEARD: u64 = 12;
const LONGEST: u64 = 30_000;
/// Longest pause between two turns of a writer, in microseconds: a reset needs a time without appends.
const PAUSE: u64 = 60_000;
/// Turns after which the writers wait for a compaction or reset. Otherwise these would never find such a time
/// on a busy machine, and each round would begin with longer sessions.
const AHEAD: u64 = 30;
/// Session key that all sessions share.
const KEY: &str = "agent:coder:main";
/// Directory of archives and parts.
const ARCHIVES: &str = "/agents/coder/sessions";
/// Every third question of a writer has an image.
const PICTURES: u64 = 3;

/// Model that fails one call in four, at random.
#[derive(Debug)]
struct Sometimes;

#[async_trait]
impl ChatModel for Sometimes {
    async fn ask(&self, ask: &Ask) -> Result<Answer, ServiceError> {
        if Env::system().random::<1>().is_ok_and(|[draw]| draw % 4 == 0) {
            return Err(ServiceError::TimedOut);
        }
        // The question for daily memory and the one for notes expect different forms.
        let memory = ask.system.contains("memory of an agent");
        let notes = r#"{"summary":"S","facts":[],"decisions":[],"todo":"","refs":[]}"#;
        Ok(Answer { text: if memory { "- remembered" } else { notes }.to_owned(), tokens: None })
    }
}

fn of(fs: &dyn FileSystem) -> Proven<Sessions<'_>> {
    Ok(Sessions::new(fs, "default", "coder")?)
}

fn workspace(fs: &dyn FileSystem) -> Proven<Workspace<'_>> {
    Ok(Workspace::new(fs, "coder")?)
}

async fn current(fs: &dyn FileSystem) -> Proven<Listed> {
    let key: SessionKey = KEY.parse()?;
    let found = of(fs)?.current(&key).await?;
    found.ok_or_else(|| Broken::because("no session is open"))
}

/// Crashes while sessions are appended to, compacted and reset. The size is the number of crashes.
#[derive(Clone, Copy, Debug)]
pub struct Resets {
    /// Kind of crash.
    pub by: By,
    /// `GARTH_FAULT` of the working process: a negative control.
    pub fault: Option<&'static str>,
}

impl Proof for Resets {
    fn about(&self) -> About {
        let name = match self.by {
            By::Kill => "reset-kills",
            By::Cut => "reset-cuts",
        };
        About {
            name,
            claim: "No session is closed without its archive, and archives and parts contain its messages.",
            full: 100,
            ci: 12,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        crashed(&agent_worker(setting), self.by, setting.size, setting.seed, self.fault)
    }
}

const COUNTS: [&str; 6] =
    ["crashes", "sessions compared", "archives", "messages in archives", "parts", "images"];

/// Returns the bytes of the image of a turn.
fn picture(writer: u64, n: u64) -> Vec<u8> {
    format!("picture {writer} {n};").repeat(100).into_bytes()
}

/// Returns the question of a turn: text, or text with an image.
fn question(writer: u64, n: u64) -> Draft {
    let text = format!("question {writer} {n}");
    if !n.is_multiple_of(PICTURES) {
        return Draft::user(text);
    }
    let data = STANDARD.encode(picture(writer, n));
    let image = json!({"type": "image", "mime_type": "image/png", "data": data});
    Draft::message(Role::User, &json!([{"type": "text", "text": text}, image]))
}

/// Returns a turn of a writer: a question, a tool call and its result. They are appended in one commit.
fn turn(writer: u64, n: u64) -> [Draft; 3] {
    let id = |part: u8| format!("msg-by-{writer}-{n}-{part}");
    let call = format!("call-{writer}-{n}");
    let calls = json!([{"type": "tool_call", "id": call, "name": "sh", "arguments": {"n": n}}]);
    let result = json!([{"type": "tool_result", "call_id": call, "content": format!("{n} ").repeat(50)}]);
    [
        question(writer, n).with("id", &id(0)),
        Draft::message(Role::Assistant, &calls).with("id", &id(1)),
        Draft::message(Role::Tool, &result).with("id", &id(2)),
    ]
}

/// Appends a turn to the current session.
async fn appended(fs: &dyn FileSystem, writer: u64, n: u64) -> Proven<()> {
    loop {
        let session = current(fs).await?.name;
        match of(fs)?.append(&session, &Append::messages(turn(writer, n))).await {
            // Another worker has reset the session: the next attempt finds the new one.
            Err(error) if error.is(ErrorKind::Conflict) && error.message().contains("was reset") => {}
            done => return done.map(drop).map_err(Broken::from),
        }
    }
}

/// Runs in the child process: appends, compacts and resets, and reports each result, until the process is
/// killed or an operation fails.
pub(crate) fn work_until_crash(folder: &Path, seed: u64) -> Proven<()> {
    let fs = opened(folder)?;
    // Writers continue after the last turn that the previous process stored.
    let said = block_on(numbers(&*fs))?;
    block_on(writable(&*fs))?;
    say("ready")?;
    let ahead = AtomicU64::new(0);
    let write = |writer: u64| -> Proven<()> {
        let mut random = Random::new(seed.wrapping_add(writer + 1));
        for n in said.get(&writer).copied().unwrap_or(0) + 1.. {
            Env::system().sleep(Duration::from_micros(random.below(PAUSE)));
            while ahead.load(Ordering::Relaxed) >= AHEAD {
                Env::system().sleep(Duration::from_micros(PAUSE));
            }
            block_on(appended(&*fs, writer, n))?;
            ahead.fetch_add(1, Ordering::Relaxed);
            say(&format!("said {writer} {n}"))?;
        }
        Ok(())
    };
    let made = || -> Proven<()> {
        let mut random = Random::new(seed);
        loop {
            let what = match block_on(make(&*fs, &mut random)) {
                // Messages were appended all the time, or the model failed.
                Err(error)
                    if error.reason().starts_with("Conflict")
                        || error.reason().starts_with("Unavailable") =>
                {
                    "nothing"
                }
                done => done?,
            };
            ahead.store(0, Ordering::Relaxed);
            say(&format!("made {what}"))?;
        }
    };
    // Each thread reports its own failure, because the others run until the process is killed.
    let told = |done: Proven<()>| {
        done.or_else(|broken| say(&format!("failed: {}", broken.reason().replace('\n', " "))))
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (write, told) = (&write, &told);
            scope.spawn(move || told(write(writer)));
        }
        told(made())
    })
}

async fn make(fs: &dyn AccountStore, random: &mut Random) -> Proven<&'static str> {
    let workspace = workspace(fs)?;
    let session = current(fs).await?.name;
    let asking = random.one_in(2).then_some(Asking { model: &Sometimes, allowance: None });
    if random.one_in(8) {
        run_jobs(fs, &Env::system(), Asking { model: &Sometimes, allowance: None }).await?;
        return Ok("jobs");
    }
    if random.one_in(6) {
        return refused(fs, &workspace, &session).await;
    }
    if random.one_in(3) {
        let done = workspace.reset("default", &session, &Reset::default().asking(asking)).await?;
        let later = done.is_some_and(|done| matches!(done.memory, Extraction::Later(_)));
        return Ok(if later { "reset-with-job" } else { "reset" });
    }
    let done = workspace.compact("default", &session, &Trim::default().asking(asking)).await?;
    Ok(if done.is_some() { "compaction" } else { "nothing" })
}

/// Compacts and resets while no archive can be written. A crash may leave the quota behind; the next process
/// removes it.
async fn refused(fs: &dyn AccountStore, workspace: &Workspace<'_>, session: &str) -> Proven<&'static str> {
    // With one byte for all archives and parts, none can be written.
    fs.set_quota(&TreePath::parse(ARCHIVES)?, Limits::default().bytes(1)).await?;
    let refuses = |error: &Error| error.is(ErrorKind::QuotaExceeded) || error.is(ErrorKind::Conflict);
    let compacted = workspace.compact("default", session, &Trim::default()).await;
    let compacted = compacted.as_ref().map_or_else(refuses, Option::is_none);
    hold(compacted, || format!("{session}: was compacted without its part"))?;
    let reset = workspace.reset("default", session, &Reset::default()).await;
    let reset = reset.as_ref().map_or_else(refuses, |done| {
        done.as_ref().is_none_or(|done| done.archive.is_none() && done.messages == 0)
    });
    hold(reset, || format!("{session}: was reset without its archive"))?;
    fs.remove_quota(&TreePath::parse(ARCHIVES)?).await?;
    Ok("refusals")
}

/// Removes the quota that a crash has left behind.
async fn writable(fs: &dyn AccountStore) -> Proven<()> {
    match fs.remove_quota(&TreePath::parse(ARCHIVES)?).await {
        Err(error) if error.is(ErrorKind::NotFound) => Ok(()),
        done => done.map(drop).map_err(Broken::from),
    }
}

/// Returns the last turn of each writer.
async fn numbers(fs: &dyn FileSystem) -> Proven<BTreeMap<u64, u64>> {
    let mut last = BTreeMap::new();
    for session in all(fs).await? {
        for (writer, n) in questions(&exported(fs, &session.name).await?)?.into_keys() {
            let known = last.entry(writer).or_insert(0);
            *known = n.max(*known);
        }
    }
    Ok(last)
}

async fn all(fs: &dyn FileSystem) -> Proven<Vec<Listed>> {
    let (mut list, mut sessions) = (List::default(), Vec::new());
    list.limit = MAX_LISTED;
    loop {
        let (page, next) = of(fs)?.list(&list).await?;
        sessions.extend(page);
        match next {
            Some(next) => list.after = Some(next),
            None => return Ok(sessions),
        }
    }
}

/// Returns the messages of a session in the format of its archive.
async fn exported(fs: &dyn FileSystem, session: &str) -> Proven<Vec<String>> {
    let (mut export, mut items) = (Export::new(TranscriptFormat::Pi), Vec::new());
    loop {
        let page = of(fs)?.export(session, &export).await?;
        items.extend(page.items);
        match page.next {
            Some(next) => export.lines = next..=u64::MAX,
            None => return Ok(items),
        }
    }
}

async fn unpacked(fs: &dyn FileSystem, path: &TreePath) -> Proven<Vec<String>> {
    let (mut unpacked, mut lines) = (Unpacked::default(), Vec::new());
    let mut take = |line| {
        lines.push(line);
        Ok(true)
    };
    unpacked.feed(&fs.read_file(path).await?, &mut take)?;
    unpacked.end(&mut take)?;
    Ok(lines)
}

/// Returns the questions among lines by writer and turn, with the `r2Key` of the image.
fn questions(lines: &[String]) -> Proven<BTreeMap<(u64, u64), Option<String>>> {
    let mut found = BTreeMap::new();
    for line in lines {
        let message: Value =
            serde_json::from_str(line).map_err(|error| Broken::because(error.to_string()))?;
        if message["role"] != "user" {
            continue;
        }
        let content = &message["content"];
        let Some(text) = content.as_str().or_else(|| content[0]["text"].as_str()) else { continue };
        let mut words = text.split(' ').skip(1).filter_map(|word| word.parse().ok());
        if let (Some(writer), Some(n)) = (words.next(), words.next()) {
            let picture = content[1]["r2Key"].as_str().map(str::to_owned);
            hold(found.insert((writer, n), picture).is_none(), || format!("{text} is there twice"))?;
        }
    }
    Ok(found)
}

/// Lets a process work and ends it with a crash, `rounds` times. Checks every session, archive and part after
/// each crash. `fault` is the `GARTH_FAULT` of that process: a negative control.
///
/// # Errors
/// Data that is lost or incomplete.
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
        of(&*fs)?.create(&Create::new("work").key(KEY.parse()?)).await?;
        let settings =
            Op::write(TreePath::parse("/agents/coder/settings.json")?, r#"{"compaction":{"keep":10}}"#);
        fs.apply(settings.with_parents()).await?;
        Ok(())
    })?;
    drop(fs);
    let mut heard: BTreeSet<(u64, u64)> = BTreeSet::new();
    for round in 0..rounds {
        let told = |why: Broken| Broken::because(format!("seed {seed}, round {round}: {why}"));
        let number = (seed << 20 | round).to_string();
        let mut child = Worker::start_broken(binary, &["resets", text, &number], fault)?;
        let mut due = 1 + random.below(HEARD);
        while due > 0 {
            let line = child.hear()?;
            let what = match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["said", writer, n] => {
                    let number = |text: &str| text.parse::<u64>().map_err(|_| Broken::because("no number"));
                    heard.insert((number(writer)?, number(n)?));
                    "append".to_owned()
                }
                ["made", what] => (*what).to_owned(),
                _ => return Err(told(Broken::because(format!("the worker said `{line}`")))),
            };
            // Only compactions and resets count: appends are far more frequent.
            due -= u64::from(what != "append");
            report.add_in("answered", what, 1);
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
        run(look(&*fs, &heard, &mut report)).map_err(told)?;
        // A check of the complete account takes longer than a round.
        if round % 10 == 9 || round + 1 == rounds {
            sound(&*fs).map_err(told)?;
        }
    }
    Ok(report)
}

/// Checks all sessions after a crash.
async fn look(fs: &dyn FileSystem, heard: &BTreeSet<(u64, u64)>, report: &mut Report) -> Proven<()> {
    let (mut open, mut there) = (0, BTreeSet::new());
    let names = names(fs).await?;
    for session in all(fs).await? {
        report.add("sessions compared", 1);
        let said = exported(fs, &session.name).await?;
        for (turn, picture) in questions(&said)? {
            hold(there.insert(turn), || format!("turn {turn:?} is in two sessions"))?;
            report.add("images", seen(fs, turn, picture.as_deref()).await?);
        }
        let id = &session.meta.id;
        let archive = TreePath::parse(&format!("{ARCHIVES}/{id}.jsonl.gz"))?;
        let has_archive = names.contains(archive.name().unwrap_or_default());
        if session.state.is_final() {
            // A session without messages has no archive.
            hold(has_archive != said.is_empty(), || {
                format!("{}: is put away without its archive", session.name)
            })?;
            hold(session.meta.next.is_some(), || format!("{}: nothing goes on for it", session.name))?;
        } else {
            open += 1;
            hold(!has_archive, || format!("{}: is open and has an archive", session.name))?;
        }
        if has_archive {
            hold(unpacked(fs, &archive).await? == said, || format!("{archive} is not what was said"))?;
            let count = fs.entry(&archive).await?.attributes.metadata.get("messageCount").cloned();
            hold(count == Some(said.len().to_string()), || format!("{archive}: counts {count:?}"))?;
            report.add("archives", 1);
            report.add("messages in archives", said.len());
        }
        let mut parts = Vec::new();
        for name in names.iter().filter(|name| name.starts_with(&format!("{id}-part"))) {
            parts.extend(unpacked(fs, &TreePath::parse(&format!("{ARCHIVES}/{name}"))?).await?);
            report.add("parts", 1);
        }
        // Parts contain the messages up to this line, in order and without gaps.
        let left = usize::try_from(session.meta.compacted_to.unwrap_or(0)).unwrap_or(0);
        hold(said.get(..left) == Some(&parts[..]), || {
            format!("{}: its parts are not the {left} messages that left", session.name)
        })?;
        let next_is_result = said.get(left).is_some_and(|line| line.contains("\"toolResult\""));
        hold(!next_is_result, || format!("{}: a call left without its result", session.name))?;
    }
    // All sessions share one key, so exactly one of them is open.
    hold(open == 1, || format!("{open} sessions are open"))?;
    let lost: Vec<_> = heard.difference(&there).collect();
    hold(lost.is_empty(), || format!("{lost:?} were acknowledged and are missing"))
}

/// Returns true if a question has an image. Fails if the image is not the one that was appended.
async fn seen(fs: &dyn FileSystem, (writer, n): (u64, u64), key: Option<&str>) -> Proven<bool> {
    let Some(key) = key else {
        let has = n.is_multiple_of(PICTURES);
        return hold(!has, || format!("question {writer} {n}: names no picture")).map(|()| false);
    };
    let key: MediaKey = key.parse()?;
    let stored = Media::new(fs).get(&key).await?;
    let same = fs.read_file(&stored.path).await? == picture(writer, n);
    hold(same, || format!("question {writer} {n}: {key} is another picture")).map(|()| true)
}

/// Returns the names of archives and parts.
async fn names(fs: &dyn FileSystem) -> Proven<BTreeSet<String>> {
    let dir = At::from(TreePath::parse(ARCHIVES)?);
    let (mut names, mut page) = (BTreeSet::new(), Page::default());
    loop {
        let listing = match fs.list(&dir, &page).await {
            Err(error) if error.is(ErrorKind::NotFound) => return Ok(names),
            listing => listing?,
        };
        names.extend(listing.items.iter().map(|item| item.name.as_str().to_owned()));
        match listing.items.into_iter().next_back().filter(|_| listing.more) {
            Some(last) => page.after = Some(last.name),
            None => return Ok(names),
        }
    }
}
