//! The proofs of `garth_testkit::proof`, each on a folder of its own.

use std::fmt::Display;
use std::path::Path;

use anyhow::{Result, ensure};
use garth_testkit::proof::committed::Retry;
use garth_testkit::proof::sessions::Crash;
use garth_testkit::proof::view_kills::{self, How};
use garth_testkit::proof::{
    Proven, accounts, appends, big_file, collect, committed, damage, failpoints, host_cuts, isolation,
    linear, outbox, packs, processes, prompt_isolation, prompts, repair, resets, session_gc, sessions,
    subtrees,
};

use super::Binaries;

/// Bytes of one MiB.
const MIB: u64 = 1 << 20;
/// Most that 10,000 appends of 200 bytes may take, in bytes, while the account is open.
const MOST_APPENDED: u64 = 20_000_000;
/// Descriptors that a process may have open unless somebody raises it: the soft limit of most systems.
const DESCRIPTORS: u64 = 1_024;
/// Calls of each client in a history.
const CALLS: u64 = 25;

/// Runs a proof on a new folder and prints its report.
fn on_folder<T: Display>(prove: impl FnOnce(&Path) -> Proven<T>) -> Result<T> {
    let folder = tempfile::tempdir()?;
    let report = prove(folder.path())?;
    println!("{report}");
    Ok(report)
}

/// Two, then three processes on one data folder.
pub(super) fn share(worker: &Path, commits: u64) -> Result<()> {
    for count in [2, 3] {
        on_folder(|folder| processes::processes(folder, worker, count, commits.div_ceil(100), commits))?;
    }
    Ok(())
}

/// Nodes that are cut short, killed and damaged, and what others see of them.
pub(super) fn repair(worker: &Path, count: u64, seed: u64) -> Result<()> {
    on_folder(repair::cuts)?;
    on_folder(|folder| repair::kills(folder, worker, count.div_ceil(200), seed))?;
    on_folder(|_| repair::damage::damaged(count, seed))?;
    on_folder(|folder| repair::readers::agree(folder, count, seed)).map(drop)
}

/// Packs of random sessions.
pub(super) fn pack(count: u64, seed: u64) -> Result<()> {
    on_folder(|folder| packs::random(folder, count, seed)).map(drop)
}

/// Prompts of random workspaces.
pub(super) fn prompts(count: u64, seed: u64) -> Result<()> {
    on_folder(|folder| prompts::random(folder, count, seed, true, None)).map(drop)
}

/// Whose memory prompts hold.
pub(super) fn isolate_prompts(states: u64, seed: u64) -> Result<()> {
    on_folder(|folder| prompt_isolation::isolation(folder, states, seed, None)).map(drop)
}

/// Sessions with 64 appenders, under kills, then under power cuts.
pub(super) fn crash_sessions(worker: &Path, crashes: u64, seed: u64) -> Result<()> {
    on_folder(|folder| sessions::appenders(folder, 64, 50))?;
    for crash in [Crash::Kill, Crash::Cut] {
        println!("{crash:?}: {}", sessions::crashed(worker, crash, crashes, seed, None)?);
    }
    Ok(())
}

/// Sessions that are compacted and reset, under kills, then under power cuts.
pub(super) fn crash_resets(worker: &Path, crashes: u64, seed: u64) -> Result<()> {
    for crash in [Crash::Kill, Crash::Cut] {
        println!("{crash:?}: {}", resets::crashed(worker, crash, crashes, seed, None)?);
    }
    Ok(())
}

/// Collections of random sessions.
pub(super) fn collect_sessions(count: u64, seed: u64) -> Result<()> {
    on_folder(|folder| session_gc::random(folder, count, seed, None)).map(drop)
}

/// 64 appenders, then a file of many small appends.
pub(super) fn append(appends: u64) -> Result<()> {
    on_folder(|folder| appends::appenders(folder, 64, appends.div_ceil(64)))?;
    let report = on_folder(|folder| appends::many_appends(folder, appends))?;
    ensure!(report.open < MOST_APPENDED, "the data folder takes more than {MOST_APPENDED} bytes");
    Ok(())
}

