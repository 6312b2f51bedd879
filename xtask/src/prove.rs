//! `cargo xtask prove`: the proofs at full size. The tests run the same code, which is in `garth-testkit`, at
//! a small one. Figures of a debug build would prove nothing, so this starts itself again as a release build.

#[cfg(feature = "prove")]
mod crash;
#[cfg(feature = "prove")]
mod model;
#[cfg(feature = "prove")]
mod proofs;

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

/// A proof.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Proof {
    /// Random operations on SQLite equal those on the memory engine, with reopening: 1,000,000
    Model,
    /// The same through a scope, then through a scope of a scope, against a tree of its own: 1,000,000 each
    ModelScopes,
    /// The same through a mount's root and a part of it: 1,000,000 each
    ModelMounts,
    /// The same through ten stacks of views drawn at random: 1,000,000
    ModelStacks,
    /// Overlays beside union mounts of the kernel (needs root), over a layer of the same store, of another
    /// and a folder: 300,000 each
    Overlayfs,
    /// As `model` on a folder of the host, as far as POSIX goes: 300,000
    ModelHost,
    /// As `model`, with every batch planned as if rows were a round trip away: 1,000,000
    ModelRounds,
    /// `kill -9` under 8 concurrent HTTP writers, then under batches: 200 kills each, nothing acknowledged is
    /// lost
    Kill,
    /// Power cuts on ext4 (needs root) under the same writers: 100 cuts each, nothing acknowledged is lost
    Cut,
    /// Power cuts on ext4 (needs root) under a folder of the host: what was answered is kept, of the batch
    /// under way the first operations: 500 cuts
    HostCuts,
    /// Processes on one data folder read nothing stale, lose nothing and let each other write: 20,000 commits
    Processes,
    /// 64 appenders to one file lose no line, and every version is readable: 10,000 appends, under 20 MB
    Appenders,
    /// 64 writers at one version, of which one wins: 50 times each
    Cas,
    /// A large file by stream in under 64 MiB of memory, compared with what was written: 1,024 MiB
    BigFile,
    /// Accounts used in turn, then a fifth of them at once, with 1,024 descriptors and bounded threads and
    /// memory: 10,000
    Accounts,
    /// A tree is renamed and removed in under 100 MiB of memory, beside an account that commits: 1,000,000
    /// names
    Subtrees,
    /// `fsck` finds every kind of damage
    Fsck,
    /// `gc` beside readers and open handles of another process removes orphans only: 300 files
    Gc,
    /// An error, a panic and an abort at each step of commits, uploads and collections: 12 times each
    Failpoints,
    /// Histories of 16 clients have one order: 400
    Order,
    /// No path, link, glob or id reaches another account, and nothing leads out of a scope: 200,000 tries
    /// each
    Isolation,
    /// The same from a tree of views of each kind, while directories are swapped for links: 1,000,000 tries
    IsolationViews,
    /// The same on a folder of the host, while a second thread swaps for links outside: 1,000,000 tries
    IsolationHost,
    /// The context nodes of an agent reach those of no other user, agent or account: 100,000 tries
    IsolationNodes,
    /// A lost answer (caller gone, process ended, connection cut), then a retry: one commit: 1,000 times each
    Committed,
    /// Context nodes on a folder cut short behind each operation are repaired, of damaged directories nothing
    /// of the user's is lost, and other readers agree on what is there: 10,000 directories, 10,000 nodes
    Repair,
    /// Batches over the views of an agent's tree are whole and once after a kill and a retry: 100 kills
    ViewKills,
    /// Packs of random sessions are within their budget, refused by no provider, and built again byte for
    /// byte, whatever happens since: 2,000 sessions
    Packs,
    /// Prompts of random workspaces equal, byte for byte, those of a second implementation: 1,000 workspaces
    Prompts,
    /// No prompt for a session of a class other than `main`, and nothing in its tree, has a word of MEMORY.md
    /// or of what another class remembered: 200,000 states
    PromptIsolation,
    /// 64 appenders to one session, then kills and power cuts (needs root) while it is appended to, packed,
    /// swapped and collected: 100 crashes each, nothing said is lost, what is derived is whole or absent
    Sessions,
    /// Kills and power cuts (needs root) while sessions are appended to, compacted and reset: 100 crashes
    /// each, no session is put away without its archive, and archives and parts are what was said
    Resets,
    /// A collection removes of random sessions what nothing needs, by plain code that reads their files, and
    /// nothing else: 2,000 sessions
    SessionGc,
    /// Events reach a sink that fails, hangs and answers late, once and in order, under kills of 4 workers in
    /// 2 processes: 100 kills
    Outbox,
}

