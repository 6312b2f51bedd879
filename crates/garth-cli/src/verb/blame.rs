//! `garth blame`: the commit that wrote each byte range of a file.

use std::collections::BTreeMap;

use clap::Args;
use garth_agent::files::with_path;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, BlameRun, ByteRange, CommitInfo, MAX_PAGE, Moment, Seq};
use serde_json::json;

use crate::app::{App, resolve_path};
use crate::args::{Past, TREE_PATH};
use crate::fail::Result;
use crate::out::{author_text, commit_json, message_text};

/// Show the commit, agent and session that wrote each byte range of a file
///
/// Ranges are offsets in bytes, the end excluded. Bytes that a patch or truncation left unchanged stay with
/// the commit that wrote them; a hole has no commit. With --json, prints one object per range: offset,
/// length, commit (seq, time, author, message, id; null for a hole).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth blame /notes/today.md")]
pub(crate) struct Blame {
    /// File
    #[arg(value_hint = TREE_PATH)]
    path: String,
    #[command(flatten)]
    past: Past,
}

impl Blame {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.view(&self.past).await?;
        // All pages show the file at one time, even if it is written meanwhile.
        let fs = fs.as_of(&Moment::Seq(fs.head().await?.seq)).await?;
        let path = resolve_path(&*fs, &self.path, Follow::Yes).await?;
        let mut next = Some(0);
        while let Some(offset) = next {
            let range = ByteRange::from(offset..);
            let page = fs.blame(&At::from(&path), range, MAX_PAGE).await.map_err(with_path(&self.path))?;
            let commits: BTreeMap<Seq, CommitInfo> =
                page.commits.into_iter().map(|commit| (commit.seq, commit)).collect();
            for run in &page.runs {
                show(app, run, run.commit.and_then(|seq| commits.get(&seq)))?;
            }
            next = page.next;
        }
        Ok(())
    }
}

fn show(app: &mut App, run: &BlameRun, commit: Option<&CommitInfo>) -> Result {
    let ByteRange { offset, length } = run.range;
    let json = json!({"offset": offset, "length": length, "commit": commit.map(commit_json)});
    let who = match commit {
        None => "-".to_owned(),
        Some(commit) => {
            let (time, author) = (commit.time.to_rfc3339(), author_text(&commit.author));
            format!("{:<6}  {time}  {author}  {}", commit.seq.0, message_text(commit))
        }
    };
    let text = format!("{:>10}..{:<10}  {who}", offset, offset + length);
    app.out.item(&json, text.trim_end())
}
