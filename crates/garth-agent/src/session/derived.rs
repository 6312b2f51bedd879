//! Files derived from the messages of a session: summary, facts, decisions, open work and references, and the
//! pinned files.

pub(super) mod derive;
mod elsewhere;
pub(super) mod entry;
pub(super) mod ownership;
pub(super) mod pin;
pub(super) mod publish;
mod retracted;
pub(super) mod summary_lines;
