//! Calls on the workspace of an agent: its prompt, daily memory, media and skills, and the archives of its
//! sessions. The path names the agent.

pub(super) mod archives;
pub(super) mod daily;
pub(super) mod media;
pub(super) mod prompt;
pub(super) mod skills;
