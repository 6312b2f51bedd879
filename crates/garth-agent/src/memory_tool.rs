//! The memory tool of Claude models: six commands on text files below `/memories`, with the answers and
//! errors that the models are trained on. `/memories` is `/.user/memory` of an agent's tree.
//! `docs/specs/memory-tool.md` describes it.

mod answer;
mod command;
mod handle;
mod listing;
mod numbered_lines;
mod tool_path;

pub use self::answer::Answer;
pub use self::command::Command;
pub use self::handle::{MAX_FILE_LINES, MemoryTool};
pub use self::listing::{MAX_LISTED, MAX_WALKED};
pub use self::numbered_lines::MAX_SHOWN;
