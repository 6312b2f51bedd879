//! garth over HTTP: the key-value API of seed 4. Everything goes through [`garth::FileSystem`], so that what is done here
//! is what every other interface sees. A crate of its own so that work on the engine does not rebuild a web server.
//!
//! `POST /v1/{put,get,delete,list,glob,history,search}` with `Authorization: Bearer <api key>`, and `GET /healthz`.
//! A request is judged in this order: route (404), method (405), key (401) and scope (403) from the head alone, size
//! (413), then content (400 and the rest). Every failure has the body `{"error":{"code","message","request_id"}}`.
//!
//! # Limits
//! A body has at most 1 MiB. A head, the time between two requests of a connection, a body, and the time in which a
//! client takes nothing of its answer have 30 seconds each; then the connection is closed (late bodies are told so: 408).

mod auth;
mod connection;
mod errors;
mod fields;
mod limits;
mod routes;
mod serve;
mod wire;

pub use self::serve::serve;
