//! garth compared with its peers: the rows of docs/benchmarks.md, each a ratio within one run on one machine.
//!
//! Each run of one side has its own process and its own folder, so that neither memory nor open files of one
//! affect another. The runs of the sides alternate, and the table shows medians. `cargo xtask bench` builds
//! and starts this.

// A benchmark reads the clock.
#![allow(clippy::disallowed_methods)]

mod bare;
mod child;
mod driver;
mod figures;
mod fixed;
mod http;
mod import;
mod machine;
mod options;
mod process;
mod replay;
mod report;
mod rows;
mod side;
mod size;
mod work;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures garth and its peers.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure and print the table
    Run(options::Options),
    /// One run of one side, as `run` starts it
    #[command(hide = true)]
    Child(child::Options),
    /// The bare handler to compare `get` with; reads its responses from standard input
    #[command(hide = true)]
    Bare,
}

fn main() -> ExitCode {
    if let Err(error) = run(Cli::parse().command) {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Run(options) => driver::run(&options),
        Command::Child(options) => child::run(&options),
        Command::Bare => bare::serve(),
    }
}
