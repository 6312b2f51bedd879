//! No acknowledged data is lost to `kill -9` or loss of power, and the check detects planted faults.

use std::fs::{self, File};
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{At, Batch, Body, ByteRange, CommitId, Durability, Idempotency, Op, SetAttrs};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, FileSystemExt, TreePath};
use garth_testkit::crash::{Config, Disk, Report, Violation, Writers, cut_rounds, kill_rounds};
use garth_testkit::proof::{binaries_of_test, garth_in};
use tokio::runtime::Runtime;

/// Rounds in which a planted fault has to show; a run ends at the first that shows it. An early
/// acknowledgement shows in about one of ten, so that all of them miss it once in a thousand million runs.
const CONTROL_ROUNDS: u32 = 200;
/// Kills of a run that must find nothing; `GARTH_KILLS` sets another number.
const KILLS: u32 = 10;
/// Power cuts of a run that must find nothing; `GARTH_CUTS` sets another number.
const CUTS: u32 = 6;
/// Runs with batches split in two, each ended by its first round: nearly every one has a half batch in
/// flight.
const SPLIT_RUNS: u64 = 10;

fn batches() -> Writers {
    Writers::Batches(env!("CARGO_BIN_EXE_crash-writer").into())
}

fn config(rounds: u32, writers: Writers, fault: Option<&'static str>) -> Config {
    Config {
        seed: u64::from(std::process::id()),
        rounds,
        garth: garth_in(&binaries_of_test()),
        writers,
        fault,
    }
}

pub(crate) fn asked(variable: &str, default: u32) -> u32 {
    std::env::var(variable).map_or(default, |rounds| rounds.parse().unwrap())
}

fn assert_kill_loses_nothing(writers: Writers) {
    let rounds = asked("GARTH_KILLS", KILLS);
    assert_kept(kill_rounds(&config(rounds, writers, None)), rounds);
}

fn assert_power_cut_loses_nothing(writers: Writers) {
    let rounds = asked("GARTH_CUTS", CUTS);
    assert_kept(cut_rounds(&config(rounds, writers, None)), rounds);
}

fn assert_kept(outcome: Result<Report, Violation>, rounds: u32) {
    let report = outcome.unwrap_or_else(|violation| panic!("{violation}"));
    println!("{report}");
    assert_eq!((report.rounds, report.lost, report.partial), (rounds, 0, 0));
    assert!(report.acknowledged > 0, "the writers were at work: {report}");
}

/// Returns the report of a check that detected a planted fault.
fn caught(outcome: Result<Report, Violation>) -> Report {
    match outcome {
        Ok(report) => panic!("the planted fault was not seen: {report}"),
        Err(Violation::Harness(why)) => panic!("{why}"),
        Err(Violation::Broken { report, what }) => {
            println!("{report}\n{}", what.join("\n"));
            report
        }
    }
}

#[test]
fn power_cut_keeps_exactly_synced_data() {
    let mut disk = Disk::new().unwrap_or_else(|why| panic!("{why}"));
    let (synced, unsynced) = (disk.mount_point().join("synced"), disk.mount_point().join("unsynced"));
    let mut file = File::create(&synced).unwrap();
    file.write_all(b"kept").unwrap();
    file.sync_all().unwrap();
    File::open(disk.mount_point()).unwrap().sync_all().unwrap();
    file.write_all(b" and more").unwrap();
    fs::write(&unsynced, "gone").unwrap();
    assert_eq!(fs::read(&synced).unwrap(), b"kept and more", "without a cut both are seen");
    disk.cut().unwrap();
    assert!(file.sync_all().is_err(), "a sync after the cut does not lie");
    drop(file);
    disk.restore().unwrap();
    assert_eq!(fs::read(&synced).unwrap(), b"kept");
    assert!(!unsynced.exists());
    File::create(&unsynced).unwrap().sync_all().unwrap();
}

/// Returns the SQLite engine on `disk`, and a runtime for its calls.
fn engine_on(disk: &Disk) -> (Arc<SqliteFs>, Runtime) {
    (
        SqliteFs::open(&disk.mount_point(), Env::system(), garth_engine::rule::sample::registry()).unwrap(),
        Runtime::new().unwrap(),
    )
}

/// Writes one file, acknowledged as soon as it is visible.
async fn write_visible(fs: &SqliteFs, path: &TreePath, content: &'static str) {
    fs.commit(Batch::from(Op::write(path, content)).visible()).await.unwrap();
}

#[test]
fn visible_commit_survives_power_cut_after_sync() {
    let mut disk = Disk::new().unwrap_or_else(|why| panic!("{why}"));
    let path = TreePath::parse("/note").unwrap();
    let (fs, runtime) = engine_on(&disk);
    runtime.block_on(async {
        write_visible(&fs, &path, "synced").await;
        fs.sync().await.unwrap();
        write_visible(&fs, &path, "seen").await;
        assert_eq!(fs.read(&At::from(&path), ByteRange::ALL).await.unwrap(), "seen");
    });
    disk.cut().unwrap();
    drop((fs, runtime));
    disk.restore().unwrap();
    let (fs, runtime) = engine_on(&disk);
    let kept = runtime.block_on(fs.read(&At::from(&path), ByteRange::ALL)).unwrap();
    assert_eq!(kept, "synced", "what was only visible had no reason to be on the disk");
    assert_eq!(runtime.block_on(fs.fsck()).unwrap().findings, []);
}

