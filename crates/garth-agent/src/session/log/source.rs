//! Sources: the names by which derived files refer to what they were derived from, and their resolution.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use super::lines::Line;
use crate::boxed;
use crate::registry::projections::sessions::{STRIDE, USER, id_key, result_key};
use crate::session::handle::{Sessions, missing};
use crate::session::store::files::{CHUNKS, Log};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::{Kind, VersionId};
use garth_engine::path::{TreePath, check_id};

/// Lines that one step back over the messages examines.
const STEP: u64 = STRIDE;

/// Message for a path that does not exist, or that the session does not reach.
const NO_FILE: &str = "no such file; name an existing one";

/// Limit on the lines of one `tail`.
const MAX_TAIL: u64 = 1_000_000;

/// Target of a source, within its session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// `messages:A-B`, `events:A-B`: lines by their numbers.
    Lines(Log, RangeInclusive<u64>),
    /// The line with an id.
    Id(Log, String),
    /// `id..id`: the lines from one id to another.
    Ids(Log, String, String),
    /// `tail:N`: the last N messages that were not retracted.
    Tail(u64),
    /// `user:latest`: the last message of the user that was not retracted.
    UserLatest,
    /// `swap:ID`: a chunk that was swapped out.
    Swap(String),
    /// `tool:ID`: the result of a tool call.
    Tool(String),
    /// A file, relative to the session or by its path in the account.
    Path(String),
}

/// A source: `messages:12-18`, `msg-a..msg-b`, `tail:40`, `user:latest`, `tool:call_1`, `context/summary.md`,
/// each with `session#` before it where another session is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Source {
    /// Name of the session, if it is another one.
    pub session: Option<String>,
    /// Target.
    pub what: What,
}

impl Source {
    /// Returns the source that leads to a path.
    pub(crate) fn of_path(path: &TreePath) -> Self {
        Self { session: None, what: What::Path(path.to_string()) }
    }

    /// Returns true if it can lead elsewhere later.
    pub fn moves(&self) -> bool {
        matches!(self.what, What::Tail(_) | What::UserLatest)
    }
}

impl FromStr for Source {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |why: &str| {
            let forms =
                "messages:A-B, events:A-B, an id, ID..ID, tail:N, user:latest, swap:ID, tool:ID or a path";
            let named = if text.is_empty() { "an empty text" } else { text };
            Error::invalid(format!("{named}: invalid source: {why}; write {forms}"))
        };
        let (session, rest) = match text.split_once('#') {
            Some((session, rest)) => (Some(session.to_owned()), rest),
            None => (None, text),
        };
        if let Some(session) = &session {
            check_id("session", session)?;
        }
        let log =
            |id: &str| [Log::Messages, Log::Events].into_iter().find(|log| id.starts_with(log.prefix()));
        let what = match rest.split_once(':') {
            Some((name @ ("messages" | "events"), lines)) => {
                let log = if name == "messages" { Log::Messages } else { Log::Events };
                let lines = lines_of(lines).map_err(|why| {
                    let forms = format!("{name}:7 for a line, or {name}:3-5 for a range");
                    Error::invalid(format!("{text}: invalid source: {why}; write {forms}"))
                })?;
                What::Lines(log, lines)
            }
            Some(("tail", count)) => match count.parse() {
                Ok(count @ 1..=MAX_TAIL) => What::Tail(count),
                _ => return Err(bad("a tail has 1 to 1,000,000 messages")),
            },
            Some(("user", "latest")) => What::UserLatest,
            Some(("swap", id)) if !id.is_empty() => What::Swap(id.to_owned()),
            Some(("tool", id)) if !id.is_empty() => What::Tool(id.to_owned()),
            _ => match (log(rest), rest.split_once("..")) {
                (Some(from), Some((first, last))) if log(last) == Some(from) => {
                    What::Ids(from, first.to_owned(), last.to_owned())
                }
                (Some(_), Some(_)) => return Err(bad("both ends have to be ids of messages, or of events")),
                (Some(log), None) => What::Id(log, rest.to_owned()),
                (None, _) if rest.is_empty() => return Err(bad("it names nothing")),
                (None, _) if rest.split('/').any(|segment| segment == "..") => {
                    return Err(bad("a path has no `..`"));
                }
                (None, _) => What::Path(rest.to_owned()),
            },
        };
        Ok(Self { session, what })
    }
}

