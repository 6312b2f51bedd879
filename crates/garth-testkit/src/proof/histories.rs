//! One account, many clients: every history of reads and compare-and-swap writes must be one that a single
//! thread could have produced, in the order of real time. The check uses the versions alone: each names its
//! predecessor, so that the order of writes needs no search.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use garth_engine::model::{Batch, Precondition, VersionId};
use garth_engine::{ErrorKind, FileSystem};

use super::{About, Broken, Proof, Proven, Report, Setting, at, hold, read, run, write};
use crate::data::random::Random;
use crate::fs::planted::{Bug, Planted};

/// Clients of one history.
pub const CLIENTS: u64 = 16;
/// Files that they share.
const FILES: u64 = 3;

/// Histories of concurrent clients. The size is their number.
#[derive(Clone, Copy, Debug)]
pub struct Histories {
    /// Calls of each client in a history.
    pub calls: u64,
    /// Bug of the filesystem: a negative control.
    pub bug: Option<Bug>,
}

impl Default for Histories {
    fn default() -> Self {
        Self { calls: 25, bug: None }
    }
}

impl Proof for Histories {
    fn about(&self) -> About {
        About {
            name: "histories",
            claim: "The operations of 16 concurrent clients have one order, which is that of real time.",
            full: 400,
            ci: 20,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        linear(setting, self.calls, self.bug)
    }
}

/// A call and its result.
#[derive(Clone, Debug)]
enum Call {
    /// Read this version, or a text that identifies it.
    Saw(Seen),
    /// Replaced the first version by the second one, with this text.
    Replaced(VersionId, VersionId, String),
    /// Failed to replace this version.
    Refused(VersionId),
}

#[derive(Clone, Debug)]
enum Seen {
    Version(VersionId),
    Text(String),
}

/// A call with the ticks at which it started and ended.
#[derive(Clone, Debug)]
struct Record {
    file: u64,
    call: Call,
    began: u64,
    ended: u64,
}

/// Records and checks histories, each of `calls` calls per client and on an account of its own. With a bug,
/// on a filesystem that has it.
///
/// # Errors
/// Results that no single thread could have seen.
fn linear(setting: &Setting<'_>, calls: u64, bug: Option<Bug>) -> Proven<Report> {
    let mut report = Report::of(["histories", "reads", "writes", "conflicts"]);
    for history in 0..setting.size {
        let fs: Arc<dyn FileSystem> = setting.account(&history.to_string())?;
        let fs = match bug {
            Some(bug) => Arc::new(Planted::new(fs, bug)),
            None => fs,
        };
        let seed = setting.seed.wrapping_add(history);
        let (first, records) = run(record(&fs, calls, seed))?;
        check(&first, &records).map_err(|error| Broken::because(format!("seed {seed}: {error}")))?;
        report.add("histories", 1);
        for record in records {
            let what = match record.call {
                Call::Saw(_) => "reads",
                Call::Replaced(..) => "writes",
                Call::Refused(_) => "conflicts",
            };
            report.add(what, 1);
        }
    }
    Ok(report)
}

fn name(file: u64) -> String {
    format!("/file-{file}")
}

/// Runs the clients. Returns the first version of each file, and all calls.
async fn record(fs: &Arc<dyn FileSystem>, calls: u64, seed: u64) -> Proven<(Vec<VersionId>, Vec<Record>)> {
    let mut first = Vec::new();
    for file in 0..FILES {
        first.push(fs.commit(Batch::new([write(&name(file), format!("first {file}"))?])).await?.version(0));
    }
    let clock = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (fs, clock, known) = (Arc::clone(fs), Arc::clone(&clock), first.clone());
            tokio::spawn(run_client(fs, clock, client, calls, seed, known))
        })
        .collect();
    let mut records = Vec::new();
    for client in clients {
        records.extend(client.await??);
    }
    Ok((first, records))
}

