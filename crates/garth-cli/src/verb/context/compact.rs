//! `garth context compact`: summaries of older messages.

use clap::Args;
use garth_agent::session::Compact as How;
use garth_agent::workspace::{Asking, Trim};
use garth_server::chat_model::ServedModel;
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::model_args::{ModelArgs, allowance};
use crate::size::parse_tokens;
use crate::verb::open::open;

/// Summarize the older messages of a session
///
/// Without a model the summary consists of excerpts, and says so. With --model-endpoint a model writes
/// summary, facts, decisions, todo and references; its answer is checked, and an invalid answer changes
/// nothing. Messages always stay in the session.
///
/// With --json, prints one object per step: session, lines, by_model, seq; with --trim also part, messages,
/// memory, job.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth context compact work\n  \
        garth context compact work --model-endpoint http://localhost:11434/v1 --model llama3")]
pub(crate) struct Compact {
    /// Name of the session
    name: String,
    /// Token limit for the summary
    #[arg(long, default_value = "1000", value_name = "TOKENS", value_parser = parse_tokens)]
    max_tokens: u64,
    /// Number of recent messages to leave out of the summary
    #[arg(long, default_value_t = 10, value_name = "COUNT")]
    keep: u64,
    /// Take the older messages out of packs, too, and write them to a part archive
    ///
    /// The archive is /agents/AGENT/sessions/ID-partMILLISECONDS.jsonl.gz, written in the commit of the
    /// summary. A tool call stays with its result, and the last turn stays; settings.json says how many
    /// tokens stay beyond that. A model's notes are added to the daily memory, now or by a later job.
    #[arg(long, conflicts_with_all = ["max_tokens", "keep"])]
    trim: bool,
    /// Compact only if the last prompt left less of the model's window than settings.json reserves
    #[arg(long, requires = "trim")]
    if_due: bool,
    #[command(flatten)]
    model: ModelArgs,
}

impl Compact {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let model = self.model.open(app)?;
        let allowance = allowance(app, model.as_ref()).await?;
        if self.trim {
            return trim(
                app,
                &self.name,
                self.if_due,
                ServedModel::asking(model.as_ref(), allowance.as_ref()),
            )
            .await;
        }
        let open = open(app, true).await?;
        let mut how = How::default();
        (how.max_tokens, how.keep) = (self.max_tokens, self.keep);
        how.model = model.as_ref().map(|model| &*model.model);
        how.allowance = allowance.as_ref();
        let sessions = open.sessions()?;
        loop {
            let done = sessions.compact(&self.name, &how).await?;
            let lines =
                done.lines.as_ref().map(|lines| format!("messages:{}-{}", lines.start(), lines.end()));
            let json = json!({
                "session": self.name, "lines": lines, "by_model": done.by_model, "seq": done.seq.map(|seq| seq.0),
            });
            let by = if done.by_model { "by a model" } else { "in excerpts" };
            match &lines {
                Some(lines) => app.out.item(&json, format_args!("compacted  {lines} {by}"))?,
                None => app.out.item(&json, "nothing to compact")?,
            }
            if !done.more {
                return Ok(());
            }
        }
    }
}

async fn trim(app: &mut App, name: &str, if_due: bool, asking: Option<Asking<'_>>) -> Result {
    let open = open(app, true).await?;
    let workspace = open.workspace()?;
    let mut how = Trim::default().asking(asking);
    how.if_due = if_due;
    loop {
        let Some(done) = workspace.compact(open.user(), name, &how).await? else {
            let json = json!({"session": name, "lines": null, "part": null, "by_model": false, "seq": null});
            let kept = "nothing to compact: compaction.keep of settings.json has room for all";
            return app.out.item(&json, if if_due { "not due" } else { kept });
        };
        let lines = format!("messages:{}-{}", done.lines.0, done.lines.1);
        let json = json!({
            "session": name, "lines": lines, "part": done.part.as_str(), "messages": done.messages,
            "by_model": done.by_model, "memory": done.memory.as_ref().map(garth_engine::TreePath::as_str),
            "job": done.job, "seq": done.seq.0,
        });
        let by = if done.by_model { "by a model" } else { "in excerpts" };
        let memory = match (&done.memory, &done.job) {
            (Some(path), _) => format!("\nremembered  {}", escaped(path.as_str())),
            (None, Some(job)) => format!("\nremembered  later, by job {}", escaped(job)),
            (None, None) => String::new(),
        };
        app.out.item(
            &json,
            format_args!("compacted  {lines} {by}, archived in {}{memory}", escaped(done.part.as_str())),
        )?;
        if !done.more {
            return Ok(());
        }
        // After one step, the rest may not be due by size any more, but belongs to the same compaction.
        how.if_due = false;
    }
}
