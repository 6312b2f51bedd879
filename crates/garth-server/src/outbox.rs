//! Outbox of a server: a sink behind an HTTP endpoint, and the courier, which works on the outboxes of all
//! accounts of a data folder. `docs/specs/outbox.md` is the contract of both.

mod courier;
mod http;
mod sign;

pub use self::courier::Courier;
pub use self::http::HttpSink;
