//! Output formats of a prompt: the system part of a request to a provider, a report for people, and the
//! manifest as JSON.

use garth_engine::model::Seq;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::inputs::Inputs;
use super::parts::{Part, Prompt, Replayed, Stable};
use crate::session::Format;

/// Description of a prompt: its parts and the reasons for them, without the text.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub struct PromptManifest<'a> {
    /// Agent.
    pub agent: &'a str,
    /// Class of the session, on which the permitted parts depend.
    pub class: &'a str,
    /// True for the prompt of a first run.
    pub bootstrap: bool,
    /// Sequence number of the commit after which all files were read.
    #[schemars(with = "u64")]
    pub seq: Seq,
    /// Number of tokens of the text.
    pub tokens: u64,
    /// Length of the text in bytes.
    pub bytes: usize,
    /// SHA-256 of the text.
    pub sha256: &'a str,
    /// Prefix that does not change between calls.
    pub stable: &'a Stable,
    /// Inputs of the caller, with the time.
    pub inputs: &'a Inputs,
    /// Parts in their order, followed by those that are omitted.
    pub parts: &'a [Part],
    /// Id of the event that records the prompt. Missing if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<&'a str>,
    /// Record of the first build. Only for a replayed prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<&'a Replayed>,
}

impl Prompt {
    /// Returns the system part of a request, a JSON array: for `OpenAI` messages that precede all others, for
    /// Anthropic the blocks of `system`. Of these, the first is the stable prefix and is marked for caching.
    /// The concatenated texts are the text of the prompt.
    pub fn list(&self, format: Format) -> String {
        let list = match format {
            Format::OpenAi => vec![json!({"role": "system", "content": self.text})],
            Format::Anthropic => {
                let (stable, rest) = self.text.split_at(self.stable_end());
                let block = |text: &str| json!({"type": "text", "text": text});
                // Providers reject a blank block.
                if stable.trim().is_empty() || rest.trim().is_empty() {
                    vec![block(&self.text)]
                } else {
                    let mut first = block(stable);
                    first["cache_control"] = json!({"type": "ephemeral"});
                    vec![first, block(rest)]
                }
            }
        };
        Value::Array(list).to_string()
    }

    /// Returns the end of the stable prefix, in bytes.
    fn stable_end(&self) -> usize {
        usize::try_from(self.stable.bytes).unwrap_or(usize::MAX).min(self.text.len())
    }

    /// Returns the parts and their reasons, without the text, as JSON.
    pub fn manifest(&self) -> Value {
        json!(self.description())
    }

    /// Returns the parts and their reasons, without the text.
    pub fn description(&self) -> PromptManifest<'_> {
        PromptManifest {
            agent: &self.agent,
            class: &self.class,
            bootstrap: self.bootstrap,
            seq: self.seq,
            tokens: self.tokens,
            bytes: self.text.len(),
            sha256: &self.sha256,
            stable: &self.stable,
            inputs: &self.inputs,
            parts: &self.parts,
            event: self.event.as_deref(),
            replayed: self.replayed.as_ref(),
        }
    }

    /// Returns a report for people, in Markdown: the manifest, followed by the text.
    pub fn report(&self) -> String {
        let mut lines = vec![
            format!("# Prompt of {}", line(&self.agent)),
            String::new(),
            format!("- Class of the session: {}", line(&self.class)),
            format!("- After commit: {}", self.seq),
            format!("- Time: {}", self.inputs.clock.as_deref().unwrap_or_default()),
            format!("- {} tokens, {} bytes, SHA-256 `{}`", self.tokens, self.text.len(), self.sha256),
            format!("- Stable between calls: {} bytes, SHA-256 `{}`", self.stable.bytes, self.stable.sha256),
        ];
        if self.bootstrap {
            lines.push("- First run: `BOOTSTRAP.md` is there".to_owned());
        }
        if let Some(event) = &self.event {
            lines.push(format!("- Told by event `{event}`"));
        }
        if let Some(of) = &self.replayed {
            let same = if of.same { "the same again" } else { "not the same: it had" };
            let sha256 = if of.same { String::new() } else { format!(" SHA-256 `{}`", of.sha256) };
            lines.push(format!("- Built at {} (event `{}`), {same}{sha256}", of.built_at, of.event));
        }
        lines.extend(["", "| part | in | tokens | why | file | version | SHA-256 |"].map(str::to_owned));
        lines.push("|---|---|---|---|---|---|---|".to_owned());
        lines.extend(self.parts.iter().map(row));
        // Longer than any run of backticks in the text, so that the text cannot end its block.
        let fence = "`".repeat(longest_run(&self.text).max(2) + 1);
        lines.extend([String::new(), "## Text".to_owned(), String::new()]);
        lines.extend([format!("{fence}markdown"), self.text.clone(), fence, String::new()]);
        lines.join("\n")
    }
}

