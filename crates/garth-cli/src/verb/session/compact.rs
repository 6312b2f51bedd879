//! Compaction: a session in few words.

use clap::Args;
use garth::agent::models::Allowance;
use garth::agent::session::Compact as How;
use serde_json::json;

use super::open::open;
use crate::app::App;
use crate::fail::Result;
use crate::model_args::ModelArgs;

/// Bring the summary of a session up to what was said since
///
/// Without a model the summary has excerpts, and says so. With --model-endpoint a model writes summary,
/// facts, decisions, open work and references; its answer is checked, and if it cannot be taken nothing
/// changes. Messages always stay.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth session compact work\n  \
        garth session compact work --model-endpoint http://localhost:11434/v1 --model llama3")]
pub(crate) struct Compact {
    /// Which session
    name: String,
    /// Most tokens of the summary
    #[arg(long, default_value_t = 1000, value_name = "TOKENS")]
    max_tokens: u64,
    /// Leave out so many of the last messages
    #[arg(long, default_value_t = 10, value_name = "COUNT")]
    keep: u64,
    #[command(flatten)]
    model: ModelArgs,
}

impl Compact {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let model = self.model.open()?;
        let open = open(app, true).await?;
        let allowance = match model.as_ref().and_then(|model| model.daily_tokens) {
            Some(tokens) => {
                let data_dir = app.data_dir_of_account().await?;
                let account = app.account_of(&data_dir).await?;
                Some(Allowance::new(&*account, tokens, app.env.clone()).await?)
            }
            None => None,
        };
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
