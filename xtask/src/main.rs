//! Chores of the project: `cargo xtask tidy`, `prove`, `bench`. In Rust, so that they
//! run the same on every machine and need no other tool.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a command line talks to its user

mod bench;
mod prove;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Parser;

/// Chores of the project.
#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Xtask {
    /// Check the house rules (CONTRIBUTING.md) on every file that git knows or would add
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
    // not as it was compiled: a build in a shared target folder may be of another clone
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = here.expect("`cargo xtask` says where the crate is");
    here.parent().expect("the crate lies in the repository").to_owned()
}

/// What `cargo` is called here: cargo says so to what it runs.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A command that must succeed.
fn check(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
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

/// The field by hand: one path does not justify a JSON parser.
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