/// Returns the row of a part in the table of a report.
fn row(part: &Part) -> String {
    let code = |text: Option<String>| text.map_or_else(String::new, |text| format!("`{}`", cell(&text)));
    let name = match part.section {
        "" => part.name.to_owned(),
        section => format!("{}: {section}", part.name),
    };
    format!(
        "| {name} | {} | {} | {} | {} | {} | {} |",
        if part.included { "yes" } else { "no" },
        part.tokens,
        cell(&part.reason),
        code(part.file.as_ref().map(ToString::to_string)),
        code(part.version.map(|version| version.to_string())),
        code(part.sha256.as_ref().map(|sha256| sha256.chars().take(12).collect())),
    )
}

/// Escapes a text for a cell of a table.
fn cell(text: &str) -> String {
    line(text).replace('|', "\\|").replace('`', "'")
}

fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use garth_engine::model::{Ino, Timestamp, VersionId};
    use garth_engine::path::TreePath;

    use super::*;

    fn prompt(parts: Vec<Part>) -> Prompt {
        Prompt {
            agent: "scout".to_owned(),
            class: "main".to_owned(),
            bootstrap: false,
            text: "abc".to_owned(),
            tokens: 1,
            sha256: "s".to_owned(),
            parts,
            stable: Stable::default(),
            seq: Seq(3),
            inputs: Inputs::default(),
            event: None,
            replayed: None,
            unmarked: Vec::new(),
            pins: false,
            resets: false,
            read_at: Timestamp(0),
        }
    }

    #[test]
    fn manifest_leaves_out_missing_fields() {
        assert_eq!(
            prompt(vec![Part::none("soul", "r")]).manifest().to_string(),
            concat!(
                r#"{"agent":"scout","bootstrap":false,"bytes":3,"class":"main","#,
                r#""inputs":{"hosts":[],"runtime":{}},"parts":[{"included":false,"name":"soul","#,
                r#""reason":"r","section":"Your Soul","tokens":0}],"seq":3,"sha256":"s","#,
                r#""stable":{"bytes":0,"sha256":""},"tokens":1}"#
            )
        );
    }

    #[test]
    fn manifest_has_event_replay_and_files() {
        let version = VersionId { seq: Seq(1), ino: Ino(2) };
        let (file, sha256) = (TreePath::parse("/SOUL.md").ok(), Some("f".to_owned()));
        let part = Part { file, version: Some(version), sha256, ..Part::none("soul", "r") };
        let (event, built_at, sha256) = ("e".to_owned(), "t".to_owned(), "s".to_owned());
        let mut prompt = prompt(vec![part]);
        prompt.event = Some("e".to_owned());
        prompt.replayed = Some(Replayed { event, built_at, sha256, same: true });
        let manifest = prompt.manifest().to_string();
        let part = format!(
            concat!(
                r#"{{"file":"/SOUL.md","included":false,"name":"soul","reason":"r","#,
                r#""section":"Your Soul","sha256":"f","tokens":0,"version":"{}"}}"#
            ),
            version
        );
        assert!(manifest.contains(&part), "{manifest}");
        assert!(manifest.contains(r#""class":"main","event":"e","inputs":"#), "{manifest}");
        let replayed = r#""replayed":{"built_at":"t","event":"e","same":true,"sha256":"s"},"seq":3"#;
        assert!(manifest.contains(replayed), "{manifest}");
    }
}
