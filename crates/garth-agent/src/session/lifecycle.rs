//! The life of a session: creation, changes of its state, children, the successor that a reset creates, and
//! removal.

pub(super) mod by_key;
pub(super) mod children;
pub(super) mod create;
pub(super) mod mend;
pub(super) mod removal;
pub(super) mod successor;
pub(super) mod update;
