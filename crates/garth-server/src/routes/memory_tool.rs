//! Call of the memory tool of Claude models. `docs/specs/memory-tool.md` describes it.

use std::borrow::Cow;

use garth_agent::memory_tool::{Answer, Command, MAX_SHOWN, MemoryTool};
use serde_json::value::RawValue;

use super::call::Call;
use super::open::Opened;
use super::respond::raw;
use crate::errors::Refusal;
use crate::fields::{fields, pair, signed, string, string_of, words};

/// Commands of the tool.
const COMMANDS: &[&str] = &["view", "create", "str_replace", "insert", "delete", "rename"];
/// Largest number of a line.
const MAX_LINE: i64 = 1_000_000_000;

fields! {
    /// Views and changes the text files in `/memories`, which outlast a conversation: the memory tool of
    /// Claude models. `/memories` is `/.user/memory` of the agent. View it before a task, and note what a
    /// later conversation needs. A command that fails changes nothing, and its text says why.
    pub(crate) struct CommandFields<'a> {
        /// Command.
        command: Cow<'a, str> = words(COMMANDS);
        /// Path, which begins with `/memories`. Required, except for `rename`.
        path: Option<Cow<'a, str>> = string_of("memory path");
        /// First and last line that `view` shows, from 1; -1 is the last line of the file. Default: all
        /// lines.
        view_range: Option<[i64; 2]> = pair(-1, MAX_LINE);
        /// Content of the file that `create` creates. Default: none.
        file_text: Option<Cow<'a, str>> = string();
        /// Text that `str_replace` replaces. It must occur once. Default: none.
        old_str: Option<Cow<'a, str>> = string();
        /// Text that takes its place. Default: the empty text.
        new_str: Option<Cow<'a, str>> = string();
        /// Line after which `insert` inserts; 0 is before the first one. Default: none.
        insert_line: Option<i64> = signed(-1, MAX_LINE);
        /// Lines that `insert` inserts. Default: none.
        insert_text: Option<Cow<'a, str>> = string();
        /// Path that `rename` moves. Default: none.
        old_path: Option<Cow<'a, str>> = string_of("memory path");
        /// New path, which does not exist. Default: none.
        new_path: Option<Cow<'a, str>> = string_of("memory path");
    }
}

pub(super) async fn run(
    opened: &Opened<'_>,
    call: &Call<'_>,
    fields: CommandFields<'_>,
) -> Result<Box<RawValue>, Refusal> {
    raw(&answer(opened, call, fields, MAX_SHOWN).await?)
}

/// Carries out a command for an interface whose answers have at most `limit` bytes.
pub(crate) async fn answer(
    opened: &Opened<'_>,
    call: &Call<'_>,
    fields: CommandFields<'_>,
    limit: usize,
) -> Result<Answer, Refusal> {
    let command = command(fields)?;
    let fs = opened.tree_of_memory_tool(command.creates()).await?;
    Ok(MemoryTool::new(&*fs).once(call.once.clone()).limit(limit).run(&command).await?)
}

/// Returns the command that the fields declare. Fields of other commands are ignored.
fn command(fields: CommandFields<'_>) -> Result<Command, Refusal> {
    let CommandFields { command, path, view_range, file_text, old_str, new_str, .. } = fields;
    let CommandFields { insert_line, insert_text, old_path, new_path, .. } = fields;
    let missing = |name: &str| Refusal::validation(format!("\"{name}\" is missing: `{command}` requires it"));
    let text =
        |name: &str, value: Option<Cow<'_, str>>| value.map(Cow::into_owned).ok_or_else(|| missing(name));
    Ok(match &*command {
        "create" => Command::Create { path: text("path", path)?, file_text: text("file_text", file_text)? },
        "str_replace" => Command::StrReplace {
            path: text("path", path)?,
            old_str: text("old_str", old_str)?,
            new_str: new_str.map(Cow::into_owned),
        },
        "insert" => Command::Insert {
            path: text("path", path)?,
            insert_line: insert_line.ok_or_else(|| missing("insert_line"))?,
            insert_text: text("insert_text", insert_text)?,
        },
        "delete" => Command::Delete { path: text("path", path)? },
        "rename" => {
            Command::Rename { old_path: text("old_path", old_path)?, new_path: text("new_path", new_path)? }
        }
        _ => Command::View { path: text("path", path)?, view_range },
    })
}
