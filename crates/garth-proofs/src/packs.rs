//! Packs of random sessions: within their budget by an independent count, in lists that no provider rejects,
//! and identical when they are rebuilt, whatever happened in the meantime. Messages are only ever added.

use std::collections::VecDeque;
use std::path::Path;

use garth_agent::session::{
    Append, Change, ChildChange, Collect, Compact, Create, Derive, Draft, EntryKind, Format, PackOptions,
    Packed, Role, Select, Sessions, Source, Spawn, State,
};
use garth_engine::model::{Moment, Op};
use garth_engine::{DataDir, Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold, run};
use serde_json::json;

use crate::reference::chat_grammar;

/// Number of sessions whose packs are rebuilt at the end, and of commits before that.
const LAST: usize = 20;
const LATER: u64 = 1000;

/// A pack to rebuild.
struct Kept {
    at: Moment,
    markdown: String,
    lists: [String; 2],
}

/// A session and its expected state.
struct Play<'a> {
    fs: &'a dyn FileSystem,
    sessions: Sessions<'a>,
    name: String,
    random: Random,
    /// Budget of packs, which changes from time to time.
    budget: u64,
    /// Lines of all messages, which must stay unchanged.
    said: Vec<String>,
    /// Calls without a result.
    open: Vec<String>,
    calls: u64,
    kept: Vec<Kept>,
    facts: String,
    next_fact: u64,
}

const WORDS: [&str; 12] = [
    "parser",
    "token",
    "größe",
    "日本語",
    "<!-- messages:1 user -->",
    "{\"a\":1}",
    "\\n",
    "line\nline",
    "🎈",
    "build",
    "error: E0502",
    "[garth:end x]",
];

/// Packs of random sessions. The size is the number of sessions.
#[derive(Clone, Copy, Debug)]
pub struct Packs;

impl Proof for Packs {
    fn about(&self) -> About {
        About {
            name: "packs",
            claim: "Packs are within their budget, refused by no provider, and built again byte for byte.",
            full: 2_000,
            ci: 12,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        random(setting.folder, setting.size, setting.seed)
    }
}

/// Counts of a run. Packs are rebuilt 1,000 commits later, and from a backup.
const COUNTS: [&str; 5] =
    ["sessions", "packs", "budgets too small", "sources resolved", "packs built again much later"];

/// Plays `count` random sessions.
///
/// # Errors
/// The promise that does not hold.
fn random(folder: &Path, count: u64, seed: u64) -> Proven<Report> {
    run(async {
        let data = DataDir::open(&folder.join("data"), Env::system(), garth_agent::registry())?;
        data.create_account("default").await?;
        let fs = data.account("default").await?;
        let (mut report, mut last) = (Report::of(COUNTS), VecDeque::new());
        for number in 0..count {
            let sessions = Sessions::new(&*fs, "ann", "coder")?;
            let name = format!("s{number}");
            sessions.create(&Create::new(&name)).await?;
            let random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
            let mut play = Play {
                fs: &*fs,
                sessions,
                name,
                random,
                budget: 3000,
                said: Vec::new(),
                open: Vec::new(),
                calls: 0,
                kept: Vec::new(),
                facts: String::new(),
                next_fact: 0,
            };
            for _ in 0..60 {
                play.step(&mut report).await.map_err(|broken| {
                    Broken::because(format!("session {number} of seed {seed}: {broken}"))
                })?;
            }
            play.end(&mut report)
                .await
                .map_err(|broken| Broken::because(format!("session {number} of seed {seed}: {broken}")))?;
            report.add("sessions", 1);
            last.push_back(play);
            if last.len() > LAST {
                last.pop_front();
            }
        }
        for number in 0..LATER {
            fs.apply(Op::write(TreePath::parse("/elsewhere")?, number.to_string())).await?;
        }
        data.backup(&folder.join("backup")).await?;
        let restored = DataDir::open(&folder.join("backup"), Env::system(), garth_agent::registry())?
            .account("default")
            .await?;
        for play in &last {
            for at in 0..play.kept.len() {
                play.replay(&*fs, at).await?;
                play.replay(&*restored, at).await?;
                report.add("packs built again much later", 1);
            }
        }
        Ok(report)
    })
}

impl Play<'_> {
    fn path(&self, file: &str) -> Proven<TreePath> {
        Ok(TreePath::parse(&format!("/users/ann/agents/coder/session/{}/{file}", self.name))?)
    }

