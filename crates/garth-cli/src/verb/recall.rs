//! `garth recall`: what is known about a question, within so many tokens.

use clap::Args;
use garth_agent::recall::{BUDGET, Key, Recall as Asked, Recaller};
use garth_engine::TreePath;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{PathClass, Timestamp};

use crate::app::{App, stat_path};
use crate::args::{Past, TREE_PATH};
use crate::fail::Result;
use crate::verb::set::parse_pair;

/// What is known about a question, within a budget of tokens, as text for a model
///
/// Memories that are current come by layers: the best one whole or by the passage that was found, a
/// sentence of each other one, and more where it pays; other files by the lines that were found. Each piece
/// stands in a fence, as evidence and not as instruction. With --json one object: items (each source, path,
/// layer, version, sha256, bytes, lines, whole, score, parts, found_in, why, text, tokens), text, tokens,
/// best, notes, more, missing, and key, by which fences can be checked.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth recall 'how does Alice take her coffee' --budget 500")]
pub(crate) struct Recall {
    /// What is to be known
    question: String,
    /// Most tokens of the answer (o200k_base), 100 to 32000
    #[arg(long, default_value_t = BUDGET, value_name = "TOKENS")]
    budget: usize,
    /// Only this path and below (may be repeated)
    #[arg(value_hint = TREE_PATH, long = "in", value_name = "PATH")]
    within: Vec<String>,
    /// Only memories and files with this tag (may be repeated: any of them)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only what has this value in its custom metadata (may be repeated: all of them)
    #[arg(long = "meta", value_name = "KEY=VALUE", value_parser = parse_pair)]
    values: Vec<(String, String)>,
    /// Only paths of this class, such as '/**/*.md' (may be repeated: any of them)
    #[arg(long = "in-class", value_name = "PATTERN")]
    classes: Vec<String>,
    /// Only what was modified at this moment or later
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    since: Option<String>,
    /// Only what was modified before this moment
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    until: Option<String>,
    /// At most this many memories and files, 1 to 50
    #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT")]
    limit: usize,
    /// What was true at this moment, of memories alone
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    valid_at: Option<String>,
    /// What was known at this moment, of memories alone that are still found
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    as_of: Option<String>,
}

impl Recall {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let tree = app.tree().await?;
        let fs = &*tree.fs;
        let mut asked = Asked::new(&self.question).budget(self.budget);
        for path in &self.within {
            asked.within.push(stat_path(fs, path, Follow::Yes).await?.0);
        }
        asked.tags_any = self.tags;
        asked.metadata = self.values.into_iter().collect();
        let class = |pattern| PathClass { from: TreePath::root(), pattern };
        asked.classes = self.classes.into_iter().map(class).collect();
        asked.since = time(app, self.since.as_deref()).await?;
        asked.until = time(app, self.until.as_deref()).await?;
        asked.valid_at = time(app, self.valid_at.as_deref()).await?;
        asked.limit = self.limit;
        if let Some(text) = &self.as_of {
            asked.as_of = Some(app.moment(fs, text).await?);
        }
        let recaller = match tree.access() {
            Some(access) => access.recaller(fs, &app.global.account),
            None => Recaller::new(fs, &app.global.account).env(app.env.clone()),
        };
        let key = Key::random(&app.env)?;
        let answer = recaller.recall(&asked, &key).await?;
        match app.out.is_json() {
            true => app.out.item(&answer.to_json(&key), ""),
            false => app.out.bytes(answer.text.as_bytes()),
        }
    }
}

async fn time(app: &App, text: Option<&str>) -> Result<Option<Timestamp>> {
    match text {
        Some(text) => Ok(Some(app.time(&Past { at: None }, text).await?)),
        None => Ok(None),
    }
}
