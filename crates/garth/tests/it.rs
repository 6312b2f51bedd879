//! The integration tests of the engine crate, as one binary.

mod it {
    mod contract;
}