    fn text(&mut self, most: u64) -> String {
        let words = self.random.below(most);
        (0..words).map(|_| self.random.pick(&WORDS)).collect::<Vec<_>>().join(" ")
    }

    async fn step(&mut self, report: &mut Report) -> Proven<()> {
        let what = match self.random.below(42) {
            0..=19 => {
                self.say().await?;
                "append"
            }
            20..=29 => {
                self.pack(report).await?;
                "pack"
            }
            30..=31 => {
                self.derive().await?;
                "derive"
            }
            32 => {
                self.retract().await?;
                "retract"
            }
            33..=34 => {
                self.swap().await?;
                "swap"
            }
            35 => {
                self.child().await?;
                "child"
            }
            36 => {
                let text = self.text(30);
                // A pinned file changes the beginning of all later packs.
                let name = self.random.pick(&["system.md", "style.md"]);
                self.sessions.pin(&self.name, name, Some(&text)).await?;
                "pin"
            }
            37 => {
                let mut how = Compact::default();
                (how.keep, how.max_tokens) = (self.random.below(4), 100 + self.random.below(400));
                self.sessions.compact(&self.name, &how).await?;
                "compact"
            }
            38 => {
                self.fs
                    .apply(Op::write(self.path("context/gc.policy")?, "swap_ttl=0s\npack_ttl=0s\n"))
                    .await?;
                self.sessions.collect(&self.name, &Collect::default()).await?;
                "collect"
            }
            _ => {
                self.build_again().await?;
                "replay"
            }
        };
        report.add_in("steps", what, 1);
        Ok(())
    }

    /// Appends one to four messages: of every role, with calls that have one result, none, or two, in any
    /// order.
    async fn say(&mut self) -> Proven<()> {
        let mut drafts = Vec::new();
        for _ in 0..=self.random.below(3) {
            let text = self.text(60);
            drafts.push(match self.random.below(8) {
                0..=1 => Draft::user(text),
                2 => Draft::assistant(text),
                3 => Draft::message(Role::System, text.as_str()),
                4 | 5 => {
                    let mut blocks = vec![json!({"type": "text", "text": text})];
                    if self.random.one_in(3) {
                        blocks.insert(0, json!({"type": "reasoning", "text": "so", "signature": "s"}));
                    }
                    for _ in 0..=self.random.below(3) {
                        self.calls += 1;
                        // Models reuse ids.
                        let id = format!("call {}", self.calls % 9);
                        let arguments =
                            if self.random.one_in(5) { json!("{\"cut") } else { json!({"a": 1.50}) };
                        blocks.push(
                            json!({"type": "tool_call", "id": id, "name": "b/c", "arguments": arguments}),
                        );
                        self.open.push(id);
                    }
                    Draft::message(Role::Assistant, &blocks)
                }
                _ => {
                    let at = self.random.below(self.open.len().max(1) as u64) as usize;
                    let id = match self.open.get(at).cloned() {
                        Some(_) if !self.random.one_in(6) => self.open.remove(at),
                        Some(id) => id,
                        None => "nobody".to_owned(),
                    };
                    let output = match self.random.below(12) {
                        0 => "the same long output\n".repeat(300),
                        1 => format!("{} ", self.random.next()).repeat(3000),
                        _ => text,
                    };
                    Draft::message(
                        Role::Tool,
                        &json!([{"type": "tool_result", "call_id": id, "content": output}]),
                    )
                }
            });
        }
        let run = format!("run-{}", self.random.below(3));
        let done = self.sessions.append(&self.name, &Append::messages(drafts).run(run)).await?;
        let lines = done.lines.ok_or_else(|| Broken::because("an append tells no lines"))?;
        hold(*lines.start() == self.said.len() as u64 + 1, || format!("lines {lines:?} are not the next"))?;
        // The lines are read back, because ids and times are added when they are appended.
        let page = self.sessions.lines(&self.name, &Select::messages(lines).with_retracted()).await?;
        self.said.extend(page.items.into_iter().map(|line| line.text));
        Ok(())
    }