/// The binaries that crash, write and hammer.
#[cfg_attr(not(feature = "prove"), allow(dead_code))]
struct Binaries {
    garth: PathBuf,
    writer: PathBuf,
    worker: PathBuf,
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
        Proof::ModelScopes => model::through_scopes(size(1_000_000), seed),
        Proof::ModelMounts => model::through_mounts(size(1_000_000), seed),
        Proof::ModelStacks => model::through_stacks(size(1_000_000), seed),
        Proof::Overlayfs => model::beside_overlayfs(size(300_000), seed),
        Proof::ModelHost => model::on_a_folder(size(300_000), seed),
        Proof::ModelRounds => model::in_rounds(size(1_000_000), seed),
        Proof::Kill => crash::kill(&binaries(root)?, size(200), seed),
        Proof::Cut => crash::cut(&binaries(root)?, size(100), seed),
        Proof::HostCuts => proofs::cut_host(&binaries(root)?, size(500), seed),
        Proof::Processes => proofs::share(&binaries(root)?.worker, size(20_000)),
        Proof::Appenders => proofs::append(size(10_000)),
        Proof::Cas => proofs::cas(size(50)),
        Proof::BigFile => proofs::big(&binaries(root)?.worker, size(1_024), seed),
        Proof::Accounts => proofs::accounts(&binaries(root)?.worker, size(10_000)),
        Proof::Subtrees => proofs::subtrees(&binaries(root)?.worker, size(1_000_000)),
        Proof::Fsck => proofs::check(),
        Proof::Gc => proofs::collect(&binaries(root)?.worker, size(300), seed),
        Proof::Failpoints => proofs::fail(&binaries(root)?.worker, size(12), seed),
        Proof::Order => proofs::order(size(400), seed),
        Proof::Isolation => proofs::isolate(size(200_000), seed),
        Proof::IsolationViews => proofs::isolate_views(size(1_000_000), seed),
        Proof::IsolationHost => proofs::isolate_host(size(1_000_000), seed),
        Proof::IsolationNodes => proofs::isolate_nodes(size(100_000), seed),
        Proof::Committed => proofs::commit_once(&binaries(root)?, size(1_000), seed),
        Proof::Repair => proofs::repair(&binaries(root)?.worker, size(10_000), seed),
        Proof::ViewKills => proofs::kill_views(&binaries(root)?, size(100), seed),
        Proof::Packs => proofs::pack(size(2_000), seed),
        Proof::Prompts => proofs::prompts(size(1_000), seed),
        Proof::PromptIsolation => proofs::isolate_prompts(size(200_000), seed),
        Proof::Sessions => proofs::crash_sessions(&binaries(root)?.worker, size(100), seed),
        Proof::Resets => proofs::crash_resets(&binaries(root)?.worker, size(100), seed),
        Proof::SessionGc => proofs::collect_sessions(size(2_000), seed),
        Proof::Outbox => proofs::tell(&binaries(root)?, size(100), seed),
    }
}

#[cfg_attr(not(feature = "prove"), allow(dead_code))]
fn binaries(root: &Path) -> Result<Binaries> {
    check(cargo().args(["build", "--release", "--package", "garth-cli"]).current_dir(root))?;
    check(cargo().args(["build", "--release", "--package", "garth-testkit", "--bins"]).current_dir(root))?;
    let built = target(root)?.join("release");
    Ok(Binaries {
        garth: built.join("garth"),
        writer: built.join("crash-writer"),
        worker: built.join("proof-worker"),
    })
}
