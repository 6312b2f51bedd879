//! Search of an account, or of a view of it, in pages of described hits.

use std::collections::HashSet;

use super::describe::{BATCH, PlacedHit, described};
use super::hit::{HitKind, SearchHit};
use super::kind::{Place, SearchKind};
use super::request::SearchRequest;
use crate::account_paths::{AccountPaths, both};
use crate::boxed;
use crate::kv::MAX_PAGE_VALUES;
use crate::memory::Level;
use crate::recall::untouched;
use garth_engine::env::Env;
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::{Hit, MAX_HITS, PatternBelow, SearchAnswer, SearchQuery, Weigh};
use garth_engine::path::TreePath;
use garth_engine::text::question::Question;

/// Number of hits that the filesystem is asked for beyond those of a page and of the pages before it. Some of
/// the hits may not be shown, and one shows that there is a next page.
const SPARE_HITS: usize = 100;

/// Handle to search one account.
///
/// ```
/// use garth::FileSystemExt;
/// use garth_agent::search::{SearchRequest, Searcher};
///
/// # futures::executor::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let data = garth::builder().open(&folder.path().join("data"))?;
/// data.create_account("default").await?;
/// let account = data.account("default").await?;
/// account.write("/notes.md", "Alice takes her coffee black.\n").await?;
///
/// let found = Searcher::new(&account, "default").search(&SearchRequest::new("coffee")).await?;
/// assert_eq!(found.hits[0].to_json()["kind"], "files");
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Searcher<'a> {
    fs: &'a dyn FileSystem,
    env: Env,
    paths: AccountPaths,
}

/// Page of hits, best first.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SearchPage {
    /// Hits.
    pub hits: Vec<SearchHit>,
    /// Start of the next page; `None` if this is the last one.
    pub next: Option<usize>,
    /// True if there is a next page, or there are more matches than one search examines.
    pub more: bool,
    /// Number of files with text that is not indexed yet, counted up to 1,000.
    pub missing: u64,
}

impl<'a> Searcher<'a> {
    /// Returns a handle to search the tree of `account`.
    pub fn new(fs: &'a dyn FileSystem, account: &str) -> Self {
        Self { fs, env: Env::system(), paths: AccountPaths::new(account) }
    }

    /// Sets the clock. The default is that of the machine.
    #[must_use]
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Sets the directories of the account's tree that a view contains: the path of each in the view, and in
    /// the account.
    #[must_use]
    pub fn places(self, places: Vec<(TreePath, TreePath)>) -> Self {
        Self { paths: self.paths.with_places(places), ..self }
    }

    /// Searches the tree. Files that garth writes for itself, files of a workspace that nobody has changed,
    /// memories that are not valid now and values that were put without `searchable` are not found. A memory
    /// is found by its text, or else by one layer, whatever page it is on. A page has at most
    /// [`MAX_PAGE_VALUES`] bytes of text, and at least one hit, whatever its size; all pages together cover
    /// the best 1,000 passages.
    ///
    /// A page costs one search, which ranks the pages before it again without reading their snippets and
    /// contexts, and reads of its own hits. A second search, for 1,000 hits, follows if too many may not be
    /// shown, or if the page has a layer of a memory.
    ///
    /// # Errors
    /// `InvalidArgument` for a limit out of range; `Unsupported` if the tree has no search; errors of the
    /// filesystem.
    #[boxed]
    pub async fn search(&self, asked: &SearchRequest) -> Result<SearchPage> {
        let Some(query) = self.query(asked)? else { return Ok(SearchPage::default()) };
        let question = Question::parse(&asked.text);
        let mut limit = asked.skip.saturating_add(asked.limit).saturating_add(SPARE_HITS).min(MAX_HITS);
        loop {
            let found = self.fs.search(&query.clone().limit(limit)).await?;
            let is_complete = found.hits.len() < limit || limit == MAX_HITS;
            let page = self.page(asked, question.as_ref(), &found).await?;
            // Some of the hits may not be shown, so a full list can give too few. And it can lack the text of
            // a memory that has a layer in it: the memory would be found again on a later page.
            if is_complete || (page.next.is_some() && !page.hits.iter().any(is_layer)) {
                return Ok(page);
            }
            limit = MAX_HITS;
        }
    }

    /// Returns what each hit of a search for `text` is in; `None` for one that [`search`](Self::search) does
    /// not return.
    ///
    /// # Errors
    /// Errors of the filesystem.
    #[boxed]
    pub async fn describe(&self, text: &str, hits: &[Hit]) -> Result<Vec<Option<HitKind>>> {
        let question = Question::parse(text);
        let mut kinds = Vec::with_capacity(hits.len());
        for batch in hits.chunks(BATCH) {
            let untouched = untouched(&self.paths, self.fs, batch).await?;
            let places = self.places_of(batch, &untouched);
            let placed = batch.iter().zip(&places);
            let placed: Vec<PlacedHit<'_>> =
                placed.filter_map(|(hit, place)| Some((hit, place.as_ref()?))).collect();
            let of_batch = described(self.fs, &placed, (question.as_ref(), self.env.now())).await?;
            let mut of_batch = of_batch.into_iter();
            kinds.extend(places.iter().map(|place| place.as_ref().and_then(|_| of_batch.next().flatten())));
        }
        Ok(kinds)
    }

