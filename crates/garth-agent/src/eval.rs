//! Evaluation of recall: stores conversations with questions whose evidence is known in a tree, asks the
//! questions, and reports how much of the evidence the answers contain. `docs/specs/evaluation.md` describes
//! the format of the conversations and the figures.

mod ask;
mod contains;
mod conversation;
mod report;
mod store;

pub use self::ask::Evaluation;
#[doc(hidden)]
pub use self::contains::contains;
pub use self::conversation::{Conversation, Conversations, MAX_LINE, Memory, Question, Session, Text};
pub use self::report::{HITS, QuestionResult, Report};
pub use self::store::Store;

/// Token budgets of an evaluation that names none.
pub const BUDGETS: [usize; 4] = [500, 1_000, 2_000, 4_000];
