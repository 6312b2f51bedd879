//! Many accounts in one process: each is written, read and released, in turn or all at once, and the
//! resources of the process stay bounded. The process is a separate one, whose descriptors are limited and
//! whose threads, descriptors and memory the kernel counts.

use std::path::Path;
use std::process::Command;

use futures::executor::block_on;
use garth_engine::model::{ByteRange, Op};
use garth_engine::{DataDir, Env, FileSystemExt};

use super::{
    About, Broken, Proof, Proven, Report, Setting, at, hold, peak_memory, process_status, run, sound, write,
};

/// Limit on the threads of the process. Its own runtime has five.
pub const MOST_THREADS: u64 = 28;
/// Limit on the peak memory of the process, in bytes.
pub const MOST_MEMORY: u64 = 256 << 20;
/// Rounds over all accounts: the first creates them, the others open them again.
const ROUNDS: u64 = 2;
/// Accounts between two samples of the kernel's counts.
const SAMPLED: u64 = 16;

/// Many accounts in one process, within a limit of open files.
#[derive(Clone, Copy, Debug)]
pub struct Accounts {
    /// Order in which they are used.
    pub used: Used,
    /// Limit on open descriptors of the process (`RLIMIT_NOFILE`).
    pub descriptors: u64,
}

/// Order in which accounts are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Used {
    /// One after the other, twice.
    InTurn,
    /// All at once, each by a caller of its own that holds nothing between calls. The callers wait for room.
    AtOnce,
}

impl Proof for Accounts {
    fn about(&self) -> About {
        let (full, ci) = match self.used {
            Used::InTurn => (10_000, 300),
            Used::AtOnce => (2_000, 300),
        };
        let name = match self.used {
            Used::InTurn => "accounts-in-turn",
            Used::AtOnce => "accounts-at-once",
        };
        About { name, claim: "Many accounts take bounded descriptors, threads and memory.", full, ci }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        worked(setting.folder, &setting.worker(), self.used, setting.size, self.descriptors)
    }
}

/// Has a worker (`binary` is `proof-worker`) use `accounts` accounts in `folder`, with at most `limit`
/// descriptors. Fails with more threads than [`MOST_THREADS`] or more memory than [`MOST_MEMORY`].
fn worked(folder: &Path, binary: &Path, used: Used, accounts: u64, limit: u64) -> Proven<Report> {
    let command = match used {
        Used::InTurn => "accounts",
        Used::AtOnce => "crowd",
    };
    // `ulimit` before `exec`: the limit holds for the worker from its first descriptor on, and for no other
    // process.
    let out = Command::new("sh")
        .args(["-c", "ulimit -n \"$1\" && exec \"$2\" \"$3\" \"$4\" \"$5\"", "sh", &limit.to_string()])
        .args([binary, Path::new(command), Path::new(&accounts.to_string()), folder])
        .output()?;
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let numbers: Vec<u64> = said.trim().split(' ').filter_map(|number| number.parse().ok()).collect();
    let [descriptors, threads, memory] = numbers[..] else {
        return Err(Broken::because(format!("{said}{}", String::from_utf8_lossy(&out.stderr))));
    };
    let report = Report::of(["accounts", "descriptors allowed", "descriptors", "threads", "bytes of memory"])
        .with("accounts", accounts)
        .with("descriptors allowed", limit)
        .with("descriptors", descriptors)
        .with("threads", threads)
        .with("bytes of memory", memory);
    hold(descriptors < limit, || format!("descriptors ran out: {report}"))?;
    hold(threads <= MOST_THREADS, || format!("more than {MOST_THREADS} threads: {report}"))?;
    hold(memory < MOST_MEMORY, || format!("too much memory: {report}"))?;
    Ok(report)
}

/// Uses accounts one after another, in the worker. Returns the line to print: `descriptors threads memory`.
pub(crate) fn use_in_turn(folder: &Path, accounts: u64) -> Proven<String> {
    let data = DataDir::open(folder, Env::system(), garth_engine::rule::sample::registry())?;
    let (mut descriptors, mut threads) = (0, 0);
    run(async {
        for round in 0..ROUNDS {
            for n in 0..accounts {
                use_one(&data, n, round).await?;
                if n % SAMPLED == 0 || n + 1 == accounts {
                    descriptors = descriptors.max(std::fs::read_dir("/proc/self/fd")?.count() as u64);
                    threads = threads.max(process_status("Threads:")?);
                }
            }
        }
        Ok(())
    })?;
    Ok(format!("{descriptors} {threads} {}", peak_memory()?))
}

/// Uses accounts all at once, in the worker. Returns the line to print: `descriptors threads memory`.
pub(crate) fn use_at_once(folder: &Path, accounts: u64) -> Proven<String> {
    let data = DataDir::open(folder, Env::system(), garth_engine::rule::sample::registry())?;
    let (descriptors, threads) = run(async {
        let mut highest = (0, 0);
        for round in 0..ROUNDS {
            let call = |n| {
                let data = data.clone();
                tokio::spawn(async move { use_one(&data, n, round).await })
            };
            let mut callers: Vec<_> = (0..accounts).map(call).collect();
            while let Some(caller) = callers.pop() {
                caller.await??;
                if (callers.len() as u64).is_multiple_of(SAMPLED) {
                    let descriptors = std::fs::read_dir("/proc/self/fd")?.count() as u64;
                    highest = (highest.0.max(descriptors), highest.1.max(process_status("Threads:")?));
                }
            }
        }
        Ok(highest)
    })?;
    for n in 0..accounts {
        sound(&*block_on(data.account(&format!("account-{n}")))?)?;
    }
    Ok(format!("{descriptors} {threads} {}", peak_memory()?))
}

/// Writes to an account, reads the files of earlier rounds, and releases the account.
async fn use_one(data: &DataDir, n: u64, round: u64) -> Proven<()> {
    let id = format!("account-{n}");
    if round == 0 {
        data.create_account(&id).await?;
    }
    let fs = data.account(&id).await?;
    let op: Op = write(&format!("/{round}"), format!("{id} in round {round}"))?;
    fs.apply(op).await?;
    for earlier in 0..=round {
        let bytes = fs.read(&at(&format!("/{earlier}"))?, ByteRange::ALL).await?;
        let expected = format!("{id} in round {earlier}");
        hold(bytes == expected, || format!("`{expected}` reads as `{}`", String::from_utf8_lossy(&bytes)))?;
    }
    Ok(())
}
