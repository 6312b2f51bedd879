//! Outbox: delivers changes of memories to external indexes, at least once under one key, and in order.
//! Events are files, written in the commit of the change; a worker claims them with a lease, delivers them to
//! a [`Sink`] and removes them. `docs/specs/outbox.md` is the contract.

mod admin;
mod claim;
mod counters;
mod current_state;
mod dangling_edges;
mod deliver;
mod finish;
mod order;
mod queued;
mod sink;
mod worker;

pub use self::admin::{Listed, Listing, Retried, drop_event, list, resend, retry};
pub use self::counters::{Count, Counters, MAX_COUNTED, counters};
pub use self::sink::{Sink, SinkError};
pub use self::worker::{
    AGAIN, AT_ONCE, CLAIM, Claimed, LEASE, MAX_RETRIES, Options, Progress, Room, Worker, delay,
};
