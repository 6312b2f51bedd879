//! Derived files of a session: what was made of it, and of which lines.

use clap::Args;
use garth_agent::session::{Derive as Files, Log, Resolved, Select};
use serde_json::{Value, json};

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::verb::open::open;

/// Largest file that is read, 1 MiB.
pub(super) const MAX_FILE: u64 = 1 << 20;

/// Write what is made of a session: summary, facts, decisions, open work, references
///
/// Each option names a file of this machine, `-` standard input. Facts, decisions and references are JSON
/// Lines: {"id","text","source"}, {"id","decision","source"}, {"id","path","kind","summary"}. Ids must be
/// unique and sources lead somewhere; all is one commit, or nothing is written.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
        echo '{\"id\":\"f1\",\"text\":\"Tests run in CI.\",\"source\":\"messages:1\"}' |\n    \
        garth session derive work --facts -")]
pub(crate) struct Derive {
    /// Which session
    name: String,
    /// What it is about, in Markdown
    #[arg(long, value_name = "FILE")]
    summary: Option<String>,
    /// What is so
    #[arg(long, value_name = "FILE")]
    facts: Option<String>,
    /// What was decided
    #[arg(long, value_name = "FILE")]
    decisions: Option<String>,
    /// What is left to do, in Markdown
    #[arg(long, value_name = "FILE")]
    todo: Option<String>,
    /// What lies elsewhere
    #[arg(long, value_name = "FILE")]
    refs: Option<String>,
}

impl Derive {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let given = [&self.summary, &self.facts, &self.decisions, &self.todo, &self.refs];
        if given.iter().filter(|file| file.as_deref() == Some("-")).count() > 1 {
            return Err(Failure::Usage("standard input is one file; name the others".to_owned()));
        }
        let mut files = Files::default();
        files.summary = self.summary.map(|file| read(&file)).transpose()?;
        files.facts = self.facts.map(|file| read(&file)).transpose()?;
        files.decisions = self.decisions.map(|file| read(&file)).transpose()?;
        files.todo = self.todo.map(|file| read(&file)).transpose()?;
        files.refs = self.refs.map(|file| read(&file)).transpose()?;
        let open = open(app, true).await?;
        let done = open.sessions()?.derive(&self.name, &files).await?;
        let json = json!({"session": self.name, "files": done.files, "seq": done.seq.0});
        let lines: Vec<String> = done.files.iter().map(|file| format!("written  {file}")).collect();
        app.out.item(&json, lines.join("\n"))
    }
}

/// A file of this machine, or standard input.
pub(super) fn read(file: &str) -> Result<String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let done = match file {
        "-" => std::io::stdin().lock().take(MAX_FILE + 1).read_to_end(&mut bytes),
        path => std::fs::File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes)),
    };
    done.map_err(|error| Failure::Usage(format!("{file}: {error}")))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Failure::Usage(format!("{file}: has more than {MAX_FILE} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| Failure::Usage(format!("{file}: is not UTF-8")))
}

/// Show what a fact, a decision or a reference was made of
///
/// With --json one object: file, entry, and sources, each with where it leads.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth session why work f1")]
pub(crate) struct Why {
    /// Which session
    name: String,
    /// The id of the entry
    id: String,
}

impl Why {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, false).await?;
        let sessions = open.sessions()?;
        let why = sessions.why(&self.name, &self.id).await?;
        let mut shown = vec![format!("{}  {}", why.kind.file(), why.entry.says)];
        let mut sources: Vec<Value> = Vec::new();
        for (source, found) in &why.sources {
            sources.push(json!({"given": source.to_string(), "source": found.fixed()}));
            shown.push(format!("  {}", found.fixed()));
            let Resolved::Lines { session, log, lines, .. } = found else { continue };
            let select = match log {
                Log::Messages => Select::messages(lines.clone()).with_withdrawn(),
                Log::Events => Select::events(lines.clone()),
            };
            for line in sessions.lines(session, &select).await?.items {
                shown.push(format!("    {:>6}  {}", line.number, super::lines::said_in(&line.text)));
            }
        }
        let entry: Value = serde_json::from_str(&why.entry.line).unwrap_or_default();
        let json = json!({"file": why.kind.file(), "entry": entry, "sources": sources});
        let shown: Vec<String> = shown.iter().map(|line| escaped(line).to_string()).collect();
        app.out.item(&json, shown.join("\n"))
    }
}

/// Pin a file: it comes first in each pack
///
/// `system.md` is the first of them. The text is read from FILE, or from standard input.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  echo 'You are a careful coder.' | garth session pin work system.md")]
pub(crate) struct Pin {
    /// Which session
    name: String,
    /// The name of the pinned file
    file: String,
    /// A file of this machine with its text
    #[arg(default_value = "-", value_name = "FROM")]
    from: String,
    /// Do not pin it any more
    #[arg(long)]
    remove: bool,
}

impl Pin {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let text = if self.remove { None } else { Some(read(&self.from)?) };
        let open = open(app, true).await?;
        let seq = open.sessions()?.pin(&self.name, &self.file, text.as_deref()).await?;
        let json = json!({"session": self.name, "file": self.file, "seq": seq.0});
        let said = if self.remove { "unpinned" } else { "pinned" };
        app.out.item(&json, format_args!("{said}  {}", escaped(&self.file)))
    }
}
