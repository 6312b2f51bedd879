//! Suites and proofs on the Postgres engine: one binary, so that they link once. They are not part of
//! `scripts/test` yet, because they take too long and not all of them pass:
//!
//! ```sh
//! cargo nextest run -p garth-proofs --test postgres
//! ```

// Tests and their helpers panic on failure, and print the counts of the proofs.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod it {
    mod postgres;
    #[allow(dead_code, reason = "the other binary uses the rest")]
    mod support;
}
