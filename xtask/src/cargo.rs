//! Cargo and the repository, for the commands that build and run something.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Returns the root of the repository, which is the parent folder of this crate.
pub(crate) fn root() -> PathBuf {
    // Read at run time: a build in a shared target folder may be of another clone.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = here.expect("`cargo xtask` says where the crate is");
    here.parent().expect("the crate lies in the repository").to_owned()
}

/// Returns a command that runs the same cargo as this process.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a command. Fails unless it succeeds.
pub(crate) fn check(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok(())
}

/// Returns the folder in which cargo builds the workspace at `dir`.
pub(crate) fn target(dir: &Path) -> Result<PathBuf> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--format-version=1", "--no-deps"]).current_dir(dir);
    let output = metadata.output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).context("cargo speaks UTF-8")?;
    target_in(&text).context("cargo metadata names no target directory")
}

/// Reads the field by hand: one path does not justify a JSON parser.
fn target_in(metadata: &str) -> Option<PathBuf> {
    let (_, rest) = metadata.split_once("\"target_directory\":\"")?;
    rest.split_once('"').map(|(path, _)| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_target_directory_from_cargo_metadata() {
        let said = r#"{"packages":[],"target_directory":"/home/a/target","version":1}"#;
        assert_eq!(target_in(said), Some(PathBuf::from("/home/a/target")));
        assert_eq!(target_in("{}"), None);
    }
}
