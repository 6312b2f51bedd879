//! The projections of files of agents: keys that memories, events and sessions are found by.
//! `docs/specs/projections.md` lists them.

pub mod memories;
pub mod sessions;

pub use self::memories::{EVENT_DUE, EVENT_MEMORY, MEMORY_STATUS, RELATION_TARGET};
pub use self::sessions::{SESSION, SESSION_LINE};

use garth_engine::rule::projection::ContentProjection;

/// Returns all of them.
pub(super) fn all() -> Vec<ContentProjection> {
    memories::all().into_iter().chain(sessions::all()).collect()
}