    async fn pack(&mut self, report: &mut Report) -> Proven<()> {
        let mut options = PackOptions::default();
        if self.random.one_in(3) {
            self.budget = if self.random.one_in(8) { 0 } else { 100 + self.random.below(6000) };
        }
        options.budget = Some(self.budget);
        options.reserved.output_tokens = self.random.below(50);
        options.fresh = self.random.one_in(6);
        let packed = match self.sessions.pack(&self.name, &options).await {
            Ok(packed) => packed,
            Err(error) if error.is(ErrorKind::BudgetTooSmall) => {
                report.add("budgets too small", 1);
                // The message ends with the smallest possible budget, which must then be enough.
                let mut words =
                    error.message().split_whitespace().filter_map(|word| word.parse::<u64>().ok());
                let least = words.next_back().ok_or_else(|| Broken::because("no least budget is named"))?;
                hold(least > options.budget.unwrap_or_default(), || {
                    format!("{least} is named as the least beside {:?}", options.budget)
                })?;
                options.budget = Some(least);
                self.sessions.pack(&self.name, &options).await?
            }
            Err(error) => return Err(error.into()),
        };
        let budget = options.budget.unwrap_or_default();
        // A budget of 0 means no limit.
        check(&packed, if budget == 0 { u64::MAX } else { budget - options.reserved.output_tokens })?;
        let lists = [packed.list(Format::OpenAi), packed.list(Format::Anthropic)];
        self.kept.push(Kept { at: Moment::Seq(self.fs.head().await?.seq), markdown: packed.markdown, lists });
        report.add("packs", 1);
        Ok(())
    }

    async fn derive(&mut self) -> Proven<()> {
        if self.said.is_empty() {
            return Ok(());
        }
        // A retraction may have removed entries.
        self.facts = self.fs.read_to_string(&self.path(EntryKind::Fact.file())?).await?;
        let line = 1 + self.random.below(self.said.len() as u64);
        let source = self.random.pick(&[format!("messages:{line}"), "tail:1".to_owned()]);
        let id = self.next_fact;
        self.next_fact += 1;
        let fact = json!({"id": format!("f{id}"), "text": self.text(20) + ".", "source": source});
        self.facts.push_str(&format!("{fact}\n"));
        let mut derive = Derive::default();
        derive.facts = Some(self.facts.clone());
        derive.summary = Some(self.text(80));
        match self.sessions.derive(&self.name, &derive).await {
            Err(error)
                if ["has no messages", "was retracted"].iter().any(|why| error.message().contains(why)) =>
            {
                let end = self.facts.trim_end().rfind('\n').map_or(0, |at| at + 1);
                self.facts.truncate(end);
            }
            done => drop(done?),
        }
        // The resolved target is stored with the entry.
        self.facts = self.fs.read_to_string(&self.path(EntryKind::Fact.file())?).await?;
        Ok(())
    }

    async fn retract(&mut self) -> Proven<()> {
        let source: Source = format!("tail:{}", 1 + self.random.below(3)).parse()?;
        match self.sessions.retract(&self.name, &source, None).await {
            // The tail may be empty, because its messages were retracted before.
            Err(error) if error.is(ErrorKind::NotFound) => Ok(()),
            done => {
                done?;
                Ok(())
            }
        }
    }

