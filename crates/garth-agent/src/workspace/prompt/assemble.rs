//! Assembles a prompt from its parts, in their order and under their conditions. Pure: the same files and
//! inputs yield the same text.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::files::{Daily, Files};
use super::inputs::Inputs;
use super::named::NamedPaths;
use super::parts::{Part, Prompt, Stable, section};
use super::texts;
use crate::identity::{Class, is_reserved};
use crate::settings::{DailyMemory, Order};
use crate::small_file::{File, sha256};
use crate::workspace::daily::DailySection;
use crate::workspace::heartbeat::says_anything_as;
use crate::workspace::prompt_cache::AccountCache;
use crate::workspace::skill_md::front_matter::changes_display;
use crate::workspace::skills::listing::{Listing, Reason, SkillReader};
use garth_engine::model::Timestamp;
use garth_engine::path::TreePath;
use garth_engine::text::secret::masked;

/// Limit on the tokens of other audiences' memory.
const MAX_OTHERS: usize = 2_000;

/// Separator of two sections.
const BETWEEN: &str = "\n\n---\n\n";

/// Parts in their usual order. Consecutive ones of one section share a heading.
const NORMAL: [&str; 15] = [
    "base",
    "soul",
    "identity",
    "user",
    "agents",
    "fragments",
    "memory",
    "yesterday",
    "today",
    "others",
    "tools",
    "heartbeat",
    "skills",
    "runtime",
    "changes",
];

/// Parts with the frequently changing ones last.
const CACHE: [&str; 15] = [
    "base",
    "soul",
    "identity",
    "user",
    "agents",
    "fragments",
    "memory",
    "tools",
    "heartbeat",
    "skills",
    "yesterday",
    "today",
    "others",
    "runtime",
    "changes",
];

/// Parts of a first run.
const BOOTSTRAP: [&str; 7] = ["base", "bootstrap", "soul", "identity", "user", "runtime", "changes"];

/// Returns true if a part may differ between calls although nobody changed the workspace or its settings.
fn is_volatile(part: &str) -> bool {
    matches!(part, "yesterday" | "today" | "others" | "runtime" | "changes")
}

/// Text of a part, or the reason why there is none.
type PartText = Result<String, String>;

/// Returns the prompt of these files. `now` are the current files, if `files` are pinned.
pub(super) fn prompt(
    agent: &str,
    files: &Files,
    now: Option<&Files>,
    inputs: Inputs,
    time: Timestamp,
    known: &AccountCache<'_>,
) -> Prompt {
    let bootstrap = files.texts.contains_key("bootstrap");
    let order: &[&'static str] = match (bootstrap, files.settings.prompt.order) {
        (true, _) => &BOOTSTRAP,
        (false, Order::Normal) => &NORMAL,
        (false, Order::Cache) => &CACHE,
    };
    let class = files.keeper.class;
    let of = Assembly { agent, class, files, inputs: &inputs, time, known };
    let mut joined = PromptText::default();
    for name in order {
        let said = match (*name, now) {
            ("changes", None) => continue,
            ("changes", Some(now)) => changes(&of, &Assembly { files: now, ..of }, order),
            // The runtime section has the clock, which cannot be pinned.
            ("runtime", Some(now)) => Assembly { files: now, ..of }.part_text(name),
            _ => of.part_text(name),
        };
        joined.add(&of, name, said);
    }
    // The manifest also lists the parts that a first run omits.
    for name in NORMAL.iter().filter(|name| !order.contains(name)) {
        joined.add(&of, name, Err("left out of a first run".to_owned()));
    }
    joined.count(known);
    let PromptText { text, parts, stable, .. } = joined;
    // Without a volatile part, all of the text is stable.
    let stable = &text[..stable.unwrap_or(text.len())];
    Prompt {
        agent: agent.to_owned(),
        class: class.to_string(),
        bootstrap,
        tokens: parts.iter().map(|part| part.tokens).sum(),
        sha256: sha256(text.as_bytes()),
        stable: Stable { bytes: stable.len() as u64, sha256: sha256(stable.as_bytes()) },
        parts,
        seq: now.unwrap_or(files).seq,
        inputs,
        event: None,
        replayed: None,
        resets: false,
        pins: files.settings.prompt.pinned && files.session.is_some() && now.is_none(),
        read_at: time,
        unmarked: now.unwrap_or(files).unmarked(),
        text,
    }
}