#[test]
fn queried_visible_commit_survives_power_cut() {
    let mut disk = Disk::new().unwrap_or_else(|why| panic!("{why}"));
    let path = TreePath::parse("/note").unwrap();
    let (fs, runtime) = engine_on(&disk);
    runtime.block_on(async {
        // The file of the log exists and is synced.
        fs.write(&TreePath::parse("/other").unwrap(), "x").await.unwrap();
        let batch = Batch::new([Op::write(&path, "once")]).id(CommitId(7)).visible();
        let seq = fs.commit(batch).await.unwrap().seq;
        assert_eq!(fs.committed(CommitId(7)).await.unwrap().map(|commit| commit.seq), Some(seq));
    });
    disk.cut().unwrap();
    drop((fs, runtime));
    disk.restore().unwrap();
    let (fs, runtime) = engine_on(&disk);
    assert_eq!(runtime.block_on(fs.read(&At::from(&path), ByteRange::ALL)).unwrap(), "once");
    assert!(runtime.block_on(fs.committed(CommitId(7))).unwrap().is_some());
}

#[test]
fn durable_retry_survives_power_cut() {
    let mut disk = Disk::new().unwrap_or_else(|why| panic!("{why}"));
    let path = TreePath::parse("/note").unwrap();
    let (fs, runtime) = engine_on(&disk);
    runtime.block_on(async {
        // The file of the log exists and is synced: only the writes of the retry are in question.
        fs.write(&TreePath::parse("/other").unwrap(), "x").await.unwrap();
        for durability in [Durability::Visible, Durability::Durable] {
            let (at, body, attrs) = (At::from(&path), Body::from("once"), SetAttrs::default());
            let op = Op::write(at, body).create_new().with_attrs(attrs);
            let keep_until = Env::system().now().plus_seconds(3600);
            let record = Idempotency::new("retry", [1; 32], keep_until);
            let batch = Batch { durability, idempotency: Some(record), ..Batch::new([op]) };
            assert_eq!(fs.commit(batch).await.unwrap().replayed, durability == Durability::Durable);
        }
    });
    disk.cut().unwrap();
    drop((fs, runtime));
    disk.restore().unwrap();
    let (fs, runtime) = engine_on(&disk);
    assert_eq!(runtime.block_on(fs.read(&At::from(&path), ByteRange::ALL)).unwrap(), "once");
}

#[test]
fn full_disk_rejects_commits_but_serves_reads() {
    let disk = Disk::new().unwrap_or_else(|why| panic!("{why}"));
    let (fs, runtime) = engine_on(&disk);
    let path = TreePath::parse("/note").unwrap();
    runtime.block_on(fs.write(&path, "before")).unwrap();
    let filler = disk.mount_point().join("filler");
    let mut file = File::create(&filler).unwrap();
    // Fills the disk.
    while file.write_all(&[7; 4096]).is_ok() {}
    let large = || Bytes::from(vec![1; 4 << 20]);
    let refused = runtime.block_on(fs.write(&path, large())).unwrap_err();
    assert!(refused.is(ErrorKind::NoSpace) && refused.message().contains("the disk is full"), "{refused:?}");
    assert_eq!(runtime.block_on(fs.read(&At::from(&path), ByteRange::ALL)).unwrap(), "before");
    fs::remove_file(&filler).unwrap();
    drop(file);
    runtime.block_on(fs.write(&path, large())).unwrap();
    assert_eq!(runtime.block_on(fs.fsck()).unwrap().findings, []);
    drop((fs, runtime));
}

#[test]
fn kill_loses_and_splits_no_acknowledged_batch() {
    assert_kill_loses_nothing(batches());
}

#[test]
fn power_cut_loses_and_splits_no_acknowledged_batch() {
    assert_power_cut_loses_nothing(batches());
}

#[test]
fn kill_control_catches_early_acknowledgement() {
    let report = caught(kill_rounds(&config(CONTROL_ROUNDS, batches(), Some("ack-early"))));
    assert!(report.lost > 0);
}

#[test]
fn kill_control_catches_split_batch() {
    let halves = (0..SPLIT_RUNS).map(|run| {
        let config = config(CONTROL_ROUNDS, batches(), Some("split-batch"));
        caught(kill_rounds(&Config { seed: config.seed + run, ..config })).partial
    });
    assert!(halves.sum::<u64>() > 0, "a batch of which one file is there");
}

#[test]
fn power_cut_control_catches_synchronous_normal() {
    let report = caught(cut_rounds(&config(CONTROL_ROUNDS, batches(), Some("sync-normal"))));
    assert!(report.lost > 0);
}

#[test]
fn power_cut_control_catches_stubbed_fsync() {
    let report = caught(cut_rounds(&config(CONTROL_ROUNDS, batches(), Some("sync-off"))));
    assert!(report.lost > 0);
}
