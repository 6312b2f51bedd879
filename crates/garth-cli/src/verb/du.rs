//! `garth du`: how much is there.

use std::collections::HashSet;
use std::sync::Arc;

use clap::Args;
use garth::fs::resolve::Follow;
use garth::model::Kind;
use serde_json::json;

use crate::app::App;
use crate::args::Past;
use crate::escape::escaped;
use crate::fail::Result;
use crate::walk::Walker;

/// Count bytes and entries
///
/// Bytes are those of current content, each node once whatever its names; entries are names below the path and
/// itself. With --json one object a path: path, bytes, entries, files, directories.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth du /projects /notes")]
pub(crate) struct Du {
    /// What to count; a link itself, not what it names
    #[arg(default_value = "/")]
    paths: Vec<String>,
    #[command(flatten)]
    past: Past,
}

impl Du {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.pinned(&self.past).await?;
        app.each(&self.paths, async |app, path| {
            let mut walker = Walker::new(Arc::clone(&fs), path, Follow::No, true).await?;
            let (mut bytes, mut entries, mut files, mut directories) = (0_u64, 0_u64, 0_u64, 0_u64);
            let mut linked = HashSet::new();
            while let Some((_, entry)) = walker.next().await? {
                entries += 1;
                files += u64::from(entry.kind == Kind::File);
                directories += u64::from(entry.kind == Kind::Directory);
                let once = entry.kind == Kind::Directory || entry.nlink < 2 || linked.insert(entry.ino);
                bytes += if once { entry.size } else { 0 };
            }
            let path = walker.top().as_str();
            let json = json!({
                "path": path, "bytes": bytes, "entries": entries, "files": files, "directories": directories,
            });
            app.out.item(&json, format_args!("{bytes:>12} bytes  {entries:>8} entries  {}", escaped(path)))
        })
        .await
    }
}