/// Parses `12` or `12-18`. The error is the flaw, in words.
fn lines_of(text: &str) -> std::result::Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| match text.parse::<u64>() {
        _ if text.is_empty() => Err("a line number is missing".to_owned()),
        // `parse` alone takes `+1`, and one source would have two spellings.
        _ if !text.bytes().all(|byte| byte.is_ascii_digit()) => Err(format!("`{text}` is not a line number")),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("{text} is too large for a line number")),
    };
    match (number(first)?, number(last)?) {
        (0, _) | (_, 0) => Err("the first line is 1".to_owned()),
        (first, last) if last < first => {
            Err(format!("the range ends at line {last}, before line {first} where it begins"))
        }
        (first, last) => Ok(first..=last),
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(session) = &self.session {
            write!(f, "{session}#")?;
        }
        match &self.what {
            What::Lines(log, lines) => write!(f, "{}:{}-{}", log.name(), lines.start(), lines.end()),
            What::Id(_, id) => f.write_str(id),
            What::Ids(_, first, last) => write!(f, "{first}..{last}"),
            What::Tail(count) => write!(f, "tail:{count}"),
            What::UserLatest => f.write_str("user:latest"),
            What::Swap(id) => write!(f, "swap:{id}"),
            What::Tool(id) => write!(f, "tool:{id}"),
            What::Path(path) => f.write_str(path),
        }
    }
}

/// A resolved source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolved {
    /// Lines of a log.
    Lines {
        /// The session.
        session: String,
        /// The log.
        log: Log,
        /// Line numbers.
        lines: RangeInclusive<u64>,
        /// Byte range.
        bytes: Range<u64>,
    },
    /// A file.
    File {
        /// Path in the account.
        path: TreePath,
        /// Path in the session's own tree.
        shown: TreePath,
        /// Version of its content.
        version: VersionId,
        /// Size.
        size: u64,
    },
}

impl Resolved {
    /// Returns a source that never leads elsewhere: lines by their numbers, a file by its path in the
    /// session's own tree.
    pub fn fixed(&self) -> String {
        match self {
            Self::Lines { session, log, lines, .. } => {
                format!("{session}#{}:{}-{}", log.name(), lines.start(), lines.end())
            }
            Self::File { shown, .. } => shown.to_string(),
        }
    }
}

