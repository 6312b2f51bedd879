//! The projections of files of agents: keys that nodes, events and sessions are found by.
//! `docs/specs/projections.md` lists them.

pub mod nodes;
pub mod sessions;

pub use self::nodes::{EVENT_DUE, EVENT_NODE, NODE_STATUS, RELATION_TARGET};
pub use self::sessions::{SESSION, SESSION_LINE};

use garth_engine::rule::projection::ContentProjection;

/// Returns all of them.
pub(super) fn all() -> Vec<ContentProjection> {
    nodes::all().into_iter().chain(sessions::all()).collect()
}
