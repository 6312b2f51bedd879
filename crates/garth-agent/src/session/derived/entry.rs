//! Entries of derived files: facts, decisions and references, an object a line, each with its source.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::session::log::draft::compacted;
use crate::session::log::source::Source;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::rule::json;

/// Limit on the entries of a file.
pub const MAX_ENTRIES: usize = 1000;
/// Size limit of a derived file, 1 MiB.
pub const MAX_DERIVED: usize = 1 << 20;
/// Limit on the sources of an entry.
const MAX_SOURCES: usize = 16;
/// Longest id of an entry, in bytes.
const MAX_ID: usize = 128;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// Fact: `id`, `text`, `source`.
    Fact,
    /// Decision: `id`, `decision`, `source`.
    Decision,
    /// Reference: `id`, `path`, `kind`, `summary`, and optionally `source`.
    Ref,
}

impl EntryKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Fact, Self::Decision, Self::Ref];

    /// Returns the name of their file, in a session.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Fact => "context/facts.jsonl",
            Self::Decision => "context/decisions.jsonl",
            Self::Ref => "context/refs.jsonl",
        }
    }

    /// Returns the required text fields besides `id`.
    const fn required(self) -> &'static [&'static str] {
        match self {
            Self::Fact => &["text"],
            Self::Decision => &["decision"],
            Self::Ref => &["path", "kind", "summary"],
        }
    }
}

/// An entry of a derived file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Id, unique in its file.
    pub id: String,
    /// Its text: the fact, the decision, or the summary of the reference.
    pub says: String,
    /// Sources.
    pub sources: Vec<Source>,
    /// Targets of its moving sources at the time of writing, in their order.
    pub resolved: Vec<Source>,
    /// Path and kind of a reference.
    pub to: Option<(String, String)>,
    /// The line, without its line feed.
    pub line: String,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    text: Option<&'a RawValue>,
    #[serde(default, borrow)]
    decision: Option<&'a RawValue>,
    #[serde(default, borrow)]
    path: Option<&'a RawValue>,
    #[serde(default, borrow)]
    kind: Option<&'a RawValue>,
    #[serde(default, borrow)]
    summary: Option<&'a RawValue>,
    #[serde(default, borrow)]
    source: Option<&'a RawValue>,
    #[serde(default, borrow)]
    resolved: Option<&'a RawValue>,
}

impl Entry {
    /// Parses an entry.
    ///
    /// # Errors
    /// `InvalidArgument` if a field is missing or invalid.
    pub fn parse(kind: EntryKind, text: &str) -> Result<Self> {
        let bad = |why: &str| Error::invalid(format!("has to be a JSON object: {why}"));
        // serde alone would take an array as the fields in their order, and a repeated field that it does not
        // know.
        match json::read(text.as_bytes()) {
            Ok(json::Value::Object(_)) => {}
            Ok(_) => return Err(bad("it is another value")),
            Err(flaw) => return Err(bad(&flaw.to_string())),
        }
        let fields: Fields<'_> =
            serde_json::from_str(text).map_err(|error| Error::invalid(format!("is no entry: {error}")))?;
        let required = |name: &str, value: Option<&RawValue>| {
            let text: Option<String> = value.and_then(|value| serde_json::from_str(value.get()).ok());
            let message = || Error::invalid(format!("`{name}` is required and must not be empty"));
            text.filter(|text| !text.trim().is_empty()).ok_or_else(message)
        };
        let id = required("id", fields.id)?;
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if id.len() > MAX_ID || !id.bytes().all(is_id) {
            return Err(Error::invalid(format!("an id has 1 to {MAX_ID} of A-Z a-z 0-9 . _ -: {id}")));
        }
        for name in kind.required() {
            let value = match *name {
                "text" => fields.text,
                "decision" => fields.decision,
                "path" => fields.path,
                "kind" => fields.kind,
                _ => fields.summary,
            };
            required(name, value)?;
        }
        let says = match kind {
            EntryKind::Fact => required("text", fields.text)?,
            EntryKind::Decision => required("decision", fields.decision)?,
            EntryKind::Ref => required("summary", fields.summary)?,
        };
        let to = match kind {
            EntryKind::Ref => Some((required("path", fields.path)?, required("kind", fields.kind)?)),
            EntryKind::Fact | EntryKind::Decision => None,
        };
        let sources = sources("source", fields.source)?;
        if sources.is_empty() && kind != EntryKind::Ref {
            return Err(Error::invalid("`source` has to be there, such as messages:12-18"));
        }
        let resolved = self::sources("resolved", fields.resolved)?;
        // They replace moving sources. One that moves itself would lead elsewhere later.
        if resolved.iter().any(Source::moves) {
            return Err(Error::invalid("`resolved` names lines by their numbers"));
        }
        Ok(Self { id, says, sources, resolved, to, line: compacted(text) })
    }