impl Sessions<'_> {
    /// Resolves a source that was given in a session.
    ///
    /// # Errors
    /// `NotFound` if its target does not exist; from the filesystem.
    #[boxed]
    pub async fn resolve(&self, session: &str, source: &Source) -> Result<Resolved> {
        let of = source.session.as_deref().unwrap_or(session);
        let nowhere = |what: String| Error::new(ErrorKind::NotFound, format!("{source}: {what}"));
        match &source.what {
            What::Lines(log, lines) => {
                self.check_lines(of, source, (*log, lines)).await?;
                self.stretch(of, *log, lines.clone()).await
            }
            What::Id(log, id) => {
                let line = self.line_with(of, *log, &id_key(id)).await?;
                let line = line.ok_or_else(|| nowhere(format!("{of} has no line with this id")))?;
                Ok(found(of, *log, &line, &line))
            }
            What::Ids(log, first, last) => {
                let mut ends = Vec::new();
                for id in [first, last] {
                    let line = self.line_with(of, *log, &id_key(id)).await?;
                    ends.push(line.ok_or_else(|| nowhere(format!("{of} has no line with the id {id}")))?);
                }
                match &*ends {
                    [first, last] if first.number <= last.number => Ok(found(of, *log, first, last)),
                    _ => Err(nowhere("the second id comes before the first".to_owned())),
                }
            }
            What::Tail(count) => {
                let lines = self.tail(of, *count).await?;
                let lines = lines.ok_or_else(|| nowhere(format!("{of} has no messages")))?;
                self.stretch(of, Log::Messages, lines).await
            }
            What::UserLatest => {
                let line = self.latest(of, USER, u64::MAX).await?;
                let line = line.ok_or_else(|| nowhere(format!("no message of the user in {of}")))?;
                Ok(found(of, Log::Messages, &line, &line))
            }
            What::Tool(id) => {
                let line = self.line_with(of, Log::Messages, &result_key(id)).await?;
                let line = line.ok_or_else(|| nowhere(format!("{of} has no result of this call")))?;
                Ok(found(of, Log::Messages, &line, &line))
            }
            What::Swap(id) => {
                let chunk = self.file(of, &format!("{CHUNKS}/{id}"))?;
                match self.lines_of_chunk(of, &chunk).await? {
                    // A chunk of lines only refers to them, and may be collected: the source leads to the
                    // lines themselves.
                    Some(lines) => self.resolve(session, &lines.parse()?).await,
                    None => self.file_at(&chunk, source).await,
                }
            }
            What::Path(path) => {
                let paths = match path.starts_with('/') {
                    true => self.paths_of(&TreePath::parse(path)?),
                    false => vec![TreePath::parse(&format!("{}/{path}", self.directory(of)?))?],
                };
                // In the session's own tree first, then in the account, whose paths older derived files have.
                for path in &paths {
                    match self.file_at(path, source).await {
                        Err(error) if error.is(ErrorKind::NotFound) => {}
                        found => return found,
                    }
                }
                Err(nowhere(NO_FILE.to_owned()))
            }
        }
    }

    /// Checks that a log of the session `of` has the lines that a source names.
    ///
    /// # Errors
    /// `NotFound`, with the number of lines; from the filesystem.
    pub(super) async fn check_lines(
        &self,
        of: &str,
        source: &Source,
        (log, lines): (Log, &RangeInclusive<u64>),
    ) -> Result<()> {
        let end = self.end(of, log).await?;
        if *lines.end() <= end.lines {
            return Ok(());
        }
        let message = format!("{source}: {} of {of} has {} lines", log.file(), end.lines);
        Err(Error::new(ErrorKind::NotFound, message))
    }

    async fn file_at(&self, path: &TreePath, source: &Source) -> Result<Resolved> {
        let entry = self.fs.lookup(path).await?.filter(|entry| entry.kind == Kind::File);
        let missing = || Error::new(ErrorKind::NotFound, format!("{source}: {NO_FILE}"));
        let entry = entry.ok_or_else(missing)?;
        Ok(Resolved::File {
            path: path.clone(),
            shown: self.shown(path),
            version: entry.version,
            size: entry.size,
        })
    }

    /// Resolves existing lines to their byte range.
    async fn stretch(&self, session: &str, log: Log, lines: RangeInclusive<u64>) -> Result<Resolved> {
        let mut ends = Vec::new();
        // Only both ends are read: the lines between them can be more than memory holds.
        for number in [*lines.start(), *lines.end()] {
            let page = self.raw_lines(session, log, number..=number, 1).await?;
            ends.extend(page.items);
        }
        match &*ends {
            [first, last] => Ok(found(session, log, first, last)),
            _ => Err(missing(session)),
        }
    }

    /// Returns the range with the last `count` messages that were not retracted, or with all if they are
    /// fewer.
    pub(crate) async fn tail(&self, session: &str, count: u64) -> Result<Option<RangeInclusive<u64>>> {
        let end = self.end(session, Log::Messages).await?.lines;
        let (mut from, mut seen) = (end + 1, 0);
        let mut lines: Option<RangeInclusive<u64>> = None;
        while from > 1 && seen < count {
            let to = from - 1;
            from = to.saturating_sub(STEP - 1).max(1);
            let gone = self.retracted(session, from..=to).await?;
            for line in (from..=to).rev().filter(|line| !gone.iter().any(|lines| lines.contains(line))) {
                seen += 1;
                lines = Some(line..=lines.map_or(line, |lines| *lines.end()));
                if seen == count {
                    break;
                }
            }
            // One look-up for each 64 lines of a long run would make its length count.
            from = self.before_run(session, from, &gone, u64::MAX).await?;
        }
        Ok(lines)
    }

    /// Returns the first line of the run of retracted messages that `from` belongs to, or `from`. `gone` are
    /// the retracted ones from there on.
    pub(crate) async fn before_run(
        &self,
        session: &str,
        from: u64,
        gone: &[RangeInclusive<u64>],
        events: u64,
    ) -> Result<u64> {
        match gone.first() {
            Some(run) if *run.start() == from => {
                Ok(self.run_start(session, *run.end(), events).await?.min(from))
            }
            _ => Ok(from),
        }
    }

    /// Returns the last message before a line that has a key and was not retracted.
    pub(crate) async fn latest(&self, session: &str, key: &str, before: u64) -> Result<Option<Line>> {
        let mut before = before.min(self.end(session, Log::Messages).await?.lines + 1);
        let mut reach = STEP;
        while before > 1 {
            // A key is found from a line onwards, and not backwards: more and more lines are examined until
            // there is a hit.
            let from = before.saturating_sub(reach).max(1);
            let mut there = Vec::new();
            let mut next = from;
            loop {
                let found = self.keyed(session, Log::Messages, key, next, 1000).await?;
                let full = found.len() == 1000;
                let numbers = found.into_iter().filter_map(|item| item.line).map(|line| line.number);
                there.extend(numbers.take_while(|number| *number < before));
                match there.last() {
                    Some(last) if full && *last + 1 < before => next = *last + 1,
                    _ => break,
                }
            }
            // Without a hit, retractions are looked up in a short range only, to step over a long run there:
            // the longer the range, the more a look-up costs.
            let is_short = reach <= 4 * STEP;
            let gone = match is_short || !there.is_empty() {
                true => self.retracted(session, from..=before - 1).await?,
                false => Vec::new(),
            };
            let last = there.iter().rev().find(|line| !gone.iter().any(|lines| lines.contains(line)));
            if let Some(number) = last {
                let page = self.raw_lines(session, Log::Messages, *number..=*number, 1).await?;
                return Ok(page.items.into_iter().next());
            }
            before = self.before_run(session, from, &gone, u64::MAX).await?;
            reach = if before < from { STEP } else { reach.saturating_mul(4) };
        }
        Ok(None)
    }
}

