//! `cargo xtask prove`: the proofs at full size. The tests run the same code, which is in `garth-testkit` and
//! `garth-proofs`, at a small size. Figures of a debug build would prove nothing, so this command restarts
//! itself in the profile `prove`.

mod name;
#[cfg(feature = "prove")]
mod proofs;

use std::path::Path;
#[cfg(feature = "prove")]
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use self::name::Name;
#[cfg(feature = "prove")]
use crate::target;
use crate::{cargo, check};

/// Arguments of the command.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The proof
    name: Name,
    /// Number of operations, crashes, appends, rounds or MiB (default: the one that each proof names)
    #[arg(long)]
    size: Option<u64>,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the proofs and prints their reports, in a build of the profile `prove`: optimised, with the
/// failpoints and planted faults that a release lacks.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    if options.name == Name::Semver {
        return crate::semver::run(root);
    }
    if cfg!(not(feature = "prove")) {
        let mut again = cargo();
        again.args(["run", "--profile", "prove", "--package", "xtask", "--features", "prove", "--"]);
        check(again.args(std::env::args_os().skip(1)).current_dir(root))?;
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
fn prove(root: &Path, options: &Options) -> Result<()> {
    let binaries = binaries(root)?;
    let proofs = proofs::named(options.name);
    // A given size is that of the first proof; the others are scaled in proportion.
    let full = proofs.first().map_or(1, |proof| proof.about().full);
    for proof in proofs {
        let about = proof.about();
        let size = options.size.map_or(about.full, |size| (size * about.full).div_ceil(full));
        println!("{}: {}", about.name, about.claim);
        let folder = std::env::temp_dir();
        let report = garth_testkit::proof::prove(&*proof, &folder, &binaries, options.seed, size)?;
        println!("seed {}, size {size}: {report}", options.seed);
    }
    Ok(())
}

/// Builds the binaries that the proofs start, and returns their folder.
#[cfg(feature = "prove")]
fn binaries(root: &Path) -> Result<PathBuf> {
    let packages = ["--package", "garth-cli", "--package", "garth-testkit", "--package", "garth-proofs"];
    check(cargo().args(["build", "--profile", "prove", "--bins"]).args(packages).current_dir(root))?;
    Ok(target(root)?.join("prove"))
}
