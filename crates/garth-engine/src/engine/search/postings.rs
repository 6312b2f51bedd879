//! Index of words as a search asks for it, in rounds.
//!
//! A search takes [`MAX_ROUNDS`] rounds, however many words it has:
//!
//! 1. [`Postings::start`]: the newest passages of each word, of each word near in meaning, the size of the
//!    index and the passages in reach of the query, if they are few;
//! 2. [`Postings::narrow`]: the frequent words, in the passages of the rare ones or of the subtrees. It is
//!    left out if no word is frequent, or none is rare and the query has no subtrees;
//! 3. [`Postings::candidates`]: the best passages, with the judgement of their files;
//! 4. [`Postings::texts`]: the text of the best, to compare its meaning.
//!
//! It takes one more for each further [`CHUNK`] of candidates, if the first ones do not fill the answer. If
//! no passage in reach has a word of the question, it starts again with words that begin like them, after
//! one round for [`Postings::beginnings`].
//!
//! An engine may answer with more than it is asked for, as each method says: it need not send a second
//! statement to find out that the first one was enough. The search takes from the answer what another engine
//! would have returned.

use std::collections::HashMap;
use std::future::Future;

use super::forms::{Newest, Totals, WordForm};
use super::judge::Shown;
use super::passage::Passage;
use crate::error::Error;
use crate::model::Ino;
use crate::text::question::Term;

/// Rounds of a search whose words occur in passages that it may show, if the first [`CHUNK`] of candidates
/// fills the answer.
pub const MAX_ROUNDS: usize = 4;
/// Candidates whose passages are read and compared at a time.
pub const CHUNK: usize = 1_024;
/// Rows of an index that one search reads, approximately: as many as 200 ms on a slow machine allow.
pub const ROWS: usize = 60_000;
/// Up to this number, matches are always examined one by one, whatever the size of the subtree. In as many
/// passages of a subtree, only plain forms are looked up.
pub const FEW: usize = 256;

/// Words of each vocabulary that are read for the beginning of a word.
pub const ENDINGS: usize = 32;

/// Index of words that a search asks, in the state of one transaction.
pub trait Postings {
    /// Error of the storage.
    type Error: From<Error> + Send;
    /// Result for a file that the query may show.
    type File: Clone;

    /// Returns true if the index has [`Vocabulary::Words`](super::forms::Vocabulary::Words), too.
    fn has_words(&self) -> bool {
        false
    }

    /// Returns true if the query is limited to subtrees.
    fn is_limited(&self) -> bool;

    /// Asks for the newest passages of words.
    ///
    /// Each form has its newest [`most`](Start::most) passages. If a word has passages, and fewer than
    /// [`probe`](Start::probe) for each of its forms, the engine may stop at `probe` for all forms. If it
    /// returns the [`reach`](Started::reach), it may leave out passages that are not in it.
    fn start(&mut self, asked: &Start) -> impl Future<Output = Result<Started, Self::Error>> + Send;

    /// Asks for words in some passages.
    fn narrow(&mut self, asked: &Narrow) -> impl Future<Output = Result<Narrowed, Self::Error>> + Send;

    /// Asks for passages, in this order, and for what the query may show of each. Files that are not in
    /// `files` are judged and added, as long as there is room; the passage of a file for which there is none
    /// ends the answer. Passages that do not exist any more are left out.
    fn candidates(
        &mut self,
        ids: &[i64],
        files: &mut JudgedFiles<Self::File>,
    ) -> impl Future<Output = Result<Candidates, Self::Error>> + Send;

    /// Asks for one text for each passage of some files, in their order: what the query may show of it,
    /// without withheld lines and secrets.
    fn texts(
        &mut self,
        asked: &[(Self::File, Vec<Passage>)],
    ) -> impl Future<Output = Result<Vec<String>, Self::Error>> + Send;

    /// Asks for words of the index that begin like each term, as their forms: of the first
    /// [`ENDINGS`] of each vocabulary in the order of their bytes, those without a mark of a level.
    fn beginnings(
        &mut self,
        terms: &[Term],
    ) -> impl Future<Output = Result<Vec<Vec<WordForm>>, Self::Error>> + Send;
}

