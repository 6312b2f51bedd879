//! `garth du`: bytes and entries of directory trees.

use std::sync::Arc;

use clap::Args;
use garth_agent::files::{self, DuTotal, Files};
use garth_engine::FileSystem;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::quota::Quota;
use serde_json::json;

use crate::app::{App, stat_path};
use crate::args::{LongHelp, Past, TREE_PATH};
use crate::escape::escaped;
use crate::fail::Result;
use crate::out::counted;
use crate::size::{parse_count, size_text};
use crate::verb::quota;

/// Count bytes and entries of directory trees
///
/// Counts as quotas do: bytes are the sizes of files, not the space on disk, and a file with several names
/// counts once; entries are the names below a directory, without the directory itself. Expired and reserved
/// entries count for quotas but not here. A path with a quota shows it, too (see `garth quota`).
/// With --json, prints one object per path: path, bytes, entries, files, directories, and quota if it has one
/// (max_bytes, max_entries, bytes, entries).
#[derive(Args, Debug)]
#[command(disable_help_flag = true, after_help = "Example:\n  garth du -h -d 1 /projects")]
pub(crate) struct Du {
    /// Paths to count; links are not followed
    #[arg(value_hint = TREE_PATH, default_value = "/")]
    paths: Vec<String>,
    /// Show sizes in powers of 1024: 1.5K, 23M, 4.0G
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Also show directories down to this many levels below each path
    #[arg(short = 'd', long, value_name = "LEVELS", default_value_t = 0, value_parser = parse_count::<usize>)]
    max_depth: usize,
    /// Show only a total for each path (the default)
    #[arg(short, long, conflicts_with = "max_depth")]
    summarize: bool,
    #[command(flatten)]
    past: Past,
    #[command(flatten)]
    help: LongHelp,
}

impl Du {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.pinned(&self.past).await?;
        // Quotas apply to the current state only.
        let quotas = if self.past.at.is_none() { quota::all(app).await? } else { Vec::new() };
        app.each(&self.paths, async |app, path| self.path(app, &fs, &quotas, path).await).await
    }

    async fn path(&self, app: &mut App, fs: &Arc<dyn FileSystem>, quotas: &[Quota], path: &str) -> Result {
        let (path, _) = stat_path(&**fs, path, Follow::No).await?;
        let mut asked = files::Du::new(path.as_str()).depth(self.max_depth);
        loop {
            let page = Files::new(&**fs).du(&asked).await?;
            page.items.iter().try_for_each(|total| self.show(app, total, quotas))?;
            asked.cursor = page.next;
            if asked.cursor.is_none() {
                return Ok(());
            }
        }
    }

    fn show(&self, app: &mut App, total: &DuTotal, quotas: &[Quota]) -> Result {
        let DuTotal { path, bytes, entries, files, directories, .. } = total;
        let mut json = json!({
            "path": path.as_str(), "bytes": bytes, "entries": entries, "files": files,
            "directories": directories,
        });
        let quota = quotas.iter().find(|quota| quota.path == *path);
        let shown = quota.map_or_else(String::new, |quota| {
            json["quota"] = quota::quota_json(quota);
            format!("  (quota: {})", quota::usage_text(quota, self.human_readable))
        });
        let size = match self.human_readable {
            true => format!("{:>5}", size_text(*bytes, true)),
            false => format!("{:>12} {}", bytes, if *bytes == 1 { "byte" } else { "bytes" }),
        };
        let (entries, path) = (counted(*entries, "entry", "entries"), escaped(path.as_str()));
        app.out.item(&json, format_args!("{size}  {entries:>16}  {path}{shown}"))
    }
}
