//! The tool `glob`: paths by pattern.

use std::borrow::Cow;
use std::sync::Arc;

use garth_agent::files::{Files, Glob};
use garth_agent::memory::BESIDE_TEXT;
use garth_engine::FileSystem;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{Lines, ToolAnswer};
use super::paths::{absolute, path_of, shown};
use crate::errors::Refusal;
use crate::fields::{fields, string_of};
use crate::routes::call::Call;
use crate::routes::tree_calls::operations::SEARCH_TIME;

/// Limit on the paths of an answer.
const MAX_PATHS: usize = 300;

fields! {
    /// Finds files and directories by path pattern: * within a name, ** any directories, {a,b} either.
    /// Directories end with a slash.
    pub(crate) struct GlobFields<'a> {
        /// Pattern such as /src/**/*.md.
        pattern: Cow<'a, str> = string_of("pattern");
        /// Cursor.
        cursor: Option<Cow<'a, str>> = string_of("cursor");
    }
}

/// Runs the tool.
pub(super) async fn glob(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: GlobFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    let mut asked = Glob::new(absolute(call, &fields.pattern));
    asked.left_out = &BESIDE_TEXT;
    asked.top = call.key.binding.prefix.clone();
    asked.cursor = fields.cursor.map(Cow::into_owned);
    asked.limits.items = MAX_PATHS;
    let began = call.env.instant();
    let stop = || began.elapsed() >= SEARCH_TIME;
    let files = Files::new(&**fs).until(&stop);
    let (mut lines, paths, next) = loop {
        let found = files.glob(&asked).await?;
        let (mut lines, mut paths) = (Lines::default(), Vec::new());
        for item in &found.items {
            let path = path_of(&item.path, &item.entry);
            if !lines.push(&shown(&path)) {
                break;
            }
            paths.push(path);
        }
        // A cursor follows the last path of a page, so the page has to end with the last path that fits.
        if paths.len() == found.items.len() {
            break (lines, paths, found.next);
        }
        asked.limits.items = paths.len();
    };
    match &next {
        Some(next) => lines.end_with(&format!("There may be more: call again with cursor = {next:?}.")),
        None if paths.is_empty() => lines.end_with(&format!("No path matches {}.", shown(&asked.pattern))),
        None => {}
    }
    ToolAnswer::new(lines.into_text(), &PathsFound { paths, cursor: next })
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct PathsFound {
    paths: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}
