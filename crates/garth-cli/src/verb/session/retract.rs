//! `garth session retract`: retracts messages from models.

use clap::Args;
use garth_agent::session::{Retracted, Source};
use serde_json::json;

use super::lines::source_of;
use crate::app::App;
use crate::fail::{Failures, Result};
use crate::verb::open::open;

/// Retract messages: models no longer get them, and the session keeps them
///
/// Retracted messages are left out of packs, transcripts, archives, search and recall, and derived entries
/// with them as source are removed. `garth session messages --retracted` still shows them. A source is a line
/// or range of lines (7, 3-4), the id of a message, ID..ID, tail:N for the last N messages that are not
/// retracted yet, or user:latest. Each source is one commit.
///
/// With --json, prints one object per source: session, lines, events, seq.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth session retract work tail:1\n  \
        garth session retract work 3-4 9 --reason 'wrong file'")]
pub(crate) struct Retract {
    /// Name of the session
    name: String,
    /// Messages to retract (repeatable)
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    /// Reason, stored with the retraction: at most 4,096 bytes
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Retract {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        // All are parsed first, so that nothing is retracted if one of them is mistyped.
        let mut sources: Vec<Source> = Vec::new();
        for text in &self.sources {
            sources.push(source_of("messages", text)?);
        }
        let open = open(app, true).await?;
        let sessions = open.sessions()?;
        if let [source] = &*sources {
            let done = sessions.retract(&self.name, source, self.reason.as_deref()).await?;
            return show(app, &self.name, &done);
        }
        let mut failures = Failures::default();
        for source in &sources {
            let outcome = match sessions.retract(&self.name, source, self.reason.as_deref()).await {
                Ok(done) => show(app, &self.name, &done),
                Err(error) => Err(error.into()),
            };
            app.out.flush()?;
            failures.add(outcome, app.global.json)?;
        }
        failures.done()
    }
}

fn show(app: &mut App, session: &str, done: &Retracted) -> Result {
    let lines = format!("messages:{}-{}", done.lines.start(), done.lines.end());
    let json = json!({"session": session, "lines": lines, "events": done.events, "seq": done.seq.0});
    match done.events.is_empty() {
        true => app.out.item(&json, format_args!("unchanged  {lines}, retracted before")),
        false => app.out.item(&json, format_args!("retracted  {lines}")),
    }
}
