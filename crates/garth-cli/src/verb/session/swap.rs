//! What leaves the window of a model without leaving the session: swap, dedup, and what is collected.

use std::collections::HashSet;

use clap::{Args, Subcommand};
use garth_agent::session::{Collect, Source, Swapped};
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::verb::open::open;

/// Move messages, the output of a tool or a file out of the window of models, and back
#[derive(Args, Debug)]
pub(crate) struct Swap {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Move out what a source leads to
    #[command(after_help = "Example:\n  garth session swap out work 1-120 --summary 'the first design'")]
    Out {
        /// Which session
        name: String,
        /// What: 1-120, tool:ID, events:7, a path
        source: String,
        /// What it is, in few words: this stands in its place
        #[arg(long, default_value = "", value_name = "TEXT")]
        summary: String,
    },
    /// Move it back in, after a check of its hash
    #[command(after_help = "Example:\n  garth session swap in work sha256-...")]
    In {
        /// Which session
        name: String,
        /// Its id
        id: String,
    },
    /// List what is out
    #[command(visible_alias = "ls", after_help = "Example:\n  garth session swap list work")]
    List {
        /// Which session
        name: String,
    },
    /// Print what is out, after a check of its hash
    #[command(after_help = "Example:\n  garth session swap show work sha256-...")]
    Show {
        /// Which session
        name: String,
        /// Its id
        id: String,
    },
}

impl Swap {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self.action {
            Action::Out { name, source, summary } => {
                let is_bare = source.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
                let source: Source =
                    if is_bare { format!("messages:{source}").parse()? } else { source.parse()? };
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
    let cut = if entry.cut { "  (head and tail are shown)" } else { "" };
    let shown =
        format!("{}  {}{range}  {} tokens  {}{cut}", entry.id, entry.source, entry.tokens, entry.summary);
    escaped(&shown).to_string()
}

/// Note where content is that came more than once, by its hash
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth session dedup work tool:call_1 tool:call_2")]
pub(crate) struct Dedup {
    /// Which session
    name: String,
    /// Where the content is
    #[arg(required = true)]
    sources: Vec<Source>,
}

impl Dedup {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, true).await?;
        let mut entries = open.sessions()?.dedup(&self.name, &self.sources).await?;
        let mut shown = HashSet::new();
        entries.retain(|entry| shown.insert(entry.hash.clone()));
        for entry in entries {
            let shown = format!("{}  {} bytes  {}", entry.hash, entry.bytes, entry.refs.join(" "));
            app.out.item(&entry, escaped(&shown))?;
        }
        Ok(())
    }
}

/// Tell what of a session's context is not needed any more; with --run remove it
///
/// By context/gc.policy: pack_ttl, swap_ttl, dedup_min_refs, keep_messages, keep_events, and for messages and
/// events that are not kept history (archive or delete) and history_ttl.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  garth session gc work\n  garth session gc work --run")]
pub(crate) struct Gc {
    /// Which session
    name: String,
    /// Remove it
    #[arg(long)]
    run: bool,
}

impl Gc {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, self.run).await?;
        let sessions = open.sessions()?;
        let mut how = Collect::default();
        how.dry = !self.run;
        loop {
            let done = sessions.collect(&self.name, &how).await?;
            for one in &done.removed {
                let json = json!({
                    "name": one.name, "bytes": one.bytes, "reason": one.reason, "removed": self.run,
                });
                let said = if self.run { "removed" } else { "would remove" };
                let shown = format!("{said}  {}  {} bytes: {}", one.name, one.bytes, one.reason);
                app.out.item(&json, escaped(&shown))?;
            }
            if !(self.run && done.more && !done.removed.is_empty()) {
                return Ok(());
            }
        }
    }
}
