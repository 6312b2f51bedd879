//! Runs in processes of their own, each in a folder of its own.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::figures::Outcome;

/// An empty folder on the disk that is measured.
pub(crate) fn folder(base: &Path) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("garth-bench-")
        .tempdir_in(base)
        .context("cannot make a folder for the data")
}

/// Inserts the rows that garth wrote in `from` into a database in `to`, as `measure`.
pub(crate) fn replay(from: &Path, to: &Path, ops: u64, measure: &str) -> Result<Outcome> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("replay").args([from, to]).arg(ops.to_string());
    let mut outcome = outcome(command)?;
    let nanos = outcome.nanos.remove("replay").context("the replay tells its time")?;
    outcome.nanos.insert(measure.to_owned(), nanos);
    Ok(outcome)
}

/// Runs the command and reads the outcome that it prints.
pub(crate) fn outcome(mut command: Command) -> Result<Outcome> {
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{command:?} failed ({})", output.status);
    serde_json::from_slice(&output.stdout).context("a run prints its outcome as JSON")
}
