//! Batches of operations, written as JSON objects: the lines of `garth batch` and the operations of
//! `POST /v1/batch`. `docs/specs/batch.md` describes them.

mod attributes;
mod commit;
mod fields;
mod lifetime;
mod line;
mod lines;
mod operation;
mod value;

pub use self::attributes::parse_mode;
pub use self::commit::{BatchRequest, BatchResult, CommittedBatch};
pub use self::lifetime::{Lifetime, parse_span, parse_span_with_unit};
pub use self::line::{BatchLine, ContentForm, LineContent};
pub use self::lines::{BatchLines, LineError, MAX_BATCH_LINE};
