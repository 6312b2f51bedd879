//! Reads a `SKILL.md`: its front matter in YAML, and its body. What is wrong in it is told and never in the
//! way of the rest.

use std::borrow::Cow;
use std::collections::BTreeMap;

use garth_engine::compute::working;
use serde::Serialize;
use serde_json::Value;
use serde_saphyr::Error as YamlError;
use serde_saphyr::budget::BudgetBreach;

use super::requires::{Install, Requires};

/// Most characters of a description that is taken from the body.
const MAX_DESCRIPTION: usize = 200;

/// Longest front matter that is read, 16 KiB: eight times the longest among some thousand published skills.
pub(crate) const MAX_FRONT: usize = 16 << 10;

/// Most values of front matter, keys and lists included, and how deep they may be nested. Within these bounds
/// the costliest front matter is read in about a millisecond.
pub(crate) const MAX_VALUES: usize = 2000;
/// See [`MAX_VALUES`].
pub(crate) const MAX_DEPTH: usize = 16;

/// The namespaces of `metadata`, of which the first that is there counts.
const NAMESPACES: [&str; 4] = ["garth", "gsv", "openclaw", "clawdbot"];

/// What a `SKILL.md` says.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SkillText {
    /// Its name, if it says one: else it is called like its directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is for: as it says, or the first paragraph of its body.
    pub description: String,
    /// A URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homepage: Option<String>,
    /// Whether it is listed although a requirement of it is invalid.
    pub always: bool,
    /// A sign for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emoji: Option<String>,
    /// What it needs.
    pub requires: Requires,
    /// How what it needs can be installed: shown, never run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub install: Vec<Install>,
    /// What is wrong in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flaws: Vec<String>,
    /// Why its front matter is refused as a whole; then the skill is not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The text behind the front matter.
    #[serde(skip)]
    pub body: String,
}

impl SkillText {
    /// Reads it. CRLF and CR count as LF; without front matter that closes everything is body.
    ///
    /// ```
    /// use garth::agent::workspace::SkillText;
    ///
    /// let skill = SkillText::parse("---\nname: pdf\nalways: true\n---\n# PDF\n\nReads PDF files.\n");
    /// assert_eq!((skill.name.as_deref(), skill.always), (Some("pdf"), true));
    /// assert_eq!(skill.description, "Reads PDF files.");
    /// ```
    pub fn parse(text: &str) -> Self {
        working(text.len());
        let text = line_feeds(text.strip_prefix('\u{feff}').unwrap_or(text));
        let (front, body) = split(&text);
        let mut skill = Self { body: body.to_owned(), ..Self::default() };
        let mut fields = front.map_or_else(BTreeMap::new, |front| skill.fields(front));
        skill.name = skill.text(&mut fields, "name").filter(|name| !name.trim().is_empty());
        let description = skill.text(&mut fields, "description");
        skill.homepage = skill.text(&mut fields, "homepage");
        match fields.remove("always") {
            None | Some(Value::Null) => {}
            Some(Value::Bool(always)) => skill.always = always,
            Some(_) => skill.flaws.push("always: write true or false".to_owned()),
        }
        if let Some(metadata) = fields.remove("metadata") {
            skill.metadata(metadata);
        }
        let description = description.filter(|text| !text.trim().is_empty());
        skill.description = description.unwrap_or_else(|| first_paragraph(&skill.body));
        skill
    }

