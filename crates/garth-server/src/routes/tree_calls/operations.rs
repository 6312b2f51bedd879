//! Calls of the library's operations on files, besides the search of lines: paths by pattern, differences and
//! exact edits.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use garth_agent::files::{
    Change, ContentDifference, Diff, DiffForm, Difference, Edit, EditError, Edited, Files, Glob, GlobMatch,
    Limits,
};
use garth_engine::model::{Entry, Ino, Kind, VersionId};
use garth_engine::{Error, FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::answer::{Answer, NextPage};
use super::content::ItemError;
use super::paging::{Paged, RawPage, moment_from, moment_text};
use super::top;
use crate::errors::{Code, Refusal};
use crate::fields::{
    MAX_INTEGER, fields, flag, integer, moment, of_field, shell_path_field, string, string_of, words,
};
use crate::routes::call::Call;
use crate::routes::respond::raw;

/// Limit on the bytes of content that one call reads, 64 MiB.
pub(super) const MAX_READ: u64 = 64 << 20;
/// Time after which a page ends.
pub(crate) const SEARCH_TIME: Duration = Duration::from_secs(5);
/// Limit on the paths of a page of `glob`.
const MAX_MATCHES: usize = 1000;
/// Limit on the differences of a page.
const MAX_DIFFERENCES: usize = 500;
/// Limit on the lines of context of a hunk.
const MAX_CONTEXT: u64 = 100;
/// Longest file in bytes that is compared by line, 2 MiB: both sides are held in memory.
const MAX_TEXT: u64 = 2 << 20;
/// Limit on the lines of a file that is compared by line.
const MAX_LINES: usize = 50_000;
/// Attempts of an edit that other writers of the file overtake.
const ATTEMPTS: usize = 100;

fields! {
    /// Returns the paths that match a pattern.
    pub(crate) struct GlobFields<'a> {
        /// Pattern of complete paths, which begins with `/`.
        pattern: Cow<'a, str> = string_of("pattern");
        /// `true` returns the complete node of each path.
        entries: bool = flag(), or false;
        ..page: Paged<MAX_MATCHES, MAX_MATCHES>;
    }
}

pub(in crate::routes) async fn glob(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: GlobFields<'_>,
) -> Result<Bytes, Refusal> {
    let start = fields.page.start(fs, call).await?;
    let mut asked = Glob::new(fields.pattern);
    asked.top = top(call).cloned();
    (asked.limits.items, asked.cursor) = (fields.page.limit, start.after.clone());
    let began = call.env.instant();
    let stop = || began.elapsed() >= SEARCH_TIME;
    let found = Files::new(&*start.fs).until(&stop).glob(&asked).await?;
    let items: Vec<FoundPath<'_>> =
        found.items.iter().map(|found| FoundPath::of(found, fields.entries)).collect();
    let failed: Vec<FailedPath> = found.failed.into_iter().map(FailedPath::of).collect();
    let next = found.next.map(|next| start.cursor(call, &next));
    let answer = Answer::new().with("items", &items)?;
    let answer = if failed.is_empty() { answer } else { answer.with("failed", &failed)? };
    answer.page(next.as_deref())
}

/// Paths that match a pattern.
#[allow(dead_code)] // It only describes the answer, which is written field by field.
#[derive(JsonSchema)]
#[schemars(rename = "TreeGlobAnswer")]
pub(in crate::routes) struct GlobAnswer {
    /// Paths that match.
    items: Vec<FoundPath<'static>>,
    /// Directories that are left out because they cannot be read.
    #[schemars(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<FailedPath>,
    #[schemars(flatten)]
    next: NextPage,
}

/// Directory that is left out.
#[derive(Serialize, JsonSchema)]
struct FailedPath {
    /// Path of the directory, if it is known.
    path: Option<TreePath>,
    /// Error.
    error: ItemError,
}

impl FailedPath {
    /// Returns the directory that an error is about, and logs the cause.
    fn of(error: Error) -> Self {
        Self { path: error.path().cloned(), error: ItemError::of(error.into()) }
    }
}

/// Path that matches a pattern.
#[derive(Serialize, JsonSchema)]
struct FoundPath<'a> {
    /// Path.
    path: &'a TreePath,
    /// Inode of the node.
    ino: Ino,
    /// Kind of the node.
    kind: Kind,
    /// Node, if `entries` asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<&'a Entry>,
}

