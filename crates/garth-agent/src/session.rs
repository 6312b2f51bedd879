//! Sessions: append-only messages and events, and the data derived from them for a model. A session is a
//! directory; `docs/specs/sessions.md` describes its files.
//!
//! Each module only uses those above it in this list: `store` (files of the directory), `log` (messages and
//! events), `expiry` (when parts may be collected), `render` (messages as text for a model), `content`
//! (chunks and blobs by hash), `derived` (summary, facts, decisions, references), `lifecycle` (from creation
//! to the successor), `provider` (message lists of providers), `pack` (the context window), then `compact`,
//! `transcript` and `gc`.

mod compact;
mod content;
mod derived;
mod expiry;
mod gc;
mod handle;
mod lifecycle;
mod log;
mod pack;
mod provider;
mod render;
mod store;
mod transcript;

pub use self::compact::{Compact, Compacted};
pub use self::content::dedup::Deduped;
pub use self::content::swap::MAX_SWAPPED;
pub use self::derived::derive::{Derive, Derived, Why};
pub use self::derived::entry::{Entry, EntryKind, MAX_DERIVED, MAX_ENTRIES};
pub use self::expiry::policy::{History, Policy};
pub use self::expiry::schedule::{Due, DueSession};
pub use self::gc::{Collect, Collected, Collection};
pub use self::handle::Sessions;
pub use self::lifecycle::children::{Child, ChildChange, ChildStatus, MAX_CHILDREN, Spawn};
pub use self::lifecycle::create::Create;
pub use self::lifecycle::mend::{Damaged, mend_all};
pub(crate) use self::lifecycle::successor::CloseTarget;
pub use self::lifecycle::update::Change;
pub(crate) use self::log::append::AppendedLines;
pub use self::log::append::{Append, Appended, MAX_APPENDED};
pub use self::log::draft::{Draft, Role};
pub use self::log::images::media_referred;
pub use self::log::lines::{End, Line, Lines, Select};
pub use self::log::message::{Block, ImageSource, Message, Native};
pub use self::log::retract::{MAX_REASON, Retracted};
pub use self::log::source::{Resolved, Source, What};
pub use self::pack::{
    Changed, Difference, Digest, Item, MAX_TOKENS, Omitted, Pack, PackOptions, Packed, Prefix, Reserved,
    Window,
};
pub use self::provider::{Format, list as provider_list};
pub use self::render::{Cut, IMAGE_TOKENS};
pub(crate) use self::store::files::META;
pub use self::store::files::{EVENTS, Log, MESSAGES};
pub use self::store::list::{List, Listed, MAX_LISTED};
pub use self::store::meta::{MAX_COUNT, MAX_TOKENS_REPORTED, Meta, State, Usage};
pub use self::store::provenance::{WrittenFiles, Wrote};
pub use self::store::swap_index::Swapped;
pub use self::transcript::{
    Document, Export, Exported, Import, ImportMode, ImportNote, Imported, Skipped, TranscriptFormat,
};
pub(crate) use self::transcript::{archived_in, archived_lines, archived_messages, archived_said};
pub use crate::identity::SessionKey;