    /// The fields of front matter; those that are not known are left alone.
    fn fields(&mut self, front: &str) -> BTreeMap<String, Value> {
        if front.len() > MAX_FRONT {
            self.refused = Some(format!("the front matter has more than {MAX_FRONT} bytes; shorten it"));
            return BTreeMap::new();
        }
        if front.trim().is_empty() {
            return BTreeMap::new();
        }
        match yaml(front) {
            Ok(fields) => return fields,
            Err(Flaw::Refused(why)) => self.refused = Some(why),
            Err(Flaw::Malformed(why)) => {
                self.flaws.push(format!("the front matter is no YAML mapping: {why}"));
            }
        }
        BTreeMap::new()
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

    fn metadata(&mut self, metadata: Value) {
        let metadata = match metadata {
            Value::Null => return,
            Value::String(text) => match serde_json::from_str(&without_trailing_commas(&text)) {
                Ok(value) => value,
                Err(error) => return self.flaws.push(format!("metadata: is no JSON: {error}")),
            },
            value => value,
        };
        let Value::Object(mut metadata) = metadata else {
            return self.flaws.push("metadata: write a JSON object".to_owned());
        };
        let Some((name, own)) = NAMESPACES.iter().find_map(|name| Some((*name, metadata.remove(*name)?)))
        else {
            return;
        };
        let Value::Object(mut own) = own else {
            self.requires.invalid.push(format!("metadata.{name}: write an object"));
            return;
        };
        match own.remove("emoji") {
            Some(Value::String(emoji)) => self.emoji = Some(emoji),
            None | Some(Value::Null) => {}
            Some(_) => self.flaws.push(format!("metadata.{name}.emoji: write a text")),
        }
        if let Some(requires) = own.remove("requires") {
            self.requires = Requires::read(requires);
        }
        match own.remove("install").map(serde_json::from_value) {
            None => {}
            Some(Ok(install)) => self.install = install,
            Some(Err(error)) => self.flaws.push(format!("metadata.{name}.install: {error}")),
        }
    }

    /// All that is wrong, requirements with it.
    pub fn all_flaws(&self) -> impl Iterator<Item = &String> {
        self.refused.iter().chain(&self.flaws).chain(&self.requires.invalid)
    }
}

/// Why front matter gives no fields.
enum Flaw {
    /// It asks for more than is read of any.
    Refused(String),
    Malformed(String),
}

impl Flaw {
    fn alias() -> Self {
        let why = "the front matter has an anchor or alias (`&name`, `*name`, `<<`); write the value out";
        Self::Refused(why.to_owned())
    }
}

/// Reads a mapping. An alias makes a short text as costly as a long one, so there are none, nor anchors and
/// merge keys, which mean nothing without.
fn yaml(front: &str) -> Result<BTreeMap<String, Value>, Flaw> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_anchors: 0,
            max_aliases: 0,
            max_merge_keys: 0,
            max_documents: 1,
            max_depth: MAX_DEPTH,
            max_nodes: MAX_VALUES,
            max_events: 4 * MAX_VALUES,
        },
        with_snippet: false,
    };
    #[allow(clippy::disallowed_methods)] // this is the one place
    let read = serde_saphyr::from_str_with_options::<BTreeMap<String, Value>>(front, options);
    read.map_err(|error| match &error {
        YamlError::UnknownAnchor { .. } => Flaw::alias(),
        YamlError::Budget { breach, .. } => match breach {
            BudgetBreach::Aliases { .. } | BudgetBreach::Anchors { .. } | BudgetBreach::MergeKeys { .. } => {
                Flaw::alias()
            }
            _ => Flaw::Refused(format!(
                "the front matter has more than {MAX_VALUES} values, or more than {MAX_DEPTH} within each \
                 other; shorten it"
            )),
        },
        _ => {
            let why = error.to_string();
            let why = why.lines().find(|line| !line.trim().is_empty()).unwrap_or("it is malformed");
            Flaw::Malformed(why.trim().to_owned())
        }
    })
}

fn line_feeds(text: &str) -> Cow<'_, str> {
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n").into() } else { text.into() }
}

/// The front matter, if there is one that closes, and the body.
fn split(text: &str) -> (Option<&str>, &str) {
    let Some(rest) = text.strip_prefix("---\n") else { return (None, text) };
    let mut start = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return (Some(&rest[..start]), &rest[start + line.len()..]);
        }
        start += line.len();
    }
    (None, text)
}

/// The first paragraph that is no heading.
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

