//! `garth session rm`: deletes a session.

use clap::Args;
use garth_engine::TreePath;
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failures, Result};
use crate::verb::open::open;

/// Remove sessions: archive the messages, and delete the directory
///
/// One commit per session writes the messages to /agents/AGENT/sessions/ID.jsonl.gz, unless a reset did so
/// before, moves media that the archive refers to next to it, cancels unfinished children, and deletes the
/// directory of the session. The commit overrides the rule that messages are append-only, and the log says
/// so.
///
/// `garth session export ID` reads the archive; `garth rm` on its path deletes it, too. The history of the
/// account keeps all of it: `garth restore` brings a removed session back.
///
/// With --json, prints one object per session: session, archive, messages, seq.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth session rm work")]
pub(crate) struct Rm {
    /// Names of the sessions
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

impl Rm {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, true).await?;
        let workspace = open.workspace()?;
        let mut failures = Failures::default();
        for name in &self.names {
            let outcome = match workspace.remove_session(open.user(), name).await {
                Ok(done) => {
                    let archive = done.archive.as_ref().map(TreePath::as_str);
                    let json = json!({
                        "session": name, "archive": archive, "messages": done.messages, "seq": done.seq.0,
                    });
                    let kept =
                        archive.map_or_else(String::new, |path| format!("\narchive  {}", escaped(path)));
                    app.out.item(&json, format_args!("removed  {}{kept}", escaped(name)))
                }
                Err(error) => Err(error.into()),
            };
            if self.names.len() == 1 {
                return outcome;
            }
            app.out.flush()?;
            failures.add(outcome, app.global.json)?;
        }
        failures.done()
    }
}
