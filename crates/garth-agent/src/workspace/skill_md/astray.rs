//! Finds requirements that a skill declares in places where garth does not read them. Such a skill must not
//! count as one without requirements.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Namespaces of `metadata`, the one with precedence first. Those after `gsv` are the current and the former
/// names of one program.
pub(super) const NAMESPACES: [&str; 6] = ["garth", "gsv", "openclaw", "clawdbot", "moltbot", "clawdis"];

/// Keys that declare requirements wherever they are. [`names_requirement`] recognises longer forms of them.
const REQUIREMENTS: [&str; 3] = ["requires", "bins", "anybins"];

/// Keys that declare requirements within a namespace, in small letters.
const LISTS: [&str; 8] =
    ["requires", "bins", "anybins", "env", "os", "hostroles", "capabilities", "anycapabilities"];

/// Keys that declare requirements next to `metadata`, or next to the namespaces in it, in small letters. An
/// object as the value means something else.
const BARE: [&str; 4] = ["env", "os", "hostroles", "anycapabilities"];

/// Limit on the places that are reported.
const MAX_TOLD: usize = 8;

/// Limit on the bytes that are searched in a text without front matter.
pub(super) const MAX_LOOK: usize = 16 << 10;

/// Returns the namespace that a key of `metadata` names, in letters of any case.
pub(super) fn namespace(key: &str) -> Option<&'static str> {
    NAMESPACES.into_iter().find(|name| key.trim().eq_ignore_ascii_case(name))
}

/// Returns flaws for requirements next to `metadata`.
pub(super) fn beside_metadata(fields: &BTreeMap<String, Value>, texts: &[&str]) -> Vec<String> {
    let mut flaws = Vec::new();
    // A field that should be a text may be an object by mistake, and contain requirements.
    let is_text = |key: &str, value: &Value| texts.contains(&key) && !value.is_object() && !value.is_array();
    for (key, value) in fields.iter().filter(|(key, value)| *key != "metadata" && !is_text(key, value)) {
        let begins = key.split('.').next().is_some_and(|first| first.trim().eq_ignore_ascii_case("metadata"));
        if begins && !is_blank(value) {
            flaws.push(format!("{key}: is not read; write `metadata`, in small letters, with an object"));
        } else if is_bare(key, value) {
            told(key, value, &mut flaws);
        } else {
            walk(key, key, value, &mut flaws);
        }
    }
    flaws.truncate(MAX_TOLD);
    flaws
}

/// Returns flaws for requirements in `metadata` at places that are not read.
pub(super) fn within_metadata(metadata: &Map<String, Value>) -> Vec<String> {
    let mut flaws = Vec::new();
    for (key, value) in metadata {
        let path = format!("metadata.{key}");
        if is_bare(key, value) {
            told(&path, value, &mut flaws);
            continue;
        }
        let (Some(_), Value::Object(own)) = (namespace(key), value) else {
            walk(&path, key, value, &mut flaws);
            continue;
        };
        for (field, value) in own {
            let path = format!("{path}.{field}");
            match field.as_str() {
                "requires" | "os" | "install" => {}
                // An object may contain settings of another program.
                field if is_one_of(field, &["config"]) && value.is_array() => {
                    told(&path, value, &mut flaws);
                }
                field if is_one_of(field, &LISTS) => told(&path, value, &mut flaws),
                field => walk(&path, field, value, &mut flaws),
            }
        }
    }
    flaws.truncate(MAX_TOLD);
    flaws
}

/// Adds a flaw for each key, at this place or below it, that declares requirements.
fn walk(path: &str, key: &str, value: &Value, flaws: &mut Vec<String>) {
    if names_requirement(key) {
        return told(path, value, flaws);
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                walk(&format!("{path}.{key}"), key, value, flaws);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(path, "", item, flaws)),
        Value::String(text) if are_in(text) => told(path, value, flaws),
        _ => {}
    }
}

/// Returns true for a key that declares requirements wherever it is, however its words are joined:
/// `openclaw.requires`, `requires_bins`, `requiredBins`, `required-env`.
fn names_requirement(key: &str) -> bool {
    key.split(['.', '/', ':']).any(|part| {
        let words = words(part);
        let joined = words.concat();
        let is_list = |from: usize| LISTS.contains(&&*words[from..].concat());
        REQUIREMENTS.contains(&&*joined)
            || joined.contains("requires")
            || (joined.starts_with("requir") && (1..words.len()).any(is_list))
    })
}

