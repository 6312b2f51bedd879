//! Tools of an agent: the table by which they are listed and run. `docs/specs/mcp-tools.md` describes each.

mod answer;
mod ls;
mod paths;
mod schema;
mod tool;

use garth_engine::home::Scope;

pub(super) use self::answer::{Link, ToolAnswer};
use self::tool::tools;
pub(super) use self::tool::{Effect, Tool};

/// Tools, in the order in which they are listed.
pub(super) static TOOLS: &[Tool] = tools! {
    Reads "ls" "List a directory" FilesRead, Files(ls::ls, ls::LsFields) -> ls::Listed<'static>;
};
