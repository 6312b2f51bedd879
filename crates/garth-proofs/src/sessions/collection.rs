//! A collection must remove exactly the unused files of a session: one too many is lost for ever, and one too
//! few is never removed. Random sessions refer to chunks and blobs in every possible way. Plain code that
//! reads all files of the session finds the unused ones, and they are compared with what a collection
//! removes.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use garth_agent::session::{
    Append, ChildChange, Collect, Create, Derive, Draft, PackOptions, Role, Sessions, Source, Spawn,
};
use garth_engine::env::ManualClock;
use garth_engine::model::{At, Op, Timestamp};
use garth_engine::{Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold, run};
use serde_json::json;

pub use crate::reference::session_needs::Blind;
use crate::reference::session_needs::{BLOBS, CHUNKS, Seen, sha256};
use crate::support::account;

/// Steps of a session.
const STEPS: u64 = 60;
/// Files that are created and removed.
const FILES: [&str; 5] = ["a.md", "b.md", "notes/c.md", "notes/d.md", "archive/old.jsonl"];

struct Play<'a> {
    fs: &'a dyn FileSystem,
    env: &'a Env,
    clock: &'a ManualClock,
    sessions: Sessions<'a>,
    name: String,
    random: Random,
    /// Number of messages, and a lower bound of the number of events.
    lines: u64,
    calls: u64,
    /// Messages and events at the last check.
    logs: [String; 2],
    children: u64,
    blind: Option<Blind>,
}

/// Collections of random sessions, compared with plain code that reads their files. The size is the number of
/// sessions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collections {
    /// Reference that the plain code ignores: a negative control.
    pub blind: Option<Blind>,
}

impl Proof for Collections {
    fn about(&self) -> About {
        About {
            name: "session-gc",
            claim: "A collection removes exactly the unused files of a session.",
            full: 2_000,
            ci: 20,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        random(setting.folder, setting.size, setting.seed, self.blind)
    }
}

/// Counts of removed files, by kind.
pub const REMOVED: [&str; 3] = ["files of packs removed", "chunks removed", "blobs removed"];
const COUNTS: [&str; 8] = [
    "sessions",
    "collections",
    REMOVED[0],
    REMOVED[1],
    REMOVED[2],
    "chunks and blobs kept",
    "names followed",
    "sources of other sessions refused",
];

/// Plays `count` random sessions. With `blind` the plain code ignores a kind of reference, which must be
/// noticed.
///
/// # Errors
/// The violated promise.
fn random(folder: &Path, count: u64, seed: u64, blind: Option<Blind>) -> Proven<Report> {
    run(async {
        let (env, clock) = Env::manual(Timestamp(1_769_472_000_000_000_000));
        let fs = account(&folder.join("data"), env.clone())?;
        let mut report = Report::of(COUNTS);
        for number in 0..count {
            let sessions = Sessions::new(&*fs, "ann", "coder")?.env(env.clone());
            let name = format!("s{number}");
            sessions.create(&Create::new(&name)).await?;
            let random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
            let logs = [String::new(), String::new()];
            let (fs, env, clock) = (&*fs, &env, &clock);
            let mut play =
                Play { fs, env, clock, sessions, name, random, lines: 0, calls: 0, logs, children: 0, blind };
            play.say().await?;
            for step in 0..STEPS {
                let done = if step + 1 < STEPS {
                    play.step(&mut report).await
                } else {
                    play.collect(&mut report).await
                };
                done.map_err(|broken| {
                    Broken::because(format!("session {number} of seed {seed}, step {step}: {broken}"))
                })?;
            }
            report.add("sessions", 1);
        }
        Ok(report)
    })
}

impl Play<'_> {
    fn path(&self, file: &str) -> Proven<TreePath> {
        Ok(TreePath::parse(&format!("/users/ann/agents/coder/session/{}/{file}", self.name))?)
    }

    async fn put(&self, file: &str, text: &str) -> Proven<()> {
        Ok(self.fs.apply(Op::write(self.path(file)?, text.to_owned()).with_parents()).await.map(drop)?)
    }

