//! Packs of random sessions with results of all sizes: within their budget by an independent count, with
//! complete units, and with as much of the budget used as there is content for.

use std::path::Path;

use garth_agent::session::{Append, Create, Draft, Format, PackOptions, Packed, Role, Sessions};
use garth_engine::Env;
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold, run};
use serde_json::{Value, json};

use crate::reference::chat_grammar;
use crate::support::account;

/// Limit on the tokens of a result that is shown in part while messages are omitted.
const KEPT: u64 = 1000;
/// Length of a short message, in tokens: none is omitted while a result shown in part exceeds [`KEPT`].
const SHORT: u64 = 500;
/// Bytes of a result that is shown as short as possible.
const LEAST: u64 = 600;

/// Fault that the proof has to detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Packs use half of their budget.
    Half,
    /// Packs use twice their budget.
    Twice,
}

/// Packs of random sessions with results of all sizes. The size is the number of sessions.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilledPacks {
    /// Planted fault.
    pub fault: Option<Fault>,
}

impl Proof for FilledPacks {
    fn about(&self) -> About {
        About {
            name: "filled-packs",
            claim: "Packs use their budget, and show long results in part before they leave out messages.",
            full: 10_000,
            ci: 6,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        random(setting.folder, setting.size, setting.seed, self.fault)
    }
}

/// Counts of a run.
const COUNTS: [&str; 4] = ["packs", "packs with messages left out", "results in part", "packs that go on"];

/// A session and its messages.
struct Play<'a> {
    sessions: Sessions<'a>,
    name: String,
    random: Random,
    budget: u64,
    /// Approximate tokens of each line when it is shown completely; true for a result.
    lines: Vec<(u64, bool)>,
    calls: u64,
    last: Option<Packed>,
}

fn tokens(text: &str) -> u64 {
    bpe_openai::o200k_base().encode(text).len() as u64
}

fn random(folder: &Path, count: u64, seed: u64, fault: Option<Fault>) -> Proven<Report> {
    run(async {
        let fs = account(&folder.join("data"), Env::system())?;
        let mut report = Report::of(COUNTS);
        for number in 0..count {
            let sessions = Sessions::new(&*fs, "ann", "coder")?;
            let name = format!("s{number}");
            sessions.create(&Create::new(&name)).await?;
            let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
            let budget = 4_000 << random.below(5);
            let mut play = Play { sessions, name, random, budget, lines: Vec::new(), calls: 0, last: None };
            for _ in 0..4 {
                let done = play.step(&mut report, fault).await;
                done.map_err(|broken| Broken::because(format!("session {number} of seed {seed}: {broken}")))?;
            }
        }
        Ok(report)
    })
}

