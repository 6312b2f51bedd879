//! Parses a `SKILL.md`: its front matter in YAML, and its body. Errors are reported and do not affect the
//! rest: if the front matter as a unit is not YAML, each field is read by itself.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use garth_engine::compute::working;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::astray;
use super::blocks::blocks;
use super::hermes;
use super::parts::Parts;
use super::requires::{Install, Requires};
use super::spilled;
use super::yaml::{self, Flaw};
use crate::bidi::changes_direction;
use crate::workspace::reading::Reading;

/// Limit on the characters of a description that is taken from the body.
const MAX_DESCRIPTION: usize = 200;

/// Limit on the bytes of front matter, 16 KiB: eight times the longest among some thousand published skills.
pub(crate) const MAX_FRONT: usize = 16 << 10;

/// Fields that are read.
const FIELDS: [&str; 5] = ["name", "description", "homepage", "always", "metadata"];
/// Fields that are text, whatever YAML takes it for.
const TEXTS: [&str; 3] = ["name", "description", "homepage"];

/// Content of a `SKILL.md`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[non_exhaustive]
#[schemars(deny_unknown_fields)]
pub struct SkillText {
    /// Name. Missing if the skill has none; it is then called like its directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Purpose: the field `description`, or the first paragraph of its body.
    pub description: String,
    /// URL of a page about the skill. Missing if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homepage: Option<String>,
    /// True if the skill is listed even with an invalid requirement.
    pub always: bool,
    /// Emoji that stands for the skill. Missing if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emoji: Option<String>,
    /// Host requirements.
    pub requires: Requires,
    /// Ways to install missing programs: shown, never run. Missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub install: Vec<Install>,
    /// Faults of the file, texts for people. Missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flaws: Vec<String>,
    /// Reason why all of the front matter is rejected; then the skill is not listed. Missing otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Text after the front matter.
    #[serde(skip)]
    pub body: String,
}

impl SkillText {
    /// Parses a `SKILL.md`. CRLF and CR count as LF. If the front matter does not close, the complete text is
    /// the body. Requirements that cannot be read, or are in places where garth does not read them, are
    /// invalid requirements.
    ///
    /// ```
    /// use garth_agent::workspace::SkillText;
    ///
    /// let skill = SkillText::parse("---\nname: pdf\nalways: true\n---\n# PDF\n\nReads PDF files.\n");
    /// assert_eq!((skill.name.as_deref(), skill.always), (Some("pdf"), true));
    /// assert_eq!(skill.description, "Reads PDF files.");
    /// ```
    pub fn parse(text: &str) -> Self {
        Self::parse_as(text, Reading::Now)
    }

    /// Parses the file as garth does now, or as it did for older prompts.
    pub(crate) fn parse_as(text: &str, reading: Reading) -> Self {
        working(text.len());
        let text = line_feeds(text.strip_prefix('\u{feff}').unwrap_or(text), reading);
        let parts = Parts::of(&text, reading);
        let mut skill = Self { body: parts.body.to_owned(), ..Self::default() };
        let mut fields = match (parts.front, parts.unclosed) {
            (Some(front), _) => skill.fields(front, parts.opening_lines, reading),
            (None, Some(front)) => skill.unclosed_fields(front, reading),
            (None, None) => {
                skill.flaws.extend(no_front(&text).filter(|_| reading == Reading::Now));
                BTreeMap::new()
            }
        };
        if reading != Reading::First {
            if let Some(front) = parts.front.or(parts.unclosed) {
                as_written(&mut fields, front);
            }
            skill.not_read(&fields, &parts, &text, reading);
        }
        skill.name = skill.text(&mut fields, "name").filter(|name| !name.trim().is_empty());
        let description = skill.text(&mut fields, "description");
        skill.homepage = skill.text(&mut fields, "homepage");
        let always = fields.remove("always");
        if let Some(metadata) = fields.remove("metadata") {
            skill.metadata(metadata, reading);
        }
        if reading == Reading::Now {
            hermes::read(&fields, &mut skill.requires);
        }
        skill.always(always, "always", reading);
        let description = description.filter(|text| !text.trim().is_empty());
        let behind = parts.unclosed.map_or(0, |front| parts.opening + front.len());
        skill.description = description.unwrap_or_else(|| first_paragraph(&skill.body[behind..]));
        for (field, text) in [("name", skill.name.as_deref()), ("description", Some(&*skill.description))] {
            if reading == Reading::Now && text.is_some_and(|text| text.contains(changes_display)) {
                let why =
                    "has control characters, or characters that change the direction of text; remove them";
                skill.flaws.push(format!("{field}: {why}"));
            }
        }
        if skill.description.is_empty() && skill.refused.is_none() && reading != Reading::First {
            skill.flaws.push("description: is missing; write what the skill is for".to_owned());
        }
        skill
    }

