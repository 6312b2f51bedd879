//! `garth usage`: what takes the space of an account.

use clap::Args;
use garth_engine::TreePath;
use garth_engine::fs::store::{PathUsage, StoredUsage};
use serde_json::{Value, json};

use crate::app::App;
use crate::args::{LongHelp, TREE_PATH};
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::size::size_text;

/// Show what takes the space of the account
///
/// `stored` are the pages of the database in use and the content in pack files; the limit of `garth
/// retention` counts them. `free` are pages that later writes use, `wal` is the write-ahead log, and
/// `uploads` are the files of uploads in progress. The other figures are estimates from the stored rows:
/// `live` (what files contain now), `history` (earlier versions, and removed files; some of it only because
/// snapshots, overlays and open views of the past show it), `log` (the version log), `index` (the search
/// index) and `overlays` (a part of live and history), then live and history of the children of a path.
/// `garth du` counts the sizes of files instead. Reads all of the account.
///
/// With --json, prints one object: stored, max_stored (null if not limited), pages, packs, free (pages that
/// later writes use), wal, uploads, live, history, snapshots (the part of history that only snapshots,
/// overlays and open views of the past keep), log, index, overlays (a part of live and history), paths (path,
/// live, history; the first 1,000), has_more.
#[derive(Args, Debug)]
#[command(disable_help_flag = true, after_help = "Example:\n  garth usage -h /")]
pub(crate) struct Usage {
    /// Directory whose children are listed
    #[arg(value_hint = TREE_PATH, default_value = "/")]
    path: String,
    /// Show sizes in powers of 1024: 1.5K, 23M, 4.0G
    #[arg(short = 'h', long)]
    human_readable: bool,
    #[command(flatten)]
    help: LongHelp,
}

impl Usage {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("usage")?;
        let path =
            TreePath::parse(&self.path).map_err(|error| Failure::Usage(format!("{}: {error}", self.path)))?;
        let usage = app.account_of(&*app.home().await?).await?.usage(&path).await?;
        app.out.item(&to_json(&usage), to_text(&usage, self.human_readable))
    }
}

fn to_json(usage: &StoredUsage) -> Value {
    let path = |PathUsage { path, live, history }: &PathUsage| json!({"path": path.as_str(), "live": live, "history": history});
    json!({
        "stored": usage.stored(), "max_stored": usage.limit, "pages": usage.pages, "packs": usage.packs,
        "free": usage.free, "wal": usage.wal, "uploads": usage.uploads, "live": usage.live,
        "history": usage.history, "snapshots": usage.snapshots, "log": usage.log, "index": usage.index,
        "overlays": usage.overlays, "paths": usage.paths.iter().map(path).collect::<Vec<_>>(),
        "has_more": usage.more,
    })
}

fn to_text(usage: &StoredUsage, human: bool) -> String {
    let size = |bytes| size_text(bytes, human);
    let limit = usage.limit.map_or_else(String::new, |limit| format!(" of {}", size(limit)));
    let mut text = format!(
        "stored    {}{limit} (database {}, packs {})\nfree      {} in the database\nwal       {}\nuploads   {}\n\
         live      {}\nhistory   {} ({} only for snapshots and overlays)\nlog       {}\nindex     {}\noverlays  {}",
        size(usage.stored()),
        size(usage.pages),
        size(usage.packs),
        size(usage.free),
        size(usage.wal),
        size(usage.uploads),
        size(usage.live),
        size(usage.history),
        size(usage.snapshots),
        size(usage.log),
        size(usage.index),
        size(usage.overlays),
    );
    if !usage.paths.is_empty() {
        text.push_str("\n\n      live    history  path");
    }
    for child in &usage.paths {
        let (live, history) = (size(child.live), size(child.history));
        text.push_str(&format!("\n{live:>10} {history:>10}  {}", escaped(child.path.as_str())));
    }
    if usage.more {
        text.push_str("\n                       and more");
    }
    text
}
