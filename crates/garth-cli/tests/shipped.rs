//! Smoke tests of the program as users get it. With all tests they run on a debug build. `scripts/test` then
//! runs them on the release build, which `GARTH_BIN` names; no other test runs on that build.

#[path = "it/garth.rs"]
#[allow(dead_code)] // shared with the tests of the command line, which use more of it
mod garth;

mod shipped {
    mod agents;
    mod faults;
    mod readme;
    mod specifications;
}
