//! Extraction of answers from the text of a model, which may contain thoughts, Markdown fences and prose.

use std::collections::HashSet;

use garth_engine::compute::working;
use garth_engine::error::{Error, Result};

/// Limit on the bytes of a model's text, 1 MiB.
pub const MAX_ANSWER: usize = 1 << 20;

/// Tags around the thoughts of models.
const THOUGHTS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

/// Returns the answer in a model's text: without the thoughts before it, and without a Markdown fence around
/// all of it.
///
/// Thoughts end at the last closing tag at the start of a line; otherwise, if the text begins with the
/// opening tag, at the first closing tag. Thoughts that do not end leave an empty answer.
pub fn answer_in(text: &str) -> &str {
    let mut text = text.trim();
    for (open, close) in THOUGHTS {
        // A JSON string has no line feed, so a tag at the start of a line cannot be part of one.
        let at_line = text.rmatch_indices(close).find(|(at, _)| text[..*at].ends_with('\n'));
        let end = at_line.map(|(at, _)| at).or_else(|| {
            let thought = text.strip_prefix(open)?;
            Some(thought.find(close).map_or(text.len(), |at| open.len() + at))
        });
        if let Some(end) = end {
            text = text.get(end + close.len()..).unwrap_or_default().trim();
        }
    }
    let fenced = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let fenced = fenced.and_then(|rest| rest.split_once('\n')).map(|(_, rest)| rest);
    // With several fences the outer pair does not belong together.
    fenced.filter(|rest| !rest.contains("```")).unwrap_or(text).trim()
}

/// Finds the JSON object that answers a request, among thoughts, fences and prose: the last object that
/// `read` accepts, of those that are complete and inside no other object.
///
/// # Errors
/// `InvalidArgument` for a text without an object, or of more than [`MAX_ANSWER`] bytes; if all objects are
/// rejected, the error of the last one.
pub fn object_in<T>(text: &str, read: impl Fn(&str) -> Result<T>) -> Result<T> {
    if text.len() > MAX_ANSWER {
        let message = format!("the model's answer has more than {MAX_ANSWER} bytes; nothing was changed");
        return Err(Error::invalid(message));
    }
    working(text.len());
    let mut refused = None;
    // The last object is the answer: others precede it in thoughts or examples.
    for object in objects_in(answer_in(text)).into_iter().rev() {
        match read(object) {
            Ok(taken) => return Ok(taken),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused
        .unwrap_or_else(|| Error::invalid("the model's answer contains no JSON object; nothing was changed")))
}

/// Returns the outermost complete JSON objects in a text, in their order. Takes time in proportion to the
/// text.
fn objects_in(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut found, mut tried, mut at): (Vec<(usize, usize)>, _, _) = (Vec::new(), HashSet::new(), 0);
    while let Some(start) = bytes[at..].iter().position(|byte| *byte == b'{').map(|place| at + place) {
        at = start + 1;
        // A brace that a failed attempt read as the start of an object would fail as well, so it is skipped.
        // A brace that it read as part of a string is tried: that attempt reads as strings what the first one
        // read as other text, and the reverse. So no byte is read by more than two attempts.
        if tried.contains(&start) {
            continue;
        }
        let mut attempt = Attempt { bytes, at: start, tried: &mut tried, complete: Vec::new() };
        if attempt.object().is_some() {
            at = attempt.at;
        }
        found.append(&mut attempt.complete);
    }
    found.sort_unstable();
    let mut end = 0;
    found.retain(|(start, stop)| {
        let is_outer = *start >= end;
        end = if is_outer { *stop } else { end };
        is_outer
    });
    // A slice from a brace to a brace lies between characters.
    found.into_iter().filter_map(|(start, end)| text.get(start..end)).collect()
}

/// Attempt to read an object at one place.
struct Attempt<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Positions of braces that an attempt read as starts of objects.
    tried: &'a mut HashSet<usize>,
    /// Complete objects, the inner ones only until the outer one is complete.
    complete: Vec<(usize, usize)>,
}

/// Object or array that encloses the place of an attempt.
enum Frame {
    Object(usize),
    Array,
}

