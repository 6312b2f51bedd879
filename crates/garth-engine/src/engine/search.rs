//! Search for every engine that has an index of words: which files a query may show, which passages answer
//! it, in which order, and the content of a hit.
//!
//! An engine stores passages and the words in them. [`search()`] asks for both through [`Postings`], in
//! rounds with many words or passages each: [`MAX_ROUNDS`] for a usual query. An engine whose storage is on
//! another machine can answer each round with few statements. The result does not depend on how it does so.
//!
//! - `postings`: the trait, with the questions and answers of each round;
//! - `run`, `beginnings`, `forms`, `matches`, `parts`, `score`, `around`, `names`, `numbers`: the search
//!   itself, without I/O;
//! - `judge`, `filter`, `withheld`: the files and passages that a query may show, read through [`Files`];
//! - `hits`: the content of hits, which is read after the rounds;
//! - `local`: [`Postings`] for an engine that reads one row after the other;
//! - `indexing`: passages of a file, and the text by which each is found;
//! - `reindexing`: the passages that an edit of a file removes and adds, read through [`IndexedText`].
//!
//! The module is public, and hidden from the documentation, for engines that live in other crates. It is not
//! part of the stable interface of this crate. Why: `docs/decisions/search-in-rounds.md`.

mod around;
mod beginnings;
mod files;
mod filter;
mod forms;
mod hits;
pub mod indexing;
pub mod judge;
pub mod local;
mod matches;
mod names;
mod numbers;
mod parts;
mod passage;
mod postings;
pub mod reindexing;
mod run;
mod score;
mod withheld;

pub use files::{FileNode, Files, FoundFile};
pub use filter::QueryFilter;
pub use forms::{Newest, Totals, Vocabulary, WordForm};
pub use judge::{Judge, Shown};
pub use names::{Named, NamedFile};
pub use passage::Passage;
pub use postings::{
    CHUNK, Candidates, ENDINGS, FEW, JudgedFiles, MAX_ROUNDS, Narrow, Narrowed, Place, Postings, ROWS,
    ScopeBound, Start, Started, SubtreeBound, SubtreePassages, WordLimits,
};
pub use reindexing::{FileEdit, IndexedText, NewPassage, Reindexed, reindex};
pub use run::{Answer, PassageHit, SearchParams, search};

#[cfg(test)]
pub(crate) use run::MIN_SCORE;
