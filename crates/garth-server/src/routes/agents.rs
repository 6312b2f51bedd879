//! Calls on an agent, which the path names: its creation, prompt, daily memory, media and skills, and the
//! archives of its sessions.

pub(super) mod answers;
pub(super) mod archives;
pub(super) mod create;
pub(super) mod daily;
pub(super) mod media;
pub(super) mod prompt;
pub(super) mod skills;