    /// Sets the targets of its moving sources.
    pub(crate) fn with_resolved(mut self, resolved: Vec<Source>) -> Self {
        let texts: Vec<String> = resolved.iter().map(Source::to_string).collect();
        let json = match &*texts {
            [one] => serde_json::to_string(one),
            more => serde_json::to_string(more),
        };
        // Inserted into the text: the other fields keep the form in which they were given.
        let end = self.line.trim_end_matches('}').len();
        if let (Ok(json), true) = (json, end + 1 == self.line.len()) {
            self.line.insert_str(end, &format!(",\"resolved\":{json}"));
            self.resolved = resolved;
        }
        self
    }

    /// Returns the target of a reference.
    pub(crate) fn target(&self) -> Option<Source> {
        self.to.as_ref().and_then(|(path, _)| path.parse().ok())
    }

    /// Returns the names of the sessions other than `own` that its sources and its target name.
    pub(crate) fn other_sessions(&self, own: &str) -> Vec<String> {
        let all = self.sources.iter().chain(&self.resolved).cloned().chain(self.target());
        all.filter_map(|source| source.session).filter(|session| session != own).collect()
    }

    /// Returns its sources, moving ones replaced by their targets at the time of writing.
    pub fn fixed_sources(&self) -> Vec<&Source> {
        let mut resolved = self.resolved.iter();
        let fixed = |source| if Source::moves(source) { resolved.next().unwrap_or(source) } else { source };
        self.sources.iter().map(fixed).collect()
    }
}

/// Parses one source, or an array of sources.
fn sources(name: &str, value: Option<&RawValue>) -> Result<Vec<Source>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let one = serde_json::from_str::<String>(value.get()).map(|one| vec![one]);
    let texts = one.or_else(|_| serde_json::from_str::<Vec<String>>(value.get()));
    let texts = texts.map_err(|_| Error::invalid(format!("`{name}` is a source, or an array of them")))?;
    if texts.is_empty() || texts.len() > MAX_SOURCES {
        return Err(Error::invalid(format!("`{name}` has 1 to {MAX_SOURCES} sources")));
    }
    texts.iter().map(|text| text.parse()).collect()
}

/// Parses the entries of a file.
///
/// # Errors
/// `InvalidArgument` for an invalid line or a repeated id; `TooLarge`.
pub(crate) fn parse_entries(kind: EntryKind, text: &str) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut ids = std::collections::HashSet::new();
    if text.len() > MAX_DERIVED {
        let message = format!("{}: has at most {MAX_DERIVED} bytes", kind.file());
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |error: Error| Error::invalid(format!("{}, line {number}: {error}", kind.file()));
        let entry = Entry::parse(kind, line).map_err(bad)?;
        if !ids.insert(entry.id.clone()) {
            return Err(bad(Error::invalid(format!("the id {} occurs twice", entry.id))));
        }
        entries.push(entry);
        if entries.len() > MAX_ENTRIES {
            let message = format!("{}: has at most {MAX_ENTRIES} entries", kind.file());
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
    }
    Ok(entries)
}

