//! `garth context swap`: content outside the context window.

use clap::{Args, Subcommand};
use garth_agent::session::Swapped;
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::verb::open::open;
use crate::verb::session::source_of;

/// Swap messages, tool results or files out of the context window, and back in
///
/// A pack shows the summary of swapped-out content and its id in its place. Messages stay in the session.
/// With --json, prints one object per entry, as in context/swap/index.jsonl; for `in`: session, id, bytes.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth context swap out work 1-120 --summary 'the first design'")]
pub(crate) struct Swap {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Swap out the content of a source
    #[command(after_help = "Example:\n  garth context swap out work 1-120 --summary 'the first design'")]
    Out {
        /// Name of the session
        name: String,
        /// Source: 1-120, tool:ID, events:7 or a path
        source: String,
        /// Summary to show in its place
        #[arg(long, default_value = "", value_name = "TEXT")]
        summary: String,
    },
    /// Swap content back in, after a check of its hash
    #[command(after_help = "Example:\n  garth context swap in work sha256-...")]
    In {
        /// Name of the session
        name: String,
        /// Id of the content
        id: String,
    },
    /// List swapped-out content
    #[command(alias = "ls", after_help = "Example:\n  garth context swap list work")]
    List {
        /// Name of the session
        name: String,
    },
    /// Print swapped-out content, after a check of its hash
    #[command(after_help = "Example:\n  garth context swap show work sha256-...")]
    Show {
        /// Name of the session
        name: String,
        /// Id of the content
        id: String,
    },
}

impl Swap {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self.action {
            Action::Out { name, source, summary } => {
                let source = source_of("messages", &source)?;
                let open = open(app, true).await?;
                let entry = open.sessions()?.swap_out(&name, &source, &summary).await?;
                app.out.item(&entry, line(&entry))
            }
            Action::In { name, id } => {
                let open = open(app, true).await?;
                let bytes = open.sessions()?.swap_in(&name, &id).await?;
                let json = json!({"session": name, "id": id, "bytes": bytes});
                app.out.item(&json, format_args!("swapped in  {}", escaped(&id)))
            }
            Action::List { name } => {
                let open = open(app, false).await?;
                for entry in open.sessions()?.swapped(&name).await? {
                    app.out.item(&entry, line(&entry))?;
                }
                Ok(())
            }
            Action::Show { name, id } => {
                let open = open(app, false).await?;
                let content = open.sessions()?.swap_content(&name, &id).await?;
                app.out.bytes(&content)
            }
        }
    }
}

fn line(entry: &Swapped) -> String {
    let range = entry.range.as_ref().map_or(String::new(), |range| format!(" {range}"));
    let cut = if entry.cut { "  (packs show its head and tail)" } else { "" };
    let shown =
        format!("{}  {}{range}  {} tokens  {}{cut}", entry.id, entry.source, entry.tokens, entry.summary);
    escaped(&shown).to_string()
}