/// Prompt under construction.
#[derive(Default)]
struct PromptText {
    text: String,
    parts: Vec<Part>,
    /// Indexes of the included parts, each with its start in the text, heading included.
    begins: Vec<(usize, usize)>,
    /// Section of the last part.
    section: Option<&'static str>,
    /// Start of the first part that may change between calls.
    stable: Option<usize>,
}

impl PromptText {
    fn add(&mut self, of: &Assembly<'_>, name: &'static str, said: PartText) {
        let section = section(name);
        let (path, file) = of.file(name).unzip();
        let (mut range, included) = (0..0, said.is_ok());
        let reason = match said {
            Err(why) => why,
            Ok(text) => {
                // The runtime section comes from garth and its caller, and has no secrets of files.
                // With the detection at the time of the first build, so that a replay has the same bytes.
                let masked = || of.inputs.judgement().during(|| masked(&text));
                let text = if name == "runtime" { text.as_str().into() } else { masked() };
                if self.stable.is_none() && is_volatile(name) {
                    self.stable = Some(self.text.len());
                }
                let between = match self.section {
                    None => "",
                    Some(last) if last == section => "\n\n",
                    Some(_) => BETWEEN,
                };
                self.text.push_str(between);
                self.begins.push((self.parts.len(), self.text.len()));
                if self.section != Some(section) && !section.is_empty() {
                    self.text.push_str(&format!("## {section}\n\n"));
                }
                self.section = Some(section);
                range = self.text.len()..self.text.len() + text.len();
                self.text.push_str(&text);
                why_included(name, of.files.settings.prompt.base.is_some())
            }
        };
        self.parts.push(Part {
            name,
            section,
            file: path.cloned(),
            version: file.map(|file| file.etag),
            sha256: file.and_then(|file| file.bytes.as_deref()).map(sha256),
            tokens: 0,
            included,
            reason,
            range,
        });
    }

    /// Counts the tokens of each part, with its heading and the separator after it. Their sum is the count of
    /// the complete text: each part but the first begins with `#` on a line of its own, and no token of
    /// [`ENCODING`](crate::count::ENCODING) continues there from the line before.
    fn count(&mut self, known: &AccountCache<'_>) {
        let mut end = self.text.len();
        for (part, start) in self.begins.iter().rev() {
            self.parts[*part].tokens = known.count(&self.text[*start..end]) as u64;
            end = *start;
        }
    }
}

fn why_included(name: &str, own_base: bool) -> String {
    let why = match name {
        "base" if own_base => "set by settings.json",
        "base" | "runtime" => "always there",
        "bootstrap" => "the file is there: this is a first run",
        "others" => "other audiences remember something of these days",
        "heartbeat" => "the file says something",
        "skills" => "there are eligible skills",
        "changes" => "the prompt is pinned, and files changed since",
        "fragments" => "the file has fragments",
        _ => "the file is there",
    };
    why.to_owned()
}

/// Sources of a prompt.
#[derive(Clone, Copy)]
struct Assembly<'a> {
    agent: &'a str,
    class: Class,
    files: &'a Files,
    inputs: &'a Inputs,
    time: Timestamp,
    known: &'a AccountCache<'a>,
}

