//! Random transcripts that are imported in parts and again completely: a session contains each message of its
//! transcript once, whatever fields an SDK changes, and whatever was retracted or reset in between.

use std::path::Path;

use garth_agent::session::{
    Block, Create, Document, Export, Import, Message, Select, Sessions, TranscriptFormat,
};
use garth_agent::workspace::{Reset, Workspace};
use garth_engine::{DataDir, Env, ErrorKind, FileSystem, FileSystemExt as _};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold, run};
use serde_json::{Map, Value, json};

/// Transcripts of one account.
const OF_ONE: u64 = 200;

const FORMATS: [TranscriptFormat; 5] = [
    TranscriptFormat::Garth,
    TranscriptFormat::Pi,
    TranscriptFormat::OpenAi,
    TranscriptFormat::Anthropic,
    TranscriptFormat::Markdown,
];

/// Texts that repeat within a conversation.
const SAID: [&str; 8] = ["yes", "ok", "continue", "Done.", "größe\n\nü", "## user", "{\"a\":1}", "1.0"];

/// Fault to plant: a negative control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Leaves out the last message of a transcript.
    Lost,
    /// Sends the last message of a transcript twice.
    Doubled,
}

/// Transcripts in all formats. The size is the number of transcripts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transcripts {
    /// Fault to plant: a negative control.
    pub fault: Option<Fault>,
}

impl Proof for Transcripts {
    fn about(&self) -> About {
        About {
            name: "transcripts",
            claim: "A session says what its transcript says, in parts, again, after retractions and resets.",
            full: 10_000,
            ci: 60,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        random(setting.folder, (setting.size, setting.seed), self.fault)
    }
}

const COUNTS: [&str; 8] =
    ["transcripts", "messages", "parts", "sent again", "rewinds", "retractions", "resets", "system prompts"];

/// Message of a conversation, independent of its format.
#[derive(Clone, Debug)]
enum Said {
    System(String),
    User(String),
    Assistant(String),
    /// Tool call with its id, arguments and result.
    Call(String, Value, String),
}

/// Imports `size` random transcripts.
fn random(folder: &Path, (size, seed): (u64, u64), fault: Option<Fault>) -> Proven<Report> {
    run(async {
        let data = DataDir::open(&folder.join("data"), Env::system(), garth_agent::registry())?;
        let mut report = Report::of(COUNTS);
        for number in 0..size {
            let account = format!("a{}", number / OF_ONE);
            if number % OF_ONE == 0 {
                data.create_account(&account).await?;
            }
            let fs = data.account(&account).await?;
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(number);
            let mut play = Play {
                fs: &*fs,
                name: format!("s{number}"),
                format: FORMATS[(number % FORMATS.len() as u64) as usize],
                random: Random::new(seed),
                said: Vec::new(),
                has_begun: false,
                has_system_file: false,
                fault,
            };
            play.run(&mut report).await.map_err(|broken| {
                Broken::because(format!("transcript {number}, seed {seed}, {}: {broken}", play.format))
            })?;
            report.add("transcripts", 1);
            drop(fs);
            if (number + 1) % OF_ONE == 0 {
                data.delete_account(&account).await?;
            }
        }
        Ok(report)
    })
}

/// Transcript and its session.
struct Play<'a> {
    fs: &'a dyn FileSystem,
    name: String,
    format: TranscriptFormat,
    random: Random,
    said: Vec<Said>,
    /// True after the first import.
    has_begun: bool,
    /// True after the system prompt was changed: from then on a file contains it.
    has_system_file: bool,
    fault: Option<Fault>,
}