impl Attempt<'_> {
    /// Reads the object that begins here. Returns `None` if it is not valid JSON.
    ///
    /// Numbers and words are not validated: the caller parses the object.
    fn object(&mut self) -> Option<()> {
        let mut frames = Vec::new();
        loop {
            // A value begins here.
            match self.skip_space()? {
                b'{' => {
                    self.tried.insert(self.at);
                    frames.push(Frame::Object(self.at));
                    self.at += 1;
                    if self.skip_space()? != b'}' {
                        self.key()?;
                        continue;
                    }
                }
                b'[' => {
                    frames.push(Frame::Array);
                    self.at += 1;
                    if self.skip_space()? != b']' {
                        continue;
                    }
                }
                b'"' => self.string()?,
                _ => self.word()?,
            }
            // A value ended here, or its frame is empty.
            loop {
                match (self.skip_space()?, frames.last()?) {
                    (b',', Frame::Array) => self.at += 1,
                    (b',', Frame::Object(_)) => {
                        self.at += 1;
                        self.skip_space()?;
                        self.key()?;
                    }
                    (b']', Frame::Array) => {
                        self.at += 1;
                        frames.pop();
                        continue;
                    }
                    (b'}', Frame::Object(start)) => {
                        self.at += 1;
                        let start = *start;
                        // Inner objects were complete first; now they are part of this one.
                        while self.complete.last().is_some_and(|(inner, _)| *inner > start) {
                            self.complete.pop();
                        }
                        self.complete.push((start, self.at));
                        frames.pop();
                        if frames.is_empty() {
                            return Some(());
                        }
                        continue;
                    }
                    _ => return None,
                }
                break;
            }
        }
    }

    /// Skips white space, and returns the next byte.
    fn skip_space(&mut self) -> Option<u8> {
        while matches!(self.bytes.get(self.at)?, b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Option<()> {
        self.string()?;
        (self.skip_space()? == b':').then(|| self.at += 1)
    }

    fn string(&mut self) -> Option<()> {
        if *self.bytes.get(self.at)? != b'"' {
            return None;
        }
        self.at += 1;
        loop {
            match self.bytes.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 1,
                ..0x20 => return None,
                _ => {}
            }
            self.at += 1;
        }
        self.at += 1;
        Some(())
    }

    /// Reads a number, `true`, `false` or `null`.
    fn word(&mut self) -> Option<()> {
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        let length = self.bytes[self.at..].iter().take_while(is_part).count();
        self.at += length;
        (length > 0).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Said {
        said: String,
    }

    fn said(text: &str) -> Result<String> {
        object_in(text, |object| {
            let said: Said =
                serde_json::from_str(object).map_err(|error| Error::invalid(error.to_string()))?;
            Ok(said.said)
        })
    }

    #[test]
    fn finds_json_object_in_model_prose() {
        for text in [
            r#"{"said":"yes"}"#,
            "```json\n{\"said\":\"yes\"}\n```",
            "```\n{\"said\":\"yes\"}",
            "Here it is:\n```json\n{\"said\": \"yes\"}\n```\nIs there {more} to do?",
            r#"<think>{"said":"no"}</think>{"said":"yes"}"#,
            "<thinking>\n{\"said\":\"no\"\n</thinking>\n\n{\"said\":\"yes\"}",
            "{\"said\":\"no\"} was first, hm.\n</think>\nSo {\"said\":\"yes\"}.",
            r#"First {"said":"no"}, then {"said":"yes"}"#,
            r#"{"said":"yes"} is of the form {"id":"f1"}."#,
            r#"Write {"} or {x} and then {"said":"yes"}"#,
            r#"{"said":{"said":"yes"}"#,
            r#"[{"said":"yes"}]"#,
        ] {
            assert_eq!(said(text).unwrap(), "yes", "{text}");
        }
    }

    #[test]
    fn ignores_braces_and_tags_in_strings() {
        for inner in
            ["a } b", "{", r#"{\"said\":\"no\"}"#, "\\\\", "<think>x</think>", "a\\n</think>b", "```"]
        {
            let text = format!("<think>hm</think> It is {{\"said\":\"{inner}\"}}!");
            let due: String = serde_json::from_str(&format!("\"{inner}\"")).unwrap();
            assert_eq!(said(&text).unwrap(), due, "{text}");
        }
    }

    #[test]
    fn rejects_answer_without_fitting_object() {
        for (text, why) in [
            ("", "no JSON object"),
            ("no", "no JSON object"),
            (r#"{"said":"#, "no JSON object"),
            (r#"<think>{"said":"draft"}"#, "no JSON object"),
            (r#"{"said":1} {"told":"yes"}"#, "unknown field"),
            (r#"{"told":{"said":"no"}}"#, "unknown field"),
        ] {
            let error = said(text).unwrap_err();
            assert!(error.message().contains(why), "{text}: {error}");
        }
        assert!(said(&" ".repeat(MAX_ANSWER + 1)).unwrap_err().message().contains("more than"));
    }

    #[test]
    fn answer_parsing_takes_linear_time() {
        for part in
            [r#"{"a":"#, r#"{"a":[{"#, r#"{"a{":""#, "{\"", r#"{"\"#, r#"{"a":{"b":1},"#, "{", "{}", "[{"]
        {
            // If it were quadratic, each would take minutes.
            let text = part.repeat(MAX_ANSWER / part.len());
            assert!(said(&text).is_err(), "{part}");
        }
    }

    #[test]
    fn strips_thoughts_and_fences_from_answers() {
        for (text, due) in [
            ("<think>\nhm\n</think>\nNONE", "NONE"),
            ("hm\n</think>\n- tea", "- tea"),
            ("```markdown\n- tea\n```", "- tea"),
            ("```\na\n```\nand\n```\nb\n```", "```\na\n```\nand\n```\nb\n```"),
            ("- `<think>` is a tag", "- `<think>` is a tag"),
            ("<think>never ends", ""),
            ("- tea", "- tea"),
        ] {
            assert_eq!(answer_in(text), due, "{text}");
        }
    }

    proptest! {
        #[test]
        fn finds_any_object_in_any_prose(
            before in "[a-z{}\\[\\]:, \n]{0,40}",
            value in "[ -~é]{0,40}",
            after in "[a-z{}\\[\\]:, \n]{0,40}",
        ) {
            let object = serde_json::json!({ "said": value }).to_string();
            prop_assert_eq!(said(&format!("{before}\n{object}\n{after}")).unwrap(), value);
        }
    }
}
