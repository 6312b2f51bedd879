//! Calls that find nodes: by text, and by tag or custom metadata.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use garth_agent::kv::MAX_QUERY_CHARS;
use garth_engine::FileSystem;
use garth_engine::model::{
    FindCursor, FindQuery, Hit, MAX_CONTEXT, MAX_HITS, MAX_PATTERNS, MAX_PER_FILE, SearchMode, SearchQuery,
    Timestamp,
};
use schemars::JsonSchema;

use super::MAX_PATHS;
use super::answer::{Answer, Items, NextPage};
use super::paging::{RawPage, open, seal};
use crate::errors::Refusal;
use crate::fields::{
    Page, end_time, fields, flag, integer, object, path_fields, string, strings, time, words,
};
use crate::routes::call::Call;

/// Limit on the hits of a page.
const MAX_PAGE_HITS: usize = 50;
/// Default limit on the hits of a page.
const DEFAULT_HITS: usize = 10;
/// Limit on the nodes of a page of `find`.
const MAX_FOUND: usize = 200;
/// Default limit on the nodes of a page of `find`.
const DEFAULT_FOUND: usize = 100;

fields! {
    /// Finds the passages of current files that best match a question.
    pub(crate) struct SearchFields<'a> {
        /// Question in plain words.
        query: Cow<'a, str> = string().chars(1, MAX_QUERY_CHARS);
        /// Only files below one of these paths. An empty array is no filter.
        within as "in": Vec<String> = strings().of("path").at_most(MAX_PATHS), or Vec::new();
        /// Only files with at least one of these tags. An empty array is no filter.
        tags_any: Vec<String> = strings(), or Vec::new();
        /// Only files with each of these values in their custom metadata. Default: any.
        metadata: Option<BTreeMap<String, String>> = object("texts");
        /// Only paths that one of these patterns matches. An empty array is no filter.
        patterns: Vec<String> = strings().of("pattern").at_most(MAX_PATTERNS), or Vec::new();
        /// Only files whose content was changed at this time or later. Default: any time.
        since: Option<Timestamp> = time();
        /// Only files whose content was changed before this time. Default: any time.
        until: Option<Timestamp> = end_time();
        /// Limit on the passages of one file, each a hit of its own.
        per_file: usize = integer(1, MAX_PER_FILE as u64), or 1;
        /// Lines to return before and after the best line of a hit.
        context: usize = integer(0, MAX_CONTEXT as u64), or 0;
        /// Features by which texts are compared with the question: its words, or words and meaning.
        mode: Cow<'a, str> = words(&["words", "meaning"]), or Cow::Borrowed("meaning");
        /// `true` raises the score of a passage by those before and after it, and by the names of its file
        /// and directory.
        neighbours: bool = flag(), or true;
        ..page: Page<MAX_PAGE_HITS, DEFAULT_HITS>;
    }
}

pub(in crate::routes) async fn search(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: SearchFields<'_>,
) -> Result<Bytes, Refusal> {
    let number = |cursor: &str| cursor.parse::<usize>().map_err(|_| Refusal::cursor());
    let skipped = fields.page.cursor.as_deref().map(number).transpose()?.unwrap_or(0);
    if skipped >= MAX_HITS {
        return Err(Refusal::cursor());
    }
    let limit = (skipped + fields.page.limit).min(MAX_HITS);
    let mode = if fields.mode == "words" { SearchMode::Words } else { SearchMode::Meaning };
    let mut asked = SearchQuery::new(fields.query)
        .within_any(path_fields("in", &fields.within)?)
        .tags_any(fields.tags_any)
        .since(fields.since)
        .until(fields.until)
        .per_file(fields.per_file)
        .context(fields.context)
        .mode(mode)
        .neighbours(fields.neighbours)
        .limit(limit)
        .text_from(skipped);
    asked.metadata = fields.metadata.unwrap_or_default();
    for pattern in fields.patterns {
        asked = asked.pattern(pattern);
    }
    let found = fs.search(&asked).await?;
    let (mut hits, mut last, mut more) = (Items::default(), skipped, found.more && limit < MAX_HITS);
    for hit in found.hits.iter().skip(skipped) {
        if !hits.push(hit)? {
            more = true;
            break;
        }
        last += 1;
    }
    // A page without hits would be asked for again and again.
    let next = (more && last > skipped).then(|| call.fields.cursor_of(&last.to_string()));
    Answer::of("hits", hits).with("missing", &found.missing)?.page(next.as_deref())
}

/// Passages of files.
#[allow(dead_code)] // It only describes the answer, which is written item by item.
#[derive(JsonSchema)]
#[schemars(rename = "TreeSearchAnswer")]
pub(in crate::routes) struct SearchAnswer {
    /// Passages, the best first.
    hits: Vec<Hit>,
    /// Number of files with text that is not indexed yet, counted up to 1,000.
    missing: u64,
    #[schemars(flatten)]
    next: NextPage,
}

fields! {
    /// Finds nodes by a tag, or by a key of their custom metadata, in the order of keys.
    pub(crate) struct FindFields<'a> {
        /// Tag of the nodes. Default: none.
        tag: Option<Cow<'a, str>> = string();
        /// Key in the custom metadata of the nodes. Default: none.
        metadata_key: Option<Cow<'a, str>> = string();
        /// Value of `metadata_key`. Default: any.
        value: Option<Cow<'a, str>> = string();
        /// First value of `metadata_key`, in the order of bytes. Default: the first one.
        from: Option<Cow<'a, str>> = string();
        /// Only nodes at or below one of these paths. An empty array is no filter.
        within as "in": Vec<String> = strings().of("path").at_most(MAX_PATHS), or Vec::new();
        ..page: RawPage<MAX_FOUND, DEFAULT_FOUND>;
    }
}

pub(in crate::routes) async fn find(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: FindFields<'_>,
) -> Result<Bytes, Refusal> {
    let asked = match (&fields.tag, &fields.metadata_key, &fields.value, &fields.from) {
        (Some(tag), None, None, None) => FindQuery::tag(tag),
        (None, Some(key), Some(value), None) => FindQuery::metadata(key, value),
        (None, Some(key), None, from) => FindQuery::metadata_from(key, from.as_deref().unwrap_or_default()),
        _ => {
            let message = r#"give "tag", or "metadata_key" and at most one of "value" and "from""#;
            return Err(Refusal::validation(message));
        }
    };
    let after = match &fields.page.cursor {
        // The position may name keys and paths that the caller does not reach.
        Some(cursor) => Some(FindCursor::from_bytes(&open(call, cursor)?).ok_or_else(Refusal::cursor)?),
        None => None,
    };
    let asked = asked.within_any(path_fields("in", &fields.within)?).after(after).limit(fields.page.limit);
    let found = fs.find(&asked).await?;
    let next = found.next.map(|next| seal(call, &next.to_bytes())).transpose()?;
    Answer::new().with("items", &found.items)?.page(next.as_deref())
}
