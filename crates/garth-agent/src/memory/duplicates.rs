//! Possible duplicates of a memory: current memories of the same owner that contain most of the words of its
//! first sentence.

use serde::{Deserialize, Serialize};

use super::file_names::META;
use super::meta::{Meta, Status};
use super::state::read_all;
use super::uri::{Space, Uri};
use super::{Memories, layers};
use garth_engine::error::Result;
use garth_engine::model::SearchQuery;
use garth_engine::path::TreePath;

/// Smallest share of the words, by weight: a sentence that differs in one word of four is still a possible
/// duplicate.
const MIN_SCORE: f64 = 0.7;

/// Limit on the duplicates returned.
pub(super) const MOST: usize = 5;

/// Limit on the duplicates that are looked at to find one by its complete text. A search returns as many.
pub(super) const MOST_SIMILAR: usize = 4 * MOST;

/// Possible duplicate of a memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Duplicate {
    /// URI of the duplicate.
    pub uri: Uri,
    /// Share of the words that it contains, 0 to 1.
    pub score: f64,
}

impl Memories<'_> {
    /// Returns possible duplicates of a memory with this text; `None` if the tree has no search.
    pub(super) async fn near(&self, uri: &Uri, content: &str) -> Result<Option<Vec<Duplicate>>> {
        self.similar(uri, content, MOST).await
    }

    /// Returns up to `most` possible duplicates of a memory with this text, best first; `None` if the tree
    /// has no search.
    pub(super) async fn similar(
        &self,
        uri: &Uri,
        content: &str,
        most: usize,
    ) -> Result<Option<Vec<Duplicate>>> {
        let capabilities = self.fs.capabilities(&uri.dir());
        if !capabilities.search {
            return Ok(None);
        }
        let (kind, id) = match uri.space() {
            Space::User(id) => ("users", id),
            Space::Agent(id) => ("agents", id),
        };
        let memories = TreePath::parse(&format!("/{kind}/{id}/memories"))?;
        // The first sentence of a memory states its subject.
        let query = SearchQuery::new(layers::brief(content)).within(memories).limit(MOST_SIMILAR);
        // A put must not wait for an exhaustive search.
        let query = query.neighbours(false).without_text().quick();
        let hits = match self.fs.search(&query).await {
            Ok(answer) => answer.hits,
            Err(error) if error.is(garth_engine::error::ErrorKind::TimedOut) => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut near: Vec<Duplicate> = Vec::new();
        for hit in hits.iter().filter(|hit| hit.score >= MIN_SCORE) {
            let dir = hit.path.parent().unwrap_or_default();
            let Some(other) = Uri::of_dir(&self.account, &dir) else { continue };
            if other == *uri || near.iter().any(|known| known.uri == other) || near.len() == most {
                continue;
            }
            let [meta] = read_all(self.fs, &[other.file(META)]).await?;
            let meta = meta.and_then(|file| Meta::parse(file.bytes.as_ref()?).ok());
            if meta.is_some_and(|meta| meta.status == Status::Active && meta.valid_to.is_none()) {
                // Four digits, which JSON reproduces exactly.
                near.push(Duplicate { uri: other, score: (hit.score * 1e4).round() / 1e4 });
            }
        }
        Ok(Some(near))
    }
}
