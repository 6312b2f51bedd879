//! `cargo xtask prove`: the proofs of DESIGN 6 at full size. The proofs themselves live in `garth-testkit`, where CI's
//! tests run them smaller; here they only get their size and a release build.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::{cargo, check};

/// What to prove.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The proof
    what: Proof,
    /// How many operations, kills, cuts, appends or MiB; without it the size that an issue closes with
    #[arg(long)]
    size: Option<u64>,
}

/// A proof. The order is that of DESIGN 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Proof {
    /// Random operations on SQLite equal those on the memory engine: 1,000,000, with reopening
    Model,
    /// `kill -9` under 8 concurrent HTTP writers: 200 kills, nothing acknowledged is lost
    Kill,
    /// Power cuts on ext4 (needs root): 100 cuts, nothing acknowledged is lost
    Cut,
    /// Two processes on one data folder: no stale read, no lost write
    Processes,
    /// 64 appenders to one file lose no line; 10,000 appends stay readable in under 20 MB
    Appenders,
    /// 64 writers of one version: one wins
    Cas,
    /// 1 GiB by stream in under 64 MiB of memory
    BigFile,
    /// `fsck` finds each planted fault
    Fsck,
    /// `gc` removes orphans only, beside readers in another process
    Gc,
}

/// Runs the proof, in a release build.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    if cfg!(debug_assertions) {
        let mut release = cargo();
        release.args(["run", "--release", "--package", "xtask", "--"]).args(std::env::args_os().skip(1));
        check(release.current_dir(root))?;
        return Ok(ExitCode::SUCCESS);
    }
    bail!("{:?} is not built yet ({:?})", options.what, options.size)
}
