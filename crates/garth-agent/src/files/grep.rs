//! Search of lines.

mod content;
mod file_search;
mod line_steps;
mod lines;
mod matcher;
mod request;
mod search;

pub use self::file_search::{GrepFile, GrepLine};
pub use self::lines::MAX_LINE;
pub use self::matcher::{LineMatcher, MAX_EXPRESSIONS};
pub use self::request::{BinaryFiles, Grep, MAX_COMPILED, Show, Whole};
pub use self::search::GrepPage;