    async fn step(&mut self, report: &mut Report) -> Proven<()> {
        let what = match self.random.below(40) {
            0..=4 => {
                self.say().await?;
                "append"
            }
            5..=8 => {
                self.file().await?;
                "file"
            }
            9..=14 => {
                self.swap().await?;
                "swap"
            }
            15..=18 => {
                self.dedup().await?;
                "dedup"
            }
            19..=23 => {
                self.derive(report).await?;
                "derive"
            }
            24..=26 => {
                self.pack().await?;
                "pack"
            }
            27..=28 => {
                self.child().await?;
                "child"
            }
            29 => {
                self.stray().await?;
                "stray"
            }
            30..=31 => {
                self.policy().await?;
                "policy"
            }
            32..=35 => {
                let seconds = self.random.pick(&[1, 3_000, 7_200, 90_000, 1_000_000]);
                self.clock.advance(Duration::from_secs(seconds));
                "wait"
            }
            _ => {
                self.collect(report).await?;
                "collect"
            }
        };
        report.add_in("steps", what, 1);
        Ok(())
    }

    /// Appends a turn with a tool call whose result is short, long or a repetition.
    async fn say(&mut self) -> Proven<()> {
        self.calls += 1;
        let id = format!("call{}", self.calls);
        let output = match self.random.below(4) {
            0 => "the same long output\n".repeat(300),
            1 => format!("{} ", self.random.next()).repeat(400),
            _ => format!("{}", self.random.below(3)),
        };
        let call = json!([{"type": "tool_call", "id": id, "name": "b", "arguments": {}}]);
        let result = json!([{"type": "tool_result", "call_id": id, "content": output}]);
        let mut drafts = vec![Draft::user(format!("Go on, {}.", self.random.below(4)))];
        drafts.extend([Draft::message(Role::Assistant, &call), Draft::message(Role::Tool, &result)]);
        if self.random.one_in(2) {
            drafts.push(Draft::assistant("Done."));
        }
        self.lines += drafts.len() as u64;
        let append = Append::messages(drafts).and_events([Draft::event("step")]);
        self.sessions.append(&self.name, &append).await?;
        Ok(())
    }

    /// Writes or removes a file, or replaces a directory by a file.
    async fn file(&mut self) -> Proven<()> {
        let notes = self.fs.lookup(&self.path("notes")?).await?;
        let is_file = notes.as_ref().is_some_and(|entry| !entry.is_dir());
        if self.random.one_in(8) || is_file {
            if notes.is_some() {
                self.fs.apply(Op::remove_tree(At::from(self.path("notes")?))).await?;
            }
            // Sources below a name that is no directory any more are invalid.
            return if is_file { Ok(()) } else { self.put("notes", "no directory").await };
        }
        let name = self.random.pick(&FILES);
        if self.random.one_in(3) && self.fs.exists(&self.path(name)?).await? {
            self.fs.apply(Op::remove_file(self.path(name)?)).await?;
            return Ok(());
        }
        let text = format!("{name} {}", self.random.below(5));
        self.put(name, &text).await
    }

    /// Returns the names of the files in a directory.
    async fn names(&self, dir: &str) -> Proven<Vec<String>> {
        let listing =
            self.fs.list(&At::from(&self.path(dir)?), &garth_engine::model::Page::default()).await?;
        Ok(listing.items.into_iter().map(|item| item.name.to_string()).collect())
    }

    /// Returns a source that is valid now. With `lasting` it stays valid until it is collected.
    async fn source(&mut self, lasting: bool) -> Proven<String> {
        let line = 1 + self.random.below(self.lines);
        let last = (line + self.random.below(3)).min(self.lines);
        let (chunks, blobs) = (self.names(CHUNKS).await?, self.names(BLOBS).await?);
        Ok(match self.random.below(if lasting { 7 } else { 9 }) {
            0 => format!("messages:{line}-{last}"),
            1 => format!("tool:call{}", 1 + self.random.below(self.calls)),
            2 => "events:1-1".to_owned(),
            3 | 4 if !chunks.is_empty() => {
                let name = self.random.pick(&chunks);
                match self.random.below(4) {
                    0 => format!("swap:{name}"),
                    1 => format!("{}#swap:{name}", self.name),
                    2 => format!("{CHUNKS}/{name}"),
                    _ => self.path(&format!("{CHUNKS}/{name}"))?.to_string(),
                }
            }
            5 | 6 if !blobs.is_empty() => {
                let name = self.random.pick(&blobs);
                match self.random.one_in(2) {
                    true => format!("{BLOBS}/{name}"),
                    false => self.path(&format!("{BLOBS}/{name}"))?.to_string(),
                }
            }
            7 | 8 => {
                let name = self.random.pick(&FILES);
                let is_there = self.fs.exists(&self.path(name)?).await?;
                if is_there { name.to_owned() } else { "messages:1-1".to_owned() }
            }
            // Also if there is no chunk or blob yet.
            _ => "tail:1".to_owned(),
        })
    }

