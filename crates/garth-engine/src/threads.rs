//! Threads that are shared by many accounts: a bounded pool of them, and the turns that accounts take on it.
//! Both what an open data folder runs on and what a clock and its machine give (`env`) are built of these.

pub(crate) mod executor;
pub(crate) mod lock;
pub(crate) mod turns;
