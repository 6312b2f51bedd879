//! Threads that many accounts share: a bounded pool, and the turns that accounts take on it. Both the runtime
//! of an open data folder and the compute threads of `env` are built on these.

pub(crate) mod executor;
pub(crate) mod lock;
pub(crate) mod turns;
