//! Chores of the project: `cargo xtask tidy`, `prove`, `bench`. One place, in Rust, so that they run the same on
//! every machine and need no other tool.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a command line talks to its user

mod bench;
mod prove;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// Chores of the project.
#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Xtask {
    /// Check the house rules (DESIGN 8) on every file that git knows or would add
    Tidy,
    /// Prove a promise at full size
    Prove(prove::Options),
    /// Measure garth beside its peers and print the table of docs/benchmarks.md
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let done = match Xtask::parse() {
        Xtask::Tidy => tidy::run(&root()),
        Xtask::Prove(options) => prove::run(&root(), &options),
        Xtask::Bench(options) => bench::run(&root(), &options),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// The repository: the folder above this crate.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the crate lies in the repository").to_owned()
}

/// What `cargo` is called here: cargo says so to what it runs.
fn cargo() -> std::process::Command {
    std::process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A command that must succeed.
fn check(command: &mut std::process::Command) -> Result<()> {
    let status = command.status().map_err(|e| anyhow::anyhow!("cannot run {command:?}: {e}"))?;
    anyhow::ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}
