//! Transcripts for people: a heading for each message, with its time and id. An import restores texts
//! exactly, and of the rest what is readable.

use super::blocks::{ParsedMessage, label};
use crate::session::log::draft::Role;
use crate::session::log::message::{Block, Message};
use garth_engine::error::{Error, Result};
use garth_engine::rule::schema::is_date_time;

/// A message parsed from a transcript.
pub(super) struct Section {
    pub(super) said: ParsedMessage,
    /// Line of its heading; the first is 1.
    pub(super) line: u64,
}

/// Content of a heading.
struct Heading<'a> {
    role: Role,
    created_at: Option<&'a str>,
    id: Option<&'a str>,
    call: Option<&'a str>,
}

/// Parses the first line of a message: its role, optionally with time and id, and the call of a result.
fn heading(line: &str) -> Option<Heading<'_>> {
    let (role, rest) = match line.strip_prefix("## ")?.split_once(|c: char| c.is_ascii_whitespace()) {
        Some((role, rest)) => (role, rest.trim()),
        None => (line.strip_prefix("## ")?, ""),
    };
    let role = match role {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        _ => return None,
    };
    let mut words = rest.splitn(3, ' ').filter(|word| !word.is_empty());
    let created_at = words.next();
    // as the schema of messages has it: of years, too, that no timestamp has
    if created_at.is_some_and(|time| !is_date_time(time)) {
        return None;
    }
    let (id, call) = (words.next(), words.next());
    if call.is_some_and(|call| !is_word(call)) {
        return None;
    }
    Some(Heading { role, created_at, id, call })
}

pub(super) fn read(text: &str) -> Result<Vec<Section>> {
    let mut sections: Vec<Section> = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut from, mut at) = (None, 0);
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        if heading(line.trim_end()).is_some() {
            if let Some((from, number)) = from {
                sections.push(section(&text[from..at], number)?);
            }
            from = Some((at, number));
        } else if from.is_none() && !line.trim().is_empty() {
            return Err(Error::invalid("the transcript does not begin with a heading such as `## user`"));
        }
        at += line.len();
    }
    if let Some((from, number)) = from {
        sections.push(section(&text[from..], number)?);
    }
    Ok(sections)
}

fn section(text: &str, number: u64) -> Result<Section> {
    let (line, body) = text.split_once('\n').unwrap_or((text, ""));
    let line = line.trim_end();
    let heading = heading(line).ok_or_else(|| Error::invalid("begins with no heading"))?;
    let body = body.strip_prefix("\r\n").or_else(|| body.strip_prefix('\n')).unwrap_or(body);
    let ends = ["\n\n", "\r\n\r\n", "\r\n", "\n"];
    let body = ends.iter().find_map(|end| body.strip_suffix(end)).unwrap_or(body);
    let body = body.split('\n').map(unescaped).collect::<Vec<_>>().join("\n");
    let content = match heading.role {
        Role::Tool => {
            let call_id = heading.call.unwrap_or("unknown").to_owned();
            let content = vec![Block::Text(body)];
            vec![Block::ToolResult { call_id, name: None, error: false, content }]
        }
        _ => vec![Block::Text(body)],
    };
    let mut said = ParsedMessage::new(heading.role, content);
    said.created_at = heading.created_at.map(str::to_owned);
    said.id = heading.id.map(str::to_owned);
    Ok(Section { said, line: number })
}

/// Escapes a line that would be a heading by a backslash.
fn escaped(line: &str) -> String {
    let is_one = heading(line.trim_start_matches('\\').trim_end()).is_some();
    if is_one { format!("\\{line}") } else { line.to_owned() }
}

fn unescaped(line: &str) -> &str {
    let rest = line.strip_prefix('\\').unwrap_or(line);
    if heading(rest.trim_start_matches('\\').trim_end()).is_some() { rest } else { line }
}

pub(super) fn write(message: &Message) -> String {
    let mut role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
    .to_owned();
    let content = match &*message.content {
        [Block::ToolResult { content, .. }] => content,
        content => content,
    };
    role = format!("## {role} {} {}", message.created_at, message.id);
    if let Some(call) = message.result_of().filter(|call| is_word(call)) {
        role = format!("{role} {call}");
    }
    let text = content.iter().map(block).collect::<Vec<_>>().join("\n\n");
    let text = text.split('\n').map(escaped).collect::<Vec<_>>().join("\n");
    format!("{role}\n\n{text}\n\n")
}

/// Returns true for a call id that a heading can have at its end.
fn is_word(call: &str) -> bool {
    !call.is_empty() && !call.contains(|c: char| c.is_control() || c.is_whitespace())
}

fn block(block: &Block) -> String {
    match block {
        Block::Text(text) => text.clone(),
        Block::Image { mime_type, source } => label(mime_type, source),
        Block::Reasoning { text: Some(text), .. } => {
            text.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
        }
        Block::Reasoning { .. } => "> [redacted]".to_owned(),
        Block::ToolCall { id, name, arguments } => format!("[calls {name} {id}]\n\n    {}", arguments.get()),
        Block::ToolResult { content, .. } => content.iter().map(self::block).collect::<Vec<_>>().join("\n\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_any_year_makes_a_heading() {
        for time in ["4052-01-27T09:30:00Z", "0000-01-01T00:00:00Z", "2024-12-31t23:59:60.5-01:00"] {
            assert!(heading(&format!("## user {time} msg-1")).is_some(), "{time}");
        }
        assert!(heading("## user soon").is_none());
    }

    #[test]
    fn what_follows_the_call_in_a_line_makes_it_no_heading() {
        let [at, call] = ["## tool 2026-01-27T09:30:00Z msg-1", "call_1"];
        assert!(heading(&format!("{at} {call}")).is_some_and(|heading| heading.call == Some(call)));
        for rest in ["call 1", "call\t1", "call\u{0}1", "a b c"] {
            assert!(heading(&format!("{at} {rest}")).is_none(), "{rest}");
        }
    }
}
