//! Configuration of MCP clients: the lines that make them start `garth mcp`.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::fail::{Failure, Result};

/// MCP client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigClient {
    /// A command for Claude Code
    ClaudeCode,
    /// .cursor/mcp.json
    Cursor,
    /// .vscode/mcp.json
    Vscode,
    /// A part of ~/.codex/config.toml
    Codex,
    /// A program with the package `mcp`
    Python,
}

impl ConfigClient {
    /// Returns the name of the client.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Codex => "codex",
            Self::Python => "python",
        }
    }

    /// Returns the configuration by which the client starts `program`, which is garth, with these arguments.
    pub(crate) fn config(self, program: &str, arguments: &[String]) -> Result<String> {
        let list = json!(arguments).to_string();
        Ok(match self {
            Self::ClaudeCode => {
                let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
                format!("claude mcp add garth -- {} {}\n", quoted(program), words.join(" "))
            }
            Self::Cursor => file(&json!({"mcpServers": {"garth": {"command": program, "args": arguments}}}))?,
            Self::Vscode => file(
                &json!({"servers": {"garth": {"type": "stdio", "command": program, "args": arguments}}}),
            )?,
            // Strings in JSON, and lists of them, are those of TOML.
            Self::Codex => format!("[mcp_servers.garth]\ncommand = {}\nargs = {list}\n", json!(program)),
            // They are those of Python, too.
            Self::Python => {
                PYTHON.replace("PROGRAM", &json!(program).to_string()).replace("ARGUMENTS", &list)
            }
        })
    }
}

/// Program that calls a tool.
const PYTHON: &str = r#"import asyncio

from mcp import Client, StdioServerParameters

GARTH = StdioServerParameters(command=PROGRAM, args=ARGUMENTS)


async def main():
    async with Client(GARTH) as client:
        answer = await client.call_tool("ls", {"path": "/"})
        print(answer.content[0].text)


asyncio.run(main())
"#;

fn file(json: &Value) -> Result<String> {
    let text = serde_json::to_string_pretty(json).map_err(|error| Failure::stdio(error.into()))?;
    Ok(format!("{text}\n"))
}

/// Returns the absolute path of this program: a client may start it with another PATH. Links stay links, so
/// that the configuration outlives an update which moves them.
pub(super) fn program() -> String {
    let called = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let found = if called.components().count() > 1 {
        Some(called)
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(&called)).find(|file| file.is_file())
    };
    let found = found.or_else(|| std::env::current_exe().ok());
    let absolute = found.and_then(|file| std::path::absolute(file).ok());
    absolute.map_or_else(|| "garth".to_owned(), |file| file.to_string_lossy().into_owned())
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,=@%+".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(client: ConfigClient) -> String {
        let arguments = ["mcp", "--user", "an n's", "--tools", "ls,grep"].map(str::to_owned);
        client.config("/opt/my tools/garth", &arguments).unwrap()
    }

    #[test]
    fn commands_are_quoted_for_a_shell() {
        let line = "claude mcp add garth -- '/opt/my tools/garth' mcp --user 'an n'\\''s' --tools ls,grep\n";
        assert_eq!(config(ConfigClient::ClaudeCode), line);
    }

    #[test]
    fn files_are_valid() {
        let arguments = json!(["mcp", "--user", "an n's", "--tools", "ls,grep"]);
        let cursor: Value = serde_json::from_str(&config(ConfigClient::Cursor)).unwrap();
        assert_eq!(cursor["mcpServers"]["garth"]["args"], arguments);
        let vscode: Value = serde_json::from_str(&config(ConfigClient::Vscode)).unwrap();
        assert_eq!(
            vscode["servers"]["garth"],
            json!({"type": "stdio", "command": "/opt/my tools/garth", "args": arguments})
        );
        let codex = config(ConfigClient::Codex);
        let codex = toml::de::DeTable::parse(&codex).unwrap();
        let servers = codex.get_ref()["mcp_servers"].get_ref().as_table().unwrap();
        let garth = servers["garth"].get_ref().as_table().unwrap();
        assert_eq!(garth["command"].get_ref().as_str(), Some("/opt/my tools/garth"));
        let last = garth["args"].get_ref().as_array().unwrap()[2].get_ref();
        assert_eq!(last.as_str(), Some("an n's"));
        assert!(
            config(ConfigClient::Python).contains(r#"args=["mcp","--user","an n's","--tools","ls,grep"])"#)
        );
    }

    #[test]
    fn names_are_those_of_the_option() {
        for client in ConfigClient::value_variants() {
            assert_eq!(client.to_possible_value().unwrap().get_name(), client.name());
        }
    }
}