fn found(session: &str, log: Log, first: &Line, last: &Line) -> Resolved {
    let (lines, bytes) = (first.number..=last.number, first.bytes.start..last.bytes.end);
    Resolved::Lines { session: session.to_owned(), log, lines, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_round_trips_through_text() {
        for text in [
            "messages:12-18",
            "events:1-1",
            "msg-a",
            "ev-991",
            "msg-a..msg-b",
            "tail:40",
            "user:latest",
            "swap:sha256-abc",
            "tool:call_1",
            "context/summary.md",
            "/src/README.md",
            "rev-123#messages:1-2",
            "other#context/child/a:b",
        ] {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
        let one: Source = "messages:7".parse().unwrap();
        assert_eq!(one.what, What::Lines(Log::Messages, 7..=7));
        assert!("tail:1".parse::<Source>().unwrap().moves() && !one.moves());
    }

    #[test]
    fn error_names_the_flaw_of_a_range() {
        for (bad, said) in [
            ("", "an empty text: invalid source: it names nothing; write messages:A-B"),
            ("work#", "work#: invalid source: it names nothing"),
            ("messages:", "a line number is missing; write messages:7 for a line, or messages:3-5"),
            ("messages:3-", "a line number is missing"),
            ("messages:-3", "a line number is missing"),
            ("messages:0-3", "the first line is 1"),
            ("messages:5-3", "the range ends at line 3, before line 5 where it begins; write messages:7"),
            ("events:5-3", "write events:7 for a line, or events:3-5 for a range"),
            ("messages:1-3 ", "`3 ` is not a line number"),
            ("messages:1-2-3", "`2-3` is not a line number"),
            ("messages:1-99999999999999999999", "99999999999999999999 is too large"),
        ] {
            let error = bad.parse::<Source>().unwrap_err();
            assert!(error.is(ErrorKind::InvalidArgument) && error.message().contains(said), "{error}");
        }
    }

    #[test]
    fn rejects_invalid_sources() {
        for bad in [
            "",
            "messages:",
            "messages:0",
            "messages:0-3",
            "messages:5-3",
            "messages:a-b",
            "messages:+1",
            "messages:1-2-3",
            "tail:0",
            "tail:x",
            "tail:99999999",
            "msg-a..ev-b",
            "msg-a..",
            "../other/messages.jsonl",
            "a/../b",
            "#msg-a",
            "..#msg-a",
        ] {
            assert!(bad.parse::<Source>().is_err(), "{bad}");
        }
    }
}
