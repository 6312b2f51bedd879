//! Differences between two paths, or between two states of a path: as text, by name, or as counts.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::TryStreamExt;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{At, ByteRange, Entry, Kind, Seq};
use garth_engine::{FileSystem, TreePath};
use serde_json::{Value, json};
use similar::{Algorithm, ChangeTag, TextDiff};

use crate::app::{App, stat_optional};
use crate::escape::escaped;
use crate::fail::Result;
use crate::out::kind_word;
use crate::size::parse_count;
use crate::walk::Walker;

/// Longest file in bytes that is compared by line, 32 MiB: both sides are held in memory.
const MAX_TEXT: u64 = 32 << 20;
/// Limit on the lines of a file that is compared by line: each takes some hundred bytes of memory.
const MAX_LINES: usize = 500_000;
/// Time limit for the search of the shortest difference, after which a longer one is accepted. The search
/// takes time in proportion to the product of length and differences.
const MAX_SEARCH: Duration = Duration::from_secs(5);

/// Form in which differences are shown.
#[derive(Args, Clone, Debug)]
pub(crate) struct Form {
    /// Show only the paths, each with A (added), D (removed) or M (changed)
    #[arg(long, conflicts_with = "stat")]
    pub(crate) name_status: bool,
    /// Show only the numbers of lines added and removed
    #[arg(long)]
    pub(crate) stat: bool,
    /// Show this many lines of context
    #[arg(short = 'U', long = "unified", value_name = "LINES", default_value_t = 3, value_parser = parse_count::<usize>)]
    pub(crate) context: usize,
}

/// State of a path to compare.
pub(crate) struct Side {
    fs: Arc<dyn FileSystem>,
    pub(crate) path: TreePath,
    pub(crate) entry: Option<Entry>,
    pub(crate) seq: Seq,
}

/// Content of a side.
enum Content {
    Text(String),
    Binary,
    Long,
}

impl Side {
    /// Returns the state of a path as the user wrote it.
    pub(crate) async fn at(fs: Arc<dyn FileSystem>, path: &str, follow: Follow) -> Result<Self> {
        let (path, entry) = stat_optional(&*fs, path, follow).await?;
        let seq = fs.head().await?.seq;
        Ok(Self { fs, path, entry, seq })
    }

    /// Returns another path and entry at the time of this side.
    fn with(&self, path: &TreePath, entry: Option<Entry>) -> Self {
        Self { fs: Arc::clone(&self.fs), path: path.clone(), entry, seq: self.seq }
    }

    /// Returns this side as if the path did not exist.
    pub(crate) fn without(mut self) -> Self {
        self.entry = None;
        self
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind() == Some(Kind::Directory)
    }

    fn kind(&self) -> Option<Kind> {
        self.entry.as_ref().map(|entry| entry.kind)
    }

    /// Returns the content as text: the target of a link; empty for a directory or a missing entry.
    async fn content(&self) -> Result<Content> {
        let Some(entry) = &self.entry else { return Ok(Content::Text(String::new())) };
        if entry.kind != Kind::File {
            let target = entry.target.as_ref().map(|target| format!("{target}\n"));
            return Ok(Content::Text(target.unwrap_or_default()));
        }
        if entry.size > MAX_TEXT {
            return Ok(Content::Long);
        }
        let file = self.fs.open(&At::from(&self.path)).await?;
        let mut content = Vec::new();
        let mut chunks = std::pin::pin!(file.stream(ByteRange::ALL));
        while let Some(chunk) = chunks.try_next().await? {
            content.extend_from_slice(&chunk);
        }
        Ok(match String::from_utf8(content) {
            // UTF-8, but not text.
            Ok(text) if text.contains('\0') => Content::Binary,
            Ok(text) if text.lines().nth(MAX_LINES).is_some() => Content::Long,
            Ok(text) => Content::Text(text),
            Err(_) => Content::Binary,
        })
    }

    fn header(&self) -> String {
        match &self.entry {
            Some(_) => format!("{} at {}", escaped(self.path.as_str()), self.seq),
            None => "/dev/null".to_owned(),
        }
    }

