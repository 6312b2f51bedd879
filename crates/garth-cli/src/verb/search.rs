//! `garth search`: text by what it is about.

use clap::Args;
use garth::fs::resolve::Follow;
use garth::model::{Hit, SearchQuery};
use serde_json::json;

use crate::app::{App, stat_path};
use crate::args::TREE_PATH;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::out::counted;

/// Full-text search, best match first
///
/// Searches the last commit; `garth grep --at` searches the past. With --json one object per file: path,
/// version, score (how much of the question is there, up to 1), snippet, and the range of the passage in
/// lines and bytes (each start and end, the end excluded; lines count from 1).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth search 'which tone does Ada prefer' --in /users/ada")]
pub(crate) struct Search {
    /// Words to search for
    query: String,
    /// Search only this path and below (may be repeated)
    #[arg(value_hint = TREE_PATH, long = "in", value_name = "PATH")]
    within: Vec<String>,
    /// Search only files with this tag (may be repeated: any of them)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Show at most this many files, 1 to 1000
    #[arg(short = 'n', long, default_value_t = 10, value_name = "COUNT")]
    limit: usize,
    /// Refused with a word of advice: there is no search of the past
    #[arg(long, hide = true)]
    at: Option<String>,
}

impl Search {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        if self.at.is_some() {
            let message = "search knows the last commit only; `garth grep --at` looks through the past";
            return Err(Failure::Usage(message.into()));
        }
        let fs = app.tree().await?.fs;
        let mut within = Vec::new();
        for path in &self.within {
            within.push(stat_path(&*fs, path, Follow::Yes).await?.0);
        }
        let query = SearchQuery::new(self.query).within_any(within).tags_any(self.tags).limit(self.limit);
        let answer = fs.search(&query).await?;
        for hit in &answer.hits {
            show(app, hit)?;
        }
        if answer.missing > 0 {
            let files = counted(answer.missing, "file", "files");
            app.out.warn(format_args!("{files} with text that is not indexed yet; search again in a while"));
        }
        Ok(())
    }
}

fn show(app: &mut App, hit: &Hit) -> Result {
    let json = json!({
        "path": hit.path.as_str(),
        "version": hit.version.to_string(),
        "score": hit.score,
        "snippet": hit.snippet,
        "lines": {"start": hit.lines.start, "end": hit.lines.end},
        "bytes": {"start": hit.bytes.start, "end": hit.bytes.end},
    });
    let (first, last) = (hit.lines.start, hit.lines.end.saturating_sub(1).max(hit.lines.start));
    let lines = if first == last { first.to_string() } else { format!("{first}-{last}") };
    let snippet: Vec<&str> = hit.snippet.split_whitespace().collect();
    let (path, snippet) = (escaped(hit.path.as_str()), snippet.join(" "));
    app.out.item(&json, format_args!("{path}:{lines}  {:.3}\n    {}", hit.score, escaped(&snippet)))
}
