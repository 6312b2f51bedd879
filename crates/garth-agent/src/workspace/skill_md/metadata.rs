//! Reads the field `metadata` of front matter: JSON, with a namespace for each program that reads it.

use serde_json::{Map, Value, json};

use super::astray::{self, NAMESPACES, namespace};
use super::front_matter::SkillText;
use super::json_text;
use super::requires::Requires;
use crate::workspace::reading::Reading;

/// Number of [`NAMESPACES`] that the first reading knows.
const FIRST_NAMESPACES: usize = 4;
/// Namespaces that have `always`.
const OTHERS: [&str; 4] = ["openclaw", "clawdbot", "moltbot", "clawdis"];

impl SkillText {
    /// Reads the fields of `metadata`.
    pub(super) fn metadata(&mut self, metadata: Value, reading: Reading) {
        let object = match metadata {
            Value::Null => return,
            Value::String(text) if reading != Reading::First && text.trim().is_empty() => return,
            Value::String(text) => {
                json_text::parse(&text, reading).map_err(|error| format!("metadata: is no JSON: {error}"))
            }
            value => Ok(value),
        };
        let object = object.and_then(|object| match object {
            Value::Object(object) => Ok(object),
            _ => Err("metadata: write a JSON object".to_owned()),
        });
        let metadata = match (object, reading) {
            (Ok(metadata), _) => metadata,
            (Err(flaw), Reading::First) => return self.flaws.push(flaw),
            // Unreadable metadata may contain requirements, so the skill must not count as one without them.
            (Err(flaw), _) => return self.requires.invalid.push(flaw),
        };
        if reading != Reading::First {
            self.requires.invalid.extend(astray::within_metadata(&metadata));
        }
        let mut own = self.namespaces(metadata, reading);
        // A field is taken from the first namespace in which it is not empty, so that an empty field does not
        // hide requirements of another namespace.
        let mut take = |field: &str, among: &[&str]| {
            let has = |own: &Map<String, Value>, is: fn(&Value) -> bool| own.get(field).is_some_and(is);
            let find = |is: fn(&Value) -> bool| {
                own.iter().position(|(name, own)| among.contains(name) && has(own, is))
            };
            let place = find(|value| !is_empty(value)).or_else(|| find(|value| !value.is_null()))?;
            let (name, own) = &mut own[place];
            Some((*name, own.remove(field)?))
        };
        match take("emoji", &NAMESPACES) {
            Some((_, Value::String(emoji))) => self.emoji = Some(emoji),
            None => {}
            Some((name, _)) => self.flaws.push(format!("metadata.{name}.emoji: write a text")),
        }
        let (always_in, os_in) = match reading {
            Reading::First => (&[][..], &[][..]),
            _ => (&OTHERS[..], &NAMESPACES[..]),
        };
        if let Some((name, always)) = take("always", always_in) {
            self.always(Some(always), &format!("metadata.{name}.always"), reading);
        }
        let (requires, os) = (take("requires", &NAMESPACES), take("os", os_in));
        if let Some(requires) = with_os(requires.map(|(_, requires)| requires), os.map(|(_, os)| os)) {
            let requires = Requires::read(requires);
            let mut invalid = std::mem::take(&mut self.requires.invalid);
            invalid.extend(requires.invalid);
            self.requires = Requires { invalid, ..requires };
        }
        match take("install", &NAMESPACES).map(|(name, install)| (name, serde_json::from_value(install))) {
            None => {}
            Some((_, Ok(install))) => self.install = install,
            Some((name, Err(error))) => self.flaws.push(format!("metadata.{name}.install: {error}")),
        }
    }

    /// Returns the existing namespaces, in the order of precedence.
    fn namespaces(
        &mut self,
        mut metadata: Map<String, Value>,
        reading: Reading,
    ) -> Vec<(&'static str, Map<String, Value>)> {
        let mut found: Vec<(&'static str, Value)> = match reading {
            Reading::First => {
                let mut known = NAMESPACES[..FIRST_NAMESPACES].iter();
                known.find_map(|name| Some((*name, metadata.remove(*name)?))).into_iter().collect()
            }
            _ => metadata
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .filter_map(|(key, value)| Some((namespace(&key)?, value)))
                .collect(),
        };
        found.sort_by_key(|(name, _)| NAMESPACES.iter().position(|one| one == name));
        for pair in found.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            self.requires.invalid.push(format!("metadata.{}: is repeated", pair[0].0));
        }
        let mut own = Vec::new();
        for (name, value) in found {
            match value {
                Value::Object(fields) => own.push((name, fields)),
                _ => self.requires.invalid.push(format!("metadata.{name}: write an object")),
            }
        }
        own
    }
}

