//! Transcripts for people: a heading for each message, with its time and id. An import of an export restores
//! texts exactly. Images, reasoning and calls come back as the text that shows them.

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
    /// Lines of text that look like headings, each with the reason; at most [`MAX_NOTES`]. `more_notes`
    /// counts the others.
    pub(super) notes: Vec<(u64, &'static str)>,
    pub(super) more_notes: u64,
}

/// Limit on the noted lines of a section; more are only counted.
const MAX_NOTES: usize = 100;

const NO_HEADING: &str =
    "the line looks like a heading, and is taken as text; write `## user`, alone or with a time";
const IN_FENCE: &str = "the heading is in a code fence, and is taken as text";

/// Longest time of day in a heading.
const MAX_TIME_OF_DAY: usize = 16;

/// Content of a heading.
struct Heading<'a> {
    role: Role,
    created_at: Option<&'a str>,
    id: Option<&'a str>,
    call: Option<&'a str>,
    has_time_of_day: bool,
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
    if is_time_of_day(rest) {
        // A time of day without a date gives no `created_at`.
        return Some(Heading { role, created_at: None, id: None, call: None, has_time_of_day: true });
    }
    let mut words = rest.splitn(3, ' ').filter(|word| !word.is_empty());
    let created_at = words.next();
    // The check is that of the message schema, which accepts more years than `Timestamp`.
    if created_at.is_some_and(|time| !is_date_time(time)) {
        return None;
    }
    let (id, call) = (words.next(), words.next());
    if call.is_some_and(|call| !is_word(call)) {
        return None;
    }
    Some(Heading { role, created_at, id, call, has_time_of_day: false })
}

/// Returns true for a time of day as chats show it: `10:32`, `(10:32:05)`, `[9:05 PM]`.
fn is_time_of_day(text: &str) -> bool {
    if text.len() > MAX_TIME_OF_DAY {
        return false;
    }
    let bracketed = |open: char, close: char| text.strip_prefix(open)?.strip_suffix(close);
    let bare = bracketed('(', ')').or_else(|| bracketed('[', ']')).unwrap_or(text);
    let time = bare.to_ascii_lowercase();
    let time = time.strip_suffix("am").or_else(|| time.strip_suffix("pm")).unwrap_or(&time).trim();
    let is_part =
        |part: &str| (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    time.split(':').all(is_part) && (1..=2).contains(&time.matches(':').count())
}

/// Returns true for a line that looks like the heading of a role.
fn looks_like_heading(line: &str) -> bool {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    if !(1..=6).contains(&level) || !text.starts_with([' ', '\t']) {
        return false;
    }
    let text = text.trim();
    let word = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let rest = text[word.len()..].trim_start();
    let is_beside = |c: char| c.is_ascii_digit() || "([:,|@*".contains(c);
    let roles = ["system", "user", "assistant", "tool"];
    (level == 2 && roles.contains(&word))
        || (roles.iter().any(|role| role.eq_ignore_ascii_case(word))
            && (rest.is_empty() || rest.starts_with("- ") || rest.starts_with(is_beside)))
}

/// Start of a code fence.
struct Fence<'a> {
    mark: &'a str,
    /// Number of the headings before it.
    headings: usize,
}

impl<'a> Fence<'a> {
    /// Returns the fence that a line opens.
    fn of(line: &'a str, headings: usize) -> Option<Self> {
        let text = line.trim_start_matches(' ');
        let mark = ['`', '~'].into_iter().find(|mark| text.starts_with(*mark))?;
        let length = text.len() - text.trim_start_matches(mark).len();
        let is_one =
            length >= 3 && line.len() - text.len() < 4 && !(mark == '`' && text[length..].contains('`'));
        is_one.then_some(Self { mark: &text[..length], headings })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim_start_matches(' ').trim_end();
        line.len() - line.trim_start_matches(' ').len() < 4
            && text.starts_with(self.mark)
            && self.mark.starts_with(|mark: char| text.trim_start_matches(mark).is_empty())
    }
}

pub(super) fn read(text: &str) -> Result<Vec<Section>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let first = text.lines().find(|line| !line.trim().is_empty()).and_then(|line| heading(line.trim_end()));
    // An export escapes lines of text that would be read as headings. Every other heading counts, also in a
    // code fence, because a text may leave a fence open. Older exports do not escape headings with a time of
    // day, so in an export these count as text.
    let is_export = first.is_some_and(|first| first.id.is_some());
    let (mut headings, mut fence, mut at) = (Vec::new(), None::<Fence<'_>>, 0);
    for (number, line) in (1_u64..).zip(text.split_inclusive('\n')) {
        let bare = line.trim_end();
        if heading(bare).is_some_and(|heading| !(is_export && heading.has_time_of_day)) {
            headings.push((at, number));
        } else if headings.is_empty() && !bare.trim().is_empty() {
            return Err(Error::invalid("the transcript does not begin with a heading such as `## user`"));
        } else if let Some(open) = &fence {
            if open.is_closed_by(bare) {
                headings.truncate(open.headings);
                fence = None;
            }
        } else if !is_export {
            fence = Fence::of(bare, headings.len());
        }
        at += line.len();
    }
    let ends = headings.iter().skip(1).map(|(at, _)| *at).chain([text.len()]);
    headings
        .iter()
        .zip(ends)
        .map(|((from, number), end)| section(&text[*from..end], *number, is_export))
        .collect()
}