    /// Returns the search of the filesystem; `None` if nothing passes the filters.
    fn query(&self, asked: &SearchRequest) -> Result<Option<SearchQuery>> {
        let mut within = asked.within.clone();
        if asked.kinds == [SearchKind::Values]
            && let Some(namespace) = &asked.namespace
        {
            let mut shown = Vec::new();
            for place in namespace.places() {
                shown.extend(self.paths.shown(place)?);
            }
            within = if within.is_empty() { shown } else { both(&within, &shown) };
            if within.is_empty() {
                return Ok(None);
            }
        }
        let query = SearchQuery::new(asked.text.as_str()).within_any(within);
        let query = query.tags_any(asked.tags_any.iter().cloned()).per_file(asked.per_file);
        let query = query.neighbours(asked.neighbours).context(asked.context).mode(asked.mode);
        // The hits of the pages before are only counted, and compared by their paths.
        let mut query = query.text_from(asked.skip).layers(asked.takes(SearchKind::Memories));
        if let Some(patterns) = self.patterns(asked) {
            // Without a pattern, every path would be searched.
            if patterns.is_empty() {
                return Ok(None);
            }
            query.patterns = patterns;
        }
        query.check()?;
        Ok(Some(query))
    }

    /// Returns patterns for the kinds, so that hits of other kinds do not use up the hits of the filesystem;
    /// `None` if only the hits can be judged.
    fn patterns(&self, asked: &SearchRequest) -> Option<Vec<PatternBelow>> {
        if asked.kinds.is_empty() {
            return None;
        }
        let mut wanted: Vec<&str> = Vec::new();
        for kind in &asked.kinds {
            wanted.extend(kind.patterns()?);
        }
        self.paths.patterns(&wanted)
    }

    /// Returns the page of the hits that may be shown.
    async fn page(
        &self,
        asked: &SearchRequest,
        question: Option<&Question>,
        found: &SearchAnswer,
    ) -> Result<SearchPage> {
        let untouched = untouched(&self.paths, self.fs, &found.hits).await?;
        let places = self.wanted_places(asked, &found.hits, &untouched);
        let ranked = found.hits.iter().zip(&places).enumerate().skip(asked.skip);
        let ranked: Vec<(usize, PlacedHit<'_>)> =
            ranked.filter_map(|(rank, (hit, place))| Some((rank, (hit, place.as_ref()?)))).collect();
        let mut page = SearchPage { more: found.more, missing: found.missing, ..SearchPage::default() };
        let mut bytes = 0;
        for batch in ranked.chunks(BATCH) {
            let placed: Vec<PlacedHit<'_>> = batch.iter().map(|(_, placed)| *placed).collect();
            let kinds = described(self.fs, &placed, (question, self.env.now())).await?;
            for ((rank, (hit, _)), kind) in batch.iter().zip(kinds) {
                let Some(kind) = kind.filter(|kind| asked.takes(kind.kind())) else { continue };
                bytes += weight(hit, &kind);
                if page.hits.len() == asked.limit || (bytes > MAX_PAGE_VALUES && !page.hits.is_empty()) {
                    // A rank among the hits of the filesystem: the next page skips those that were judged.
                    (page.next, page.more) = (Some(*rank), true);
                    return Ok(page);
                }
                page.hits.push(SearchHit::new((*hit).clone(), kind));
            }
        }
        Ok(page)
    }

    /// Returns the meaning of the path of each hit; `None` for one that may not be shown.
    fn places_of(&self, hits: &[Hit], untouched: &HashSet<TreePath>) -> Vec<Option<Place>> {
        let shown = hits.iter().map(|hit| Some(&hit.path).filter(|path| !untouched.contains(*path)));
        shown.map(|path| Place::of(&self.paths, path?)).collect()
    }

    /// Returns the meaning of the path of each hit; `None` for one that the request does not want.
    fn wanted_places(
        &self,
        asked: &SearchRequest,
        hits: &[Hit],
        untouched: &HashSet<TreePath>,
    ) -> Vec<Option<Place>> {
        let mut places = self.places_of(hits, untouched);
        let found_by_text = places.iter().flatten().filter_map(|place| match place {
            Place::Memory { dir, level: Level::Content, .. } => Some(dir.clone()),
            _ => None,
        });
        // A layer says the same as the text, so the best one is shown only if the text was not found.
        let found_by_text: HashSet<TreePath> = found_by_text.collect();
        let mut found_by_layer = HashSet::new();
        for place in &mut places {
            let is_wanted = place.as_ref().is_some_and(|place| {
                asked.kinds.is_empty() || asked.kinds.iter().any(|kind| place.may_be(*kind))
            });
            let is_in = match &*place {
                Some(Place::Value(file)) => {
                    asked.namespace.as_ref().is_none_or(|namespace| namespace.contains(file))
                }
                Some(Place::Memory { dir, level: Level::Abstract | Level::Overview, .. }) => {
                    !found_by_text.contains(dir) && found_by_layer.insert(dir.clone())
                }
                _ => true,
            };
            if !is_wanted || !is_in {
                *place = None;
            }
        }
        places
    }
}

/// Returns true for a memory that was found by its abstract or overview.
fn is_layer(hit: &SearchHit) -> bool {
    matches!(hit.kind, HitKind::Memory { layer: Level::Abstract | Level::Overview, .. })
}

/// Returns the bytes of text in a hit.
fn weight(hit: &Hit, kind: &HitKind) -> usize {
    let context = hit.context.as_ref().map_or(0, |context| context.text.len());
    let value = match kind {
        HitKind::Value { value, .. } => {
            value.value.get().len() + value.tags.iter().map(Weigh::weight).sum::<usize>()
        }
        _ => 0,
    };
    hit.snippet.len() + context + value
}
