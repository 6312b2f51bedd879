//! The integration tests of this crate: one binary, so that they link once.

#![allow(clippy::unwrap_used)] // tests, their helpers too, stop at what must not happen

mod it {
    mod chats;
    mod examples;
    mod library;
}