    async fn swap(&mut self) -> Proven<()> {
        let out = self.sessions.swapped(&self.name).await?;
        if !out.is_empty() && self.random.one_in(3) {
            let id = self.random.pick(&out).id;
            self.sessions.swap_in(&self.name, &id).await?;
        } else if !self.said.is_empty() {
            let first = 1 + self.random.below(self.said.len() as u64);
            let last = (first + self.random.below(4)).min(self.said.len() as u64);
            let source: Source = format!("messages:{first}-{last}").parse()?;
            self.sessions.swap_out(&self.name, &source, "swapped").await?;
        }
        Ok(())
    }

    async fn child(&mut self) -> Proven<()> {
        let id = format!("c{}", self.random.below(1_000_000));
        let mut spawn = Spawn::new(&id, "do it");
        spawn.session = Some(format!("{}-{id}", self.name));
        match self.sessions.spawn(&self.name, &spawn).await {
            Err(error) if error.is(ErrorKind::AlreadyExists) => return Ok(()),
            done => drop(done?),
        }
        let result = self.text(40);
        self.sessions.set_child(&self.name, &id, &ChildChange::done(result)).await?;
        Ok(())
    }

    /// Rebuilds one of the earlier packs.
    async fn build_again(&mut self) -> Proven<()> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let at = self.random.below(self.kept.len() as u64) as usize;
        self.replay(self.fs, at).await
    }

    async fn replay(&self, fs: &dyn FileSystem, at: usize) -> Proven<()> {
        let kept = &self.kept[at];
        let sessions = Sessions::new(fs, "ann", "coder")?;
        let again = sessions.replay(&self.name, Some(&kept.at)).await?;
        hold(again.markdown == kept.markdown, || {
            format!("pack {at} is built again as\n{}\nand was\n{}", again.markdown, kept.markdown)
        })?;
        // Lists are derived from the pack again, so they are compared as well.
        let lists = [again.list(Format::OpenAi), again.list(Format::Anthropic)];
        hold(lists == kept.lists, || format!("the lists of pack {at} are others"))
    }

    async fn end(&mut self, report: &mut Report) -> Proven<()> {
        self.sessions.set(&self.name, &Change::new().state(State::Done)).await?;
        self.fs.apply(Op::write(self.path("context/gc.policy")?, "swap_ttl=0s\npack_ttl=0s\n")).await?;
        self.sessions.collect(&self.name, &Collect::default()).await?;
        let file = self.fs.read_to_string(&self.path("messages.jsonl")?).await?;
        let due: String = self.said.iter().map(|line| format!("{line}\n")).collect();
        hold(file == due, || "messages are not what was appended".to_owned())?;
        for at in 0..self.kept.len() {
            self.replay(self.fs, at).await?;
        }
        self.facts = self.fs.read_to_string(&self.path(EntryKind::Fact.file())?).await?;
        for line in self.facts.lines() {
            let fact: serde_json::Value =
                serde_json::from_str(line).map_err(|error| Broken::because(error.to_string()))?;
            let id = fact["id"].as_str().unwrap_or_default();
            let why = self.sessions.why(&self.name, id).await?;
            hold(!why.sources.is_empty(), || format!("{id} has no source"))?;
            report.add("sources resolved", why.sources.len());
        }
        Ok(())
    }
}

/// Checks the promises of every pack.
fn check(packed: &Packed, room: u64) -> Proven<()> {
    // An independent count of the complete text.
    let tokens = bpe_openai::o200k_base().encode(&*packed.markdown).len() as u64;
    hold(tokens == packed.pack.tokens, || {
        format!("{} tokens are reported, {tokens} were counted:\n{}", packed.pack.tokens, packed.markdown)
    })?;
    hold(tokens <= room, || format!("{tokens} tokens in a room of {room}"))?;
    chat_grammar::openai(&packed.list(Format::OpenAi))?;
    chat_grammar::anthropic(&packed.list(Format::Anthropic))
}
