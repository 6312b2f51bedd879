//! Uploads: content that is in the database before its commit. The rows of an upload are its chunks and one
//! in `garth.staged`, which any server may commit.
//!
//! While an upload [arrives](crate::arriving), each chunk is written in a transaction of its own, which takes
//! no lock that a commit waits for, and between two chunks it holds no connection: a slow client costs memory
//! for one chunk. These chunks have numbers beyond all others, and no complete hash, so nothing refers to
//! them. The end of the upload gives them their numbers: only then are they counted, and shared with equal
//! ones that are stored. The data is not written again for that, because a long value is stored apart from
//! its row.
//!
//! - `upload`: an upload in progress;
//! - `finish`: its end;
//! - `ending`: uploads that no commit will use;
//! - `admission`: refusals of content before it is received.

mod admission;
mod ending;
mod finish;
mod upload;

pub(crate) use admission::admission;
pub(crate) use ending::{AT_ONCE, collect, discard};
pub(crate) use upload::PgUpload;