    async fn swap(&mut self) -> Proven<()> {
        let out = self.sessions.swapped(&self.name).await?;
        if !out.is_empty() && self.random.one_in(2) {
            let id = self.random.pick(&out).id;
            self.sessions.swap_in(&self.name, &id).await?;
            return Ok(());
        }
        let source: Source = self.source(false).await?.parse()?;
        self.sessions.swap_out(&self.name, &source, "swapped").await?;
        Ok(())
    }

    async fn dedup(&mut self) -> Proven<()> {
        let mut sources = Vec::new();
        for _ in 0..=self.random.below(3) {
            sources.push(self.source(false).await?.parse()?);
        }
        self.sessions.dedup(&self.name, &sources).await?;
        Ok(())
    }

    /// Replaces the derived files. What only the previous ones referred to becomes unused.
    async fn derive(&mut self, report: &mut Report) -> Proven<()> {
        let (mut derive, mut texts) = (Derive::default(), Vec::new());
        // Facts, decisions and references.
        for kind in ["f", "d", "r"] {
            let mut text = String::new();
            for number in 0..self.random.below(4) {
                let source = self.source(true).await?;
                let entry = match kind {
                    "f" => json!({"id": format!("f{number}"), "text": "t", "source": source}),
                    "d" => {
                        let more = self.source(true).await?;
                        json!({"id": format!("d{number}"), "decision": "d", "source": [source, more]})
                    }
                    _ => json!({"id": format!("r{number}"), "path": source, "kind": "k", "summary": "s"}),
                };
                text.push_str(&format!("{entry}\n"));
            }
            texts.push(text);
        }
        let mut texts = texts.into_iter().map(Some);
        (derive.facts, derive.decisions) = (texts.next().flatten(), texts.next().flatten());
        derive.refs = texts.next().flatten();
        derive.todo = Some(format!("Look at {}.", self.source(true).await?));
        if self.random.one_in(3) {
            derive.summary = Some("Nothing yet.".to_owned());
        }
        self.sessions.derive(&self.name, &derive).await?;
        // An entry of another session may not refer to a chunk of this one.
        if let Some(name) = self.names(CHUNKS).await?.first() {
            let source = format!("{}#swap:{name}", self.name);
            let mut derive = Derive::default();
            derive.facts = Some(json!({"id": "f", "text": "t", "source": source}).to_string());
            match self.sessions.create(&Create::new("other")).await {
                Err(error) if error.is(ErrorKind::AlreadyExists) => {}
                done => drop(done?),
            }
            let refused = self.sessions.derive("other", &derive).await.err();
            hold(refused.is_some_and(|error| error.is(ErrorKind::Conflict)), || {
                format!("{source} is taken in another session")
            })?;
            report.add("sources of other sessions refused", 1);
        }
        Ok(())
    }

    async fn pack(&mut self) -> Proven<()> {
        let mut options = PackOptions::default();
        options.budget = Some(1_500 + self.random.below(2_000));
        options.fresh = self.random.one_in(3);
        match self.sessions.pack(&self.name, &options).await {
            Err(error) if error.is(ErrorKind::BudgetTooSmall) => Ok(()),
            done => Ok(done.map(drop)?),
        }
    }

