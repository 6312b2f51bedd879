//! Finds requirements in lines that were meant as front matter but follow its end.

use serde_json::Value;

use super::astray::{self, MAX_LOOK};
use super::yaml;
use crate::workspace::reading::Reading;

/// Returns true if a text begins with lines of front matter that have requirements. `texts` are the fields
/// that are text. `is_body` is true for text after front matter that closes, and without any: there, only
/// lines that a later line closes count, and `metadata`.
///
/// Markdown has lines `---` and words with a colon, too. So only parts before the first prose count, and code
/// blocks are examples.
pub(super) fn has_requirements(text: &str, texts: &[&str], is_body: bool) -> bool {
    let end = text.floor_char_boundary(MAX_LOOK);
    let (mut part, mut in_code) = (String::new(), false);
    for line in text[..end].split_inclusive('\n') {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            in_code = !in_code;
        } else if !in_code && matches!(line.trim_end(), "---" | "...") {
            // A line that closes makes front matter of all lines before it.
            if let Some(first) = first_line(&part) {
                if !opens_field(first) {
                    return false;
                }
                if requires(&part, texts, is_body) {
                    return true;
                }
            }
            part.clear();
        } else if !in_code {
            part.push_str(line);
        }
    }
    let part = before_prose(&part);
    if is_body && !(first_line(part).is_some_and(opens_field) && astray::has_metadata(part)) {
        return false;
    }
    requires(part, texts, is_body)
}

/// Returns the first line that is neither blank nor a comment: a heading is one for YAML.
fn first_line(part: &str) -> Option<&str> {
    let is_comment = |line: &str| line.is_empty() || line.starts_with('#') || line.starts_with("<!--");
    part.lines().find(|line| !is_comment(line.trim()))
}

/// Returns true for a line that begins as front matter does, with a field in YAML or JSON. Sentences begin
/// with a capital letter.
fn opens_field(line: &str) -> bool {
    let start = line.trim_start_matches(|c: char| c.is_whitespace() || "{\"'?".contains(c));
    let is_quoted = start.len() < line.trim_start().len();
    let length = start.find(|c: char| !(c.is_alphanumeric() || "_-./".contains(c))).unwrap_or(start.len());
    let (key, rest) = start.split_at(length);
    let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || "\"'".contains(c));
    let Some(value) = rest.strip_prefix(':') else { return false };
    let is_key = key.starts_with(|c: char| c.is_lowercase() || c == '_') || astray::name_of(key).is_some();
    is_key && (is_quoted || value.is_empty() || value.starts_with(char::is_whitespace))
}

/// Returns the lines before the first that is none of front matter, where nothing closes it.
fn before_prose(part: &str) -> &str {
    let is_front = |line: &&str| {
        line.trim().is_empty()
            || line.starts_with(|c: char| c.is_whitespace() || "#-}]".contains(c))
            || opens_field(line)
    };
    let length = part.split_inclusive('\n').take_while(is_front).map(str::len).sum();
    &part[..length]
}

/// Returns true if lines that are meant as front matter have requirements.
fn requires(part: &str, texts: &[&str], is_body: bool) -> bool {
    if astray::are_in(part) {
        return true;
    }
    // `Requires: git` is a sentence, and so is such a list.
    let is_sentence = |key: &str, value: &Value| {
        let is_words = match value {
            Value::Array(items) => items.iter().all(Value::is_string),
            value => !value.is_object(),
        };
        let is_sentence = is_body && value.as_str().is_some_and(|text| text.trim().contains(' '));
        is_sentence || (key.starts_with(char::is_uppercase) && is_words)
    };
    match yaml::mapping(part, Reading::Now) {
        Ok(mut fields) => {
            fields.retain(|key, value| !is_sentence(key, value));
            let within = fields.get("metadata").and_then(Value::as_object).map(astray::within_metadata);
            within.is_some_and(|flaws| !flaws.is_empty())
                || !astray::beside_metadata(&fields, texts).is_empty()
        }
        Err(_) => {
            let mut keys = astray::keys(part).filter(|key| !key.starts_with(char::is_uppercase));
            keys.any(|key| astray::name_of(key) == Some("requires") || key == "bins" || key == "anyBins")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(text: &str) -> bool {
        has_requirements(text, &["name", "description", "homepage"], false)
    }

    #[test]
    fn finds_requirements_after_an_early_end() {
        for text in [
            "requires: [nope]\n---\nbody",
            "\n# note\nrequires: [nope]\n---\nbody",
            "version: 1\n\nrequires: nope\n...\nbody",
            "\n---\n---\nrequires: nope\n---\nbody",
            "description: Use when: asked\nrequires: [nope]\n---\nbody",
            "\"requires\": [nope]\n---\nbody",
            "{\"requires\":[\"nope\"]}\n---\nbody",
            "os: [nope]\n---\n",
            "Requires: {bins: [nope]}\n---\n",
            "# Title\n\nrequiredBins:\n  - nope\n\nBody.\n",
            "version: 1\n\n# c\nmetadata: {requires: [nope]}\n\nBody.\n",
        ] {
            assert!(has(text), "{text}");
        }
    }

    #[test]
    fn text_of_a_body_is_no_requirement() {
        let body = |text: &str| has_requirements(text, &["name", "description", "homepage"], true);
        for text in [
            "env: set FOO to the key of the service\n\nMore.\n",
            "os: linux only\n\nMore.\n",
            "os: linux only\n---\nMore.\n",
            "- requires: git\n- bins: rg\n\nMore.\n",
            "bins:\n- one for glass\n- one for paper\n",
            "env: FOO\n",
            "# Title\n\nrequires: git\n\nMore.\n",
        ] {
            assert!(!body(text), "{text}");
        }
        for text in [
            "requires: [nope]\n---\nbody",
            "# note\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n---\nbody",
            "version: 1\n\nmetadata: {openclaw: {requires: {bins: [nope]}}}\n\nBody.\n",
        ] {
            assert!(body(text), "{text}");
        }
    }

    #[test]
    fn prose_and_examples_are_no_requirements() {
        for text in [
            "",
            "# Title\n\nRequires: git\n\n---\nMore.\n",
            "# Title\n\nRequires:\n\n- git\n- jq\n\n---\nMore.\n",
            "# Title\n\nIt reads files.\n\nrequires: git\n\n---\nMore.\n",
            "# Title\n\n```yaml\n---\nrequires: [nope]\n---\n```\n\nMore.\n",
            "Write it so:\n\n---\nname: x\nrequires: [x]\n---\n",
            "- `requires`: programs\n- `bins`: others\n",
            "requires that git is there\n---\n",
            "https://example.org/requires: it\n---\n",
        ] {
            assert!(!has(text), "{text}");
        }
    }
}
