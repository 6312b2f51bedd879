//! `garth session import` and `export`: transcripts.

use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::Args;
use garth_agent::session::{Document, Export as Lines, Import as Transcript, ImportMode, TranscriptFormat};
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::out::counted;
use crate::verb::open::open;

/// Longest transcript in bytes.
const MAX_INPUT: u64 = 1 << 30;

/// Import a transcript into a session
///
/// Formats: garth (lines of messages.jsonl), pi (pi-ai), openai (Chat Completions), anthropic (Messages) and
/// markdown (headings such as `## user`). JSON is read as JSON Lines, an array, or the body of a request.
///
/// A complete transcript begins with the first message of the session. It is compared with the session, and
/// only the messages after the common ones are appended, so it can be imported again as it grows. A
/// transcript that differs is refused; with --rewind the messages of the session from the first difference on
/// are retracted. A part is appended as it is; messages whose id the session has are skipped. Without either
/// option, the transcript is taken as complete if the session has no messages, and refused otherwise.
///
/// With --dry-run the transcript is compared with the session, and nothing changes.
///
/// The counts are of messages in the transcript. One message can become several lines of the session.
///
/// With --json, prints one object: session, messages, new, present, lines, retracted, said_again,
/// system_changed, unknown_blocks, skipped, skipped_count, notes, note_count, dry_run, seq.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth session import work chat.json --format openai --create\n  \
        garth session import work chat.json --format openai --whole\n  \
        garth session import work chat.json --format openai --rewind --dry-run\n  \
        garth session import work --format pi --part < last-turn.jsonl")]
pub(crate) struct Import {
    /// Name of the session
    name: String,
    /// Transcript; - reads standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// garth, pi, openai, anthropic or markdown
    #[arg(long, value_name = "FORMAT")]
    format: TranscriptFormat,
    /// Create the session if there is none
    #[arg(long)]
    create: bool,
    /// The transcript is the complete conversation: append what the session does not have yet
    #[arg(long)]
    whole: bool,
    /// The transcript is a part of the conversation: append it
    #[arg(long, conflicts_with = "whole")]
    part: bool,
    /// Retract the messages of the session from the first one on that differs
    #[arg(long, conflicts_with = "part")]
    rewind: bool,
    /// Append a part only if this is the last message of the session
    #[arg(long, value_name = "ID", conflicts_with_all = ["whole", "rewind"])]
    after: Option<String>,
    /// Skip messages that cannot be read, and name them
    #[arg(long)]
    skip_bad: bool,
    /// Report what the import of a complete transcript would change, and change nothing
    #[arg(long, conflicts_with_all = ["part", "after"])]
    dry_run: bool,
}

/// Write a session as a transcript to standard output
///
/// Messages that were imported in this format are written as they came. Retracted messages are left out. For
/// a removed session give its id: the archive is read, see `garth session archives`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth session export work > work.jsonl\n  \
        garth session export work --format markdown --lines 10-20")]
pub(crate) struct Export {
    /// Name of the session, or id of an archive
    name: String,
    /// Write only these lines: 10-20, 10- or 10
    #[arg(long, value_name = "A-B", value_parser = lines)]
    lines: Option<(u64, u64)>,
    /// garth, pi, openai, anthropic or markdown
    #[arg(long, default_value = "garth", value_name = "FORMAT")]
    format: TranscriptFormat,
    /// Write retracted messages, too
    #[arg(long)]
    retracted: bool,
}

