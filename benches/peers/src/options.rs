//! Options of a measurement, and how they start a run.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::figures::Figures;
use crate::process::{name, outcome};
use crate::rows::Workload;
use crate::side::Which;
use crate::size::Size;

/// Options of a measurement.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rows to measure (default: all)
    pub(crate) rows: Vec<Workload>,
    #[command(flatten)]
    pub(crate) size: Size,
    /// Alternating runs of each side
    #[arg(long, default_value_t = 5)]
    pub(crate) runs: usize,
    /// The `garth` binary for the rows over HTTP and of complete commands
    #[arg(long)]
    garth: Option<PathBuf>,
    /// Folder for the data, on the disk to be measured
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl Options {
    /// Returns the binary that serves and imports.
    pub(crate) fn garth(&self) -> Result<Command> {
        let binary = self.garth.as_deref().context("this row needs --garth PATH, the binary")?;
        Ok(Command::new(binary))
    }

    /// Creates an empty folder on the measured disk.
    pub(crate) fn folder(&self) -> Result<TempDir> {
        let base = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        tempfile::Builder::new()
            .prefix("garth-bench-")
            .tempdir_in(base)
            .context("cannot make a folder for the data")
    }

    /// Runs one side in its own process, in `folder`. A peer may read the folder that garth's run has
    /// written.
    pub(crate) fn child(
        &self,
        workload: Workload,
        side: Which,
        folder: &TempDir,
        garths: Option<&TempDir>,
        runs: usize,
    ) -> Result<Figures> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(&program);
        // Fewer descriptors than all accounts would need together.
        if workload == Workload::Accounts {
            command = Command::new("sh");
            command.args(["-c", "ulimit -n 1024 && exec \"$0\" \"$@\""]).arg(program);
        }
        command.arg("child").arg(name(workload)).arg(name(side)).arg(folder.path());
        command.args(["--runs", &runs.to_string()]).args(self.size.arguments());
        if let Some(garths) = garths {
            command.arg("--garths").arg(garths.path());
        }
        outcome(command)
    }
}
