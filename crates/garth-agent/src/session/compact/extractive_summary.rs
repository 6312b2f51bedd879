//! Extractive summary, without a model: the first sentence of each message, with its line. The summary says
//! that it is extractive.

use crate::count::count;
use crate::session::derived::summary_lines::{MARK, covered, covers};
use crate::session::log::draft::Role;
use crate::session::log::message::Message;
use garth_engine::text::secret::masked;

/// Longest excerpt, in characters.
const LONGEST: usize = 200;

/// A summary: text written by others, followed by excerpts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Excerpts {
    written: String,
    lines: Vec<String>,
    covered: u64,
}

impl Excerpts {
    /// Parses a summary.
    pub(super) fn parse(text: &str) -> Self {
        let mut found = Self::default();
        let mut rest = text;
        found.covered = covered(text);
        if found.covered > 0
            && let Some((_, behind)) = text.split_once('\n')
        {
            rest = behind;
        }
        match rest.split_once(&format!("{MARK}\n\n")) {
            Some((written, excerpts)) => {
                written.trim_end().clone_into(&mut found.written);
                found.lines = excerpts.lines().map(str::to_owned).collect();
            }
            None => rest.trim_end().clone_into(&mut found.written),
        }
        found
    }

    /// Returns the last message that it covers.
    pub(super) fn covered(&self) -> u64 {
        self.covered
    }

    /// Adds an excerpt of a message. Output of tools is left out.
    pub(super) fn add(&mut self, line: u64, message: &Message) {
        let who = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System | Role::Tool => return,
        };
        let said = masked(&message.text()).split_whitespace().collect::<Vec<_>>().join(" ");
        if !said.is_empty() {
            self.lines.push(format!("- messages:{line} {who}: {}", sentence(&said)));
        }
    }

    /// Returns the summary up to a line, within a token limit: the first and the last excerpts.
    pub(super) fn text(&self, last: u64, most: u64) -> String {
        let written = if self.written.is_empty() { String::new() } else { format!("{}\n\n", self.written) };
        let head = format!("{}{written}{MARK}\n\n", covers(last));
        let mut left = most.saturating_sub(count(&head) as u64);
        let mut cost = |line: &String| {
            let tokens = count(line) as u64 + 1;
            let fits = tokens <= left;
            left = if fits { left - tokens } else { 0 };
            fits
        };
        let first: Vec<&String> = self.lines.iter().take(1).filter(|line| cost(line)).collect();
        let mut newest: Vec<&String> =
            self.lines.iter().skip(1).rev().take_while(|line| cost(line)).collect();
        newest.reverse();
        let lines = first.into_iter().chain(newest);
        lines.fold(head, |text, line| text + line + "\n")
    }
}

/// Returns the first sentence of a text, shortened to the length of an excerpt.
fn sentence(text: &str) -> String {
    let end = text.char_indices().find(|(at, c)| {
        let behind = text[at + c.len_utf8()..].chars().next();
        // A full stop within a word, as in `src/parse.rs`, ends no sentence. Chinese and Japanese have no
        // space after one.
        matches!(c, '.' | '!' | '?') && behind.is_none_or(|c| c == ' ') || matches!(c, '。' | '？' | '！')
    });
    let end = end.map_or(text.len(), |(at, c)| at + c.len_utf8());
    let short: String = text[..end].chars().take(LONGEST).collect();
    if short.len() < end { short + "…" } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: &str, text: &str) -> Message {
        let line = serde_json::json!({
            "id": "msg-1", "role": role, "created_at": "2026-01-27T09:30:00Z", "content": text,
        });
        Message::parse(&line.to_string()).unwrap()
    }

    #[test]
    fn excerpts_continue_and_keep_written_text() {
        let mut summary = Excerpts::parse("What I wrote.\n");
        summary.add(1, &message("user", "Where is it? I looked."));
        summary.add(2, &message("tool", "x"));
        let text = summary.text(2, 1000);
        assert!(text.starts_with("<!-- covers messages:1-2 -->\nWhat I wrote.\n\n"), "{text}");
        assert!(text.ends_with("- messages:1 user: Where is it?\n"), "{text}");
        let mut again = Excerpts::parse(&text);
        assert_eq!((again.covered(), again.written.as_str()), (2, "What I wrote."));
        again.add(3, &message("assistant", &"long ".repeat(100)));
        let text = again.text(3, 1000);
        assert_eq!(text.lines().filter(|line| line.starts_with("- messages:")).count(), 2);
        assert!(text.ends_with("…\n") && Excerpts::parse(&text).text(3, 1000) == text);
    }

    #[test]
    fn summary_keeps_first_and_last_excerpts() {
        let mut summary = Excerpts::default();
        for line in 1..=500 {
            summary.add(line, &message("user", &format!("Question {line} of many.")));
        }
        let text = summary.text(500, 200);
        assert!(count(&text) <= 200 && text.contains("Question 1 of") && text.contains("Question 500 of"));
    }
}