/// Returns the words of a key in small letters. They are joined by signs, or each begins with a capital.
fn words(key: &str) -> Vec<String> {
    let (mut words, mut before) = (vec![String::new()], ' ');
    for letter in key.chars() {
        let begins = before.is_lowercase() && letter.is_uppercase();
        if begins || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_one_of(key: &str, names: &[&str]) -> bool {
    names.iter().any(|name| key.trim().eq_ignore_ascii_case(name))
}

fn is_bare(key: &str, value: &Value) -> bool {
    is_one_of(key, &BARE) && !value.is_object()
}

fn told(path: &str, value: &Value, flaws: &mut Vec<String>) {
    if !is_blank(value) && flaws.len() < MAX_TOLD {
        flaws.push(format!("{path}: is not read here; write requirements in metadata.garth.requires"));
    }
}

/// Returns true for a value that requires nothing.
fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Returns true if a text that is not YAML has a key that may lead to requirements.
pub(super) fn may_be_in(front: &str) -> bool {
    keys(front).any(|key| name_of(key).is_some())
}

/// Returns true if a text has two different keys that lead to requirements. One alone may be prose.
pub(super) fn are_in(text: &str) -> bool {
    keys(text).filter_map(name_of).collect::<BTreeSet<_>>().len() > 1
}

/// Returns true if a text has a key that contains requirements: `metadata`, or a namespace of it.
pub(super) fn has_metadata(text: &str) -> bool {
    keys(text).any(|key| key.eq_ignore_ascii_case("metadata") || namespace(key).is_some())
}

/// Returns true if a text that is not front matter contains the requirements of a skill. Code blocks are
/// examples; one at the very top of a file may be meant as its front matter.
pub(super) fn are_in_body(text: &str, is_top: bool) -> bool {
    let end = (0..=MAX_LOOK.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let text = &text[..end];
    let is_fence = |line: &str| line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
    let first = text.lines().find(|line| !line.trim().is_empty()).filter(|_| is_top).unwrap_or_default();
    if first.trim() == "+++" {
        // Keys of TOML have another form.
        let mut words = text.split(|c: char| !c.is_alphanumeric());
        return words.any(|word| is_one_of(word, &REQUIREMENTS));
    }
    if is_fence(first) {
        return are_in(text);
    }
    let mut in_code = false;
    let prose = text.split_inclusive('\n').filter(|line| {
        let fence = is_fence(line);
        in_code ^= fence;
        !in_code && !fence
    });
    are_in(&prose.collect::<String>())
}

/// Returns the known name for a key that leads to requirements; `None` for any other key.
pub(super) fn name_of(key: &str) -> Option<&'static str> {
    let mut names = ["metadata"].into_iter().chain(REQUIREMENTS).chain(NAMESPACES);
    let name = names.find(|name| key.eq_ignore_ascii_case(name));
    name.or_else(|| names_requirement(key).then_some("requires"))
}

/// Returns the words in the places where YAML or JSON has a key: at the beginning of a line, or after a
/// brace, a bracket, a comma, a question mark or the dot of a longer key; and before a colon.
pub(super) fn keys(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + text[at..].find(is_word)?;
            let before = &text[at..start];
            let opens = at == 0 || before == "." || before.contains(['\n', '{', '[', ',', '?']);
            at = start + text[start..].find(|c| !is_word(c)).unwrap_or(text.len() - start);
            let after = text[at..].trim_start_matches(|c: char| c.is_whitespace() || c == '"' || c == '\'');
            if opens && after.starts_with(':') {
                return Some(&text[start..at]);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_yaml_and_json_that_is_malformed() {
        for front in [
            "metadata: {",
            "\tMetadata: x",
            "{name: x, description: a: b, metadata: {",
            "{\"x\": 1, \"requires\" : {}}",
            "- requires: [a]",
            "? metadata\n: {}",
            "a: [b\n'bins' : [x]",
            "metadata.openclaw.requires: x",
        ] {
            assert!(may_be_in(front), "{front}");
        }
        for prose in ["a task requires: it", "has metadata: none", "the \"requires\" of: it", "requires", ""]
        {
            assert!(!may_be_in(&format!("description: {prose}")), "{prose}");
        }
    }

    #[test]
    fn requirements_are_known_however_words_are_joined() {
        for key in [
            "requires",
            "Requires",
            " bins ",
            "anyBins",
            "any_bins",
            "ANY-BINS",
            "requires_bins",
            "requiresBins",
            "requiredBins",
            "required-any-bins",
            "REQUIRED_ENV",
            "requirementsOs",
            "openclaw.requires",
            "skill_requires",
        ] {
            assert!(names_requirement(key), "{key}");
        }
        for key in ["required", "requirements", "requiredPhotos", "cabins", "env", "os", "name", "", "_"] {
            assert!(!names_requirement(key), "{key}");
        }
    }

    #[test]
    fn settings_of_other_programs_are_no_requirements() {
        let metadata = serde_json::json!({
            "openclaw": {
                "primaryEnv": "KEY", "config": {"stateDirs": ["x"]}, "skillKey": "x", "emoji": "x", "nix": {"plugin": "x"},
                "install": [{"id": "b", "kind": "brew", "bins": ["x"]}], "os": ["linux"], "requires": {"bins": ["x"]},
            },
            "author": "me", "env": {"A": "b"}, "tags": ["requires", "bins"],
        });
        let fields = BTreeMap::from([
            ("license".to_owned(), "MIT".into()),
            ("compatibility".to_owned(), "Requires: git and python".into()),
            ("capabilities".to_owned(), serde_json::json!(["fly"])),
            ("requires".to_owned(), serde_json::json!([])),
            ("metadata".to_owned(), metadata.clone()),
        ]);
        assert_eq!(beside_metadata(&fields, &["description"]), Vec::<String>::new());
        assert_eq!(within_metadata(metadata.as_object().unwrap()), Vec::<String>::new());
    }

    #[test]
    fn one_key_in_prose_is_no_requirement_and_neither_is_an_example() {
        let yaml = "metadata:\n  openclaw:\n    requires: {bins: [x]}\n";
        for body in [format!("# X\n\n{yaml}"), yaml.to_owned(), format!("```yaml\n---\n{yaml}---\n```\n")] {
            assert!(are_in_body(&body, true), "{body}");
        }
        assert!(!are_in_body(&format!("```yaml\n{yaml}```\n"), false));
        for body in [
            format!("Write it so:\n\n```yaml\n{yaml}```\n\nDone.\n"),
            "Needs git.\n\nRequires: git\n".to_owned(),
            "- metadata: title and author\n".to_owned(),
        ] {
            assert!(!are_in_body(&body, true), "{body}");
        }
    }
}
