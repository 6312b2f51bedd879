//! The tool `edit_file`: one text of a file for another.

mod missing;

use std::borrow::Cow;
use std::sync::Arc;

use garth_agent::files::{Edit, EditError, Edited, Files};
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::VersionId;
use garth_engine::{Error, FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use self::missing::missing;
use super::answer::{ToolAnswer, counted};
use super::paths::{absolute, shown};
use super::versions::{IfVersion, conflict, expected};
use crate::errors::{Code, Refusal};
use crate::fields::{fields, flag, string, string_of};
use crate::routes::call::Call;

/// Attempts of an edit that other writers of the file overtake.
const ATTEMPTS: usize = 100;
/// Limit on the lines that a refusal lists.
const MAX_PLACES: usize = 20;

fields! {
    /// Replaces a text that occurs exactly once in a file, or each occurrence with replace_all; copy it from
    /// `read_file` without line numbers. If it no longer fits, the error says what changed and by whom.
    pub(crate) struct EditFileFields<'a> {
        /// Path.
        path: Cow<'a, str> = string_of("path");
        /// Exact text to replace.
        old_string: Cow<'a, str> = string();
        /// New string.
        new_string: Cow<'a, str> = string();
        /// Replace all.
        replace_all: bool = flag(), or false;
        ..required: IfVersion<'a>;
    }
}

/// Runs the tool.
pub(super) async fn edit_file(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: EditFileFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    let (fs, asked) = (&**fs, absolute(call, &fields.path));
    let version = fields.required.version()?;
    let (old, new) = (&*fields.old_string, &*fields.new_string);
    if let Some(version) = version {
        let path = resolve::resolve(fs, &asked, Follow::Yes).await?;
        expected(fs, call, &path, version).await?;
    }
    let edit = |old: &str, new: &str| Edit::replace(old, new).all(fields.replace_all).if_version(version);
    let (files, of_newest) = (Files::new(fs).once(call.once.clone()), version.is_none());
    let mut edited = run(&files, &asked, &edit(old, new), of_newest).await;
    // Models write line feeds alone, and files of other systems have CRLF.
    if matches!(edited, Err(EditError::NotFound { .. })) && old.contains('\n') && !old.contains('\r') {
        let in_crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
        match run(&files, &asked, &edit(&in_crlf(old), &in_crlf(new)), of_newest).await {
            Err(EditError::NotFound { .. }) => {}
            other => edited = other,
        }
    }
    match edited {
        Ok(edited) => answer(&edited),
        Err(error) => Err(refused(fs, call, (error, version), old).await),
    }
}

/// Edits a file. An edit `of_newest` that another writer overtakes may apply to what that one wrote.
async fn run(files: &Files<'_>, path: &str, edit: &Edit, of_newest: bool) -> Result<Edited, EditError> {
    for _ in 1..ATTEMPTS {
        match files.edit(path, edit).await {
            Err(EditError::Conflict { current: Some(_), .. }) if of_newest => {}
            done => return done,
        }
    }
    files.edit(path, edit).await
}

fn answer(edited: &Edited) -> Result<ToolAnswer, Refusal> {
    let (path, version) = (shown(edited.path.as_str()), edited.version);
    let text = match edited.changed {
        true => {
            let count = counted(edited.count as u64, "replacement", "replacements");
            format!("Edited {path}: {count}, the first in line {}, version {version}.", edited.line)
        }
        false => format!("{path} is unchanged: old_string and new_string are equal; version {version}."),
    };
    let done = FileEdited { path: &edited.path, version, replacements: edited.count, line: edited.line };
    ToolAnswer::new(text, &done)
}

/// Returns the refusal of an edit.
async fn refused(
    fs: &dyn FileSystem,
    call: &Call<'_>,
    (error, version): (EditError, Option<VersionId>),
    old: &str,
) -> Refusal {
    match error {
        EditError::NotFound { path } => missing(fs, call, &path, old).await,
        EditError::Several { path, count, lines } => Refusal::validation(several(&path, count, &lines)),
        EditError::Conflict { path, current } => match version.or(current) {
            Some(version) => conflict(fs, call, &path, version).await,
            None => Refusal::new(Code::Conflict, format!("{path} was removed while it was edited")),
        },
        other => Refusal::from(Error::from(other)),
    }
}

fn several(path: &TreePath, count: usize, lines: &[u64]) -> String {
    let shown: Vec<String> = lines.iter().take(MAX_PLACES).map(u64::to_string).collect();
    let (word, lines) = (if shown.len() == 1 { "line" } else { "lines" }, shown.join(", "));
    format!(
        "old_string occurs {count} times in {path}, in {word} {lines}; add lines around it until it is \
         unique, or set replace_all"
    )
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct FileEdited<'a> {
    path: &'a TreePath,
    version: VersionId,
    replacements: usize,
    line: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_text_is_refused_with_its_lines() {
        let path = TreePath::parse("/a.md").unwrap();
        let message = several(&path, 3, &[1, 7]);
        assert!(message.starts_with("old_string occurs 3 times in /a.md, in lines 1, 7; add"), "{message}");
        let message = several(&path, 200, &(1..=100).collect::<Vec<_>>());
        assert!(message.contains(", 20; add"), "{message}");
    }
}
