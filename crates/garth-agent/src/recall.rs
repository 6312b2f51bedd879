//! Recall: retrieves the best memories, messages and files for a question, within a token budget. Each piece
//! comes with its source, the reason why it was chosen, and a fence around it. Works over any tree;
//! `docs/specs/recall.md` describes the selection.

mod age;
mod answer;
mod budget;
mod candidates;
mod compose;
mod embedding;
mod excerpt;
pub mod fence;
mod gather;
mod head;
mod messages;
mod neighbours;
mod read;
mod recaller;
mod request;
mod rerank;
mod retracted;
mod run;
mod session;
mod stamp;
mod unit;
mod untouched;

pub use self::answer::{Evidence, Recalled};
pub use self::candidates::FITS;
pub use self::embedding::Embedding;
pub use self::fence::Key;
pub use self::recaller::Recaller;
pub use self::request::{BUDGET, MAX_BUDGET, MAX_DAYS, MAX_QUESTION, MAX_SOURCES, MIN_BUDGET, Recall};

pub(crate) use self::messages::words_said;
pub(crate) use self::read::{Answers, Wanted, fetched};
pub(crate) use self::retracted::retracted;
pub(crate) use self::session::{ReadLines, read_lines, wanted as wanted_lines};
pub(crate) use self::untouched::untouched;

use self::candidates::RankedCandidates;
use crate::boxed;
use garth_engine::error::Result;
use garth_engine::text::question::Question;

impl Recaller<'_> {
    /// Recalls pieces for a question, fenced with `key`.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid request; `Unsupported` if the tree has no search, or for `as_of` no
    /// past; errors of the filesystem.
    #[boxed]
    pub async fn recall(&self, asked: &Recall, key: &Key) -> Result<Recalled> {
        asked.check()?;
        let Some(question) = Question::parse(&asked.question) else {
            return Ok(Recalled::nothing(asked, &RankedCandidates::default()));
        };
        let gathered = self.candidates(asked, &question).await?;
        if gathered.candidates.is_empty() {
            return Ok(Recalled::nothing(asked, &gathered));
        }
        compose::answer(asked, &question, &gathered, key)
    }
}
