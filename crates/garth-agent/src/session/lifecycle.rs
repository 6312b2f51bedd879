//! The life of a session: creation, changes of its state, children, and the successor that a reset creates.

pub(super) mod by_key;
pub(super) mod children;
pub(super) mod create;
pub(super) mod mend;
pub(super) mod successor;
pub(super) mod update;