/// Returns entries as the text of a file.
pub(crate) fn lines_of(entries: &[Entry]) -> String {
    entries.iter().map(|entry| format!("{}\n", entry.line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_requires_its_fields_and_keeps_others() {
        let fact = r#"{"id":"f1", "text":"It is so.","source":"messages:12-18","sure":1.0}"#;
        let entry = Entry::parse(EntryKind::Fact, fact).unwrap();
        assert_eq!((entry.id.as_str(), entry.says.as_str()), ("f1", "It is so."));
        assert_eq!(entry.line, r#"{"id":"f1","text":"It is so.","source":"messages:12-18","sure":1.0}"#);
        let of_ref = r#"{"id":"r1","path":"/src/a.md","kind":"file","summary":"a draft"}"#;
        assert_eq!(
            Entry::parse(EntryKind::Ref, of_ref).unwrap().to,
            Some(("/src/a.md".into(), "file".into()))
        );
        for (kind, bad) in [
            (EntryKind::Fact, r#"{"id":"f1","text":"a"}"#),
            (EntryKind::Fact, r#"{"id":"f1","text":" ","source":"tail:1"}"#),
            (EntryKind::Fact, r#"{"id":"f 1","text":"a","source":"tail:1"}"#),
            (EntryKind::Fact, r#"{"text":"a","source":"tail:1"}"#),
            (EntryKind::Fact, r#"{"id":"f1","id":"f1","text":"a","source":"tail:1"}"#),
            (EntryKind::Fact, r#"{"id":"f1","text":"a","source":[]}"#),
            (EntryKind::Fact, r#"{"id":"f1","text":"a","source":"messages:0"}"#),
            (EntryKind::Decision, r#"{"id":"d1","text":"a","source":"tail:1"}"#),
            (EntryKind::Ref, r#"{"id":"r1","path":"/a","kind":"file"}"#),
            (EntryKind::Ref, "[]"),
            (EntryKind::Fact, r#"["f1","It is so.",null,null,null,null,"messages:1"]"#),
        ] {
            assert!(Entry::parse(kind, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn moving_source_stores_its_target() {
        let text = r#"{"id":"d1","decision":"a","source":["user:latest","messages:1"]}"#;
        let entry = Entry::parse(EntryKind::Decision, text).unwrap();
        let entry = entry.with_resolved(vec!["default#messages:7-7".parse().unwrap()]);
        let due = r#"{"id":"d1","decision":"a","source":["user:latest","messages:1"],"resolved":"default#messages:7-7"}"#;
        assert_eq!(entry.line, due);
        let again = Entry::parse(EntryKind::Decision, due).unwrap();
        let fixed: Vec<String> = again.fixed_sources().into_iter().map(Source::to_string).collect();
        assert_eq!(fixed, ["default#messages:7-7", "messages:1-1"]);
    }

    #[test]
    fn rejects_repeated_entry_ids() {
        let line = r#"{"id":"f1","text":"a","source":"tail:1"}"#;
        assert_eq!(parse_entries(EntryKind::Fact, &format!("{line}\n\n")).unwrap().len(), 1);
        let error = parse_entries(EntryKind::Fact, &format!("{line}\n{line}\n")).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn entries_file_is_limited_in_entries_and_bytes() {
        let line = |n: usize| format!("{{\"id\":\"f{n}\",\"text\":\"a\",\"source\":\"tail:1\"}}\n");
        let most: String = (0..MAX_ENTRIES).map(line).collect();
        assert_eq!(parse_entries(EntryKind::Fact, &most).unwrap().len(), MAX_ENTRIES);
        for more in [most + &line(MAX_ENTRIES), "\n".repeat(MAX_DERIVED + 1)] {
            assert!(parse_entries(EntryKind::Fact, &more).unwrap_err().is(ErrorKind::TooLarge));
        }
    }
}
