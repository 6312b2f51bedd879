//! The tool `ls`: names in a directory.

use std::borrow::Cow;
use std::sync::Arc;

use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{At, Entry, Item, Page};
use garth_engine::{FileSystem, Name, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{Lines, ToolAnswer, bytes, minute};
use super::paths::{absolute, kind, shown};
use crate::errors::Refusal;
use crate::fields::{fields, string, string_of};
use crate::routes::call::Call;

/// Limit on the names of an answer.
const MAX_NAMES: usize = 500;

fields! {
    /// Lists a directory: names, sizes, times of change. For subdirectories use `glob`.
    pub(crate) struct LsFields<'a> {
        /// Directory.
        path: Cow<'a, str> = string_of("path"), or Cow::Borrowed("/");
        /// After.
        after: Option<Cow<'a, str>> = string();
    }
}

/// Runs the tool.
pub(super) async fn ls(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: LsFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    let after = fields.after.as_deref().map(Name::parse).transpose();
    let after = after.map_err(|error| Refusal::validation(format!("\"after\": {error}")))?;
    let page = Page::<Name>::default().after(after).limit(MAX_NAMES).with_entries();
    let (fs, page) = (&**fs, &page);
    let asked = absolute(call, &fields.path);
    let (path, found) = resolve::retry(fs, &asked, Follow::Yes, |path| async move {
        let found = fs.list(&At::from(&path), page).await?;
        Ok((path, found))
    })
    .await?;
    let (mut lines, mut entries) = (Lines::default(), Vec::new());
    let is_empty = found.items.is_empty();
    lines.push(&format!("{}:{}", shown(path.as_str()), if is_empty { " no names" } else { "" }));
    for item in &found.items {
        if !lines.push(&line(item)) {
            break;
        }
        entries.push(ListedEntry::of(item));
    }
    let has_more = found.more || entries.len() < found.items.len();
    let next = entries.last().filter(|_| has_more).map(|last| last.name.to_string());
    if let Some(next) = &next {
        lines.end_with(&format!("There are more: call again with after = {next:?}."));
    }
    ToolAnswer::new(lines.into_text(), &Listed { path: &path, entries, next })
}

fn line(Item { name, entry, .. }: &Item) -> String {
    let name = shown(name.as_str());
    match entry.as_deref() {
        Some(entry) if entry.is_dir() => format!("{name}/"),
        Some(Entry { target: Some(target), .. }) => format!("{name} -> {}", shown(target)),
        Some(entry) => format!("{name}  {}  {}", bytes(entry.size), minute(entry.mtime)),
        None => name.into_owned(),
    }
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct Listed<'a> {
    path: &'a TreePath,
    entries: Vec<ListedEntry<'a>>,
    /// Name after which the list continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Name in a directory.
#[derive(Serialize, JsonSchema)]
struct ListedEntry<'a> {
    name: &'a Name,
    kind: &'static str,
    size: u64,
    modified: String,
}

impl<'a> ListedEntry<'a> {
    fn of(item: &'a Item) -> Self {
        let entry = item.entry.as_deref();
        Self {
            name: &item.name,
            kind: entry.map_or("other", kind),
            size: entry.map_or(0, |entry| entry.size),
            modified: entry.map(|entry| minute(entry.mtime)).unwrap_or_default(),
        }
    }
}
