//! `garth context why`: the sources of a derived entry.

use clap::Args;
use garth_agent::session::{Log, Resolved, Select};
use serde_json::{Value, json};

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::verb::open::open;

/// Show the messages that a fact, a decision or a reference was derived from
///
/// With --json, prints one object: file, entry, and sources, each as given and resolved.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth context why work f1")]
pub(crate) struct Why {
    /// Name of the session
    name: String,
    /// Id of the entry
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
                // A source may have been retracted since.
                Log::Messages => Select::messages(lines.clone()).with_retracted(),
                Log::Events => Select::events(lines.clone()),
            };
            for line in sessions.lines(session, &select).await?.items {
                shown.push(format!("    {:>6}  {}", line.number, crate::verb::session::said_in(&line.text)));
            }
        }
        let entry: Value = serde_json::from_str(&why.entry.line).unwrap_or_default();
        let json = json!({"file": why.kind.file(), "entry": entry, "sources": sources});
        let shown: Vec<String> = shown.iter().map(|line| escaped(line).to_string()).collect();
        app.out.item(&json, shown.join("\n"))
    }
}
