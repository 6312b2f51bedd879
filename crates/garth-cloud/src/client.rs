//! Connections to the database.

mod connection;
mod errors;
mod pipe;

pub use connection::Connection;
pub use errors::failed;
pub use pipe::{Param, Pipe, param};
