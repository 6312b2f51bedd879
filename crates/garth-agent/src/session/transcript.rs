//! Import and export of transcripts: conversations in the formats of other tools. An imported message is
//! stored as it came, beside the messages derived from it. `docs/specs/transcripts.md` has the formats.

mod align;
mod anthropic;
mod archive;
mod blocks;
mod call_names;
mod compared;
mod export;
mod format;
mod given;
mod hydrate;
mod ids;
mod import;
mod markdown;
mod openai;
mod pi;
mod placed;
mod read;
mod salvage;
mod split;
mod stored;
mod surrogates;
mod system_prompt;

pub(crate) use self::archive::{archived_in, archived_lines, archived_messages, archived_said};
pub use self::export::{Document, Export, Exported};
pub use self::format::TranscriptFormat;
pub use self::given::{ImportNote, Skipped};
pub use self::import::{Import, ImportMode, Imported};