/// 64 writers by compare-and-swap.
pub(super) fn cas(each: u64) -> Result<()> {
    on_folder(|folder| appends::cas_writers(folder, 64, each)).map(drop)
}

/// A file far larger than the memory it may take.
pub(super) fn big(worker: &Path, mib: u64, seed: u64) -> Result<()> {
    on_folder(|folder| big_file::big_file(folder, worker, mib * MIB, seed)).map(drop)
}

/// Many accounts in turn, then a fifth as many at once, with as many descriptors as a login has.
pub(super) fn accounts(worker: &Path, count: u64) -> Result<()> {
    on_folder(|folder| accounts::accounts(folder, worker, count, DESCRIPTORS))?;
    on_folder(|folder| accounts::crowd(folder, worker, count.div_ceil(5), DESCRIPTORS)).map(drop)
}

/// A tree of many names.
pub(super) fn subtrees(worker: &Path, names: u64) -> Result<()> {
    on_folder(|folder| subtrees::subtrees(folder, worker, names)).map(drop)
}

/// Every kind of damage.
pub(super) fn check() -> Result<()> {
    on_folder(damage::damage).map(drop)
}

/// Collecting beside another process.
pub(super) fn collect(worker: &Path, files: u64, seed: u64) -> Result<()> {
    on_folder(|folder| collect::collect(folder, worker, files, seed)).map(drop)
}

/// A failure at each step.
pub(super) fn fail(worker: &Path, rounds: u64, seed: u64) -> Result<()> {
    let rounds = u32::try_from(rounds)?;
    on_folder(|folder| failpoints::failpoints(folder, worker, rounds, seed)).map(drop)
}

/// Histories of 16 clients.
pub(super) fn order(histories: u64, seed: u64) -> Result<()> {
    on_folder(|folder| linear::linear(folder, histories, CALLS, seed, None)).map(drop)
}

/// Tries to reach another account, and from a scope what lies beside it.
pub(super) fn isolate(tries: u64, seed: u64) -> Result<()> {
    on_folder(|folder| isolation::isolation(folder, tries, seed))?;
    on_folder(|folder| isolation::scopes(folder, tries, seed, None)).map(drop)
}

/// Tries to leave a tree of views.
pub(super) fn isolate_views(tries: u64, seed: u64) -> Result<()> {
    on_folder(|folder| isolation::views(folder, tries, seed, None)).map(drop)
}

/// The same on a folder of the host.
pub(super) fn isolate_host(tries: u64, seed: u64) -> Result<()> {
    on_folder(|folder| isolation::views_on_host(folder, tries, seed, None)).map(drop)
}

/// Tries at the nodes of others.
pub(super) fn isolate_nodes(tries: u64, seed: u64) -> Result<()> {
    on_folder(|folder| isolation::nodes(folder, tries, seed, false)).map(drop)
}

/// Batches over an agent's tree, killed.
pub(super) fn kill_views(binaries: &Binaries, kills: u64, seed: u64) -> Result<()> {
    on_folder(|folder| view_kills::killed(folder, &binaries.worker, kills, seed, How::Whole)).map(drop)
}

/// Batches on a folder of a disk that loses its power.
pub(super) fn cut_host(binaries: &Binaries, cuts: u64, seed: u64) -> Result<()> {
    println!("seed {seed}: {}", host_cuts::cut(&binaries.worker, cuts, seed, None)?);
    Ok(())
}

/// Answers that are lost.
pub(super) fn commit_once(binaries: &Binaries, rounds: u64, seed: u64) -> Result<()> {
    on_folder(|folder| committed::given_up(folder, rounds, seed, Retry::SameId))?;
    on_folder(|folder| committed::ended(folder, &binaries.worker, rounds, seed, Retry::SameId))?;
    on_folder(|folder| committed::cut(folder, &binaries.garth, rounds, seed))?;
    Ok(())
}

/// Events to a bad sink.
pub(super) fn tell(binaries: &Binaries, kills: u64, seed: u64) -> Result<()> {
    on_folder(|folder| outbox::outbox(folder, &binaries.worker, kills, seed, None)).map(drop)
}
