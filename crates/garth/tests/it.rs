//! The integration tests of this crate: one binary, so that they link once.

mod it {
    mod control;
}
