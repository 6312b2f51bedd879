//! `garth context derive`: the derived files of a session.

use clap::{Args, ValueEnum};
use garth_agent::session::{Derive as Files, MAX_DERIVED};
use serde_json::json;

use crate::app::App;
use crate::fail::{Failure, Result};
use crate::host_text::replacement;
use crate::verb::open::open;

/// Write derived files of a session: summary, facts, decisions, todo, references
///
/// Each option names a file of this machine; - reads standard input. Facts, decisions and references are JSON
/// Lines: {"id","text","source"}, {"id","decision","source"}, {"id","path","kind","summary"}. Ids must be
/// unique and sources must resolve. Blank input is refused. All files are written in one commit, or none.
///
/// With --json, prints one object: session, files, seq.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
        echo '{\"id\":\"f1\",\"text\":\"Tests run in CI.\",\"source\":\"messages:1\"}' |\n    \
        garth context derive work --facts -")]
pub(crate) struct Derive {
    /// Name of the session
    name: String,
    /// Summary, in Markdown
    #[arg(long, value_name = "FILE")]
    summary: Option<String>,
    /// Facts
    #[arg(long, value_name = "FILE")]
    facts: Option<String>,
    /// Decisions
    #[arg(long, value_name = "FILE")]
    decisions: Option<String>,
    /// Open work, in Markdown
    #[arg(long, value_name = "FILE")]
    todo: Option<String>,
    /// References to files
    #[arg(long, value_name = "FILE")]
    refs: Option<String>,
    /// Empty a derived file (repeatable)
    #[arg(long, value_name = "WHICH", value_enum)]
    clear: Vec<Which>,
}

/// Derived file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    Summary,
    Facts,
    Decisions,
    Todo,
    Refs,
}

impl Which {
    const fn name(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Facts => "facts",
            Self::Decisions => "decisions",
            Self::Todo => "todo",
            Self::Refs => "refs",
        }
    }
}

impl Derive {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let given = [&self.summary, &self.facts, &self.decisions, &self.todo, &self.refs];
        if given.iter().all(|file| file.is_none()) && self.clear.is_empty() {
            let options = "--summary, --facts, --decisions, --todo, --refs, --clear";
            return Err(Failure::Usage(format!("name the files to write: {options}")));
        }
        // Standard input can be read once.
        if given.iter().filter(|file| file.as_deref() == Some("-")).count() > 1 {
            return Err(Failure::Usage("only one option can read standard input".to_owned()));
        }
        let read = |file: Option<String>, which: Which| match file {
            Some(_) if self.clear.contains(&which) => {
                Err(Failure::Usage(format!("--{0} and --clear {0}: give one of the two", which.name())))
            }
            Some(file) => {
                let instead = format!("--clear {} empties the file", which.name());
                replacement(&file, MAX_DERIVED, &instead).map(Some)
            }
            None => Ok(self.clear.contains(&which).then(String::new)),
        };
        let mut files = Files::default();
        files.summary = read(self.summary, Which::Summary)?;
        files.facts = read(self.facts, Which::Facts)?;
        files.decisions = read(self.decisions, Which::Decisions)?;
        files.todo = read(self.todo, Which::Todo)?;
        files.refs = read(self.refs, Which::Refs)?;
        let open = open(app, true).await?;
        let done = open.sessions()?.derive(&self.name, &files).await?;
        let json = json!({"session": self.name, "files": done.files, "seq": done.seq.0});
        let lines: Vec<String> = done.files.iter().map(|file| format!("written  {file}")).collect();
        app.out.item(&json, lines.join("\n"))
    }
}