impl Play<'_> {
    fn sessions(&self) -> Proven<Sessions<'_>> {
        Ok(Sessions::new(self.fs, "ann", "coder")?)
    }

    async fn run(&mut self, report: &mut Report) -> Proven<()> {
        self.sessions()?.create(&Create::new(&self.name)).await?;
        if self.random.one_in(2) {
            self.said.push(Said::System("be kind".to_owned()));
        }
        let steps = 2 + self.random.below(6);
        for step in 0..steps {
            match self.random.below(9) {
                0..=2 => self.part(report).await?,
                3 if step > 0 => self.retract(report).await?,
                4 if step > 0 => self.rewind(report).await?,
                5 if step > 0 => self.reset(report).await?,
                6 if step > 0 => self.change_system(report).await?,
                _ => self.whole(report).await?,
            }
        }
        self.again(report).await?;
        self.check().await
    }

    /// Extends the conversation. Returns the new messages.
    fn go_on(&mut self) -> Vec<Said> {
        let mut more = Vec::new();
        for _ in 0..1 + self.random.below(4) {
            let text = |random: &mut Random| random.pick(&SAID).to_owned();
            let spoken = text(&mut self.random);
            more.push(match self.random.below(4) {
                0 | 1 => Said::User(spoken),
                2 => Said::Assistant(spoken),
                _ => {
                    let number = self.random.below(1000);
                    let arguments =
                        json!({"n": number, "text": spoken, "deep": {"b": [1, 2.5, null], "a": 1e3}});
                    Said::Call(format!("c{number}"), arguments, text(&mut self.random))
                }
            });
        }
        more
    }

    /// Imports new messages alone.
    async fn part(&mut self, report: &mut Report) -> Proven<()> {
        let is_first = !self.has_begun;
        let new = self.go_on();
        // The first part includes a system prompt that was drawn before.
        let sent = if is_first { [self.said.clone(), new.clone()].concat() } else { new.clone() };
        let text = self.text(&sent, false);
        let done = self.sessions()?.import(&self.name, &Import::new(self.format, &text).part()).await?;
        // The texts repeat, but the messages of a part are always new.
        hold(done.new == done.messages, || format!("a part lost messages: {done:?}"))?;
        self.said.extend(new);
        self.has_begun = true;
        report.add("parts", 1);
        Ok(())
    }

    /// Imports the complete transcript, extended by new messages.
    async fn whole(&mut self, report: &mut Report) -> Proven<()> {
        let new = self.go_on();
        let before = self.said.len();
        self.said.extend(new);
        let mut sent = self.said.clone();
        match self.fault {
            Some(Fault::Lost) => drop(sent.pop()),
            Some(Fault::Doubled) => sent.extend(sent.last().cloned()),
            None => {}
        }
        let text = self.text(&sent, before > 0);
        self.sessions()?.import(&self.name, &Import::new(self.format, &text).whole()).await?;
        self.has_begun = true;
        report.add("messages", (self.said.len() - before) as u64);
        self.check().await
    }

    /// Imports the transcript with another system prompt.
    async fn change_system(&mut self, report: &mut Report) -> Proven<()> {
        // A session without messages takes a system prompt as its first message.
        if self.said.iter().all(|said| matches!(said, Said::System(_))) {
            return self.whole(report).await;
        }
        let text = format!("be {}", self.random.below(3));
        let is_new = self.said.first().is_none_or(|said| !matches!(said, Said::System(own) if *own == text));
        let first = usize::from(matches!(self.said.first(), Some(Said::System(_))));
        self.said.splice(..first, [Said::System(text)]);
        let text = self.text(&self.said.clone(), true);
        let done = self.sessions()?.import(&self.name, &Import::new(self.format, &text).whole()).await?;
        hold(done.new == 0 && done.system_changed == is_new, || format!("the system prompt: {done:?}"))?;
        self.has_system_file |= is_new;
        report.add("system prompts", u64::from(is_new));
        self.check().await
    }

    /// Imports the transcript once more and checks that nothing changes.
    async fn again(&mut self, report: &mut Report) -> Proven<()> {
        let text = self.text(&self.said.clone(), true);
        let done = self.sessions()?.import(&self.name, &Import::new(self.format, &text).whole()).await?;
        hold(done.new == 0, || format!("sent again, it doubled: {done:?}: {text}"))?;
        report.add("sent again", 1);
        Ok(())
    }

    /// Retracts the last messages from the session and from the transcript.
    async fn retract(&mut self, report: &mut Report) -> Proven<()> {
        let is_gone = |said: &&Said| !matches!(said, Said::System(_) | Said::Call(..));
        let count = self.said.iter().rev().take_while(is_gone).count().min(2);
        let there = self.sessions()?.lines(&self.name, &Select::messages(1..=u64::MAX)).await?.items.len();
        // A session that continues another one may have fewer messages than the transcript.
        if count == 0 || there < count {
            return Ok(());
        }
        self.sessions()?.retract(&self.name, &format!("tail:{count}").parse()?, None).await?;
        self.said.truncate(self.said.len() - count);
        report.add("retractions", 1);
        self.again(report).await
    }

    /// Replaces the messages from a random one on, and imports with `rewind`.
    async fn rewind(&mut self, report: &mut Report) -> Proven<()> {
        let first = self.said.iter().take_while(|said| matches!(said, Said::System(_))).count();
        let keep = first + self.random.below((self.said.len() - first) as u64 + 1) as usize;
        let before = self.said.clone();
        self.said.truncate(keep);
        let new = self.go_on();
        self.said.extend(new);
        let text = self.text(&self.said.clone(), true);
        let sessions = self.sessions()?;
        match sessions.import(&self.name, &Import::new(self.format, &text).whole().rewind()).await {
            // Messages that a reset has archived cannot be replaced.
            Err(error) if error.is(ErrorKind::Conflict) && error.message().contains("was reset") => {
                self.said = before;
                return Ok(());
            }
            done => drop(done?),
        }
        report.add("rewinds", 1);
        self.check().await
    }

    async fn reset(&mut self, report: &mut Report) -> Proven<()> {
        let workspace = Workspace::new(self.fs, "coder")?;
        let reset = workspace.reset("ann", &self.name, &Reset::default()).await?;
        let reset = reset.ok_or_else(|| Broken::because("the session was not reset".to_owned()))?;
        // The next imports go to the session that continues this one.
        self.name = reset.next.name;
        report.add("resets", 1);
        Ok(())
    }

    /// Fails unless the session, with those that it continues, contains the messages of the transcript.
    async fn check(&self) -> Proven<()> {
        let sessions = self.sessions()?;
        let (mut names, mut name) = (Vec::new(), Some(self.name.clone()));
        while let Some(one) = name {
            name = sessions.get(&one).await?.meta.previous;
            names.push(one);
        }
        let mut there = Vec::new();
        for name in names.iter().rev() {
            let mut select = Select::messages(1..=u64::MAX);
            loop {
                let page = sessions.lines(name, &select).await?;
                for line in &page.items {
                    there.push(said_in(&Message::parse(&line.text)?));
                }
                match page.next {
                    Some(next) => select.lines = next..=u64::MAX,
                    None => break,
                }
            }
        }
        let is_markdown = self.format == TranscriptFormat::Markdown;
        let mut due: Vec<String> = self.said.iter().flat_map(|said| due(said, is_markdown)).collect();
        if self.has_system_file {
            // Sessions that were reset still contain their first system prompt.
            there.retain(|said| !said.starts_with("System "));
            due.retain(|said| !said.starts_with("System "));
            let mut prompt = None;
            for name in &names {
                let file = format!("{}/context/system.md", sessions.directory(name)?);
                let text = self.fs.read_to_string(file.as_str()).await.ok();
                prompt = prompt.or(text);
            }
            let is_last =
                matches!(self.said.first(), Some(Said::System(text)) if prompt.as_ref() == Some(text));
            hold(is_last, || format!("the system prompt is {prompt:?}"))?;
        }
        hold(there == due, || format!("the session says\n{there:#?}\nand the transcript\n{due:#?}"))?;
        // An export of the session must contain the same messages.
        let (mut document, mut text, mut next) = (Document::new(self.format), String::new(), Some(1));
        while let Some(line) = next {
            let page = sessions.export(&self.name, &Export::new(self.format).lines(line..=u64::MAX)).await?;
            text.push_str(&document.page(&page.items));
            next = page.next;
        }
        text.push_str(&document.end());
        let first = names.len() == 1;
        let again = Import::new(self.format, &text).whole();
        // A session that continues another one exports only its own messages.
        if first {
            let done = sessions.import(&self.name, &again).await?;
            hold(done.new == 0 && !done.system_changed, || format!("an export is not the session: {text}"))?;
        }
        Ok(())
    }

    /// Returns a transcript. With `again` it may differ in fields that carry no content.
    fn text(&mut self, said: &[Said], again: bool) -> String {
        let noise = again && self.random.one_in(2);
        let mut items = Vec::new();
        for said in said {
            items.extend(self.items(said, noise));
        }
        if self.format == TranscriptFormat::Markdown {
            return items.iter().filter_map(Value::as_str).collect();
        }
        match self.random.below(3) {
            0 => Value::from(items).to_string(),
            1 if self.format != TranscriptFormat::Garth => {
                json!({"model": "m", "max_tokens": 7, "messages": items}).to_string()
            }
            _ if noise => items.iter().map(|item| format!("{item:#}\n")).collect(),
            _ => items.iter().map(|item| format!("{item}\n")).collect(),
        }
    }

    fn items(&mut self, said: &Said, noise: bool) -> Vec<Value> {
        let format = self.format;
        let mut items = match (format, said) {
            (TranscriptFormat::Markdown, said) => return markdown(said),
            (_, Said::System(text)) => vec![json!({"role": "system", "content": text})],
            (_, Said::User(text)) => vec![json!({"role": "user", "content": text})],
            (_, Said::Assistant(text)) => vec![json!({"role": "assistant", "content": text})],
            (TranscriptFormat::OpenAi, Said::Call(id, arguments, result)) => {
                // Another layout of the same JSON.
                let text = if noise { format!("{arguments:#}") } else { arguments.to_string() };
                let function = json!({"name": "n", "arguments": text});
                vec![
                    json!({"role": "assistant", "content": null,
                        "tool_calls": [{"id": id, "type": "function", "function": function}]}),
                    json!({"role": "tool", "tool_call_id": id, "content": result}),
                ]
            }
            (TranscriptFormat::Anthropic, Said::Call(id, arguments, result)) => vec![
                json!({"role": "assistant",
                    "content": [{"type": "tool_use", "id": id, "name": "n", "input": arguments}]}),
                json!({"role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": id, "content": result}]}),
            ],
            (TranscriptFormat::Pi, Said::Call(id, arguments, result)) => vec![
                json!({"role": "assistant",
                    "content": [{"type": "toolCall", "id": id, "name": "n", "arguments": arguments}]}),
                json!({"role": "toolResult", "toolCallId": id, "toolName": "n", "isError": false,
                    "content": [{"type": "text", "text": result}]}),
            ],
            (_, Said::Call(id, arguments, result)) => vec![
                json!({"role": "assistant",
                    "content": [{"type": "tool_call", "id": id, "name": "n", "arguments": arguments}]}),
                json!({"role": "tool", "content": [{"type": "tool_result", "call_id": id, "content": result}]}),
            ],
        };
        if noise {
            items.iter_mut().for_each(|item| self.noise(item));
        }
        items
    }

    /// Changes fields of a message that carry no content.
    fn noise(&mut self, item: &mut Value) {
        let format = self.format;
        let Value::Object(fields) = item else { return };
        if let Some(Value::String(text)) = fields.get("content")
            && self.random.one_in(2)
        {
            let mut block =
                Map::from_iter([("type".into(), "text".into()), ("text".into(), text.clone().into())]);
            if matches!(format, TranscriptFormat::OpenAi | TranscriptFormat::Anthropic) {
                block.insert("cache_control".into(), json!({"type": "ephemeral"}));
            }
            fields.insert("content".into(), json!([block]));
        }
        match format {
            TranscriptFormat::OpenAi => {
                fields.insert("refusal".into(), Value::Null);
                fields.insert("annotations".into(), json!([]));
                fields.insert("usage".into(), json!({"total_tokens": self.random.below(99)}));
            }
            TranscriptFormat::Anthropic => {
                fields.insert("id".into(), "msg_01".into());
                fields.insert("stop_reason".into(), "end_turn".into());
            }
            TranscriptFormat::Pi => {
                fields.insert("timestamp".into(), self.random.below(1 << 40).into());
                fields.insert("provider".into(), "p".into());
            }
            TranscriptFormat::Garth | TranscriptFormat::Markdown => {}
        }
    }
}

