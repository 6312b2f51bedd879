//! Chores of the project: `cargo xtask tidy`, `surface`, `prove`, `bench`, `distil`. In Rust,
//! so that they run the same on every machine and need no other tool.

// A command line prints to its user.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod cargo;
mod distil;
mod prove;
mod semver;
mod surface;
mod tidy;

use std::process::ExitCode;

use clap::Parser;

use crate::cargo::{cargo, check, root, target};

/// Chores of the project.
#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Xtask {
    /// Check the house rules (CONTRIBUTING.md) on every file that git knows or would add
    Tidy,
    /// Compare the public items of the library with crates/garth/public-api.txt
    Surface(surface::Options),
    /// Prove a promise at full size
    Prove(prove::Options),
    /// Measure garth and its peers and print the table of docs/benchmarks.md
    Bench(bench::Options),
    /// Make the token vectors of crates/garth-engine/data from a sentence model
    Distil(distil::Options),
}

fn main() -> ExitCode {
    if let Some(documented) = surface::as_rustdoc() {
        return exit(documented);
    }
    exit(match Xtask::parse() {
        Xtask::Tidy => tidy::run(&root()),
        Xtask::Surface(options) => surface::run(&root(), &options),
        Xtask::Prove(options) => prove::run(&root(), &options),
        Xtask::Bench(options) => bench::run(&root(), &options),
        Xtask::Distil(options) => distil::run(&root(), &options),
    })
}

fn exit(done: anyhow::Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