/// First question of a search.
#[derive(Clone, Debug)]
pub struct Start {
    /// Forms of each word.
    pub words: Vec<Vec<WordForm>>,
    /// Passages of a form that tell that a word is frequent.
    pub probe: usize,
    /// Limit on the passages of each form.
    pub most: usize,
    /// Words near in meaning.
    pub near: Vec<WordForm>,
    /// Limit on the passages of each word near in meaning.
    pub near_most: usize,
    /// Limits on the passages in reach, if they are asked for.
    pub reach: Option<ScopeBound>,
}

/// Limits on the part of a tree that a query can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeBound {
    /// Limit on the names in the subtrees of the query.
    pub nodes: usize,
    /// Limit on the passages.
    pub passages: usize,
}

/// Answer to [`Start`].
#[derive(Clone, Debug, Default)]
pub struct Started {
    /// Size of the index.
    pub totals: Totals,
    /// All passages that the query can reach, newest first; `None` if they are not asked for, or exceed a
    /// limit.
    pub reach: Option<Vec<i64>>,
    /// Passages of each form of each word. Complete ones are fewer than the limit, or all in reach.
    pub words: Vec<Vec<Newest>>,
    /// Passages of each word near in meaning.
    pub near: Vec<Newest>,
}

/// Second question of a search.
#[derive(Clone, Debug)]
pub struct Narrow {
    /// Passages in which to look.
    pub place: Place,
    /// Forms of each word.
    pub words: Vec<Vec<WordForm>>,
}

/// Passages in which words are looked up.
#[derive(Clone, Debug)]
pub enum Place {
    /// These passages, newest first.
    Passages(Vec<i64>),
    /// The passages of the subtrees, if these are within the bound. Otherwise the passages that contain one
    /// of the rare words, each in the same vocabulary; none if there are no rare words.
    Matches {
        /// Limits on the subtrees, if these are asked for.
        subtree: Option<SubtreeBound>,
        /// Plain forms of rare words.
        rare: Vec<WordForm>,
    },
}

/// Limits on the passages of the subtrees of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubtreeBound {
    /// Limit on the names in the subtrees.
    pub nodes: usize,
    /// True if more names than that mean not to look there; false to look in a part of them.
    pub all: bool,
    /// Limit on the passages; the newest count.
    pub passages: usize,
}

/// Answer to [`Narrow`].
#[derive(Clone, Debug, Default)]
pub struct Narrowed {
    /// Passages of the subtrees, if the words were looked up there.
    pub subtree: Option<SubtreePassages>,
    /// Passages of each form of each word, newest first. Those of the frequency of a word need not be looked
    /// up in [`FEW`] passages of subtrees or more.
    pub words: Vec<Vec<Vec<i64>>>,
}

/// Passages of the subtrees of a query.
#[derive(Clone, Debug, Default)]
pub struct SubtreePassages {
    /// Passages, newest first.
    pub ids: Vec<i64>,
    /// True if they are of all nodes in the subtrees.
    pub all_nodes: bool,
    /// True if they are all of those nodes.
    pub all_passages: bool,
}

/// Passages with what the query may show of each.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// Passages, in the order in which they were asked for.
    pub passages: Vec<(Passage, Shown)>,
    /// True if there was no room for the file of the next one.
    pub is_limited: bool,
}

/// Files that a search has judged, each once.
#[derive(Clone, Debug)]
pub struct JudgedFiles<F> {
    files: HashMap<Ino, Option<F>>,
    most: usize,
}

impl<F> JudgedFiles<F> {
    /// Returns no files, with room for `most`.
    pub fn new(most: usize) -> Self {
        Self { files: HashMap::new(), most }
    }

    /// Returns true if a file was judged.
    pub fn is_judged(&self, ino: Ino) -> bool {
        self.files.contains_key(&ino)
    }

    /// Returns a file that the query may show.
    pub fn get(&self, ino: Ino) -> Option<&F> {
        self.files.get(&ino)?.as_ref()
    }

    /// Returns the number of files that may still be judged.
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.files.len())
    }

    /// Adds the result for a file.
    pub fn insert(&mut self, ino: Ino, file: Option<F>) {
        self.files.insert(ino, file);
    }
}