/// JSON without the commas behind which nothing comes.
fn without_trailing_commas(json: &str) -> String {
    let (mut text, mut in_string, mut escaped) = (String::with_capacity(json.len()), false, false);
    for (at, character) in json.char_indices() {
        if character == ',' && !in_string {
            let behind = json[at + 1..].trim_start();
            if behind.starts_with([']', '}']) {
                continue;
            }
        }
        text.push(character);
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(front: &str) -> SkillText {
        SkillText::parse(&format!("---\n{front}\n---\nbody\n"))
    }

    #[test]
    fn without_front_matter_that_closes_everything_is_body() {
        for text in [
            "# Title\n\nSays.\n",
            "---\nname: x\nno end\n",
            "",
            " ---\nname: x\n---\n",
            "----\nname: x\n---\n",
        ] {
            let skill = SkillText::parse(text);
            assert_eq!((skill.body.as_str(), skill.name, skill.flaws.len()), (text, None, 0), "{text:?}");
        }
        assert_eq!(SkillText::parse("---\n---\nbody").body, "body");
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
    fn metadata_is_json_or_text_with_json_in_which_trailing_commas_do_not_matter() {
        for front in [
            r#"metadata: {"gsv": {"emoji": "x", "requires": {"bins": ["a"]}}}"#,
            "metadata: |\n  {\"gsv\": {\"emoji\": \"x\", \"requires\": {\"bins\": [\"a\",],},},}",
            "metadata:\n  gsv:\n    emoji: x\n    requires:\n      bins: [a]",
            r#"metadata: '{"gsv": {"emoji": "x", "requires": {"bins": ["a"]}}}'"#,
        ] {
            let skill = with(front);
            assert_eq!(
                (skill.emoji.as_deref(), skill.flaws.len()),
                (Some("x"), 0),
                "{front} {:?}",
                skill.flaws
            );
            assert_eq!(skill.requires.bins, ["a"], "{front}");
        }
        assert_eq!(without_trailing_commas(r#"{"a": ",]", "b": [1 , ]}"#), r#"{"a": ",]", "b": [1  ]}"#);
        for bad in ["metadata: '{'", "metadata: [1]", "metadata: 7"] {
            assert_eq!(with(bad).flaws.len(), 1, "{bad}");
        }
    }

    #[test]
    fn of_the_namespaces_the_first_that_is_there_counts() {
        let emoji = |names: &[&str]| {
            let spaces: Vec<_> =
                names.iter().map(|name| format!("\"{name}\": {{\"emoji\": \"{name}\"}}")).collect();
            with(&format!("metadata: {{{}}}", spaces.join(", "))).emoji
        };
        assert_eq!(emoji(&["clawdbot", "openclaw", "gsv", "garth"]).as_deref(), Some("garth"));
        assert_eq!(emoji(&["clawdbot", "openclaw", "gsv"]).as_deref(), Some("gsv"));
        assert_eq!(emoji(&["clawdbot", "openclaw"]).as_deref(), Some("openclaw"));
        assert_eq!(emoji(&["clawdbot"]).as_deref(), Some("clawdbot"));
        assert_eq!(emoji(&["other"]), None);
        // the one that counts may say nothing
        let skill = with(r#"metadata: {"gsv": {}, "clawdbot": {"requires": {"bins": ["a"]}}}"#);
        assert!(skill.requires.is_none());
    }

    #[test]
    fn os_outside_of_requires_means_nothing() {
        let skill = with(r#"metadata: {"gsv": {"os": ["plan9"]}}"#);
        assert!(skill.requires.is_none() && skill.flaws.is_empty());
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
        // text that only looks like one
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

    #[test]
    fn installs_are_shown() {
        let skill = with(
            r#"metadata: {"gsv": {"install": [{"id": "b", "kind": "brew", "label": "Homebrew", "formula": "jq", "bins": ["jq"]}]}}"#,
        );
        assert_eq!((skill.install[0].id.as_str(), skill.install[0].formula.as_deref()), ("b", Some("jq")));
        let bad = with(r#"metadata: {"gsv": {"install": [{"id": "b", "kind": "curl"}]}}"#);
        assert!(bad.install.is_empty() && bad.flaws[0].contains("install"), "{:?}", bad.flaws);
    }
}
