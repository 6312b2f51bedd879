//! Operations on the files of a tree, for the tools of an agent: search of lines ([`Files::grep`]), paths
//! by pattern ([`Files::glob`]), bytes and entries ([`Files::du`]), differences ([`Files::diff`]), exact
//! edits ([`Files::edit`]), batches ([`Files::batch`]) and earlier states ([`Files::restore`]). Each call is
//! bounded in bytes and time, and a cursor continues an answer that is not complete. `docs/specs/files.md`
//! and `docs/specs/batch.md` describe them. [`Files::write`], [`Files::upload`] and [`Files::remove`] take
//! content of any size as a stream, for interfaces that receive it.

mod batch;
mod commits;
mod cursor;
mod diff;
mod du;
mod edit;
mod error_context;
mod expected;
mod glob;
mod glob_pattern;
mod grep;
mod handle;
mod left_out;
mod limits;
mod matches;
pub(crate) mod occurrences;
mod open_version;
mod restore;
mod streamed;
mod walker;

pub use self::batch::{
    BatchLine, BatchLines, BatchRequest, BatchResult, CommittedBatch, ContentForm, Lifetime, LineContent,
    LineError, MAX_BATCH_LINE, parse_mode, parse_span, parse_span_with_unit,
};
#[doc(hidden)]
pub use self::commits::Commits;
pub use self::diff::{
    Change, ContentDifference, Diff, DiffForm, DiffPage, Difference, Differences, Side, unified,
};
pub use self::du::{Du, DuPage, DuTotal};
pub(crate) use self::edit::Refusal as EditRefusal;
pub use self::edit::{Edit, EditError, Edited, MAX_EDITED, MAX_OLD};
#[doc(hidden)]
pub use self::error_context::{version_conditions, with_current_version, with_path};
pub use self::expected::Expected;
pub use self::glob::{Glob, GlobMatch, GlobPage};
pub use self::glob_pattern::{GlobPattern, is_pattern};
pub use self::grep::{
    BinaryFiles, Grep, GrepFile, GrepLine, GrepPage, LineMatcher, MAX_COMPILED, MAX_EXPRESSIONS, MAX_LINE,
    Show, Whole,
};
pub use self::handle::Files;
pub use self::limits::{Limits, MAX_COMPARED_LINES, MAX_COMPARED_TEXT};
pub use self::matches::Matches;
pub use self::restore::{FileRestore, MAX_RESTORED, RestoreReport};
pub use self::streamed::{FileWrite, FileWritten, UPLOAD_LIFETIME, Uploaded};