impl<'a> FoundPath<'a> {
    fn of(found: &'a GlobMatch, with_entry: bool) -> Self {
        let entry = &found.entry;
        Self { path: &found.path, ino: entry.ino, kind: entry.kind, entry: with_entry.then_some(entry) }
    }
}

fields! {
    /// Compares two states of a path, or two paths, with everything below them. One of `from`, `to` and
    /// `other` is required.
    pub(crate) struct DiffFields<'a> {
        /// Path; of two, the older side.
        path: Cow<'a, str> = string_of("path");
        /// Path of the newer side. Default: the same one.
        other: Option<Cow<'a, str>> = string_of("path");
        /// State of the older side: a time, a sequence or the name of a snapshot. Default: the newest.
        from: Option<Cow<'a, str>> = moment();
        /// State of the newer side. Default: the newest.
        to: Option<Cow<'a, str>> = moment();
        /// Parts of a difference: only its path, also numbers of lines, or also hunks of a unified diff.
        form: Cow<'a, str> = words(&["names", "counts", "hunks"]), or Cow::Borrowed("hunks");
        /// Lines of context around the changed lines of a hunk.
        context: usize = integer(0, MAX_CONTEXT), or 3;
        ..page: RawPage<MAX_DIFFERENCES, MAX_DIFFERENCES>;
    }
}

pub(in crate::routes) async fn diff(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: DiffFields<'_>,
) -> Result<Bytes, Refusal> {
    // As in the pages of one state, the cursor carries both.
    let cursor = fields.page.cursor.as_deref().map(|cursor| call.fields.position(cursor)).transpose()?;
    let (from, to, after) = match &cursor {
        Some(cursor) => {
            let mut parts = cursor.splitn(3, '|');
            let (Some(from), Some(to), Some(after)) = (parts.next(), parts.next(), parts.next()) else {
                return Err(Refusal::cursor());
            };
            (moment_from(from)?, moment_from(to)?, Some(after.to_owned()))
        }
        None if fields.other.is_none() && fields.from.is_none() && fields.to.is_none() => {
            let message = "give \"from\", \"to\" or \"other\": the newest state does not differ from itself";
            return Err(Refusal::validation(message));
        }
        None => {
            let from = call.moment_of(fields.from.as_deref()).await?;
            (from, call.moment_of(fields.to.as_deref()).await?, None)
        }
    };
    let states = format!("{}|{}", moment_text(from.as_ref()), moment_text(to.as_ref()));
    shell_path_field("path", &fields.path)?;
    if let Some(other) = &fields.other {
        shell_path_field("other", other)?;
    }
    let mut asked = Diff::between(fields.path, "");
    asked.other = fields.other.map(Cow::into_owned);
    (asked.from, asked.to, asked.cursor) = (from, to, after);
    (asked.max_text, asked.max_lines) = (MAX_TEXT, MAX_LINES);
    asked.form = match &*fields.form {
        "names" => DiffForm::Names,
        "counts" => DiffForm::Counts,
        _ => DiffForm::Hunks(fields.context),
    };
    let mut limits = Limits::default();
    (limits.items, limits.read) = (fields.page.limit, MAX_READ);
    asked.limits = limits;
    let began = call.env.instant();
    let stop = || began.elapsed() >= SEARCH_TIME;
    let found = Files::new(&**fs).until(&stop).diff(&asked).await?;
    let items: Vec<FoundDifference<'_>> = found.items.iter().map(FoundDifference::of).collect();
    let next = found.next.map(|next| call.fields.cursor_of(&format!("{states}|{next}")));
    Answer::new().with("items", &items)?.page(next.as_deref())
}

/// Difference of one path.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PathDifference")]
pub(in crate::routes) struct FoundDifference<'a> {
    /// Path in the newer state; of a removed entry, in the older one.
    path: &'a TreePath,
    /// Path in the older state, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_path: Option<&'a TreePath>,
    /// Kind of the change.
    change: Change,
    /// Kind of the entry in the older state, and in the newer one.
    kinds: [Option<Kind>; 2],
    /// Attributes that differ.
    attributes: &'a [&'static str],
    /// `lines`, `binary`, `too_long`, or `gone` for content that is no longer stored; `null` if the content
    /// does not differ.
    content: Option<&'static str>,
    #[serde(flatten)]
    lines: Option<FoundLines<'a>>,
}

