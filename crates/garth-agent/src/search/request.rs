//! Request of a search: the words, the filters and the limits.

use super::kind::SearchKind;
use crate::kv::Namespace;
use garth_engine::model::SearchMode;
use garth_engine::path::TreePath;

/// Search of a tree by words, and in English by meaning.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchRequest {
    /// Words to look for.
    pub text: String,
    /// Only these paths of the tree and everything below them; empty for everywhere.
    pub within: Vec<TreePath>,
    /// Only hits of these kinds; empty for all.
    pub kinds: Vec<SearchKind>,
    /// Limits values to those of this agent. Other kinds are not affected.
    pub namespace: Option<Namespace>,
    /// Only files with one of these tags; empty for any.
    pub tags_any: Vec<String>,
    /// Limit on the passages of one file, 1 to [`MAX_PER_FILE`](garth_engine::model::MAX_PER_FILE).
    pub per_file: usize,
    /// True if a passage gains from those before and after it, and from names.
    pub neighbours: bool,
    /// Number of lines before and after the best line of a hit, up to
    /// [`MAX_CONTEXT`](garth_engine::model::MAX_CONTEXT).
    pub context: usize,
    /// Features by which passages are compared.
    pub mode: SearchMode,
    /// Limit on the hits of the page.
    pub limit: usize,
    /// Start of the page: 0, or [`SearchPage::next`](super::SearchPage::next) of the page before.
    pub skip: usize,
}

impl SearchRequest {
    /// Returns a search of the complete tree for these words: the ten best hits, one of each file.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            within: Vec::new(),
            kinds: Vec::new(),
            namespace: None,
            tags_any: Vec::new(),
            per_file: 1,
            neighbours: true,
            context: 0,
            mode: SearchMode::default(),
            limit: 10,
            skip: 0,
        }
    }

    /// Returns true if hits of a kind are wanted.
    pub(super) fn takes(&self, kind: SearchKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}