    /// Returns the fields of front matter; unknown ones are ignored.
    fn fields(&mut self, front: &str, opening_lines: u64, reading: Reading) -> BTreeMap<String, Value> {
        if front.len() > MAX_FRONT {
            self.refused = Some(format!("the front matter has more than {MAX_FRONT} bytes; shorten it"));
            return BTreeMap::new();
        }
        if front.trim().is_empty() {
            return BTreeMap::new();
        }
        match yaml::mapping(front, reading) {
            Ok(fields) => {
                if reading == Reading::Now {
                    self.flaws.extend(misread(&fields, front));
                }
                return fields;
            }
            Err(Flaw::Refused(why)) => self.refused = Some(why),
            Err(Flaw::Malformed(why)) => {
                let why = in_file(&why, opening_lines);
                self.flaws.push(format!("the front matter is no YAML mapping: {why}"));
                if reading != Reading::First {
                    return self.fields_alone(front, reading);
                }
            }
        }
        BTreeMap::new()
    }

    /// Returns the fields of front matter that does not close. Lines without a known field are no front
    /// matter.
    fn unclosed_fields(&mut self, front: &str, reading: Reading) -> BTreeMap<String, Value> {
        if !has_field(front) {
            return BTreeMap::new();
        }
        self.flaws
            .push("the front matter does not close; write `---` on a line of its own after it".to_owned());
        if front.len() > MAX_FRONT {
            self.refused = Some(format!("the front matter has more than {MAX_FRONT} bytes; shorten it"));
            return BTreeMap::new();
        }
        self.fields_alone(front, reading)
    }

    /// Reads the fields of front matter that is not valid YAML, each by itself, so that a colon in a
    /// description does not lose the name and the requirements. Requirements that cannot be read count as not
    /// met: a mistake in another field must not make a skill eligible.
    fn fields_alone(&mut self, front: &str, reading: Reading) -> BTreeMap<String, Value> {
        let (mut fields, mut seen, mut is_known) = (BTreeMap::new(), BTreeSet::new(), true);
        let blocks = blocks(front);
        let before = front.len() - blocks.iter().map(|block| block.text.len()).sum::<usize>();
        // Lines of other fields, which may contain metadata that is not read.
        let mut rest = front[..before].to_owned();
        for block in &blocks {
            // Of two fields with one key, the first is read; the other is searched for metadata.
            let is_hermes = reading == Reading::Now && hermes::is_field(block.key);
            if !(FIELDS.contains(&block.key) || is_hermes) || !seen.insert(block.key) {
                // Of two, the second may have other requirements.
                is_known &= !is_hermes;
                rest.push_str(block.text);
                continue;
            }
            let read = yaml::mapping(block.text, Reading::Now);
            if block.key != "metadata" {
                rest.push_str(block.text);
            }
            match read {
                Ok(read) => fields.extend(read),
                Err(Flaw::Refused(why)) => {
                    self.refused = Some(why);
                    return BTreeMap::new();
                }
                Err(Flaw::Malformed(_)) if TEXTS.contains(&block.key) => {
                    let is_one_line = block.key != "description";
                    let text = if is_one_line { block.first_line() } else { block.meant() };
                    fields.insert(block.key.to_owned(), Value::String(text));
                }
                Err(Flaw::Malformed(_)) => is_known &= block.key != "metadata" && !is_hermes,
            }
        }
        if !is_known || astray::may_be_in(&rest) {
            fields.remove("metadata");
            let flaw = "metadata: cannot be read, so that what the skill requires is not known";
            self.requires.invalid.push(flaw.to_owned());
        }
        fields
    }