    async fn walker(&self) -> Result<Option<Walker>> {
        if !self.is_directory() {
            return Ok(None);
        }
        Ok(Some(Walker::new(Arc::clone(&self.fs), self.path.as_str(), Follow::No, false).await?))
    }
}

/// Prints the differences, including those below directories. Returns true if there are any.
pub(crate) async fn show_trees(app: &mut App, form: &Form, from: &Side, to: &Side) -> Result<bool> {
    let mut differ = show(app, form, from, to).await?;
    // Both walks return paths in the same order, so they can be merged.
    let (mut olds, mut news) = (from.walker().await?, to.walker().await?);
    let (mut old, mut new) = (next(&mut olds).await?, next(&mut news).await?);
    loop {
        let order = match (&old, &new) {
            (None, None) => return Ok(differ),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((old, _)), Some((new, _))) => order_of(old, &from.path).cmp(&order_of(new, &to.path)),
        };
        let (before, after) = match order {
            Ordering::Less => (old.take(), None),
            Ordering::Greater => (None, new.take()),
            Ordering::Equal => (old.take(), new.take()),
        };
        let side = |of: &Side, item: Option<(TreePath, Entry)>, other: Option<&TreePath>| match item {
            Some((path, entry)) => of.with(&path, Some(entry)),
            None => of.with(other.unwrap_or(&of.path), None),
        };
        let paths = (before.as_ref().map(|item| item.0.clone()), after.as_ref().map(|item| item.0.clone()));
        let (before, after) = (side(from, before, paths.1.as_ref()), side(to, after, paths.0.as_ref()));
        differ |= show(app, form, &before, &after).await?;
        if order != Ordering::Greater {
            old = next(&mut olds).await?;
        }
        if order != Ordering::Less {
            new = next(&mut news).await?;
        }
    }
}

async fn next(walker: &mut Option<Walker>) -> Result<Option<(TreePath, Entry)>> {
    match walker {
        Some(walker) => Ok(walker.next().await?),
        None => Ok(None),
    }
}

/// Returns the key by which a walk from `top` orders a path: its directory, then its name.
fn order_of<'a>(path: &'a TreePath, top: &TreePath) -> (&'a str, &'a str) {
    let below = &path.key()[top.key().len()..];
    below.rsplit_once('/').unwrap_or_default()
}

/// Prints the differences of two entries, without those below them. Returns true if there are any.
pub(crate) async fn show(app: &mut App, form: &Form, from: &Side, to: &Side) -> Result<bool> {
    let (change, sign) = match (&from.entry, &to.entry) {
        (None, None) => return Ok(false),
        (None, Some(_)) => ("added", 'A'),
        (Some(_), None) => ("removed", 'D'),
        (Some(_), Some(_)) => ("changed", 'M'),
    };
    let attributes = changed_attributes(from, to);
    let content = !same_content(from, to).await?;
    if change == "changed" && attributes.is_empty() && !content {
        return Ok(false);
    }
    let path = if to.entry.is_some() { &to.path } else { &from.path };
    let mut json = json!({"path": path.as_str(), "change": change});
    if from.path != to.path {
        json["from_path"] = from.path.as_str().into();
    }
    if form.name_status {
        app.out.item(&json, format_args!("{sign}  {}", escaped(path.as_str())))?;
        return Ok(true);
    }
    json["from"] = json!(from.seq);
    json["to"] = json!(to.seq);
    json["attributes"] = json!(attributes);
    if !content || from.is_directory() || to.is_directory() {
        let text = without_lines(from, to, change, &attributes);
        app.out.item(&json, format_args!("{text}: {}", escaped(path.as_str())))?;
        return Ok(true);
    }
    // A unified diff has no form for changes of attributes.
    if !attributes.is_empty() && !form.stat {
        app.out.note(format_args!("{} changed: {}", attributes.join(", "), escaped(path.as_str())))?;
    }
    show_content(app, form, from, to, json).await?;
    Ok(true)
}

/// Returns the description of a difference that is not one of lines.
fn without_lines(from: &Side, to: &Side, change: &str, attributes: &[&str]) -> String {
    match (from.kind(), to.kind()) {
        (Some(old), Some(new)) if old != new => format!("{} became {}", kind_word(old), kind_word(new)),
        (Some(_), Some(_)) => format!("{} changed", attributes.join(", ")),
        (Some(kind), None) | (None, Some(kind)) => format!("{} {change}", kind_word(kind)),
        (None, None) => change.to_owned(),
    }
}