/// Lines that differ.
#[derive(Serialize, JsonSchema)]
struct FoundLines<'a> {
    /// Number of added lines.
    added: usize,
    /// Number of removed lines.
    removed: usize,
    /// Hunks of the unified diff.
    hunks: &'a str,
    /// True if the next page continues with this path.
    more: bool,
}

impl<'a> FoundDifference<'a> {
    fn of(difference: &'a Difference) -> Self {
        let (content, lines) = match &difference.content {
            None => (None, None),
            Some(ContentDifference::Binary) => (Some("binary"), None),
            Some(ContentDifference::Gone) => (Some("gone"), None),
            Some(ContentDifference::Lines { added, removed, hunks, more }) => {
                let lines = FoundLines { added: *added, removed: *removed, hunks, more: *more };
                (Some("lines"), Some(lines))
            }
            Some(_) => (Some("too_long"), None),
        };
        Self {
            path: &difference.path,
            from_path: difference.from_path.as_ref(),
            change: difference.change,
            kinds: difference.kinds,
            attributes: &difference.attributes,
            content,
            lines,
        }
    }
}

fields! {
    /// Edits a text file: replaces one text by another (`old`, `new`), or inserts lines (`line`, `text`).
    pub(crate) struct EditFields<'a> {
        /// Path of the file.
        path: Cow<'a, str> = string_of("path");
        /// Text to replace, not empty. It must occur once, unless `all` is `true`. Default: none.
        old: Option<Cow<'a, str>> = string().not_empty();
        /// Text that takes its place. Default: none.
        new: Option<Cow<'a, str>> = string();
        /// `true` replaces every occurrence.
        all: bool = flag(), or false;
        /// Line after which to insert; 0 is before the first one. Default: none.
        line: Option<u64> = integer(0, MAX_INTEGER);
        /// Text to insert, not empty. Default: none.
        text: Option<Cow<'a, str>> = string().not_empty();
        /// Version whose content is edited; any other content is a conflict. Default: the newest.
        if_version: Option<Cow<'a, str>> = string_of("version");
        /// Reason for the commit.
        message: Cow<'a, str> = string(), or Cow::Borrowed("");
    }
}

pub(in crate::routes) async fn edit(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: EditFields<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let edit = match (fields.old, fields.new, fields.line, fields.text) {
        (Some(old), Some(new), None, None) => Edit::replace(old, new).all(fields.all),
        (None, None, Some(line), Some(text)) if !fields.all => Edit::insert(line, text),
        _ => {
            let message = r#"give "old" and "new", and "all" if you like, or "line" and "text""#;
            return Err(Refusal::validation(message));
        }
    };
    let version = fields.if_version.map(|version| of_field("if_version", version.parse::<VersionId>()));
    let (path, version) = (shell_path_field("path", &fields.path)?, version.transpose()?);
    let is_of_newest = version.is_none();
    let edit = edit.if_version(version);
    let files = Files::new(&**fs).message(fields.message).once(call.once.clone());
    for _ in 1..ATTEMPTS {
        match files.edit(path, &edit).await {
            // Another writer was faster, and the edit may apply to what it wrote.
            Err(EditError::Conflict { current: Some(_), .. }) if is_of_newest => {}
            done => return answered(done),
        }
    }
    answered(files.edit(path, &edit).await)
}

fn answered(done: Result<Edited, EditError>) -> Result<Box<RawValue>, Refusal> {
    let edited = done.map_err(|error| match error {
        // The file is there, and `NOT_FOUND` would say that it is not.
        EditError::NotFound { path } => {
            let message = format!(
                "{path}: the text of \"old\" is not in the file; read it with `POST /v1/tree/fetch`, and send \
                 text that is in it"
            );
            Refusal::new(Code::Conflict, message).naming(path.as_str())
        }
        error => Error::from(error).into(),
    })?;
    raw(&EditAnswer { ok: true, edited })
}

/// Answer of `edit`.
#[derive(Serialize, JsonSchema)]
pub(in crate::routes) struct EditAnswer {
    /// `true`.
    ok: bool,
    #[serde(flatten)]
    edited: Edited,
}
