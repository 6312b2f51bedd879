//! `garth diff`: what changed between two moments.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use futures::TryStreamExt;
use garth::fs::resolve::Follow;
use garth::model::{At, ByteRange, Entry, HistoryPage, Kind, Moment, Seq};
use garth::{Error, ErrorKind, FileSystem, TreePath, stream};
use serde_json::json;
use similar::TextDiff;

use crate::app::{App, stat_optional};
use crate::args::Past;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::walk::Walker;

/// Longest file that is compared line by line, in bytes: both sides are held in memory. 32 MiB.
const MAX_TEXT: u64 = 32 << 20;

/// Compare two moments: a unified diff of a file, or the paths added, removed and changed in a directory
///
/// With --json one object for a file (path, from, to, binary, diff), one object a path for a directory (path,
/// change).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth diff /notes/today.md --from yesterday")]
pub(crate) struct Diff {
    /// What to compare
    path: String,
    /// The older moment, as for --at of other verbs [default: before the last version of the file]
    #[arg(long, visible_alias = "at", value_name = "SEQUENCE|TIME|NAME")]
    from: Option<String>,
    /// The newer moment [default: now]
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    to: Option<String>,
}

/// What was at the path at one moment.
struct Side {
    fs: Arc<dyn FileSystem>,
    path: TreePath,
    entry: Option<Entry>,
    seq: Seq,
}

impl Diff {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let now = app.tree()?.fs;
        let to = Side::at(app.pinned(&Past { at: self.to.clone() }).await?, &self.path).await?;
        let from = match &self.from {
            Some(text) => app.as_of(&*now, text).await?,
            None => before_last(&to).await?,
        };
        let from = Side::at(from, &self.path).await?;
        match (&from.entry, &to.entry) {
            (None, None) => {
                let message = "no such file or directory at either moment";
                Err(Error::at(ErrorKind::NotFound, &to.path, message).into())
            }
            (Some(old), Some(new)) if old.kind == Kind::Directory && new.kind == Kind::Directory => {
                directories(app, &from, &to).await
            }
            _ => file(app, &from, &to).await,
        }
    }
}

impl Side {
    async fn at(fs: Arc<dyn FileSystem>, path: &str) -> Result<Self> {
        let (path, entry) = stat_optional(&*fs, path, Follow::Yes).await?;
        let seq = fs.head().await?.seq;
        Ok(Self { fs, path, entry, seq })
    }

    /// Content as text; `None` if it is none. A file that is not there is empty.
    async fn text(&self) -> Result<Option<String>> {
        let Some(entry) = &self.entry else { return Ok(Some(String::new())) };
        if entry.kind == Kind::Symlink {
            return Ok(entry.target.clone());
        }
        if entry.kind == Kind::Directory {
            return Err(
                Error::at(ErrorKind::IsADirectory, &self.path, "a directory at one moment only").into()
            );
        }
        if entry.size > MAX_TEXT {
            let message = format!("too long to compare: more than {MAX_TEXT} bytes");
            return Err(Error::at(ErrorKind::TooLarge, &self.path, message).into());
        }
        let file = self.fs.open(&At::Path(self.path.clone())).await?;
        let mut content = Vec::new();
        let mut chunks = std::pin::pin!(stream(file, ByteRange::ALL));
        while let Some(chunk) = chunks.try_next().await? {
            content.extend_from_slice(&chunk);
        }
        Ok(String::from_utf8(content).ok().filter(|text| !text.contains('\0')))
    }

    fn header(&self) -> String {
        match &self.entry {
            Some(_) => format!("{} at {}", escaped(self.path.as_str()), self.seq),
            None => "/dev/null".to_owned(),
        }
    }
}

/// The tree just before the path's last version.
async fn before_last(to: &Side) -> Result<Arc<dyn FileSystem>> {
    if to.entry.as_ref().is_some_and(|entry| entry.kind == Kind::Directory) {
        return Err(Failure::Usage("say --from for a directory".into()));
    }
    let versions = to.fs.history(&At::Path(to.path.clone()), &HistoryPage { before: None, limit: 1 }).await?;
    let last = versions.first().map_or(Seq(0), |version| version.id.seq);
    Ok(to.fs.as_of(&Moment::Seq(Seq(last.0.saturating_sub(1)))).await?)
}

