//! `garth du`: bytes and entries of directory trees.

use std::collections::HashSet;
use std::sync::Arc;

use clap::Args;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::quota::Quota;
use garth_engine::model::{Entry, Ino, Kind};
use garth_engine::{FileSystem, TreePath};
use serde_json::json;

use crate::app::{App, stat_path};
use crate::args::{LongHelp, Past, TREE_PATH};
use crate::escape::escaped;
use crate::fail::Result;
use crate::out::counted;
use crate::size::{parse_count, size_text};
use crate::verb::quota;
use crate::walk::DepthFirst;

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

/// Totals below a directory, or of a single entry.
struct Total {
    path: TreePath,
    bytes: u64,
    entries: u64,
    files: u64,
    directories: u64,
}

impl Du {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.pinned(&self.past).await?;
        // Quotas apply to the current state only.
        let quotas = if self.past.at.is_none() { quota::all(app).await? } else { Vec::new() };
        app.each(&self.paths, async |app, path| self.path(app, &fs, &quotas, path).await).await
    }

    async fn path(&self, app: &mut App, fs: &Arc<dyn FileSystem>, quotas: &[Quota], path: &str) -> Result {
        // Inodes with several names that were already counted.
        let mut linked = HashSet::new();
        let (path, entry) = stat_path(&**fs, path, Follow::No).await?;
        let mut below = DepthFirst::new(Arc::clone(fs), &path);
        // Directories on the way down, from the path itself.
        let mut open = vec![Total::new(path, &entry, &mut linked)];
        if entry.kind == Kind::Directory {
            while let Some((path, entry)) = below.next().await? {
                // Directories that the walk has left are complete.
                self.close(app, quotas, &mut open, below.depth())?;
                let total = Total::new(path, &entry, &mut linked);
                if entry.kind == Kind::Directory {
                    open.push(total);
                } else if let Some(dir) = open.last_mut() {
                    dir.add(&total);
                }
            }
        }
        self.close(app, quotas, &mut open, 0)
    }

    /// Prints finished directories until `depth` are open, and adds each to its parent.
    fn close(&self, app: &mut App, quotas: &[Quota], open: &mut Vec<Total>, depth: usize) -> Result {
        while open.len() > depth {
            let Some(done) = open.pop() else { break };
            if open.len() <= self.max_depth {
                self.show(app, &done, quotas)?;
            }
            if let Some(above) = open.last_mut() {
                above.add(&done);
                above.entries += 1;
                above.directories += 1;
            }
        }
        Ok(())
    }

    fn show(&self, app: &mut App, total: &Total, quotas: &[Quota]) -> Result {
        let Total { path, bytes, entries, files, directories } = total;
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

impl Total {
    fn new(path: TreePath, entry: &Entry, linked: &mut HashSet<Ino>) -> Self {
        let is_file = entry.kind == Kind::File;
        // A file with several names counts once.
        let counts = is_file && (entry.nlink < 2 || linked.insert(entry.ino));
        Self {
            path,
            bytes: if counts { entry.size } else { 0 },
            // A directory counts as an entry of its parent when it is complete.
            entries: u64::from(entry.kind != Kind::Directory),
            files: u64::from(is_file),
            directories: 0,
        }
    }

    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.entries += other.entries;
        self.files += other.files;
        self.directories += other.directories;
    }
}
