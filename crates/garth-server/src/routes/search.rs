//! The call `search`: the values of an agent, or everything that the caller may read.

use std::borrow::Cow;

use bytes::Bytes;
use garth_agent::kv::{DEFAULT_HITS, MAX_HITS, MAX_QUERY_CHARS, MAX_TAGS_ANY, Namespace, Search};
use garth_agent::search::{SearchKind, SearchRequest};
use garth_engine::compute::working;
use garth_engine::model::{MAX_CONTEXT, MAX_PER_FILE, SearchMode};

use super::call::Call;
use super::kv::page;
use super::open::Opened;
use super::search_note::Searched;
use crate::errors::Refusal;
use crate::fields::{Page, fields, flag, integer, path_fields, string, string_of, strings, words};
use crate::wire;

/// Limit on the paths of a call.
const MAX_PATHS: usize = 100;
/// Fields by which a call names an identity itself. The key-value API has none of them.
const IDENTITY: [&str; 6] = ["agent", "user", "key", "chat", "class", "session"];

fields! {
    /// Finds the texts that best match a question: by default, the values of an agent that were put with
    /// `searchable`.
    pub(super) struct SearchFields<'a> {
        /// Question in plain words.
        query: Cow<'a, str> = string().chars(1, MAX_QUERY_CHARS);
        /// Limits values to this key and those below it. Default: all keys.
        path_prefix: Option<Cow<'a, str>> = string_of("key path");
        /// Finds only texts with at least one of these tags. An empty array is no filter.
        tags_any: Vec<String> = strings().of("tag").at_most(MAX_TAGS_ANY), or Vec::new();
        /// Finds text of any kind below these paths of the tree. An empty array stands for all. Default:
        /// values alone, unless `kinds` is given.
        within as "in": Option<Vec<String>> = strings().of("path").at_most(MAX_PATHS);
        /// Finds only these kinds: `values`, `files`, `messages`, `memories`. An empty array stands for all.
        /// Default: values alone, or all kinds if `in` is given.
        kinds: Option<Vec<String>> = strings().of("kind").at_most(SearchKind::ALL.len());
        /// Limit on the passages of one file, each a result of its own. Default: 1.
        per_file: Option<usize> = integer(1, MAX_PER_FILE as u64);
        /// `true` raises the score of a passage by those before and after it, and by the names of its file
        /// and directory. Default: `true`.
        neighbours: Option<bool> = flag();
        /// Lines to return before and after the best line of a result. Default: 0.
        context: Option<usize> = integer(0, MAX_CONTEXT as u64);
        /// Features by which texts are compared with the question: its words, or words and meaning. Default:
        /// `meaning`.
        mode: Option<Cow<'a, str>> = words(&["words", "meaning"]);
        ..page: Page<MAX_HITS, DEFAULT_HITS>;
    }
}

/// Answers the call.
pub(super) async fn search(
    opened: &Opened<'_>,
    call: &Call<'_>,
    fields: SearchFields<'_>,
) -> Result<Bytes, Refusal> {
    let searched = fields.searched();
    // Clients of the key-value API alone get an answer without further fields, also with a bound key.
    if !fields.asks_for_more() && !names_somebody(call) {
        let (path_prefix, tags_any) = (fields.path_prefix.as_deref(), fields.tags_any);
        let search = Search { query: &fields.query, path_prefix, tags_any };
        let kv = opened.key_values()?;
        let found = kv.search(&search, page(&fields.page)).await?;
        let note = searched.note(0).filter(|_| found.items.is_empty());
        return Ok(wire::search(&found, note, &call.fields));
    }
    let (asked, tree) = (asked(call, fields)?, opened.recalled().await?);
    let found = tree.searcher().search(&asked).await?;
    let note = searched.note(found.missing).filter(|_| found.hits.is_empty());
    let answer = wire::described(&found, note, &call.fields);
    working(answer.len());
    Ok(answer)
}

impl SearchFields<'_> {
    /// Returns true if the call has a field that a search of values alone does not need.
    fn asks_for_more(&self) -> bool {
        let of_hits = self.per_file.is_some() || self.neighbours.is_some() || self.context.is_some();
        self.within.is_some() || self.kinds.is_some() || of_hits || self.mode.is_some()
    }

    /// Returns what the search can find, for the note of an empty answer.
    fn searched(&self) -> Searched {
        let limits = [
            ("path_prefix", self.path_prefix.is_some()),
            ("tags_any", !self.tags_any.is_empty()),
            ("in", self.within.as_ref().is_some_and(|paths| !paths.is_empty())),
            ("kinds", self.kinds.as_ref().is_some_and(|kinds| !kinds.is_empty())),
        ];
        Searched {
            has_values_alone: self.within.is_none() && self.kinds.is_none(),
            filters: limits.into_iter().filter_map(|(name, is_set)| is_set.then_some(name)).collect(),
            is_first_page: self.page.cursor.is_none(),
        }
    }
}

/// Returns true if the call names an identity, rather than its key alone.
fn names_somebody(call: &Call<'_>) -> bool {
    call.fields.sorted().any(|(name, json)| IDENTITY.contains(&name) && json != "null")
}

fn asked(call: &Call<'_>, fields: SearchFields<'_>) -> Result<SearchRequest, Refusal> {
    let mut asked = SearchRequest::new(fields.query);
    let is_open = fields.within.is_some() || fields.kinds.is_some();
    asked.within = path_fields("in", &fields.within.unwrap_or_default())?;
    asked.kinds = match fields.kinds {
        Some(words) => kinds(&words)?,
        None if is_open => Vec::new(),
        None => vec![SearchKind::Values],
    };
    // Where everything is searched, only a call that names an agent or a key limits the values.
    if !is_open || call.caller.agent_id.is_some() || fields.path_prefix.is_some() {
        let prefix = fields.path_prefix.as_deref().unwrap_or("/");
        asked.namespace = Some(Namespace::new(call.caller.namespace(), prefix)?);
    }
    asked.tags_any = fields.tags_any;
    asked.per_file = fields.per_file.unwrap_or(asked.per_file);
    asked.neighbours = fields.neighbours.unwrap_or(asked.neighbours);
    asked.context = fields.context.unwrap_or(asked.context);
    if fields.mode.as_deref() == Some("words") {
        asked.mode = SearchMode::Words;
    }
    asked.limit = fields.page.limit;
    asked.skip = skipped(fields.page.cursor.as_deref())?;
    Ok(asked)
}

/// Returns the kinds that words name.
fn kinds(words: &[String]) -> Result<Vec<SearchKind>, Refusal> {
    let known = || SearchKind::ALL.map(SearchKind::as_str).join("\", \"");
    let kind = |word: &String| {
        let unknown = || Refusal::validation(format!("\"kinds\" must be an array of \"{}\"", known()));
        SearchKind::named(word).ok_or_else(unknown)
    };
    words.iter().map(kind).collect()
}

/// Returns the number of hits that earlier pages have passed.
fn skipped(cursor: Option<&str>) -> Result<usize, Refusal> {
    let Some(cursor) = cursor else { return Ok(0) };
    cursor.parse::<usize>().map_err(|_| Refusal::cursor())
}
