//! The messages and events of a session: their form, appends, reads by number, id or source, and retractions.
//! Both logs only grow.

pub(super) mod append;
pub(super) mod canonical;
pub(super) mod draft;
pub(super) mod events;
pub(super) mod images;
pub(super) mod lines;
pub(super) mod message;
pub(super) mod native;
pub(super) mod retract;
mod retracted;
pub(super) mod retractions;
pub(super) mod source;
pub(super) mod tail_reader;
