//! The command line as its users meet it: the real binary, on real data folders.

#[path = "it/admin.rs"]
mod admin;
#[path = "it/errors.rs"]
mod errors;
#[path = "it/garth.rs"]
mod garth;
#[path = "it/kv.rs"]
mod kv;
#[path = "it/past.rs"]
mod past;
#[path = "it/reading.rs"]
mod reading;
#[path = "it/serve.rs"]
mod serve;
#[path = "it/transfer.rs"]
mod transfer;
#[path = "it/writing.rs"]
mod writing;
