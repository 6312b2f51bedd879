//! Nodes, states of the past and uploads that servers hold open, so that no collection removes them: also
//! nodes that have lost their last name.
//!
//! A server has a random id and a row in `garth.instance`, which it renews by the clock of the database
//! ([`Instance::renew`]). Its leases count until that row ends, so a server that vanishes lets go of all of
//! them. A server that has not renewed its row in time cannot know what was removed meanwhile: handles of
//! nodes without a name, and views of the past, fail then.
//!
//! Most nodes have names, and most views live for milliseconds, so leases are taken late: by a write to a
//! node without a name, in its transaction; by a tick for such nodes that a collection has marked because
//! another server wrote them, and for views that are open at the tick. A collection therefore removes what it
//! has marked only after a grace period that is longer than a tick.
//!
//! A collection reads what is held from views of the database, in the transaction that has locked the
//! account:
//! - `garth.held_node (account, ino, holder)`: nodes with leases that count;
//! - `garth.held_past (account, seq, holder)`: states of the past with leases that count;
//! - `garth.ended_upload (account, id, lease, finished)`: uploads that
//!   [`uploads::collect`](crate::uploads::collect) removes.
//!
//! It also asks the [`Holds`] of its own process, where a handle may have no lease yet.
//!
//! - `server`: the row of this server;
//! - `account`: what this process holds open of an account, and its leases;
//! - `instance`: the accounts of this server.

mod account;
mod instance;
mod server;

pub(crate) use account::Holds;
pub(crate) use instance::Instance;