async fn run_client(
    fs: Arc<dyn FileSystem>,
    clock: Arc<AtomicU64>,
    client: u64,
    calls: u64,
    seed: u64,
    mut known: Vec<VersionId>,
) -> Proven<Vec<Record>> {
    let mut random = Random::new(seed ^ client.wrapping_mul(0x9E37_79B9));
    let mut records = Vec::new();
    for n in 0..calls {
        let file = random.below(FILES);
        let place = at(&name(file))?;
        let version = &mut known[file as usize];
        let began = clock.fetch_add(1, Ordering::SeqCst);
        let call = match random.below(4) {
            0 => Call::Saw(Seen::Text(read(&*fs, &name(file)).await?)),
            1 => {
                *version = fs.stat(&place).await?.etag;
                Call::Saw(Seen::Version(*version))
            }
            _ => {
                let text = format!("{client} {n}");
                let batch = Batch {
                    preconditions: vec![(place, Precondition::Etag(*version))],
                    ..Batch::new([write(&name(file), text.clone())?])
                };
                match fs.commit(batch).await {
                    Ok(commit) => {
                        let before = std::mem::replace(version, commit.version(0));
                        Call::Replaced(before, *version, text)
                    }
                    Err(error) if error.is(ErrorKind::Conflict) => Call::Refused(*version),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let ended = clock.fetch_add(1, Ordering::SeqCst);
        let refused = matches!(call, Call::Refused(_));
        records.push(Record { file, call, began, ended });
        // The next write needs the current version, or it would be refused as well.
        if refused {
            let began = clock.fetch_add(1, Ordering::SeqCst);
            *version = fs.stat(&at(&name(file))?).await?.etag;
            let ended = clock.fetch_add(1, Ordering::SeqCst);
            records.push(Record { file, call: Call::Saw(Seen::Version(*version)), began, ended });
        }
    }
    Ok(records)
}

/// Write of a version: the tick at which it started, and the next version.
struct Made {
    began: u64,
    next: Option<VersionId>,
}

/// Checks that one order of all calls explains every result and agrees with real time.
fn check(first: &[VersionId], records: &[Record]) -> Proven<()> {
    let mut made: HashMap<VersionId, Made> =
        first.iter().map(|version| (*version, Made { began: 0, next: None })).collect();
    let mut texts: HashMap<String, VersionId> =
        first.iter().zip(0..).map(|(version, file): (_, u64)| (format!("first {file}"), *version)).collect();
    for record in records {
        if let Call::Replaced(_, version, text) = &record.call {
            let again = made.insert(*version, Made { began: record.began, next: None });
            hold(again.is_none(), || format!("two writes made version {version}"))?;
            // The text names its client and call, so it identifies one version.
            texts.insert(text.clone(), *version);
        }
    }
    for record in records {
        if let Call::Replaced(before, version, _) = &record.call {
            let entry = made.get_mut(before).filter(|made| made.next.is_none());
            let entry = entry.ok_or_else(|| {
                Broken::because(format!(
                    "version {before} was replaced twice, or never was: at last by {version}"
                ))
            })?;
            hold(version.seq > before.seq && version.ino == before.ino, || {
                format!("version {version} replaced {before}")
            })?;
            entry.next = Some(*version);
        }
    }
    in_time(records, &made, &texts)
}

/// Checks the order of time: no call sees an older state than a call that ended before it started.
fn in_time(
    records: &[Record],
    made: &HashMap<VersionId, Made>,
    texts: &HashMap<String, VersionId>,
) -> Proven<()> {
    let mut ticks: Vec<(u64, usize, bool)> = Vec::new();
    for (n, record) in records.iter().enumerate() {
        ticks.push((record.began, n, false));
        ticks.push((record.ended, n, true));
    }
    ticks.sort_unstable();
    // Newest commit that any ended call had seen when a call started.
    let (mut seen, mut floors) = (0, vec![0; records.len()]);
    for (_, n, ended) in ticks {
        let record = &records[n];
        if !ended {
            floors[n] = seen;
            continue;
        }
        let floor = floors[n];
        match &record.call {
            Call::Saw(what) => {
                let version = match what {
                    Seen::Version(version) => Some(*version),
                    Seen::Text(text) => texts.get(text).copied(),
                };
                let found = version.and_then(|version| Some((version, made.get(&version)?)));
                let (version, write) = found.ok_or_else(|| {
                    Broken::because(format!("file {} was read as {what:?}, which nobody wrote", record.file))
                })?;
                // A write takes effect at some time between its ticks, so only its start is certain to come
                // first.
                hold(write.began < record.ended, || format!("{version} was read before it was written"))?;
                // Its successor was seen by a call that ended before this one started.
                let stale = write.next.is_some_and(|next| next.seq.0 <= floor);
                hold(!stale, || format!("stale read: {version} after commit {floor} was seen"))?;
                seen = seen.max(version.seq.0);
            }
            Call::Replaced(_, version, _) => {
                hold(version.seq.0 > floor, || {
                    format!("{version} was written after commit {floor} was seen")
                })?;
                seen = seen.max(version.seq.0);
            }
            Call::Refused(version) => {
                let next = made.get(version).and_then(|write| write.next).and_then(|next| made.get(&next));
                hold(next.is_some_and(|next| next.began < record.ended), || {
                    format!("a write onto {version} was refused though nobody had replaced it")
                })?;
            }
        }
    }
    Ok(())
}
