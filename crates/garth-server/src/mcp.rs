//! Model Context Protocol: tools, resources, prompts and skills for agents, on the files and memories of an
//! account. `docs/specs/mcp.md` and `docs/specs/mcp-tools.md` describe it.
//!
//! The library `rmcp` reads and writes the messages. Everything else is here and below the routes: who the
//! client is, what it reaches, and the limits on its calls. Nothing is remembered between two requests.

mod choice;
mod failure;
mod handler;
mod hints;
mod http;
mod identity;
mod line;
mod listen;
mod prompts;
mod resources;
mod skills;
mod stdio;
mod tools;
mod uri;

pub(crate) use self::http::router;
pub use self::stdio::{PipeOptions, serve_pipes};
