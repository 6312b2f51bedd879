//! Model Context Protocol: tools for agents on the files and memories of an account. `docs/specs/mcp.md` and
//! `docs/specs/mcp-tools.md` describe it.

mod tools;
mod uri;