impl Play<'_> {
    fn text(&mut self, words: u64) -> String {
        const WORDS: [&str; 8] =
            ["parser", "token", "größe", "日本語", "0x7f3a", "{\"a\": 1}", "build", "E0502"];
        (0..words).map(|_| self.random.pick(&WORDS)).collect::<Vec<_>>().join(" ")
    }

    /// Draws the tokens of a result: mostly few, sometimes up to twice the budget.
    fn length(&mut self) -> u64 {
        match self.random.below(10) {
            0 => self.random.below(self.budget * 2),
            1 | 2 => self.random.below(3_000),
            _ => self.random.below(200),
        }
    }

    async fn step(&mut self, report: &mut Report, fault: Option<Fault>) -> Proven<()> {
        // Packs continue after a few turns, and move after many.
        let most = if self.random.one_in(2) { 60 } else { 2 };
        let turns = 1 + self.random.below(most);
        let mut drafts = Vec::new();
        for _ in 0..turns {
            drafts.extend(self.turn());
        }
        for part in drafts.chunks(100) {
            self.sessions.append(&self.name, &Append::messages(part.to_vec())).await?;
        }
        let mut options = PackOptions::default();
        options.budget = Some(match fault {
            None => self.budget,
            Some(Fault::Half) => self.budget / 2,
            Some(Fault::Twice) => self.budget * 2,
        });
        let packed = self.sessions.pack(&self.name, &options).await?;
        report.add("packs", 1);
        self.check(&packed, report)?;
        let again = self.sessions.replay(&self.name, None).await?;
        hold(again.markdown == packed.markdown, || "a pack is built again with other bytes".to_owned())?;
        self.last = Some(packed);
        Ok(())
    }

    fn turn(&mut self) -> Vec<Draft> {
        let words = 5 + self.random.below(40);
        let text = self.text(words);
        let mut drafts = vec![Draft::user(&*text)];
        self.lines.push((tokens(&text) + 12, false));
        for _ in 0..self.random.below(3) {
            let mut calls = Vec::new();
            for _ in 0..=self.random.below(2) {
                self.calls += 1;
                let arguments = json!({"a": self.calls});
                calls.push(json!({"type": "tool_call", "id": format!("c{}", self.calls), "name": "bash", "arguments": arguments}));
            }
            drafts.push(Draft::message(Role::Assistant, &json!(calls)));
            self.lines.push((30 * calls.len() as u64, false));
            for call in &calls {
                let length = self.length();
                let text = self.text(length / 3);
                self.lines.push((tokens(&text) + 16, true));
                let result = json!([{"type": "tool_result", "call_id": call["id"], "content": text}]);
                drafts.push(Draft::message(Role::Tool, &result));
            }
        }
        let words = 5 + self.random.below(40);
        let text = self.text(words);
        self.lines.push((tokens(&text) + 12, false));
        drafts.push(Draft::assistant(&*text));
        drafts
    }

    fn check(&self, packed: &Packed, report: &mut Report) -> Proven<()> {
        let (pack, text) = (&packed.pack, &packed.markdown);
        let used = tokens(text);
        hold(used == pack.tokens, || format!("{} tokens are told, {used} are there", pack.tokens))?;
        hold(used <= self.budget, || format!("{used} tokens in a budget of {}", self.budget))?;
        let lists = [packed.list(Format::OpenAi), packed.list(Format::Anthropic)];
        chat_grammar::openai(&lists[0])?;
        chat_grammar::anthropic(&lists[1])?;
        // The list contains a placeholder for a call without a result.
        hold(!lists[0].contains("[interrupted"), || "a call has lost its result".to_owned())?;
        let results = lists[0].matches("\"role\":\"tool\"").count();
        let list: Value =
            serde_json::from_str(&lists[0]).map_err(|error| Broken::because(error.to_string()))?;
        let calls = list["messages"].as_array().into_iter().flatten();
        let calls: usize = calls.map(|of| of["tool_calls"].as_array().map_or(0, Vec::len)).sum();
        hold(results == calls, || format!("{calls} calls and {results} results"))?;
        let mut in_part = Vec::new();
        for cut in &pack.window.cuts {
            let head = format!("<!-- messages:{} tool result", cut.line);
            let start = text.find(&head).ok_or_else(|| Broken::because(format!("no {head}")))?;
            let end = text[start + 4..].find("<!-- ").map_or(text.len(), |at| start + 4 + at);
            in_part.push((tokens(&text[start..end]), cut.head + cut.tail));
        }
        report.add("results in part", in_part.len());
        let sum: u64 = in_part.iter().map(|(tokens, _)| tokens).sum();
        let is_shortest = in_part.iter().all(|(_, bytes)| *bytes <= LEAST);
        let is_spare = pack.tokens * 4 <= self.budget * 3;
        // A pack that goes on keeps the results of the one before as they are.
        let goes_on = self.last.as_ref().is_some_and(|last| {
            text.starts_with(&*last.markdown) && last.pack.window.cuts.len() == pack.window.cuts.len()
        });
        // With 40% of the budget for results, messages would fill the pack to less than 70% of it.
        let has_few_messages = used.saturating_sub(sum) * 10 < self.budget * 3;
        // At most 40% of the budget, or three quarters beside few messages, unless the results are at their
        // shortest or the pack stays within three quarters of the budget.
        let share = if has_few_messages { 15 } else { 8 };
        hold(sum * 20 <= self.budget * share || is_shortest || is_spare || goes_on, || {
            format!("{sum} tokens of results in part in a budget of {}", self.budget)
        })?;
        let left_out = &self.lines[..usize::try_from(pack.window.from - 1).unwrap_or(0)];
        if left_out.iter().any(|(tokens, _)| *tokens < SHORT) {
            let long = in_part.iter().find(|(tokens, _)| *tokens > KEPT);
            hold(long.is_none(), || format!("a result keeps {long:?} while messages are left out"))?;
        }
        let resumes_after_append = self.last.as_ref().is_some_and(|last| text.starts_with(&*last.markdown));
        report.add("packs that go on", usize::from(resumes_after_append));
        if !left_out.is_empty() {
            report.add("packs with messages left out", 1);
            // Messages may be omitted only if the pack uses at least 70% of the budget.
            hold(used * 10 >= self.budget * 7, || {
                format!("{used} of {} tokens are used and {} messages left out", self.budget, left_out.len())
            })?;
        }
        Ok(())
    }
}
