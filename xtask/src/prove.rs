//! `cargo xtask prove`: the proofs of DESIGN 6 at full size. Where the tests run the same code from `garth-testkit` in a
//! small size, here it only gets its size. Always a release build: this one starts itself again as such.

#[cfg(feature = "prove")]
mod crash;
#[cfg(feature = "prove")]
mod files;
#[cfg(feature = "prove")]
mod model;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use crate::{cargo, check, target};

/// What to prove.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The proof
    what: Proof,
    /// How many operations, crashes, appends, rounds or MiB; without it the size that an issue closes with
    #[arg(long)]
    size: Option<u64>,
    /// Where the random numbers start
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A proof. The order is that of DESIGN 6.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Proof {
    /// Random operations on SQLite equal those on the memory engine, with reopening: 1,000,000
    Model,
    /// `kill -9` under 8 concurrent HTTP writers, then under batches: 200 kills each, nothing acknowledged is lost
    Kill,
    /// Power cuts on ext4 (needs root) under the same writers: 100 cuts each, nothing acknowledged is lost
    Cut,
    /// 64 appenders to one file lose no line and every version is readable: 10,000 appends, under 20 MB
    Appenders,
    /// 64 writers at one version, of which one wins: 100 rounds
    Cas,
    /// A large file by stream in under 64 MiB of memory, random ranges compared: 1,024 MiB
    BigFile,
}

/// The binaries that crash.
#[cfg_attr(not(feature = "prove"), allow(dead_code))]
struct Binaries {
    garth: PathBuf,
    writer: PathBuf,
}

/// Runs the proof in a release build and prints what it saw.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    if cfg!(debug_assertions) || cfg!(not(feature = "prove")) {
        let mut release = cargo();
        release.args(["run", "--release", "--package", "xtask", "--features", "prove", "--"]);
        check(release.args(std::env::args_os().skip(1)).current_dir(root))?;
        return Ok(ExitCode::SUCCESS);
    }
    prove(root, options)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(feature = "prove"))]
fn prove(_root: &Path, _options: &Options) -> Result<()> {
    unreachable!("`run` starts a build with the feature")
}

#[cfg(feature = "prove")]
fn prove(root: &Path, &Options { what, size, seed }: &Options) -> Result<()> {
    let size = |full: u64| size.unwrap_or(full);
    match what {
        Proof::Model => model::equal(size(1_000_000), seed),
        Proof::Kill => crash::kill(&binaries(root)?, size(200), seed),
        Proof::Cut => crash::cut(&binaries(root)?, size(100), seed),
        Proof::Appenders => files::appenders(size(10_000)),
        Proof::Cas => files::cas(size(100)),
        Proof::BigFile => files::big(size(1_024), seed),
    }
}

#[cfg_attr(not(feature = "prove"), allow(dead_code))]
fn binaries(root: &Path) -> Result<Binaries> {
    check(cargo().args(["build", "--release", "--package", "garth-cli"]).current_dir(root))?;
    let writer = ["build", "--release", "--package", "garth-testkit", "--bin", "crash-writer"];
    check(cargo().args(writer).current_dir(root))?;
    let built = target(root)?.join("release");
    Ok(Binaries { garth: built.join("garth"), writer: built.join("crash-writer") })
}