async fn file(app: &mut App, from: &Side, to: &Side) -> Result {
    let (old, new) = (from.text().await?, to.text().await?);
    let diff = match (&old, &new) {
        (Some(old), Some(new)) if old == new => Some(String::new()),
        (Some(old), Some(new)) => {
            let diff = TextDiff::from_lines(old.as_str(), new.as_str());
            Some(diff.unified_diff().header(&from.header(), &to.header()).to_string())
        }
        _ => None,
    };
    if app.out.is_json() {
        let json = json!({
            "path": to.path.as_str(), "from": from.seq, "to": to.seq,
            "binary": diff.is_none(), "diff": diff,
        });
        return app.out.item(&json, "");
    }
    match diff {
        Some(diff) => app.out.bytes(diff.as_bytes()),
        None if same_content(from, to).await? => Ok(()),
        None => app.out.note(format_args!("binary files differ: {}", escaped(to.path.as_str()))),
    }
}

/// Walks both sides in step: both come in the same order.
async fn directories(app: &mut App, from: &Side, to: &Side) -> Result {
    let mut olds = Walker::new(Arc::clone(&from.fs), from.path.as_str(), Follow::Yes, false).await?;
    let mut news = Walker::new(Arc::clone(&to.fs), to.path.as_str(), Follow::Yes, false).await?;
    let (mut old, mut new) = (olds.next().await?, news.next().await?);
    loop {
        let order = match (&old, &new) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((old, _)), Some((new, _))) => order_of(old, olds.top()).cmp(&order_of(new, news.top())),
        };
        let (path, change) = match order {
            Ordering::Less => (old.take().map(|(path, _)| path), Some("removed")),
            Ordering::Greater => (new.take().map(|(path, _)| path), Some("added")),
            Ordering::Equal => match (old.take(), new.take()) {
                (Some(old), Some(new)) => {
                    let change = changed(from, &old, to, &new).await?;
                    (Some(new.0), change)
                }
                _ => (None, None),
            },
        };
        if let (Some(path), Some(change)) = (path, change) {
            let sign = match change {
                "removed" => 'D',
                "added" => 'A',
                _ => 'M',
            };
            let json = json!({"path": path.as_str(), "change": change});
            app.out.item(&json, format_args!("{sign}  {}", escaped(path.as_str())))?;
        }
        if order != Ordering::Greater {
            old = olds.next().await?;
        }
        if order != Ordering::Less {
            new = news.next().await?;
        }
    }
}

/// Where a path comes in a walk from `top`: by its directory, then its name.
fn order_of<'a>(path: &'a TreePath, top: &TreePath) -> (&'a str, &'a str) {
    let below = &path.key()[top.key().len()..];
    below.rsplit_once('/').unwrap_or_default()
}

/// Whether a path's kind, content or what is kept with it changed. A directory changes with its names, which
/// are shown themselves.
async fn changed(
    from: &Side,
    (old_path, old): &(TreePath, Entry),
    to: &Side,
    (new_path, new): &(TreePath, Entry),
) -> Result<Option<&'static str>> {
    let same = old.kind == new.kind
        && old.mode == new.mode
        && (old.uid, old.gid, old.rdev) == (new.uid, new.gid, new.rdev)
        && old.target == new.target
        && old.attributes == new.attributes
        && old.expires_at == new.expires_at;
    if !same || (old.kind == Kind::File && old.size != new.size) {
        return Ok(Some("changed"));
    }
    if old.kind != Kind::File || old.etag == new.etag {
        return Ok(None);
    }
    let equal = equal_content(&*from.fs, old_path, &*to.fs, new_path).await?;
    Ok((!equal).then_some("changed"))
}

async fn same_content(from: &Side, to: &Side) -> Result<bool> {
    match (&from.entry, &to.entry) {
        (Some(old), Some(new)) if old.kind == Kind::File && new.kind == Kind::File => {
            equal_content(&*from.fs, &from.path, &*to.fs, &to.path).await
        }
        _ => Ok(false),
    }
}

/// Compares two files a step at a time.
async fn equal_content(
    a: &dyn FileSystem,
    at_a: &TreePath,
    b: &dyn FileSystem,
    at_b: &TreePath,
) -> Result<bool> {
    const STEP: usize = 1 << 20;
    let a = a.open(&At::Path(at_a.clone())).await?;
    let b = b.open(&At::Path(at_b.clone())).await?;
    let mut offset = 0;
    loop {
        let (left, right): (Bytes, Bytes) = (a.read_at(offset, STEP).await?, b.read_at(offset, STEP).await?);
        if left != right {
            return Ok(false);
        }
        if left.is_empty() {
            return Ok(true);
        }
        offset += left.len() as u64;
    }
}
