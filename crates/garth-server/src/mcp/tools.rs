//! Tools of an agent: the table by which they are listed and run. `docs/specs/mcp-tools.md` describes each.

mod answer;
mod delete;
mod edit_file;
mod glob;
mod grep;
mod history;
mod ls;
mod memory;
mod move_to;
mod past;
mod paths;
mod read_file;
mod recall;
mod remember;
mod restore;
mod schema;
mod search;
#[cfg(test)]
mod tests;
mod tool;
mod versions;
mod write_file;

use garth_engine::home::Scope;

pub(super) use self::answer::ToolAnswer;
pub(super) use self::tool::Tool;
use self::tool::tools;

/// Tools, in the order in which they are listed.
pub(super) static TOOLS: &[Tool] = tools! {
    Reads "ls" "List directory" FilesRead, Files(ls::ls, ls::LsFields) -> ls::Listed<'static>;
    Reads "read_file" "Read file" FilesRead, Files(read_file::read_file, read_file::ReadFileFields)
        -> read_file::FileRead<'static>;
    Writes "write_file" "Write file" FilesWrite FilesRead,
        Files(write_file::write_file, write_file::WriteFileFields) -> write_file::FileWritten<'static>;
    Edits "edit_file" "Edit file" FilesWrite FilesRead, Files(edit_file::edit_file, edit_file::EditFileFields)
        -> edit_file::FileEdited<'static>;
    Reads "glob" "Find paths" FilesRead, Files(glob::glob, glob::GlobFields) -> glob::PathsFound;
    Reads "grep" "Find lines" FilesRead, Files(grep::grep, grep::GrepFields) -> grep::LinesFound<'static>;
    Reads "search" "Search" SearchRead, Search(search::search, search::SearchFields)
        -> search::PassagesFound<'static>;
    Deletes "delete" "Delete" FilesWrite FilesRead, Files(delete::delete, delete::DeleteFields)
        -> delete::Deleted<'static>;
    Moves "move" "Move" FilesWrite FilesRead, Files(move_to::move_to, move_to::MoveFields)
        -> move_to::Moved<'static>;
    Reads "history" "List versions" FilesRead, Files(history::history, history::HistoryFields)
        -> history::VersionsListed;
    Restores "restore" "Restore" FilesWrite FilesRead, Files(restore::restore, restore::RestoreFields)
        -> restore::Restored<'static>;
    Reads "recall" "Recall" SearchRead, Recall(recall::recall, recall::RecallFields)
        -> recall::Recalled<'static>;
    Adds "remember" "Remember" MemoryWrite MemoryRead, Memories(remember::remember, remember::RememberFields)
        -> remember::Remembered<'static>;
    Deletes "forget" "Forget" MemoryWrite MemoryRead, Memories(remember::forget, remember::ForgetFields)
        -> remember::Forgotten;
    Edits "memory" "Memory directory" MemoryWrite MemoryRead, MemoryTool(memory::memory, memory::CommandFields)
        -> garth_agent::memory_tool::Answer;
};
