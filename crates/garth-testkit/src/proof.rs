//! Proofs of promises that no test of a single call can show: several processes, many writers, large files,
//! damage, collection, failures at every step. Each is a [`Proof`] with a size, so that tests run it small
//! and `cargo xtask prove` at full size.

pub mod accounts;
pub mod appends;
pub mod big_file;
pub mod committed;
pub mod damage;
pub mod failpoints;
pub mod folded_authors;
pub mod garbage_collection;
pub mod gc_beside_readers;
pub mod histories;
pub mod long_retention;
pub mod migrate_names;
pub(crate) mod numbered_text;
mod outcome;
pub mod processes;
mod report;
mod running_clock;
pub mod steady_state;
mod storage;
pub mod subtrees;
mod support;
mod waits;
mod worker_process;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use garth_engine::AccountStore;

pub use self::outcome::{Broken, Proven, hold};
pub use self::report::Report;
pub use self::storage::{Folders, Storage};
pub use self::support::{
    account, append, at, bytes_below, closed, millis, path, peak_memory, process_status, read, remove, run,
    sound, status_of, write,
};
pub use self::worker_process::{Worker, say};

use crate::tools::in_memory;

/// A promise, and a program that tries to break it. A value may plant a fault, as the negative control: then
/// the proof must fail.
pub trait Proof: fmt::Debug + Sync {
    /// Returns name, promise and sizes.
    fn about(&self) -> About;

    /// Tries to break the promise.
    ///
    /// # Errors
    /// The promise that does not hold, or why it cannot be put to the test.
    fn run(&self, setting: &Setting<'_>) -> Proven<Report>;
}

/// Name, promise and sizes of a proof.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Name.
    pub name: &'static str,
    /// Promise, as one sentence.
    pub claim: &'static str,
    /// Size for `cargo xtask prove`, unless another one is given: operations, crashes or rounds, as the
    /// documentation of the proof says.
    pub full: u64,
    /// Size for the tests.
    pub ci: u64,
}

/// Where a proof runs, from which seed, and how much of it.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// Empty folder of the run.
    pub folder: &'a Path,
    /// Storage of accounts, for proofs that name no engine.
    pub storage: &'a dyn Storage,
    /// Folder with the binaries of the workspace.
    pub binaries: &'a Path,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Size of the run.
    pub size: u64,
}

impl Setting<'_> {
    /// Opens an account of the run. Each call opens it as another process.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn account(&self, name: &str) -> Proven<Arc<dyn AccountStore>> {
        self.storage.account(&self.folder.join(name))
    }

    /// Returns the path of the binary that is the other process of a proof, `proof-worker`.
    pub fn worker(&self) -> PathBuf {
        self.binaries.join("proof-worker")
    }

    /// Returns the path of the binary `garth`.
    pub fn garth(&self) -> PathBuf {
        garth_in(self.binaries)
    }
}

/// Runs a proof in a new folder below `base`.
///
/// # Errors
/// Errors of the proof.
pub fn prove(proof: &dyn Proof, base: &Path, binaries: &Path, seed: u64, size: u64) -> Proven<Report> {
    let folder = tempfile::tempdir_in(base)?;
    proof.run(&Setting { folder: folder.path(), storage: &Folders, binaries, seed, size })
}

/// Runs a proof at the size for tests, in a folder in memory if the machine has such folders, so that no disk
/// is involved. Uses the binaries of the build of the calling test.
///
/// # Errors
/// Errors of the proof.
pub fn prove_small(proof: &dyn Proof, seed: u64) -> Proven<Report> {
    prove(proof, &in_memory(), &binaries_of_test(), seed, proof.about().ci)
}

/// Returns the folder with the binaries of the build that the running test is of.
///
/// # Panics
/// If the test is not in a folder of a build.
pub fn binaries_of_test() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    // Tests are in `target/PROFILE/deps`, and binaries in `target/PROFILE`.
    test.ancestors().nth(2).expect("a test is in target/PROFILE/deps").to_owned()
}

/// Returns the path of the binary `garth` in a folder with the binaries of the workspace, or the path in
/// `GARTH_BIN` if that is set.
///
/// # Panics
/// If it has not been built.
pub fn garth_in(binaries: &Path) -> PathBuf {
    let garth = std::env::var_os("GARTH_BIN").map_or_else(|| binaries.join("garth"), PathBuf::from);
    assert!(garth.exists(), "no {}; build it with `cargo build -p garth-cli`", garth.display());
    garth
}