    /// Adds an invalid requirement for each requirement in a place where garth does not read it.
    fn not_read(
        &mut self,
        fields: &BTreeMap<String, Value>,
        parts: &Parts<'_>,
        text: &str,
        reading: Reading,
    ) {
        if self.refused.is_some() {
            return;
        }
        self.requires.invalid.extend(astray::beside_metadata(fields, &TEXTS));
        let (rest, is_top) = match (parts.front, parts.unclosed.filter(|front| has_field(front))) {
            (Some(_), _) => (parts.after_front(), false),
            (None, Some(front)) => (&text[parts.opening + front.len()..], false),
            (None, None) => (text, true),
        };
        // Front matter that does not close and has no field.
        let is_lost = is_top && parts.unclosed.is_some_and(astray::may_be_in);
        // A second front matter after one that closes may itself begin with blank lines and comments.
        let behind = if parts.front.is_some() { parts.body } else { rest };
        // After front matter that closes, or without any, text is body: words of it are no requirements.
        let is_body = reading == Reading::Now && (parts.front.is_some() || parts.unclosed.is_none());
        let in_body = astray::are_in_body(rest, is_top)
            && !(is_body && parts.front.is_some() && !astray::has_metadata(rest));
        if is_lost || in_body || spilled::has_requirements(behind, &TEXTS, is_body) {
            let flaw = "the requirements are not in the front matter; begin the file with it, between two \
                        lines `---`";
            self.requires.invalid.push(flaw.to_owned());
        }
    }

    fn text(&mut self, fields: &mut BTreeMap<String, Value>, name: &str) -> Option<String> {
        match fields.remove(name)? {
            Value::String(text) => Some(text),
            Value::Null => None,
            // YAML reads 007 as a number
            Value::Number(number) => Some(number.to_string()),
            _ => {
                self.flaws.push(format!("{name}: write a text"));
                None
            }
        }
    }

    /// Sets `always` from a field of that name, if it exists.
    pub(super) fn always(&mut self, always: Option<Value>, name: &str, reading: Reading) {
        match always.map(|always| truth(&always, reading).ok_or(always)) {
            None | Some(Err(Value::Null)) => {}
            Some(Ok(always)) => self.always = always,
            Some(Err(_)) => self.flaws.push(format!("{name}: write true or false")),
        }
    }

    /// Returns all errors, also those of requirements.
    pub fn all_flaws(&self) -> impl Iterator<Item = &String> {
        self.refused.iter().chain(&self.flaws).chain(&self.requires.invalid)
    }
}

/// Returns true for a control character that is not white space, and for one that changes the direction
/// of the text after it. Prompts replace them.
pub(crate) fn changes_display(c: char) -> bool {
    (c.is_control() && !c.is_whitespace()) || changes_direction(c)
}

/// Returns flaws of front matter that is valid YAML, but not what was meant: fields in other letters, and
/// texts of which YAML reads a part.
fn misread(fields: &BTreeMap<String, Value>, front: &str) -> Vec<String> {
    // Other spellings of `metadata` are invalid requirements.
    let fields_of_text = FIELDS.into_iter().filter(|field| *field != "metadata");
    let known =
        |key: &str| fields_of_text.clone().find(|field| key != *field && key.eq_ignore_ascii_case(field));
    let named = fields.keys().filter_map(|key| Some((key, known(key.as_str())?)));
    let mut flaws: Vec<String> =
        named.map(|(key, field)| format!("{key}: is not read; write `{field}`, in small letters")).collect();
    let blocks = blocks(front);
    flaws.extend(blocks.iter().filter(|block| TEXTS.contains(&block.key)).filter_map(|block| block.cut()));
    flaws
}

