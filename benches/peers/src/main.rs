//! garth beside its peers: the rows of docs/benchmarks.md, each a ratio in one run on one machine.
//!
//! Every run of one side is a process of its own, in a folder of its own, so that neither memory nor open
//! files of one show in the other. Runs of the sides alternate; the table shows medians. `cargo xtask
//! bench` builds and starts this.

#![allow(clippy::disallowed_methods)] // a benchmark reads the clock

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

/// Measures garth beside its peers.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure and print the table
    Run(options::Options),
    /// One run of one side: what `run` starts
    #[command(hide = true)]
    Child(child::Options),
    /// The bare handler that `get` is measured against: answers read from standard input
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
