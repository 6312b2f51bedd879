//! Connections to the database.

mod address;
mod connection;
mod errors;
mod pages;
mod pipe;
mod pool;
mod server;
mod settings;

pub use address::Address;
pub use connection::Connection;
pub use errors::failed;
pub(crate) use pages::Pages;
pub use pipe::{Param, Pipe, param};
pub use pool::{Pool, PooledConnection};
pub(crate) use settings::{begin_reads, begin_writes, read_time};
