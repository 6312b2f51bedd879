//! `garth session archive` and `archives`: archives of ended sessions.

use clap::Args;
use garth_agent::workspace::{Extraction, Reset as How};
use garth_server::chat_model::ServedModel;
use serde_json::json;

use super::item::item;
use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::model_args::{ModelArgs, allowance};
use crate::verb::open::open;

/// Archive a session, end it, and start the next one in its place
///
/// One commit, called a reset, writes the messages to /agents/AGENT/sessions/ID.jsonl.gz, ends the session,
/// moves media that the archive refers to next to it, deletes its other media, and creates the next session
/// with the same key. If the archive cannot be written, nothing changes. With --model-endpoint a model is
/// asked what is worth remembering; its notes are added to the daily memory of the day of the last activity.
///
/// `garth session export ID` reads an archive, and `garth session rm` deletes a session without a next one.
///
/// With --json, prints one object: session, archive, messages, next (as `session show`), memory, job, seq.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  garth session archive work\n  garth session archive work --next work-tuesday"
)]
pub(crate) struct Archive {
    /// Name of the session
    name: String,
    /// Name of the next session [default: work-2 after work]
    #[arg(long, value_name = "NAME")]
    next: Option<String>,
    /// Archive only if the agent's settings.json says that a reset is due
    #[arg(long)]
    if_due: bool,
    #[command(flatten)]
    model: ModelArgs,
}

impl Archive {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let model = self.model.open(app)?;
        let allowance = allowance(app, model.as_ref()).await?;
        let open = open(app, true).await?;
        let mut how =
            How::default().name(self.next).asking(ServedModel::asking(model.as_ref(), allowance.as_ref()));
        how.if_due = self.if_due;
        let Some(done) = open.workspace()?.reset(open.user(), &self.name, &how).await? else {
            let json = json!({"session": self.name, "archive": null, "next": null});
            return app.out.item(&json, format_args!("not due  {}", escaped(&self.name)));
        };
        let (memory, job) = match &done.memory {
            Extraction::Added(path) => (Some(path.as_str()), None),
            Extraction::Later(job) => (None, Some(job.as_str())),
            _ => (None, None),
        };
        let archive = done.archive.as_ref().map(garth_engine::TreePath::as_str);
        let json = json!({
            "session": self.name, "archive": archive, "messages": done.messages, "next": item(&done.next),
            "memory": memory, "job": job, "seq": done.seq.0,
        });
        let archived = match archive {
            Some(archive) => format!("archived  {} messages in {}", done.messages, escaped(archive)),
            None => "archived  nothing: the session has no messages".to_owned(),
        };
        let remembered = match (memory, job) {
            (Some(path), _) => format!("\nremembered  {}", escaped(path)),
            (None, Some(job)) => {
                format!("\nremembered  later, by job {}", escaped(job))
            }
            (None, None) => String::new(),
        };
        app.out.item(&json, format_args!("{archived}{remembered}\nnext  {}", escaped(&done.next.name)))
    }
}

/// List the archives of the agent's sessions
///
/// Parts that compaction archived are not listed. With --json, prints one object per archive: session_id,
/// path, size, metadata.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth session archives --agent scout")]
pub(crate) struct Archives {
    /// Maximum number of archives
    #[arg(short = 'n', long, value_name = "COUNT")]
    limit: Option<usize>,
}

impl Archives {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, false).await?;
        let workspace = open.workspace()?;
        let (mut left, mut after) = (self.limit.unwrap_or(usize::MAX), None);
        while left > 0 {
            let (found, next) = workspace.archives(after.as_deref(), left.min(1000)).await?;
            left -= found.len();
            for archive in found {
                let json = json!({
                    "session_id": archive.session_id, "path": archive.path.as_str(), "size": archive.size,
                    "metadata": archive.metadata,
                });
                let known = |name: &str| archive.metadata.get(name).map_or("-", String::as_str);
                let line = format!(
                    "{}  {} messages  {}  {} bytes",
                    archive.session_id,
                    known("messageCount"),
                    known("sessionKey"),
                    archive.size
                );
                app.out.item(&json, escaped(&line))?;
            }
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        Ok(())
    }
}
