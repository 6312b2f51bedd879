//! Imports transcripts into sessions, and exports them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use garth::ErrorKind;
use garth::agent::session::{Create, Document, Export as Lines, TranscriptFormat};
use serde_json::json;

use crate::app::App;
use crate::fail::{Failure, Result};
use crate::verb::open::open;

/// Largest transcript, in bytes.
const MAX_INPUT: u64 = 1 << 30;

/// Append a transcript to a session
///
/// Formats are garth (the lines of messages.jsonl), pi (messages of pi-ai), openai (Chat Completions),
/// anthropic (Messages) and markdown (headings such as `## user`); those of JSON are JSON Lines or an array.
/// Each message is kept as it came, too. What is there already is not appended again. With --json one
/// object: session, messages (made of the transcript), new, lines, seq.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth session import work chat.json --format openai --create\n  \
        garth session import work --format pi < session.jsonl")]
pub(crate) struct Import {
    /// Which session
    name: String,
    /// The transcript; - is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// garth, pi, openai, anthropic or markdown
    #[arg(long, value_name = "FORMAT")]
    format: TranscriptFormat,
    /// Make the session if it is not there
    #[arg(long)]
    create: bool,
}

/// Write a session as a transcript to standard output
///
/// Messages that were imported in this format are written as they came. Those that were taken back are left
/// out. Of a session that is there no more its archive is read, by the session's id: see `session archives`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth session export work > work.jsonl\n  \
        garth session export work --format markdown --lines 10-20")]
pub(crate) struct Export {
    /// Which session: its name, or the id of an archive
    name: String,
    /// Only these lines: 10-20, 10-, or 10
    #[arg(long, value_name = "A-B", value_parser = lines)]
    lines: Option<(u64, u64)>,
    /// garth, pi, openai, anthropic or markdown
    #[arg(long, default_value = "garth", value_name = "FORMAT")]
    format: TranscriptFormat,
    /// Write those that were taken back, too
    #[arg(long)]
    withdrawn: bool,
}

impl Import {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let text = read(&self.file)?;
        let open = open(app, true).await?;
        let sessions = open.sessions()?;
        if self.create {
            match sessions.create(&Create::new(&self.name)).await {
                Err(error) if !error.is(ErrorKind::AlreadyExists) => return Err(error.into()),
                _ => {}
            }
        }
        let done = sessions.import(&self.name, self.format, &text).await?;
        let lines = done.lines.as_ref().map(|lines| format!("messages:{}-{}", lines.start(), lines.end()));
        let json = json!({
            "session": self.name, "messages": done.messages, "new": done.new, "lines": lines,
            "seq": done.seq.map(|seq| seq.0),
        });
        let there = done.messages - done.new;
        app.out.item(&json, format_args!("imported  {}, {there} were there already", done.new))
    }
}

/// `A-B`, `A-` or `A`; the first line is 1.
fn lines(text: &str) -> std::result::Result<(u64, u64), String> {
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let last = if last.is_empty() { Some(u64::MAX) } else { number(last) };
    let lines = number(first).zip(last).filter(|(first, last)| first <= last);
    lines.ok_or_else(|| "write 10-20, 10- or 10; the first line is 1".to_owned())
}

fn read(file: &Path) -> Result<String> {
    let read = |input: &mut dyn Read| {
        let mut bytes = Vec::new();
        // one byte more tells what is too long
        input.take(MAX_INPUT + 1).read_to_end(&mut bytes).map_err(Failure::stdio)?;
        if bytes.len() as u64 > MAX_INPUT {
            return Err(Failure::Usage(format!(
                "a transcript has at most {MAX_INPUT} bytes; import it in parts"
            )));
        }
        String::from_utf8(bytes).map_err(|_| Failure::Usage("a transcript is UTF-8".to_owned()))
    };
    if file == Path::new("-") {
        return read(&mut std::io::stdin().lock());
    }
    let mut opened =
        File::open(file).map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))?;
    read(&mut opened)
}

impl Export {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, false).await?;
        let (first, last) = self.lines.unwrap_or((1, u64::MAX));
        let mut export = Lines::new(self.format).lines(first..=last);
        export.withdrawn = self.withdrawn;
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
