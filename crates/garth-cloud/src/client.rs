//! Connections to the database.

mod connection;
mod errors;
mod pages;
mod pipe;
mod pool;
mod server;

pub use connection::Connection;
pub use errors::failed;
pub(crate) use pages::Pages;
pub use pipe::{Param, Pipe, param};
pub use pool::{Pool, PooledConnection};