fn markdown(said: &Said) -> Vec<Value> {
    let section = |role: &str, text: &str| {
        let text = text.split('\n').map(|line| {
            // A line that looks like a heading would begin another message.
            let heading = ["## user", "## system", "## assistant", "## tool"].contains(&line);
            if heading { format!("\\{line}") } else { line.to_owned() }
        });
        Value::from(format!("## {role}\n\n{}\n\n", text.collect::<Vec<_>>().join("\n")))
    };
    match said {
        Said::System(text) => vec![section("system", text)],
        Said::User(text) => vec![section("user", text)],
        Said::Assistant(text) => vec![section("assistant", text)],
        Said::Call(id, _, result) => {
            let call = format!("tool 2026-01-27T09:30:00.000Z - {id}");
            vec![section("assistant", &format!("calls {id}")), section(&call, result)]
        }
    }
}

/// Returns the content of a message of a session as text. The name of a tool appears in its call only.
fn said_in(message: &Message) -> String {
    let blocks: Vec<_> = message.content.iter().map(block).collect();
    format!("{:?} {}", message.role, blocks.join(" "))
}

fn block(block: &Block) -> String {
    match block {
        Block::ToolCall { id, name, arguments } => {
            format!("call {id} {name} {:?}", serde_json::from_str::<Value>(arguments.get()))
        }
        Block::ToolResult { call_id, error, content, .. } => {
            let content: Vec<_> = content.iter().map(self::block).collect();
            format!("result {call_id} {error} {}", content.join(" "))
        }
        other => format!("{other:?}"),
    }
}

/// Returns the messages that a session must have for one of the transcript.
fn due(said: &Said, is_markdown: bool) -> Vec<String> {
    let message = |role: &str, content: Value| {
        let line =
            json!({"id": "msg-1", "role": role, "created_at": "2026-01-27T09:30:00Z", "content": content});
        Message::parse(&line.to_string()).map(|message| said_in(&message)).unwrap_or_default()
    };
    match said {
        Said::System(text) => vec![message("system", text.clone().into())],
        Said::User(text) => vec![message("user", text.clone().into())],
        Said::Assistant(text) => vec![message("assistant", text.clone().into())],
        Said::Call(id, arguments, result) => {
            let call = json!([{"type": "tool_call", "id": id, "name": "n", "arguments": arguments}]);
            let call = if is_markdown { format!("calls {id}").into() } else { call };
            let result = json!([{"type": "tool_result", "call_id": id, "content": result}]);
            vec![message("assistant", call), message("tool", result)]
        }
    }
}
