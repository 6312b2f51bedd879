//! `garth search`: searches the text of files.

use clap::Args;
use garth_agent::search::{HitKind, Searcher, hit_json};
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Hit, HitContext, SearchQuery};

use crate::app::{App, stat_path};
use crate::args::{Mode, TREE_PATH};
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::out::counted;
use crate::verb::set::parse_pair;

/// Search the text of all files, best match first
///
/// Searches the last commit; `garth grep --at` searches the past. With --json, prints one object per
/// passage: kind, path, version, score (0 to 1) and its parts (words, neighbours, meaning), snippet, the
/// range of the passage in lines and bytes (each start and end, the end excluded; lines count from 1), and
/// with -C context: text, the best line, and its range in lines and bytes. The kind is `values`, `files`,
/// `messages` or `memories`, or null for a file that garth writes for itself and for text that recall omits.
/// Messages have session (user, agent, name, id) and message (line, id, role, time), memories uri and layer,
/// values agent_id and key.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth search 'which tone does Ada prefer' --in /users/ada")]
pub(crate) struct Search {
    /// Words to search for
    query: String,
    /// Search only this path and what is below it (repeatable)
    #[arg(value_hint = TREE_PATH, long = "in", value_name = "PATH")]
    within: Vec<String>,
    /// Search only files with this tag (repeatable: one of them is enough)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Search only files that have this value in their custom metadata (repeatable: all must match)
    #[arg(long = "meta", value_name = "KEY=VALUE", value_parser = parse_pair)]
    values: Vec<(String, String)>,
    /// Search only paths that match this glob pattern, such as '/agents/*/notes/**' or '/**/*.md'
    /// (repeatable: one of them is enough)
    #[arg(long = "glob", value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Search only files that were modified at or after this time: a commit, a time, a snapshot or an age
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    since: Option<String>,
    /// Search only files that were modified before this time
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    until: Option<String>,
    /// Maximum number of matches, 1 to 1000
    #[arg(short = 'n', long, default_value_t = 10, value_name = "COUNT")]
    limit: usize,
    /// Maximum number of passages of one file, 1 to 20
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    per_file: usize,
    /// Show the best line of each match with this many lines before and after it, up to 20
    #[arg(short = 'C', long, default_value_t = 0, value_name = "LINES")]
    context: usize,
    /// Compare texts by words alone, or also by meaning
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// Refused with a suggestion: the past cannot be searched
    #[arg(long, hide = true)]
    at: Option<String>,
}

impl Search {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        if self.at.is_some() {
            let message = "search covers only the last commit; `garth grep --at` searches the past";
            return Err(Failure::Usage(message.into()));
        }
        if self.query.trim().is_empty() {
            let message = "search needs words: `garth search 'quarterly report'`; `garth ls` lists files";
            return Err(Failure::Usage(message.into()));
        }
        let tree = app.tree().await?;
        let fs = &*tree.fs;
        let mut within = Vec::new();
        for path in &self.within {
            within.push(stat_path(fs, path, Follow::Yes).await?.0);
        }
        let mut query = SearchQuery::new(&self.query).within_any(within).tags_any(self.tags.clone());
        for (key, value) in &self.values {
            query = query.metadata(key, value);
        }
        for pattern in &self.patterns {
            query = query.pattern(pattern);
        }
        let query = query.since(app.time_of(self.since.as_deref()).await?);
        let query = query.until(app.end_time_of(self.until.as_deref()).await?);
        let query = query.limit(self.limit).per_file(self.per_file).context(self.context);
        let query = query.mode(self.mode.into());
        let answer = fs.search(&query).await?;
        // People see the path, which takes no further reads.
        let kinds = match app.out.is_json() {
            true => {
                let searcher = match tree.access() {
                    Some(access) => access.searcher(fs, &app.global.account),
                    None => Searcher::new(fs, &app.global.account).env(app.env.clone()),
                };
                searcher.describe(&self.query, &answer.hits).await?
            }
            false => vec![None; answer.hits.len()],
        };
        for (hit, kind) in answer.hits.iter().zip(&kinds) {
            show(app, hit, kind.as_ref())?;
        }
        if answer.missing > 0 {
            let files = counted(answer.missing, "file", "files");
            app.out.warn(format_args!("{files} with text that is not indexed yet; search again in a while"));
        }
        Ok(())
    }
}

fn show(app: &mut App, hit: &Hit, kind: Option<&HitKind>) -> Result {
    // The end of the range is excluded.
    let (first, last) = (hit.lines.start, hit.lines.end.saturating_sub(1).max(hit.lines.start));
    let lines = if first == last { first.to_string() } else { format!("{first}-{last}") };
    let shown = match &hit.context {
        Some(context) => numbered(context),
        None => format!("    {}", escaped(&hit.snippet.split_whitespace().collect::<Vec<_>>().join(" "))),
    };
    let path = escaped(hit.path.as_str());
    app.out.item(&hit_json(hit, kind), format_args!("{path}:{lines}  {:.3}\n{shown}", hit.score))
}

/// Returns lines in the form of `grep -n`: a colon marks the best line.
fn numbered(context: &HitContext) -> String {
    let lines = context.lines.clone().zip(context.text.lines()).map(|(number, line)| {
        let mark = if number == context.best { ':' } else { '-' };
        format!("    {number}{mark} {}", escaped(line))
    });
    lines.collect::<Vec<_>>().join("\n")
}