impl Assembly<'_> {
    /// Returns the paths that the prompt contains.
    fn named(&self) -> NamedPaths<'_> {
        let Files { keeper, settings, .. } = self.files;
        NamedPaths { agent: self.agent, keeper, settings, of: self.inputs.paths }
    }

    fn is_main(&self) -> bool {
        self.class == Class::Main
    }

    /// Returns the file of a part. A file whose text the session may not see is not returned.
    fn file(&self, name: &str) -> Option<(&TreePath, &File)> {
        match name {
            "fragments" => self.files.fragments.as_ref().map(|text| (&text.path, &text.file)),
            "yesterday" | "today" => {
                // For a day with several files the manifest names the first one in the prompt.
                let found = self.daily(name).files.iter();
                found
                    .filter(|(_, _, parts)| self.recent(parts).is_some())
                    .map(|(path, file, _)| (path, file))
                    .next()
            }
            _ => self.files.texts.get(name).map(|text| (&text.path, &text.file)),
        }
    }

    fn sees_all(&self) -> bool {
        self.files.settings.daily_memory == DailyMemory::All
    }

    fn daily(&self, name: &str) -> &Daily {
        &self.files.days[usize::from(name == "today")]
    }

    fn part_text(&self, name: &str) -> PartText {
        match name {
            "base" => {
                let base = self.files.settings.prompt.base.clone().unwrap_or_else(|| self.named().base());
                let empty = || "settings.json has it empty".to_owned();
                Some(base.trim().to_owned()).filter(|base| !base.is_empty()).ok_or_else(empty)
            }
            "bootstrap" => self.text(name).map(|text| format!("{}\n\n{text}", self.named().bootstrap())),
            "fragments" => self.fragments(),
            "yesterday" | "today" => self.day(name),
            "others" => self.others(),
            "heartbeat" => {
                let text = self.text(name)?;
                let empty = || "only headings, comments and rules".to_owned();
                says_anything_as(&text, self.inputs.reading()).then_some(text).ok_or_else(empty)
            }
            "skills" => self.skills(),
            "runtime" => Ok(self.runtime()),
            _ => self.text(name),
        }
    }

    fn text(&self, name: &str) -> PartText {
        let text = self.files.texts.get(name).ok_or("no such file")?.text.trim();
        if text.is_empty() { Err("the file is blank".to_owned()) } else { Ok(text.to_owned()) }
    }

    fn day(&self, name: &str) -> PartText {
        let daily = self.daily(name);
        let heading = if name == "today" { "Today" } else { "Yesterday" };
        let none = || format!("no memory of {} for this session", daily.day);
        let texts: Vec<_> = daily.files.iter().filter_map(|(_, _, parts)| self.recent(parts)).collect();
        if texts.is_empty() {
            return Err(none());
        }
        Ok(format!("### {heading}\n\n{}", texts.join("\n\n")))
    }

    /// Returns the part of a day's memory that this session may see.
    fn recent(&self, parts: &[DailySection]) -> Option<String> {
        if self.sees_all() {
            let text: String = parts.iter().map(|part| part.text.as_str()).collect();
            return Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        }
        let mut shown = Vec::new();
        for part in parts {
            let text = part.text.trim();
            match part.own {
                _ if text.is_empty() => {}
                true => shown.push(text.to_owned()),
                false => shown.push(quoted(&texts::evidence(part.class), text)),
            }
        }
        (!shown.is_empty()).then(|| shown.join("\n\n"))
    }

    /// Returns the memory of other audiences, the newest first, as far as the limit allows.
    fn others(&self) -> PartText {
        if !self.is_main() {
            return Err("not a main session".to_owned());
        }
        let (mut shown, mut left) = (vec!["### Other conversations".to_owned()], MAX_OTHERS);
        for other in &self.files.others {
            let said = quoted(&texts::evidence_of(&other.audience, other.day), &other.text);
            // Newest first: the first one that does not fit ends the list.
            let Some(rest) = left.checked_sub(self.known.count(&said)) else { break };
            left = rest;
            shown.push(said);
        }
        if shown.len() == 1 {
            Err("no other conversation is remembered".to_owned())
        } else {
            Ok(shown.join("\n\n"))
        }
    }

    fn fragments(&self) -> PartText {
        const KINDS: [(&str, &str); 6] = [
            ("persona", "Persona"),
            ("instruction", "Instructions"),
            ("guardrail", "Guardrails"),
            ("term", "Terms"),
            ("example", "Examples"),
            ("workflow", "Workflows"),
        ];
        #[derive(Deserialize)]
        struct Fragment {
            #[serde(rename = "type")]
            kind: String,
            text: String,
        }
        let text = &self.files.fragments.as_ref().ok_or("no such file")?.text;
        let mut of_kind: BTreeMap<String, Vec<String>> = BTreeMap::new();
        // A rule ensures that the lines are valid.
        for fragment in text.lines().filter_map(|line| serde_json::from_str::<Fragment>(line).ok()) {
            let text = fragment.text.trim();
            if !text.is_empty() {
                of_kind.entry(fragment.kind).or_default().push(text.to_owned());
            }
        }
        let sections = KINDS.iter().filter_map(|(kind, heading)| {
            Some(format!("### {heading}\n\n{}", of_kind.get(*kind)?.join("\n\n")))
        });
        let sections: Vec<String> = sections.collect();
        if sections.is_empty() { Err("the file is blank".to_owned()) } else { Ok(sections.join("\n\n")) }
    }

    fn skills(&self) -> PartText {
        let [own, global] = &self.files.skills;
        let (hosts, settings) = (&self.inputs.hosts, &self.files.settings.skills);
        let (reading, named) = (self.inputs.reading(), self.named());
        let read_path = |origin, directory: &str| named.skill(origin, directory);
        let read =
            SkillReader { reading, parse: &|text| self.known.skill(text, reading), read_path: &read_path };
        let listing = Listing::of(own, global, hosts, settings, &read);
        if listing.shown.is_empty() {
            return Err("no skill is eligible".to_owned());
        }
        let mut lines = vec![texts::SKILLS.to_owned(), String::new()];
        for skill in &listing.shown {
            let always = if skill.always { ", always" } else { "" };
            let shown = |text: &str| match self.inputs.replaces_controls() {
                true => one_line(text).replace(changes_display, "\u{fffd}"),
                false => one_line(text),
            };
            let (name, description) = (shown(&skill.name), shown(&skill.description));
            lines.push(format!("- **{name}**: {description} (`{}`{always})", skill.read_path));
        }
        // Hidden skills and directories without a skill are of no use to a model.
        let is_of_use = |reason: &Reason| !matches!(reason, Reason::Hidden | Reason::Missing);
        let counts = listing.counts().into_iter().filter(|(reason, _)| is_of_use(reason));
        let left_out: Vec<String> = counts.map(|(reason, count)| format!("{count} {reason}")).collect();
        if !left_out.is_empty() {
            lines.extend([String::new(), format!("Left out: {}.", left_out.join(", "))]);
        }
        Ok(lines.join("\n"))
    }

    fn runtime(&self) -> String {
        let Files { zone, session, .. } = self.files;
        let day = zone.day(self.time);
        let mut lines = vec![("Agent".to_owned(), self.agent.to_owned())];
        let mut add =
            |name: &str, value: Option<String>| lines.extend(value.map(|value| (name.to_owned(), value)));
        if let Some(meta) = session {
            add(if is_reserved(&meta.user) { "Audience" } else { "User" }, Some(meta.user.clone()));
            add("Session", Some(meta.name.clone()));
            add("Session key", meta.session_key.clone());
            add("Model", meta.model.clone());
        }
        add("Session class", Some(self.class.to_string()));
        let hosts = self.inputs.hosts.iter().map(|host| host.id.clone()).collect::<Vec<_>>();
        add("Hosts", (!hosts.is_empty()).then(|| hosts.join("; ")));
        lines.extend(self.inputs.runtime.clone());
        let zone_name = format!("{} (UTC{})", zone.name(), zone.offset(self.time));
        let date = format!("{day}, {}", day.weekday());
        // Values that change often come last.
        lines
            .extend([("Time zone", zone_name), ("Date", date)].map(|(name, value)| (name.to_owned(), value)));
        lines.push(("Time".to_owned(), zone.hour_and_minute(self.time)));
        let lines = lines.iter().map(|(name, value)| format!("- {}: {}", one_line(name), one_line(value)));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Returns the parts whose current files differ from the pinned ones.
fn changes(pinned: &Assembly<'_>, now: &Assembly<'_>, order: &[&'static str]) -> PartText {
    let mut changed = Vec::new();
    for name in order.iter().filter(|name| !matches!(**name, "runtime" | "changes")) {
        let (before, after) = (pinned.part_text(name), now.part_text(name));
        match (before, after) {
            (Ok(before), Ok(after)) if before == after => {}
            (_, Ok(after)) => changed.push(format!("### {}\n\n{after}", title(name))),
            (Ok(_), Err(_)) => changed.push(format!("### {}\n\n(no longer there)", title(name))),
            (Err(_), Err(_)) => {}
        }
    }
    if changed.is_empty() {
        return Err("nothing changed since the prompt was pinned".to_owned());
    }
    Ok(format!("{}\n\n{}", texts::CHANGES, changed.join("\n\n")))
}

/// Returns the title of a part outside its section.
fn title(name: &str) -> String {
    match name {
        "base" => "Base".to_owned(),
        "fragments" => "Operating Instructions, fragments".to_owned(),
        "yesterday" => "Recent Context, yesterday".to_owned(),
        "today" => "Recent Context, today".to_owned(),
        "others" => "Recent Context, other conversations".to_owned(),
        _ => section(name).to_owned(),
    }
}

/// Quotes a text, so that none of its lines can pass for a line of the prompt.
fn quoted(heading: &str, text: &str) -> String {
    let ends = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];
    // CRLF first, or it would count as two line ends.
    let lines = [heading, ""].into_iter().chain(text.split("\r\n").flat_map(|text| text.split(ends)));
    lines.map(|line| format!("> {line}").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Returns a text as one line, with single spaces in place of white space.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