impl Import {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        // Read before the data is opened: invalid input must not leave a new data folder behind.
        let text = read(&self.file, self.skip_bad)?;
        let open = open(app, !self.dry_run).await?;
        let mut import = Transcript::new(self.format, &text);
        import.mode = match (self.whole, self.part) {
            (true, _) => Some(ImportMode::Whole),
            (_, true) => Some(ImportMode::Part),
            _ => None,
        };
        (import.rewind, import.skip_bad, import.create) = (self.rewind, self.skip_bad, self.create);
        (import.after, import.dry) = (self.after, self.dry_run);
        let done = open.sessions()?.import(&self.name, &import).await?;
        for bad in &done.skipped {
            let why = escaped(&bad.why);
            app.out.warn(format_args!("skipped message {} (line {}): {why}", bad.message, bad.line));
        }
        for note in &done.notes {
            let why = escaped(&note.why);
            app.out.warn(format_args!("message {} (line {}): {why}", note.message, note.line));
        }
        if let Some(line) = done.said_again {
            app.out.warn(format_args!(
                "messages:{line} was retracted, but is in the transcript, so it is appended again; leave \
                 retracted messages out of the transcript"
            ));
        }
        if done.unknown_blocks > 0 {
            app.out.warn(format_args!(
                "{} blocks of unknown types are stored unchanged, and shown as placeholders; check --format",
                done.unknown_blocks
            ));
        }
        if done.repeat_doubles {
            app.out.warn("importing this part again would append it again; --after ID prevents that");
        }
        let source = |lines: &Option<RangeInclusive<u64>>| {
            lines.as_ref().map(|lines| format!("messages:{}-{}", lines.start(), lines.end()))
        };
        let json = json!({
            "session": self.name, "messages": done.messages, "new": done.new, "present": done.present,
            "lines": source(&done.lines), "retracted": source(&done.retracted),
            "said_again": done.said_again, "system_changed": done.system_changed,
            "unknown_blocks": done.unknown_blocks, "skipped": done.skipped,
            "skipped_count": done.skipped_count, "notes": done.notes, "note_count": done.note_count,
            "dry_run": self.dry_run, "seq": done.seq.map(|seq| seq.0),
        });
        let verb = if self.dry_run { "would import" } else { "imported" };
        let messages = counted(done.messages, "message", "messages");
        let mut said = format!("{verb}  {} of {messages} new, {} present", done.new, done.present);
        if done.system_changed {
            said.push_str(", system prompt changed");
        }
        if let Some(lines) = source(&done.retracted) {
            said.push_str(&format!(", {lines} retracted"));
        }
        if done.skipped_count > 0 {
            said.push_str(&format!(", {} skipped", done.skipped_count));
        }
        app.out.item(&json, format_args!("{said}"))
    }
}

/// Parses `A-B`, `A-` or `A`; the first line is 1.
fn lines(text: &str) -> std::result::Result<(u64, u64), String> {
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let last = if last.is_empty() { Some(u64::MAX) } else { number(last) };
    let lines = number(first).zip(last).filter(|(first, last)| first <= last);
    lines.ok_or_else(|| "write 10-20, 10- or 10; the first line is 1".to_owned())
}

/// Reads a transcript. With `skip_bad`, a line that is not UTF-8 is replaced by one that is not JSON, so that
/// it is reported and skipped like others.
fn read(file: &Path, skip_bad: bool) -> Result<String> {
    let read = |input: &mut dyn Read| {
        let mut bytes = Vec::new();
        // One more byte shows that the transcript is too long.
        input.take(MAX_INPUT + 1).read_to_end(&mut bytes).map_err(Failure::host(file))?;
        if bytes.len() as u64 > MAX_INPUT {
            return Err(Failure::Usage(format!(
                "a transcript may have at most {MAX_INPUT} bytes; import it in parts"
            )));
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => return Ok(text),
            Err(error) => error,
        };
        if !skip_bad {
            let before = &text.as_bytes()[..text.utf8_error().valid_up_to()];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            return Err(Failure::Usage(format!(
                "line {line} of the transcript is not UTF-8; see --skip-bad"
            )));
        }
        let lines = text.as_bytes().split(|byte| *byte == b'\n');
        let lines: Vec<_> = lines.map(|line| std::str::from_utf8(line).unwrap_or("\u{fffd}")).collect();
        Ok(lines.join("\n"))
    };
    if file == Path::new("-") {
        return read(&mut std::io::stdin().lock());
    }
    let mut opened = File::open(file).map_err(Failure::host(file))?;
    read(&mut opened)
}

impl Export {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, false).await?;
        let (first, last) = self.lines.unwrap_or((1, u64::MAX));
        let mut export = Lines::new(self.format).lines(first..=last);
        export.retracted = self.retracted;
        let mut document = Document::new(self.format);
        loop {
            let page = open.workspace()?.transcript(open.user(), &self.name, &export).await?;
            app.out.bytes(document.page(&page.items).as_bytes())?;
            match page.next {
                Some(next) => export.lines = next..=last,
                None => break,
            }
        }
        app.out.bytes(document.end().as_bytes())
    }
}