/// Returns the flaw of a text that begins with front matter in another form, which is read as body.
fn no_front(text: &str) -> Option<String> {
    let text = text.trim_start_matches(['\u{feff}', '\n']);
    let (first, rest) = text.split_once('\n')?;
    let lines =
        rest.lines().map(str::trim).take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    let first = first.trim();
    let is_toml = |line: &str| {
        let name = line.split_once('=').map(|(name, _)| name.trim());
        name.is_some_and(|name| FIELDS.contains(&name))
    };
    if first == "+++" && lines.lines().any(is_toml) {
        let what = "the front matter is TOML (`+++`) and is not read; write YAML between two lines `---`";
        return Some(what.to_owned());
    }
    let is_fence = first.len() >= 3 && first.bytes().all(|byte| byte == b'-');
    let is_front = is_fence && has_field(&lines.to_ascii_lowercase());
    is_front.then(|| {
        "the front matter is not read; begin it with a line `---`, three dashes without blanks before"
            .to_owned()
    })
}

/// Returns true if lines have a field that is read.
fn has_field(front: &str) -> bool {
    blocks(front).iter().any(|block| FIELDS.contains(&block.key))
}

/// Returns the truth that a value is, or says in words.
fn truth(value: &Value, reading: Reading) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        Value::String(text) if reading != Reading::First => match text.to_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Gives fields that are text, and were read as a number or a truth, the text that is written there: `1.0` is
/// no `1`.
fn as_written(fields: &mut BTreeMap<String, Value>, front: &str) {
    let typed = |value: &Value| matches!(value, Value::Bool(_) | Value::Number(_));
    if !TEXTS.iter().any(|name| fields.get(*name).is_some_and(typed)) {
        return;
    }
    for block in blocks(front) {
        let Some(value) =
            fields.get_mut(block.key).filter(|value| TEXTS.contains(&block.key) && typed(value))
        else {
            continue;
        };
        *value = Value::String(block.scalar());
    }
}

/// Returns a message of the parser with the line that it names counted from the first line of the file.
fn in_file(why: &str, opening_lines: u64) -> String {
    let Some((before, rest)) = why.split_once("line ") else { return why.to_owned() };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    match rest[..digits].parse::<u64>() {
        Ok(line) => format!("{before}line {}{}", line + opening_lines, &rest[digits..]),
        Err(_) => why.to_owned(),
    }
}

/// Returns a text whose lines end with line feeds. Other parsers of YAML end lines at U+0085, U+2028 and
/// U+2029 as well, so that fields could be hidden after one.
fn line_feeds(text: &str, reading: Reading) -> Cow<'_, str> {
    let ends: &[char] = match reading {
        Reading::Now => &['\r', '\u{85}', '\u{2028}', '\u{2029}'],
        _ => &['\r'],
    };
    if text.contains(ends) { text.replace("\r\n", "\n").replace(ends, "\n").into() } else { text.into() }
}

