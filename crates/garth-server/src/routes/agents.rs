//! Calls on the workspace of an agent: its prompt, daily memory, media and skills, and what puts its sessions
//! away. The path names the agent.

pub(super) mod archives;
pub(super) mod media;
pub(super) mod memory;
pub(super) mod prompt;
pub(super) mod skills;

use bytes::Bytes;
use garth::agent::workspace::Workspace;

use super::call::{Answering, Call};
use super::workspace;
use crate::errors::Refusal;

/// Handler of a call on a workspace.
pub(super) type Handler = for<'a> fn(&'a Workspace<'a>, &'a Call<'a>) -> Answering<'a>;

/// Answers a call.
pub(super) async fn answer(call: &Call<'_>, handler: Handler) -> Result<Bytes, Refusal> {
    handler(&workspace::open(call, call.agent)?, call).await
}
