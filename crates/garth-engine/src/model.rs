//! Vocabulary of the tree: nodes, versions and commits, the batch of a commit ([`batch`], [`op`]), queries
//! and answers of reads ([`query`]), and the version log ([`changes`]). Batches, entries and outcomes can be
//! written as JSON and read back.

pub mod at;
pub mod author;
pub mod batch;
pub mod blame;
mod bounded;
pub mod changes;
pub mod commit;
pub mod confinement;
pub mod entry;
pub mod find;
mod hex;
pub mod id;
mod json;
mod json_flaw;
pub mod moment;
pub mod op;
pub mod projection;
pub mod query;
pub mod quota;
pub mod search;
mod text_schemas;
pub mod within;

pub use at::{At, IntoAt};
pub use author::Author;
pub use batch::{
    AddedOps, Answer, Batch, Durability, Idempotency, MAX_COPIED_NAMES, MAX_COPIED_PIECES, MAX_EXAMINED,
    MAX_INLINE_BODY, MAX_NEW_NAMES, MAX_NEW_PATH_BYTES, MAX_NOTE, MAX_OPS, MAX_SET_ATTRIBUTES,
};
pub use blame::{Blame, BlameRun, MAX_BLAME};
pub use changes::{
    Change, ChangeKind, Changes, ChangesQuery, CommitChanges, LogPosition, MAX_CHANGE_PATHS,
    MAX_CHANGES_BYTES, MAX_SCANNED, MAX_SUBTREES, SessionOf,
};
pub use commit::{Commit, CommitInfo, KeyRecord, Outcome, Snapshot, SnapshotKey};
pub use confinement::{Confinement, Gate, KeySpace, MAX_GATE_FILE, MAX_OWNER, Owner};
pub use entry::{Attributes, Entry, Kind};
pub use find::{FindAnswer, FindCursor, FindItem, FindLine, FindQuery, MAX_KEY};
#[doc(hidden)]
pub use hex::hex;
pub use id::{CommitId, Ino, Seq, Timestamp, VersionId};
pub use json_flaw::json_flaw;
pub use moment::{is_after_last_time, parse_age};
pub use op::{
    Access, Body, Create, MAX_ATTRIBUTES, MAX_CUTS, MAX_ETAGS, MAX_FILE, MAX_HASHED, MAX_LABEL, MAX_LINKS,
    MAX_TARGET, Op, Precondition, Remove, RenameMode, SetAttrs, Special, StagedBody,
};
pub use projection::Projection;
pub use query::{
    ByteRange, Fetched, Filling, Head, HistoryPage, Item, Listing, MAX_PAGE, MAX_PAGE_BYTES, MAX_READ,
    Moment, NamesPage, Page, SnapshotsPage, Version, Walk, WalkItem, WalkPage, Weigh,
};
#[doc(hidden)]
pub use query::{check_items, check_limit};
pub use search::{
    Hit, HitContext, MAX_CONTEXT, MAX_CONTEXT_BYTES, MAX_HITS, MAX_PATTERNS, MAX_PER_FILE, PatternBelow,
    ScoreParts, SearchAnswer, SearchMode, SearchQuery,
};
pub use within::Within;