/// Returns the first paragraph that is not a heading.
fn first_paragraph(body: &str) -> String {
    let mut paragraph: Vec<&str> = Vec::new();
    for line in body.lines().map(str::trim) {
        match line {
            "" if paragraph.is_empty() => {}
            "" => break,
            line if line.starts_with('#') && paragraph.is_empty() => {}
            line => paragraph.push(line),
        }
    }
    paragraph.join(" ").chars().take(MAX_DESCRIPTION).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::yaml::{MAX_DEPTH, MAX_VALUES};
    use super::*;

    fn with(front: &str) -> SkillText {
        SkillText::parse(&format!("---\n{front}\n---\nbody\n"))
    }

    #[test]
    fn without_front_matter_that_closes_everything_is_body() {
        for text in
            ["# Title\n\nSays.\n", "---\nno field\n", "", " ---\nname: x\n---\n", "----\nname: x\n---\n"]
        {
            let skill = SkillText::parse(text);
            assert_eq!((skill.body.as_str(), skill.name), (text, None), "{text:?}");
        }
        assert_eq!(SkillText::parse("").flaws, ["description: is missing; write what the skill is for"]);
        assert_eq!(SkillText::parse("---\n---\nbody").body, "body");
    }

    #[test]
    fn front_matter_that_does_not_close_is_read_up_to_a_blank_line() {
        let text = "---\nname: x\ndescription: a: b\nmetadata: {openclaw: {requires: {bins: [rg]}}}\n\n# X\n\nBody.\n";
        let skill = SkillText::parse(text);
        assert_eq!((skill.name.as_deref(), skill.description.as_str()), (Some("x"), "a: b"));
        assert_eq!(
            (skill.requires.bins.as_slice(), skill.body.as_str()),
            (["rg".to_owned()].as_slice(), text)
        );
        assert!(skill.flaws[0].contains("does not close"), "{:?}", skill.flaws);
        // A requirement that is cut off counts as not met.
        let skill = SkillText::parse("---\nname: x\nmetadata: {openclaw: {requires\n\nBody.\n");
        assert!(!skill.requires.invalid.is_empty() && skill.description == "Body.");
    }

    #[test]
    fn mistakes_name_the_line_of_the_file() {
        let skill = with("name: x\ndescription: [a");
        assert!(skill.flaws[0].contains("line 3") || skill.flaws[0].contains("line 4"), "{:?}", skill.flaws);
    }

    #[test]
    fn crlf_and_cr_count_as_lf() {
        for end in ["\r\n", "\r", "\n"] {
            let text = ["---", "name: pdf", "description: reads", "---", "body"].join(end);
            let skill = SkillText::parse(&text);
            assert_eq!((skill.name.as_deref(), skill.description.as_str()), (Some("pdf"), "reads"));
            assert_eq!(skill.body, "body");
        }
    }

    #[test]
    fn the_description_is_the_first_paragraph_that_is_no_heading_and_200_characters_at_most() {
        let of = |body: &str| SkillText::parse(body).description;
        assert_eq!(of("# A\n\n## B\n\nOne line\nand another.\n\nNext."), "One line and another.");
        assert_eq!(of("# A\nbelow the heading\n"), "below the heading");
        assert_eq!((of(""), of("# A\n")), (String::new(), String::new()));
        assert_eq!(of(&"ä".repeat(300)).chars().count(), 200);
        assert_eq!(with("description: its own").description, "its own");
        assert_eq!(with("description: ''").description, "body");
    }

    #[test]
    fn always_is_false_unless_it_says_true() {
        assert!(!with("name: a").always && with("always: true").always && !with("always: false").always);
        let bad = with("always: sometimes");
        assert!(!bad.always && bad.flaws[0].contains("true or false"));
    }

    #[test]
    fn broken_front_matter_costs_no_other_field() {
        let metadata = r#"metadata: {"openclaw": {"requires": {"bins": ["a"]}}}"#;
        for broken in [
            "description: Use when: asked",
            "description: \"Says \"hi\" often\"",
            "description: [beta] Does it",
            "description: @nobody reads it",
            "description: `code` first",
            "description: %d of them",
            "description: 'don't'",
            "\ttab: x\ndescription: Does it",
            "description: Does it\ntags: [a, b",
            "description: Does it\nversion: 1\nversion: 2",
        ] {
            let skill = with(&format!("name: pdf\n{broken}\n{metadata}"));
            assert_eq!(skill.name.as_deref(), Some("pdf"), "{broken}");
            assert!(!skill.description.is_empty() && skill.description != "body", "{broken}: {skill:?}");
            assert!(skill.flaws[0].contains("no YAML"), "{broken}: {:?}", skill.flaws);
            assert_eq!(skill.requires.bins, ["a"], "{broken}: {:?}", skill.requires);
        }
        assert_eq!(with("description: Use when: asked: now").description, "Use when: asked: now");
    }

    #[test]
    fn front_matter_that_is_misread_is_a_flaw() {
        for (front, flaw) in [
            ("Name: pdf\nDescription: Reads PDF", "Description: is not read; write `description`"),
            ("name: pdf\nALWAYS: true\ndescription: x", "ALWAYS: is not read; write `always`"),
            ("description: !important thing", "description: YAML takes `!important` for a tag"),
            ("description: Issue #12 of them", "description: YAML drops what follows ` #`"),
            ("description: #12 of them", "description: YAML drops what follows ` #`"),
            ("description: All of them,\n  such as #12", "description: YAML drops what follows ` #`"),
            ("name: \"a\\u202Eb\"\ndescription: x", "name: has control characters"),
            ("description: \"a\\x07b\"", "description: has control characters"),
        ] {
            let skill = with(front);
            assert!(skill.flaws.iter().any(|said| said.starts_with(flaw)), "{front}: {:?}", skill.flaws);
        }
        for front in [
            "name: pdf # the tool\ndescription: Reads a#1, C# and # of them",
            "description: 'Issue #12'",
            "description: \"!important\"",
            "description: |\n  Issue #12\n  !important",
            "description: Reads PDF\n  #12\nlicense: x #1",
            "description: caf\u{e9} \u{5d0}",
        ] {
            assert_eq!(with(front).flaws, Vec::<String>::new(), "{front}");
        }
        for text in [
            "+++\nname = \"pdf\"\ndescription = \"Reads\"\n+++\nBody.\n",
            "----\nname: pdf\n----\nBody.\n",
            "\n ---\n name: pdf\n ---\nBody.\n",
            "\t---\nDescription: Reads\n---\nBody.\n",
        ] {
            let skill = SkillText::parse(text);
            assert!(skill.flaws[0].starts_with("the front matter is"), "{text}: {:?}", skill.flaws);
        }
        for text in ["----\n\nBody.\n", "# Title\n\nname: x\n", "----\nA rule: see above.\n", "+++\nBody.\n"]
        {
            assert_eq!(SkillText::parse(text).flaws, Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn requirements_that_cannot_be_read_are_not_met() {
        for lost in [
            "metadata: {\"openclaw\": {\"requires\": {\"bins\": [\"a\"]}}",
            "metadata:\n  openclaw:\n    note: a: b\n    requires: {bins: [a]}",
            "metadata: {}\nmetadata: {\"openclaw\": {}}",
            "d: a: b\n\"metadata\": {\"openclaw\": {\"requires\": {\"bins\": [\"a\"]}}}",
            "d: a: b\n\tmetadata: {}",
            "d: a: b\n{\"x\": 1, \"requires\" : {}}",
            "d: a: b\nopenclaw:\n  requires: {bins: [a]}",
        ] {
            let skill = with(&format!("name: pdf\n{lost}"));
            assert_eq!(skill.name.as_deref(), Some("pdf"), "{lost}");
            assert!(skill.requires.invalid[0].contains("not known"), "{lost}: {skill:?}");
        }
        // These texts declare no requirements.
        for plain in ["a: b", "Use when: a task requires it", "has metadata: none", "the \"requires\" of: it"]
        {
            assert!(with(&format!("name: pdf\ndescription: {plain}")).requires.is_none(), "{plain}");
        }
    }

    #[test]
    fn a_text_is_the_text_that_is_written() {
        for text in ["yes", "No", "on", "true", "1.0", "1.10", "0x10", "1e3", "007", "2026", "12_000", ".5"] {
            let skill = with(&format!("name: {text}\ndescription: {text} # said\nhomepage: '{text}'"));
            assert_eq!(skill.name.as_deref(), Some(text));
            assert_eq!((skill.description.as_str(), skill.homepage.as_deref()), (text, Some(text)));
            assert_eq!(skill.all_flaws().count(), 0, "{text}");
        }
        assert_eq!(with("name: ~").name, None);
        assert_eq!(with("metadata: {gsv: {requires: {bins: [yes, on]}}}").requires.bins, ["yes", "on"]);
        for (said, due) in [("yes", true), ("On", true), ("'true'", true), ("no", false), ("off", false)] {
            let skill = with(&format!("always: {said}"));
            assert_eq!((skill.always, skill.flaws.len()), (due, 0), "{said}");
        }
    }

    #[test]
    fn an_opening_line_may_have_blanks_around_it_and_dots_close() {
        for (before, after) in [
            ("", "---"),
            ("\n \n", "---"),
            ("\u{feff}\n", "---"),
            ("\n\u{feff}", "---  "),
            ("", "..."),
            ("", "...\t"),
        ] {
            let skill = SkillText::parse(&format!("{before}--- \nname: x\ndescription: d\n{after}\nbody"));
            assert_eq!(
                (skill.name.as_deref(), skill.body.as_str()),
                (Some("x"), "body"),
                "{before:?} {after:?}"
            );
            assert_eq!(skill.all_flaws().count(), 0, "{skill:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read(
            front in "((name|description|metadata|a b|[ \t]*x):? ?[-:{}\\[\\]\"'|>#&*%@é, \r\t\n a]{0,30}\n){0,6}",
        ) {
            let skill = with(&front);
            // The body has a paragraph, so each skill has a description.
            prop_assert!(!skill.description.trim().is_empty());
            SkillText::parse_as(&format!("---\n{front}\n---\n"), Reading::First);
        }
    }

    #[test]
    fn the_first_reading_reads_as_before() {
        let first = |front: &str| SkillText::parse_as(&format!("---\n{front}\n---\nbody\n"), Reading::First);
        let colon = first("name: pdf\ndescription: a: b\nmetadata: {gsv: {requires: {bins: [a]}}}");
        assert_eq!((colon.name.as_deref(), colon.description.as_str()), (None, "body"));
        assert!(colon.requires.is_none());
        assert!(first("metadata: {openclaw: {os: [plan9]}}").requires.is_none());
        assert!(first("metadata: {moltbot: {requires: {bins: [a]}}}").requires.is_none());
        assert!(first("metadata: '{'").requires.is_none());
        assert_eq!((first("name: yes").name, first("always: yes").always), (None, true));
        assert!(!first("always: 'yes'").always);
        assert_eq!(first("name: 0x10").name.as_deref(), Some("16"));
        let as_first = |text: &str| SkillText::parse_as(text, Reading::First);
        for text in ["\n---\nname: x\n---\nb", "--- \nname: x\n---\nb", "---\nname: x\n...\nb"] {
            assert_eq!((as_first(text).name, as_first(text).body.as_str()), (None, text));
        }
        for metadata in [
            "[{openclaw: {requires: {bins: [a]}}}]",
            "{OpenClaw: {requires: {bins: [a]}}}",
            "{openclaw: {}, clawdbot: {requires: {bins: [a]}}}",
            "words",
            "{requires: {bins: [a]}}",
        ] {
            assert!(first(&format!("requires: {{bins: [a]}}\nmetadata: {metadata}")).requires.is_none());
        }
        assert!(!first("metadata: {gsv: null}").requires.is_none());
    }

    #[test]
    fn what_is_no_yaml_is_told() {
        for bad in ["a: [", "- a", "name: {a: b}"] {
            let skill = with(bad);
            assert!(!skill.flaws.is_empty() && skill.refused.is_none(), "{bad}");
        }
    }

    #[test]
    fn front_matter_with_anchors_or_aliases_is_refused() {
        for bad in [
            "name: &n pdf",
            "a: *x",
            "a: &x [*x]",
            "a: &a [x]\nb: *a",
            "a: &a {x: y}\nb: {<<: *a}",
            "metadata:\n  garth:\n    requires: {bins: [&b a]}",
        ] {
            let skill = with(bad);
            assert!(
                skill.refused.as_ref().is_some_and(|why| why.contains("write the value out")),
                "{bad}: {skill:?}"
            );
            assert!(skill.all_flaws().next() == skill.refused.as_ref() && skill.name.is_none(), "{bad}");
            assert_eq!(skill.body, "body\n");
        }
        // Text that only looks like an anchor or alias.
        for good in ["name: a & b * c", "name: '&a'", "name: \"*a\"", "description: |\n  &a *b\n  <<: x"] {
            assert!(with(good).refused.is_none() && with(good).flaws.is_empty(), "{good}");
        }
    }

    #[test]
    fn front_matter_is_bounded_in_bytes_values_and_depth() {
        let long = format!("name: {}", "x".repeat(MAX_FRONT));
        let many = format!("name: a\nb: [{}]", "1,".repeat(MAX_VALUES));
        let deep = format!("name: a\nb: {}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        for bad in [long, many, deep] {
            let skill = with(&bad);
            assert!(skill.refused.is_some_and(|why| why.contains("shorten")) && skill.name.is_none());
        }
        let much = format!("name: a\nb: [{}]\nc: {}1{}", "1,".repeat(1900), "[".repeat(10), "]".repeat(10));
        assert_eq!(with(&much).name.as_deref(), Some("a"));
    }
}
