//! Model Context Protocol: tools, resources, prompts and skills for agents, on the files and memories of an
//! account. `docs/specs/mcp.md` and `docs/specs/mcp-tools.md` describe it.
//!
//! The library `rmcp` reads and writes the messages. Everything else is here and below the routes: who the
//! client is, what it reaches, and the limits on its calls. Nothing is remembered between two requests.

mod choice;
mod envelope;
mod failure;
mod handler;
mod hints;
mod http;
mod identity;
mod line;
mod listen;
mod pipes;
mod prompts;
mod resources;
mod skills;
mod stdio;
mod tools;
mod uri;

use axum::Router;
use rmcp::ServerHandler;

use self::handler::Handler;
pub use self::stdio::{PipeOptions, serve_pipes};
use crate::routes::served::SharedState;

/// Returns the router of the service over HTTP.
pub(crate) fn router(served: SharedState) -> Router {
    http::router(served, Handler::new)
}

/// Returns the router of a service over HTTP that answers by another handler.
pub(crate) fn router_of(served: SharedState, handler: impl ServerHandler + Clone) -> Router {
    http::router(served, move |_, _| handler.clone())
}
