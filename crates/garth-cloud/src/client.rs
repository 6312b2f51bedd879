//! Connections to the database.

mod connection;
mod errors;
mod pipe;
mod pool;
mod server;

pub use connection::Connection;
pub use errors::failed;
pub use pipe::{Param, Pipe, param};
pub use pool::{Pool, PooledConnection};