fn section(text: &str, number: u64, is_export: bool) -> Result<Section> {
    let (line, body) = text.split_once('\n').unwrap_or((text, ""));
    let line = line.trim_end();
    let own = heading(line).ok_or_else(|| Error::invalid("begins with no heading"))?;
    let (mut notes, mut more_notes) = (Vec::new(), 0);
    for (line, text) in (number + 1..).zip(body.split('\n')) {
        let text = text.trim_end();
        let why = match heading(text) {
            Some(heading) if is_export && heading.has_time_of_day => NO_HEADING,
            Some(_) => IN_FENCE,
            None if looks_like_heading(text) => NO_HEADING,
            None => continue,
        };
        match notes.len() < MAX_NOTES {
            true => notes.push((line, why)),
            false => more_notes += 1,
        }
    }
    let body = body.strip_prefix("\r\n").or_else(|| body.strip_prefix('\n')).unwrap_or(body);
    let ends = ["\n\n", "\r\n\r\n", "\r\n", "\n"];
    let body = ends.iter().find_map(|end| body.strip_suffix(end)).unwrap_or(body);
    let body = body.split('\n').map(unescaped).collect::<Vec<_>>().join("\n");
    let content = match own.role {
        Role::Tool => {
            let call_id = own.call.unwrap_or("unknown").to_owned();
            let content = vec![Block::Text(body)];
            vec![Block::ToolResult { call_id, name: None, error: false, content }]
        }
        _ => vec![Block::Text(body)],
    };
    let mut said = ParsedMessage::new(own.role, content);
    said.created_at = own.created_at.map(str::to_owned);
    said.id = own.id.map(str::to_owned);
    Ok(Section { said, line: number, notes, more_notes })
}

/// Escapes a line that would be read as a heading with a backslash.
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
    // A call id of several words could not be read back, and is left out.
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
    fn a_time_of_day_makes_a_heading_without_time() {
        for time in ["(10:32)", "10:32", "[9:05 PM]", "(10:32:07)", "10:32am"] {
            let line = format!("## assistant {time}");
            let found = heading(&line).unwrap();
            assert!(found.created_at.is_none() && found.id.is_none(), "{time}");
        }
        for time in ["(10:)", "10", "(a:b)", "10:32:07:01", "()"] {
            assert!(heading(&format!("## assistant {time}")).is_none(), "{time}");
        }
    }

    /// Returns the line of each section, with the lines of its notes.
    fn places(text: &str) -> Vec<(u64, Vec<u64>)> {
        let place = |section: &Section| (section.line, section.notes.iter().map(|(line, _)| *line).collect());
        read(text).unwrap().iter().map(place).collect()
    }

    #[test]
    fn lines_that_look_like_headings_are_noted() {
        for line in ["## user soon", "## Assistant", "# user:", "### tool (1)", "## User - 10:32"] {
            assert_eq!(places(&format!("## user\n\na\n{line}\n")), [(1, vec![4])], "{line}");
        }
        for line in ["## User guide", "##user", "## Usage", "## Tooling", "user", "\\## user"] {
            assert_eq!(places(&format!("## user\n\na\n{line}\n")), [(1, vec![])], "{line}");
        }
    }

    #[test]
    fn headings_in_closed_fences_are_text() {
        let closed = "## user\n\n```md\n## assistant\n```\n## assistant\n\nb\n";
        assert_eq!(places(closed), [(1, vec![4]), (6, vec![])]);
        let open = "## user\n\n```md\n## assistant\n\nb\n";
        assert_eq!(places(open), [(1, vec![]), (4, vec![])]);
        // In an export, a fence ends with its message.
        let at = "2026-01-27T09:30:00Z msg-1";
        let own = format!("## user {at}\n\n```\n\n## assistant {at}\n\n```\n\n## user {at}\n\nc\n\n");
        assert_eq!(places(&own).len(), 3);
        let own = format!("## user {at}\n\na\n## user 10:32\n\n## user {at}\n\nc\n\n");
        assert_eq!(places(&own), [(1, vec![4]), (6, vec![])]);
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