/// Returns requirements with an `os` that is given next to them, if their own `os` is empty.
fn with_os(requires: Option<Value>, os: Option<Value>) -> Option<Value> {
    let Some(os) = os.filter(|os| !os.is_null()) else { return requires };
    match requires {
        None | Some(Value::Null) => Some(json!({"os": os})),
        Some(Value::Object(mut requires)) => {
            if requires.get("os").is_none_or(is_empty) {
                requires.insert("os".to_owned(), os);
            }
            Some(Value::Object(requires))
        }
        other => other,
    }
}

/// Returns true for an empty value, and for lists and objects that contain only empty values.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::requires::{Host, KnownHosts};
    use super::*;

    fn with(front: &str) -> SkillText {
        SkillText::parse(&format!("---\n{front}\n---\nbody\n"))
    }

    #[test]
    fn always_is_read_from_metadata_as_well_and_the_field_of_the_skill_goes_before() {
        let always = |front: &str| with(front).always;
        for name in OTHERS {
            assert!(always(&format!("metadata: {{{name}: {{always: true}}}}")), "{name}");
        }
        assert!(!always("always: false\nmetadata: {openclaw: {always: true}}"));
        assert!(!always("metadata: {garth: {always: true}}"));
        let bad = with("metadata: {openclaw: {always: 7}}");
        assert!(!bad.always && bad.flaws[0].starts_with("metadata.openclaw.always: "));
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
        for bad in ["metadata: '{'", "metadata: [1]", "metadata: 7", "metadata: words"] {
            assert_eq!(with(bad).requires.invalid.len(), 1, "{bad}");
        }
        assert!(with("metadata: ''").requires.is_none() && with("metadata:").requires.is_none());
    }

    #[test]
    fn of_the_namespaces_the_first_that_has_a_field_counts() {
        let emoji = |names: &[&str]| {
            let spaces: Vec<_> =
                names.iter().map(|name| format!("\"{name}\": {{\"emoji\": \"{name}\"}}")).collect();
            with(&format!("metadata: {{{}}}", spaces.join(", "))).emoji
        };
        for at in 0..NAMESPACES.len() {
            let mut last_first = NAMESPACES[at..].to_vec();
            last_first.reverse();
            assert_eq!(emoji(&last_first).as_deref(), Some(NAMESPACES[at]));
        }
        assert_eq!(emoji(&["other"]), None);
        // A namespace without requirements does not hide those of others.
        for first in [
            "{}",
            "null",
            r#"{"emoji": "x"}"#,
            r#"{"requires": null}"#,
            r#"{"requires": {}, "os": []}"#,
            r#"{"requires": {"bins": [], "os": null}}"#,
        ] {
            let rest = r#""clawdbot": {"requires": {"bins": ["a"]}}, "clawdis": {"os": ["plan9"]}"#;
            let skill = with(&format!(r#"metadata: {{"gsv": {first}, {rest}}}"#));
            assert_eq!(
                (&skill.requires.bins[..], &skill.requires.os[..]),
                (&["a".into()][..], &["plan9".into()][..])
            );
            assert!(skill.all_flaws().next().is_none(), "{first}");
        }
        let skill = with(r#"metadata: {"gsv": {"requires": {}}, "clawdbot": {"os": []}}"#);
        assert!(skill.requires.is_none());
    }

    #[test]
    fn os_beside_requires_counts() {
        for name in NAMESPACES {
            for (own, due) in [
                (r#""os": ["plan9"]"#, vec!["plan9"]),
                (r#""os": ["plan9"], "requires": null"#, vec!["plan9"]),
                (r#""os": ["plan9"], "requires": {"bins": []}"#, vec!["plan9"]),
                (r#""os": ["plan9"], "requires": {"bins": ["git"], "os": null}"#, vec!["plan9"]),
                (r#""os": ["plan9"], "requires": {"os": []}"#, vec!["plan9"]),
                (r#""os": ["plan9"], "requires": {"os": ["linux"]}"#, vec!["linux"]),
                (r#""os": null"#, vec![]),
            ] {
                let skill = with(&format!(r#"metadata: {{"{name}": {{{own}}}}}"#));
                assert_eq!(skill.requires.os, due, "{name} {own}");
            }
            let bad = with(&format!(r#"metadata: {{"{name}": {{"os": "plan9"}}}}"#));
            assert!(bad.requires.invalid[0].contains("requires.os"), "{bad:?}");
        }
    }

    /// A `SKILL.md` that requires `nope`, in a form that somebody wrote or may write.
    const REQUIRING: &[&str] = &[
        "---\nmetadata: [{\"openclaw\":{\"requires\":{\"bins\":[\"nope\"]}}}]\n---\nb",
        "---\nmetadata: 7\n---\nb",
        "---\nmetadata: true\n---\nb",
        "---\nmetadata: \"openclaw: {requires: {bins: [nope]}}\"\n---\nb",
        "---\nmetadata: '[{\"openclaw\": {}}]'\n---\nb",
        "---\nmetadata: '{\"openclaw\": {\"requires\": {\"bins\": [\"nope\"]}}, \"openclaw\": {}}'\n---\nb",
        "---\nmetadata: {openclaw: [{requires: {bins: [nope]}}]}\n---\nb",
        "---\nmetadata: {gsv: {requires: {}}, openclaw: [{requires: {bins: [nope]}}]}\n---\nb",
        "---\nmetadata: {openclaw: '{\"requires\": {\"bins\": [\"nope\"]}}'}\n---\nb",
        "---\nmetadata: {openclaw: {emoji: x}, clawdbot: {requires: {bins: [nope]}}}\n---\nb",
        "---\nmetadata: {Clawdbot: {requires: {bins: [nope]}}}\n---\nb",
        "---\nmetadata: {OpenClaw: {requires: {}}, openclaw: {requires: {bins: [nope]}}}\n---\nb",
        "---\nmetadata: {openclaw: {Requires: {bins: [nope]}}}\n---\nb",
        "---\nmetadata: {openclaw: {requires: {Bins: [nope]}}}\n---\nb",
        "---\nmetadata: {openclaw: {bins: [nope]}}\n---\nb",
        "---\nmetadata: {garth: {OS: [nope]}}\n---\nb",
        "---\nmetadata: {garth: {env: [nope]}}\n---\nb",
        "---\nmetadata: {garth: {config: [nope]}}\n---\nb",
        "---\nmetadata: {os: [nope]}\n---\nb",
        "---\nmetadata: {openclaw: {requires.bins: [nope]}}\n---\nb",
        "---\nos: nope\n---\nb",
        "---\nenv: [nope]\n---\nb",
        "+++\n[metadata.openclaw.requires]\nbins = [\"nope\"]\n+++\nb",
        "---\nmetadata: {garth: {runtime: {requires: {bins: [nope]}}}}\n---\nb",
        "---\nmetadata: {hermes: {requires: {bins: [nope]}}}\n---\nb",
        "---\nmetadata: {requires: {bins: [nope]}}\n---\nb",
        "---\nmetadata: {openclaw.requires: {bins: [nope]}}\n---\nb",
        "---\nMetadata: {openclaw: {requires: {bins: [nope]}}}\n---\nb",
        "---\nMETADATA: '{\"openclaw\": {\"requires\": {\"bins\": [\"nope\"]}}}'\n---\nb",
        "---\nrequires: {bins: [nope]}\n---\nb",
        "---\nrequires: nope\n---\nb",
        "---\nrequires: nope\n# X\nb",
        "---\nRequires: [nope]\n---\nb",
        "---\nrequires.bins: [nope]\n---\nb",
        "---\nrequirements: {bins: [nope]}\n---\nb",
        "---\nopenclaw: {requires: {bins: [nope]}}\n---\nb",
        "---\nopenclaw: '{\"requires\": {\"bins\": [\"nope\"]}}'\n---\nb",
        "---\nmetadata.openclaw: {os: [nope]}\n---\nb",
        "---\n{name: x, description: a: b, metadata: {openclaw: {requires: {bins: [nope]}}}}\n---\nb",
        "---\n{name: x, description: a: b,\n metadata: {openclaw: {requires: {bins: [nope]}}}}\n---\nb",
        "---\nname: x\nd: a: b\nrequires: {bins: [nope]}\nmetadata: {author: me}\n---\nb",
        "---\nname: x\nd: a: b\nMetadata: {openclaw: {requires: {bins: [nope]}}}\n---\nb",
        "---\nname: x\nd: a: b\n? metadata\n: {openclaw: {requires: {bins: [nope]}}}\n---\nb",
        "---\n- metadata: {openclaw: {requires: {bins: [nope]}}}\n---\nb",
        "--- \t\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n---\nb",
        "\n \n---\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n---\nb",
        "\n\u{feff}---\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n---\nb",
        "\u{feff}\r\n---\r\nmetadata: {openclaw: {requires: {bins: [nope]}}}\r\n---\r\nb",
        "---\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n...\nb",
        "---\nname: x\n\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n...  \nb",
        "---\nname: x\n...\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n---\nb",
        "---\nmetadata: {garth: {os: [nope]}, openclaw: {requires: {bins: [git], os: []}}}\n---\nb",
        "---\nmetadata: {garth: {os: []}, openclaw: {os: [nope], requires: {os: }}}\n---\nb",
        "---\ndescription: {requires: {bins: [nope]}}\n---\nb",
        "---\nhomepage: [{requires: {bins: [nope]}}]\n---\nb",
        "---\nname: {bins: [nope]}\n---\nb",
        "---\nrequires_bins: [nope]\n---\nb",
        "---\nmetadata: {openclaw: {requiredBins: [nope]}}\n---\nb",
        "---\nname: c\n---\nrequires: [nope]\n---\nb",
        "---\nname: c\n...\n\nrequires: [nope]\n---\nb",
        "---\nname: c\n---\nversion: 1\n\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n---\nb",
        "---\nname: c\n---\n# note\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n---\nb",
        "---\nname: c\n...\n# note\n\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n---\nb",
        "---\nname: c\n\nrequires: [nope]\n\nb",
        "---\n# note\nname: c\nrequires: [nope]\n\nb",
        "name: c\nrequires: [nope]\n---\nb",
        "---\nname: x\n---\n\n---\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n---\nb",
        "---\nname: x\n\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n\nb",
        "---\nname: x\n# note\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n\nb",
        " ---\nname: x\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n ---\nb",
        "# X\n---\nname: x\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n---\nb",
        "<!-- license -->\n---\nmetadata:\n  openclaw:\n    requires:\n      bins: [nope]\n---\nb",
        "```yaml\n---\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n---\n```\nb",
        "name: x\nmetadata: {\"openclaw\":{\"requires\":{\"bins\":[\"nope\"]}}}\n---\nb",
        "--- # skill\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n---\nb",
    ];

    #[test]
    fn no_form_of_requirements_makes_a_skill_eligible() {
        let host = Host::new("here");
        for text in REQUIRING {
            for text in [(*text).to_owned(), text.replace('\n', "\r\n"), format!("\u{feff}{text}")] {
                let skill = SkillText::parse(&text);
                let judged = skill.requires.judge(false, &KnownHosts::of(std::slice::from_ref(&host)));
                assert!(judged.is_err() || skill.refused.is_some(), "{text:?}: {skill:?}");
            }
        }
    }

    #[test]
    fn requirements_that_are_not_read_say_where_they_are_written() {
        for (front, due) in [
            (
                "requires: {bins: [nope]}",
                "requires: is not read here; write requirements in metadata.garth.requires",
            ),
            (
                "Metadata: {garth: {}}",
                "Metadata: is not read; write `metadata`, in small letters, with an object",
            ),
            ("metadata: {garth: {bins: [a]}}", "metadata.garth.bins: is not read here"),
        ] {
            let skill = with(front);
            assert!(skill.requires.invalid.iter().any(|flaw| flaw.contains(due)), "{skill:?}");
        }
        // Keys without requirements are not flaws.
        for front in [
            "requires:",
            "requires: []",
            "Metadata:",
            "metadata: {garth: {install: [{id: b, kind: brew, bins: [a]}]}}",
        ] {
            assert!(with(front).requires.is_none(), "{front}");
        }
        let lines = SkillText::parse("\n\n---\nname: x\ndescription: [a\n---\nb");
        assert!(lines.flaws[0].contains("line 5") || lines.flaws[0].contains("line 6"), "{:?}", lines.flaws);
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