async fn show_content(app: &mut App, form: &Form, from: &Side, to: &Side, mut json: Value) -> Result {
    let path = escaped(if to.entry.is_some() { to.path.as_str() } else { from.path.as_str() }).into_owned();
    let (old, new) = (from.content().await?, to.content().await?);
    let (Content::Text(old), Content::Text(new)) = (&old, &new) else {
        let binary = matches!(old, Content::Binary) || matches!(new, Content::Binary);
        json["binary"] = binary.into();
        json["diff"] = Value::Null;
        let what = if binary { "binary files differ" } else { "files too long to compare by line differ" };
        return app.out.item(&json, format_args!("{what}: {path}"));
    };
    json["binary"] = false.into();
    let diff = by_line(old, new);
    if form.stat {
        let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
        let (added, removed) = (count(ChangeTag::Insert), count(ChangeTag::Delete));
        json["added"] = added.into();
        json["removed"] = removed.into();
        return app.out.item(&json, format_args!("{added:>6} + {removed:>6} -  {path}"));
    }
    let mut unified = diff.unified_diff();
    let text = unified.context_radius(form.context).header(&from.header(), &to.header()).to_string();
    if app.out.is_json() {
        json["diff"] = text.into();
        return app.out.item(&json, "");
    }
    if text.is_empty() {
        // An empty file and a missing one have the same lines.
        let change = json["change"].as_str().unwrap_or_default();
        return app.out.note(format_args!("empty file {change}: {path}"));
    }
    app.out.bytes(text.as_bytes())
}

fn by_line<'a>(old: &'a str, new: &'a str) -> TextDiff<'a, 'a, 'a, str> {
    TextDiff::configure().algorithm(Algorithm::Myers).timeout(MAX_SEARCH).diff_lines(old, new)
}

/// Returns the unified diff of two texts.
pub(crate) fn unified(old: &str, new: &str, context: usize, headers: [&str; 2]) -> String {
    by_line(old, new).unified_diff().context_radius(context).header(headers[0], headers[1]).to_string()
}

/// Returns the names of the changed attributes; none if one side does not exist. Changed names of a directory
/// are not an attribute: their entries are shown.
fn changed_attributes(from: &Side, to: &Side) -> Vec<&'static str> {
    let (Some(old), Some(new)) = (&from.entry, &to.entry) else { return Vec::new() };
    [
        ("kind", old.kind != new.kind),
        ("mode", old.mode != new.mode),
        ("owner", (old.uid, old.gid) != (new.uid, new.gid)),
        ("device", old.rdev != new.rdev),
        ("target", old.target != new.target),
        ("attributes", old.attributes != new.attributes),
        ("expiry", old.expires_at != new.expires_at),
    ]
    .into_iter()
    .filter_map(|(name, differs)| differs.then_some(name))
    .collect()
}

/// Returns true if both are files or links with the same content.
async fn same_content(from: &Side, to: &Side) -> Result<bool> {
    let (Some(old), Some(new)) = (&from.entry, &to.entry) else { return Ok(false) };
    if old.kind != new.kind || old.target != new.target {
        return Ok(false);
    }
    if old.kind != Kind::File || old.etag == new.etag {
        return Ok(true);
    }
    // Equal etags prove equal content, but writing the same bytes again changes the etag.
    Ok(old.size == new.size && equal_bytes(from, to).await?)
}

/// Compares two files in steps.
async fn equal_bytes(a: &Side, b: &Side) -> Result<bool> {
    const STEP: usize = 1 << 20;
    let a = a.fs.open(&At::from(&a.path)).await?;
    let b = b.fs.open(&At::from(&b.path)).await?;
    let mut offset = 0;
    loop {
        let (left, right) = (a.read_at(offset, STEP).await?, b.read_at(offset, STEP).await?);
        if left != right {
            return Ok(false);
        }
        // The sizes are equal, so both files end here.
        if left.is_empty() {
            return Ok(true);
        }
        offset += left.len() as u64;
    }
}
