//! `cargo xtask bench`: builds garth and the peers for release and lets `benches/peers` measure. The peers are a
//! workspace of their own, so that what they pull in is compiled by nobody who does not measure.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::{cargo, check};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rows and options of the benchmark: `files`, `create`, ..., `--quick`, `--runs N`, `--dir FOLDER`; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds and measures; the table goes to standard output.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    check(cargo().args(["build", "--release", "--package", "garth-cli"]).current_dir(root))?;
    check(cargo().args(["build", "--release", "--locked"]).current_dir(root.join("benches/peers")))?;
    let garth = target(root)?.join("release/garth");
    let peers = target(&root.join("benches/peers"))?.join("release/peers");
    let mut command = Command::new(peers);
    command.arg("run").args(&options.arguments).arg("--garth").arg(garth).current_dir(root);
    check(&mut command)?;
    Ok(ExitCode::SUCCESS)
}

/// Where cargo puts what it builds for the workspace at `dir`.
fn target(dir: &Path) -> Result<PathBuf> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--format-version=1", "--no-deps"]).current_dir(dir);
    let output = metadata.output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).context("cargo speaks UTF-8")?;
    target_in(&text).context("cargo metadata names no target directory")
}

/// The field by hand: one path is no reason for a JSON parser here.
fn target_in(metadata: &str) -> Option<PathBuf> {
    let (_, rest) = metadata.split_once("\"target_directory\":\"")?;
    rest.split_once('"').map(|(path, _)| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_directory_is_read_from_what_cargo_says() {
        let said = r#"{"packages":[],"target_directory":"/home/a/target","version":1}"#;
        assert_eq!(target_in(said), Some(PathBuf::from("/home/a/target")));
        assert_eq!(target_in("{}"), None);
    }
}
