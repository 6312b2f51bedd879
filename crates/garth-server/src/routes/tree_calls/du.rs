//! Call that counts the bytes and entries of directories.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use garth_agent::files::{Du, Files};
use garth_engine::{FileSystem, TreePath};

use super::answer::Answer;
use super::operations::SEARCH_TIME;
use super::paging::Paged;
use super::top;
use crate::errors::Refusal;
use crate::fields::{fields, integer, shell_path_field, string_of};
use crate::routes::call::Call;

/// Limit on the levels with totals of their own. A cursor has a sum for each.
const MAX_DEPTH: u64 = 16;
/// Limit on the totals of a page.
const MAX_TOTALS: usize = 1000;

fields! {
    /// Counts the bytes and entries of a path with everything below it, and of the directories in it.
    pub(crate) struct DuFields<'a> {
        /// Path; a link at its end is counted itself. Default: `/`, or the prefix of the key.
        path: Option<Cow<'a, str>> = string_of("path");
        /// Levels below the path down to which each directory has a total of its own.
        depth: usize = integer(0, MAX_DEPTH), or 0;
        ..page: Paged<MAX_TOTALS, MAX_TOTALS>;
    }
}

pub(in crate::routes) async fn du(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: DuFields<'_>,
) -> Result<Bytes, Refusal> {
    let start = fields.page.start(fs, call).await?;
    if let Some(path) = &fields.path {
        shell_path_field("path", path)?;
    }
    let whole = || top(call).map_or("/", TreePath::as_str).to_owned();
    let mut asked = Du::new(fields.path.map_or_else(whole, Cow::into_owned)).depth(fields.depth);
    (asked.limits.items, asked.cursor) = (fields.page.limit, start.after.clone());
    let began = call.env.instant();
    let stop = || began.elapsed() >= SEARCH_TIME;
    let counted = Files::new(&*start.fs).until(&stop).du(&asked).await?;
    let next = counted.next.map(|next| start.cursor(call, &next));
    Answer::new().with("items", &counted.items)?.page(next.as_deref())
}