    async fn child(&mut self) -> Proven<()> {
        if self.children < 3 {
            let mut spawn = Spawn::new(format!("c{}", self.children), "do it");
            spawn.session = Some(format!("{}-c{}", self.name, self.children));
            self.sessions.spawn(&self.name, &spawn).await?;
            self.children += 1;
        }
        let id = format!("c{}", self.random.below(self.children));
        let (path, source) = (self.source(true).await?, self.source(true).await?);
        let entry = json!({"id": "x", "path": path, "kind": "k", "summary": "s", "source": source});
        let mut change = ChildChange::default();
        if self.random.one_in(6) {
            change = ChildChange::done("done");
        }
        change.refs = Some(if self.random.one_in(4) { String::new() } else { entry.to_string() });
        match self.sessions.set_child(&self.name, &id, &change).await {
            // The child has ended.
            Err(error) if error.is(ErrorKind::Conflict) => Ok(()),
            done => Ok(done.map(drop)?),
        }
    }

    /// Writes a file by hand into a directory that collections read.
    async fn stray(&mut self) -> Proven<()> {
        let text = format!("stray {}", self.random.below(4));
        let name = match self.random.one_in(2) {
            true => format!("odd-{}", self.random.below(3)),
            false => format!("sha256-{}", sha256(text.as_bytes())),
        };
        let dir = self.random.pick(&[CHUNKS, BLOBS]);
        self.put(&format!("{dir}/{name}"), &text).await
    }

    async fn policy(&mut self) -> Proven<()> {
        let ttl = ["0s", "1h", "10d"];
        let (pack, swap) = (self.random.pick(&ttl), self.random.pick(&ttl));
        let refs = self.random.below(5);
        let text = format!("pack_ttl={pack}\nswap_ttl={swap}\ndedup_min_refs={refs}\n");
        self.put("context/gc.policy", &text).await
    }

    async fn collect(&mut self, report: &mut Report) -> Proven<()> {
        let home = self.path("meta.json")?.parent().ok_or_else(|| Broken::because("no home"))?;
        let before = Seen::read(self.fs, &home).await?;
        for (log, was) in ["messages.jsonl", "events.jsonl"].iter().zip(&mut self.logs) {
            let text = before.text(log);
            hold(text.starts_with(was.as_str()), || format!("{log} is not what was appended"))?;
            *was = text;
        }
        // All versions are kept here, so every pack can be built again.
        if before.is_packed() {
            self.sessions.replay(&self.name, None).await?;
        }
        let due = before.free(self.env.now(), self.blind);
        let head = self.fs.head().await?.seq;
        let dry = self.sessions.collect(&self.name, &Collect::dry()).await?;
        hold(self.fs.head().await?.seq == head, || "a dry run changes something".to_owned())?;
        // The dry run comes first: after a collection that removed too much, nothing could be compared.
        let told: BTreeSet<String> = dry.removed.iter().map(|one| one.name.clone()).collect();
        hold(told == due, || {
            let more: Vec<_> = told.difference(&due).collect();
            let less: Vec<_> = due.difference(&told).collect();
            format!("{more:?} are removed although they are used, {less:?} are kept although they are not")
        })?;
        let done = self.sessions.collect(&self.name, &Collect::default()).await?;
        hold(done.removed == dry.removed, || format!("{done:?} is not what was told: {dry:?}"))?;
        let after = Seen::read(self.fs, &home).await?;
        after.follows(&before, &due)?;
        // Everything unused must be found in one run, also what only removed files referred to.
        let again = self.sessions.collect(&self.name, &Collect::default()).await?;
        hold(again.removed.is_empty(), || format!("a second run removes {again:?}"))?;
        // No remaining entry or chunk may refer to a removed file.
        for id in after.entries() {
            let why = self.sessions.why(&self.name, &id).await?;
            report.add("names followed", why.sources.len());
        }
        for id in after.chunks_named() {
            let content = self.sessions.swap_content(&self.name, &id).await?;
            hold(format!("sha256-{}", sha256(&content)) == id, || format!("{id} leads elsewhere"))?;
            report.add("names followed", 1);
        }
        report.add("collections", 1);
        for name in &due {
            let kind = [CHUNKS, BLOBS].iter().position(|dir| name.starts_with(dir)).map_or(0, |at| at + 1);
            report.add(REMOVED[kind], 1);
        }
        report.add("chunks and blobs kept", after.held());
        Ok(())
    }
}
