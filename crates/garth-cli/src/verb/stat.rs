//! `garth stat`: metadata of paths.

use clap::Args;
use futures::TryStreamExt;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Entry, Timestamp};
use garth_engine::{FileSystemExt, TreePath};
use serde_json::json;

use crate::app::{App, stat_path};
use crate::args::{Past, TREE_PATH};
use crate::escape::escaped;
use crate::fail::Result;
use crate::out::{entry_json, kind_word};

/// Show the metadata of paths
///
/// With --json, prints one object per path: path, name, kind, size, mode, times, attributes, version, and
/// `names`, all paths of the file.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth stat /notes/today.md")]
pub(crate) struct Stat {
    /// Paths to show
    #[arg(value_hint = TREE_PATH, required = true)]
    paths: Vec<String>,
    /// Follow symbolic links
    #[arg(short = 'L', long)]
    dereference: bool,
    #[command(flatten)]
    past: Past,
}

impl Stat {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fs = app.view(&self.past).await?;
        let follow = if self.dereference { Follow::Yes } else { Follow::No };
        app.each(&self.paths, async |app, path| {
            let (path, entry) = stat_path(&*fs, path, follow).await?;
            let names: Vec<TreePath> = fs.all_names(&path).try_collect().await?;
            let mut json = entry_json(&path, &entry);
            json["names"] = json!(names.iter().map(TreePath::as_str).collect::<Vec<_>>());
            app.out.item(&json, text(&path, &entry, &names))
        })
        .await
    }
}

fn text(path: &TreePath, entry: &Entry, names: &[TreePath]) -> String {
    let mut lines = vec![
        ("path", path.to_string()),
        ("kind", kind_word(entry.kind).to_owned()),
        ("size", entry.size.to_string()),
        ("mode", format!("{:04o}", entry.mode)),
        ("owner", format!("{}:{}", entry.uid, entry.gid)),
        ("inode", entry.ino.0.to_string()),
        ("links", entry.nlink.to_string()),
        ("modified", entry.mtime.to_rfc3339()),
        ("changed", entry.ctime.to_rfc3339()),
        ("created", entry.birthtime.to_rfc3339()),
        ("version", entry.version.to_string()),
        ("content", entry.etag.to_string()),
    ];
    let attributes = &entry.attributes;
    let mut also = |name, value: Option<String>| lines.extend(value.map(|value| (name, value)));
    also("target", entry.target.clone());
    also("expires", entry.expires_at.map(Timestamp::to_rfc3339));
    also("type", attributes.content_type.clone());
    also("tags", (!attributes.tags.is_empty()).then(|| attributes.tags.join(", ")));
    also("importance", (attributes.importance != 0.0).then(|| attributes.importance.to_string()));
    also("searchable", attributes.searchable.map(|seen| seen.to_string()));
    for (key, value) in &attributes.metadata {
        also("metadata", Some(format!("{key}={value}")));
    }
    for (key, value) in &attributes.xattrs {
        also("xattr", Some(format!("{key} ({} bytes)", value.len())));
    }
    for name in names.iter().filter(|name| *name != path) {
        also("also", Some(name.to_string()));
    }
    let lines: Vec<String> =
        lines.iter().map(|(name, value)| format!("{name:>10}  {}", escaped(value))).collect();
    lines.join("\n")
}
