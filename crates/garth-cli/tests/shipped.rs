//! Smoke tests of the program as users get it. `scripts/test` runs them on a release build, which no other
//! test does; with all tests they run on a debug build as well.

#[path = "it/garth.rs"]
#[allow(dead_code)] // shared with the tests of the command line, which use more of it
mod garth;

mod shipped {
    mod agents;
    mod faults;
    mod readme;
}
