//! `garth recall`: retrieves memories, messages and files relevant to a question, within a token budget.

use clap::Args;
use garth_agent::recall::{BUDGET, Key, MAX_BUDGET, MIN_BUDGET, Recall as Asked, Recaller};
use garth_engine::TreePath;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::PatternBelow;

use crate::app::{App, stat_path};
use crate::args::{Mode, TREE_PATH};
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::model_args::EmbedderArgs;
use crate::size::parse_tokens;
use crate::verb::set::parse_pair;

/// Retrieve memories, messages and files relevant to a question, within a token budget
///
/// Prints what matches best until the budget is spent: short memories in full, passages of longer texts, and
/// messages of sessions as `role: text` with the messages beside them. Memories that were replaced or are not
/// valid now are left out. Matching compares words and their meaning; no model is needed. If no text has
/// enough words of the question, the answer begins with `Nothing fits the question.`; a few texts that are
/// nearest in meaning may follow. The exit status is 0.
///
/// If garth.toml, the environment or an option names an embedding service, meaning is compared by it, as by
/// the server: each recall sends it the question and up to 100 texts. Without its answer, recall works as
/// without a service, and says so.
///
/// The first lines number the sources. Each piece is enclosed by two lines that name its source by number and
/// carry a code, so that a model can tell evidence from instructions. No stored text can imitate these lines.
///
/// --user limits the answer to what the agent sees of a user, --agent alone to what belongs to the agent.
/// --in /users/USER limits it to what belongs to a user, with any agent.
///
/// With --json, prints one object: items (each with number, source, path, layer, version, sha256, bytes,
/// lines, whole, score, parts, found_in, why, text, tokens), text, tokens, fits, best, notes, more, missing,
/// and the key with which the codes can be verified.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth recall 'how does Alice take her coffee' --budget 500")]
pub(crate) struct Recall {
    /// Question in plain words, at most 8 KiB
    question: String,
    /// Token limit for the answer, 100 to 32000, counted with o200k_base
    #[arg(long, default_value_t = BUDGET as u64, value_name = "TOKENS", value_parser = parse_budget)]
    budget: u64,
    /// Search only this path and what is below it (repeatable)
    #[arg(value_hint = TREE_PATH, long = "in", value_name = "PATH")]
    within: Vec<String>,
    /// Search only memories and files with this tag (repeatable: one of them is enough)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Search only entries with this value in their custom metadata (repeatable: all must match)
    #[arg(long = "meta", value_name = "KEY=VALUE", value_parser = parse_pair)]
    values: Vec<(String, String)>,
    /// Search only paths that match this glob pattern, such as '/**/*.md' (repeatable: one of them is enough)
    #[arg(long = "glob", value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Search only memories whose URI begins with these complete segments, such as
    /// ctx://default/users/alice/memories/preferences
    #[arg(long, value_name = "URI")]
    prefix: Option<String>,
    /// Search only messages said, and files modified, at or after this time: a commit, a time or a snapshot
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    since: Option<String>,
    /// Search only messages said, and files modified, before this time
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    until: Option<String>,
    /// Prefer newer text: half of the rank halves each time this number of days passes, 1 to 36500
    /// [default: age does not count]
    #[arg(long, value_name = "DAYS")]
    half_life: Option<u32>,
    /// Compare texts by words alone, or also by meaning
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// Maximum number of memories and files, 1 to 100 [default: as the budget allows, at most 100]
    #[arg(short = 'n', long, value_name = "COUNT")]
    limit: Option<usize>,
    /// Return memories that were valid at this time, including replaced ones; no files
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    valid_at: Option<String>,
    /// Return memories as they were stored at this time, if they are still found now; no files
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    as_of: Option<String>,
    #[command(flatten)]
    embedder: EmbedderArgs,
}

impl Recall {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        if self.question.trim().is_empty() {
            let message = "recall needs a question: `garth recall 'how does Alice take her coffee'`";
            return Err(Failure::Usage(message.into()));
        }
        let embedder = self.embedder.open(app)?;
        let tree = app.tree().await?;
        let fs = &*tree.fs;
        let mut asked = Asked::new(&self.question).budget(usize::try_from(self.budget).unwrap_or(usize::MAX));
        for path in &self.within {
            asked.within.push(stat_path(fs, path, Follow::Yes).await?.0);
        }
        asked.tags_any = self.tags;
        asked.metadata = self.values.into_iter().collect();
        let below = |pattern| PatternBelow { from: TreePath::root(), pattern };
        asked.patterns = self.patterns.into_iter().map(below).collect();
        asked.mode = self.mode.into();
        asked.since = app.time_of(self.since.as_deref()).await?;
        asked.until = app.end_time_of(self.until.as_deref()).await?;
        asked.valid_at = app.time_of(self.valid_at.as_deref()).await?;
        (asked.prefix, asked.half_life, asked.limit) = (self.prefix, self.half_life, self.limit);
        // In the tree of an agent, the options of the identity already limit the answer.
        if tree.access().is_none() && app.global.agent_is_named {
            asked.agent = Some(app.global.agent.clone());
        }
        if let Some(text) = &self.as_of {
            asked.as_of = Some(app.moment(fs, text).await?);
        }
        let recaller = match tree.access() {
            Some(access) => access.recaller(fs, &app.global.account),
            None => Recaller::new(fs, &app.global.account).env(app.env.clone()),
        };
        // The tokens are counted in the account, also those of recalls in a tree or from the past.
        let account = app.account_for(false).await?;
        let recaller = recaller.embedding(embedder.as_ref().map(|embedder| embedder.embedding(&*account)));
        // A new key for each answer, so that stored text cannot contain its codes.
        let key = Key::random(&app.env)?;
        let answer = recaller.recall(&asked, &key).await;
        if let Err(error) = recaller.settle().await {
            let reason = error.to_string();
            app.out
                .warn(format_args!("more embedding tokens are counted than were used: {}", escaped(&reason)));
        }
        let answer = answer?;
        match app.out.is_json() {
            true => app.out.item(&answer.to_json(&key), ""),
            false => app.out.bytes(answer.text.as_bytes()),
        }
    }
}

/// Parses a budget. For clap, so that an error names the option.
fn parse_budget(text: &str) -> std::result::Result<u64, String> {
    let budget = parse_tokens(text)?;
    match (MIN_BUDGET as u64..=MAX_BUDGET as u64).contains(&budget) {
        true => Ok(budget),
        false => {
            Err(format!("a budget is {MIN_BUDGET} to {MAX_BUDGET} tokens; without --budget it is {BUDGET}"))
        }
    }
}
