//! `cargo xtask bench`: builds garth and the peers for shipping and runs `benches/peers`. The peers are a
//! workspace of their own, so that their dependencies are compiled for benchmarks only.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::{cargo, check, target};

/// Arguments of the benchmark.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rows and options of the benchmark: `files`, `create`, ..., `--size PERCENT`, `--runs N`, `--dir
    /// FOLDER`; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds and measures. The table is written to standard output.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    check(cargo().args(["build", "--profile", "dist", "--package", "garth-cli"]).current_dir(root))?;
    check(cargo().args(["build", "--release", "--locked"]).current_dir(root.join("benches/peers")))?;
    let garth = target(root)?.join("dist/garth");
    let peers = target(&root.join("benches/peers"))?.join("release/peers");
    let mut command = Command::new(peers);
    command.arg("run").args(&options.arguments).arg(format!("--garth={}", garth.display())).current_dir(root);
    check(&mut command)?;
    Ok(ExitCode::SUCCESS)
}
