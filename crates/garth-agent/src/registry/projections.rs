//! Projections of the files of agents: keys by which memories, events, sessions and derived files are found.
//! `docs/specs/projections.md` lists them.

pub mod derived_from;
pub mod memories;
pub mod sessions;

pub use self::derived_from::DERIVED_FROM;
pub use self::memories::{EVENT_DUE, EVENT_MEMORY, MEMORY_STATUS, RELATION_TARGET};
pub use self::sessions::{SESSION, SESSION_LINE};

use garth_engine::rule::projection::ContentProjection;

/// Returns the projections of memories and of sessions.
pub(super) fn all() -> Vec<ContentProjection> {
    memories::all().into_iter().chain(sessions::all()).chain(derived_from::all()).collect()
}
