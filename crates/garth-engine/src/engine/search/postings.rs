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
//! one round for [`Postings::beginnings`]. In a query limited to subtrees, three rounds take its place, which
//! read the passages in reach if they are few.
//!
//! An engine may leave out a part of an answer, as each method says, if it finds out in time that the part is
//! not needed. An engine for which this would take another statement returns all. The search drops the part
//! in question, so the hits are the same.

use std::future::Future;

use super::forms::{Newest, Totals, WordForm};
use super::judge::Shown;
use super::names::NamedFile;
use super::numbers::NumberMap;
use super::passage::Passage;
use crate::error::Error;
use crate::model::Ino;
use crate::text::question::Term;

/// Rounds of a search whose words occur in passages that it may show, if the first [`CHUNK`] of candidates
/// fills the answer.
pub const MAX_ROUNDS: usize = 4;
/// Number of candidates whose passages are read and compared at a time.
pub const CHUNK: usize = 1_024;
/// Rows of an index that one search reads, approximately: as many as 200 ms on a slow machine allow.
pub const ROWS: usize = 60_000;
/// Number of matches below which they are examined one by one, whatever the size of the subtrees. If the
/// subtrees have this number of passages or more, only plain forms of words count in them.
pub const FEW: usize = 256;
/// Words of each vocabulary that are read for the beginning of a word.
pub const ENDINGS: usize = 32;
/// If the query can reach no more than this, all passages can be read, whatever words they have.
pub(super) const SMALL_SCOPE: ScopeBound = ScopeBound { nodes: 1_024, passages: 256 };

/// Index of words that a search asks, in the state of one transaction.
pub trait Postings {
    /// Error of the storage.
    type Error: From<Error> + Send;
    /// Result for a file that the query may show.
    type File: NamedFile;

    /// Returns true if the index has [`Vocabulary::Words`](super::forms::Vocabulary::Words), too.
    fn has_words(&self) -> bool {
        false
    }

    /// Returns true if the query is limited to subtrees.
    fn is_limited(&self) -> bool;

    /// Asks for the newest passages of words: [`most`](WordLimits::most) of each form, and
    /// [`near_most`](Start::near_most) of each word near in meaning.
    ///
    /// The engine may return no passages, as not complete, of a word near in meaning that reaches its limit:
    /// such a word does not count.
    ///
    /// If one of the words has passages, and each of its forms fewer than its [`probe`](WordLimits::probe),
    /// the engine may return only `probe` passages for each form of all words. It may then also return none,
    /// as not complete, of the forms of a more frequent word that are not [plain](WordForm::is_plain), unless
    /// that word is [`asking`](Start::asking) and no word with fewer passages is. If it returns the
    /// [`reach`](Started::reach), it may leave out passages that are not in it.
    fn start(&mut self, asked: &Start) -> impl Future<Output = Result<Started, Self::Error>> + Send;

    /// Asks which of some passages contain words. See [`Narrowed::words`] for what may be left out.
    fn narrow(&mut self, asked: &Narrow) -> impl Future<Output = Result<Narrowed, Self::Error>> + Send;

    /// Asks for passages, in this order, and for what the query may show of each. Passages that do not exist
    /// any more are left out.
    ///
    /// Judges each file that is not in `files`, and adds it there. The answer ends before the first passage
    /// whose file `files` has no [room](JudgedFiles::room) for.
    fn candidates(
        &mut self,
        ids: &[i64],
        files: &mut JudgedFiles<Self::File>,
    ) -> impl Future<Output = Result<Candidates, Self::Error>> + Send;

    /// Asks for one text for each passage of some files, in their order: what the query may show of the
    /// passage, without withheld lines and secrets.
    fn texts(
        &mut self,
        asked: &[(Self::File, Vec<Passage>)],
    ) -> impl Future<Output = Result<Vec<String>, Self::Error>> + Send;

    /// Asks for the words of the index that begin like each term: of each vocabulary the first [`ENDINGS`]
    /// in the order of their bytes, without those that are marked with a level. Not called if the query is
    /// limited to subtrees, because the words can be those of any passage.
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
    /// Limits of each word.
    pub limits: Vec<WordLimits>,
    /// Words that ask: one bit for each.
    pub asking: u128,
    /// Words near in meaning.
    pub near: Vec<WordForm>,
    /// Limit on the passages of each word near in meaning.
    pub near_most: usize,
    /// Limits on the passages in reach, if they are asked for.
    pub reach: Option<ScopeBound>,
}

/// Limits on the passages of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordLimits {
    /// Number of passages of a form from which on the word is frequent.
    pub probe: usize,
    /// Limit on the passages of each form.
    pub most: usize,
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
    /// limit. Passages of files that the query may not show can be among them.
    pub reach: Option<Vec<i64>>,
    /// Passages of each form of each word. They are complete if they are fewer than the limit, or all of
    /// those in reach that contain the form.
    pub words: Vec<Vec<Newest>>,
    /// Passages of each word near in meaning. Only those that are complete count.
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
    /// The passages of the subtrees, if `subtree` allows it. Otherwise the passages that contain a form of
    /// `rare`, which must be of the same vocabulary as the form that is looked up; no passages if there is
    /// none.
    Matches {
        /// Limits on the subtrees; `None` not to look there.
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
    /// True to look there only if there are no more names than `nodes`. False to look in any `nodes` of them.
    pub must_fit: bool,
    /// Limit on the passages, of which the newest are taken.
    pub passages: usize,
}

/// Answer to [`Narrow`].
#[derive(Clone, Debug, Default)]
pub struct Narrowed {
    /// Passages of the subtrees, if the words were looked up there.
    pub subtree: Option<SubtreePassages>,
    /// Passages of each form of each word, in any order. In subtrees with [`FEW`] passages or more, the
    /// engine may look up plain forms only, and leave the others empty.
    pub words: Vec<Vec<Vec<i64>>>,
}

/// Passages of the subtrees of a query.
#[derive(Clone, Debug, Default)]
pub struct SubtreePassages {
    /// Passages, newest first.
    pub ids: Vec<i64>,
    /// True if all nodes of the subtrees were looked at.
    pub all_nodes: bool,
    /// True if `ids` has all passages of these nodes.
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
    files: NumberMap<Ino, Option<F>>,
    most: usize,
}

impl<F> JudgedFiles<F> {
    /// Returns no files, with room for `most`.
    pub fn new(most: usize) -> Self {
        Self { files: NumberMap::default(), most }
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
