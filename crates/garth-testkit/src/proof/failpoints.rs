//! Failures at every step of commit, upload and collection: an error, a panic, the end of the process. After
//! each the account opens again with a prefix of its commits that includes all acknowledged ones, and other
//! accounts are not affected.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Body, ByteRange, ChangesQuery, MAX_PAGE, Op};
use garth_engine::rule::PathPattern;
use garth_engine::rule::retention::{ContentLimit, Retention};
use garth_engine::runtime::failpoint::{Failure, POINTS};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem};

use super::{
    About, Broken, Proof, Proven, Report, Setting, account, append, at, hold, read, run, sound, write,
};
use crate::data::random::Random;
use crate::reference::file_content::content;

/// Writers of pairs of small files.
const WRITERS: u64 = 6;
/// Batches of each writer, if nothing stops it.
const BATCHES: u64 = 8;
/// Number of the writer that uploads.
const UPLOADER: u64 = WRITERS;
/// Bytes of an upload: more than is stored in the database.
const UPLOAD: usize = 1_300_000;
/// Commits before the writers begin. More than the log keeps, so that `gc` has a past to remove; it keeps all
/// of the writers.
const EARLIER: u64 = 70;
const KEPT: u64 = 60;
/// File that `gc` has to remove.
const LEFT_OVER: &str = "packs/left-over.pack";
/// Time after which calls count as hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// Failures at each point of commits, uploads and collections. The size is the number of failures of each
/// kind at a point.
#[derive(Clone, Copy, Debug)]
pub struct Failpoints;

impl Proof for Failpoints {
    fn about(&self) -> About {
        About {
            name: "failpoints",
            claim: "A failure at any point leaves a prefix of the commits with all that were acknowledged.",
            full: 12,
            ci: 1,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        failpoints(setting.folder, &setting.worker(), setting.size, setting.seed)
    }
}

/// Last attempted and last acknowledged batch of each writer.
#[derive(Clone, Debug, Default)]
struct Journal(BTreeMap<u64, (u64, u64)>);

impl Journal {
    fn note(&mut self, event: Event) {
        let (tried, acknowledged) = self.0.entry(event.writer).or_default();
        *if event.acknowledged { acknowledged } else { tried } = event.batch;
    }
}

#[derive(Clone, Copy, Debug)]
struct Event {
    writer: u64,
    batch: u64,
    acknowledged: bool,
}

type Note = Arc<dyn Fn(Event) + Send + Sync>;

/// Fails `rounds` times at each point in each way, on accounts below `folder`. `binary` is `proof-worker`.
///
/// # Errors
/// Data that was lost, torn, left hanging or unsound, and the failure before it.
fn failpoints(folder: &Path, binary: &Path, rounds: u64, seed: u64) -> Proven<Report> {
    let mut random = Random::new(seed);
    let mut report =
        Report::of(["failures", "batches acknowledged and kept", "batches kept despite an error"]);
    let bystander = account(&folder.join("bystander"), Env::system())?;
    for round in 0..rounds {
        for point in POINTS {
            for failure in [Failure::Io, Failure::Panic, Failure::Abort, Failure::Sync] {
                // The only point at which the WAL is synced.
                if failure == Failure::Sync && point != "before-commit" {
                    continue;
                }
                let folder = folder.join(format!("{point}-{failure:?}-{round}"));
                // Fewer than the passes of every run.
                let often = match point {
                    "plan" | "apply" => 20,
                    "index" | "before-commit" | "after-commit" | "answer" => 6,
                    _ => 1,
                };
                let (after, seed) = (random.below(often) as u32, random.next());
                let journal = match failure {
                    Failure::Abort => aborted(&folder, binary, point, after, seed),
                    Failure::Io | Failure::Panic | Failure::Sync => {
                        failed(&folder, point, failure, after, seed)
                    }
                };
                let told = |error| {
                    Broken::because(format!("{point}, {failure:?} after {after}, seed {seed}: {error}"))
                };
                let journal = journal.map_err(told)?;
                check(&folder, &journal, &mut report).map_err(told)?;
                run(async {
                    // The failure must not reach another account of the same process.
                    bystander.commit(Batch::new([write("/bystander", point)?])).await?;
                    Ok(())
                })
                .map_err(|error| told(Broken::because(format!("another account: {error}"))))?;
                report.add("failures", 1);
            }
        }
    }
    Ok(report)
}

/// Fails in this process.
fn failed(folder: &Path, point: &str, failure: Failure, after: u32, seed: u64) -> Proven<Journal> {
    let fs = account(folder, Env::system())?;
    let journal = Arc::new(Mutex::new(Journal::default()));
    let noted = Arc::clone(&journal);
    let note: Note = Arc::new(move |event| noted.lock().unwrap_or_else(PoisonError::into_inner).note(event));
    prepare(folder, &fs)?;
    let failpoints = fs.runtime().failpoints();
    failpoints.arm(point, failure, after);
    let errors = run(load(&fs, &note, seed))?;
    // A point that was never passed would make the round prove nothing.
    hold(!failpoints.disarm(), || "the point was never passed".to_owned())?;
    hold(!errors.is_empty(), || "nobody was told of the failure".to_owned())?;
    let next = run(async { Ok(fs.commit(Batch::new([write("/next", "next")?])).await) })?;
    match next {
        Ok(_) => {
            hold(failure != Failure::Sync, || "the account is written though a sync failed".to_owned())?;
        }
        Err(error) => {
            let poisoned = error.is(ErrorKind::Poisoned) && failure == Failure::Sync;
            hold(poisoned, || format!("the account answers {:?} after the failure", error.kind()))?;
        }
    }
    let journal = journal.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(journal)
}

/// Fails in another process, which the failure ends.
fn aborted(folder: &Path, binary: &Path, point: &str, after: u32, seed: u64) -> Proven<Journal> {
    let place = folder.to_str().ok_or_else(|| Broken::because("the folder's path is not UTF-8"))?;
    let out =
        Command::new(binary).args(["fail", place, point, &after.to_string(), &seed.to_string()]).output()?;
    let said = String::from_utf8_lossy(&out.stdout);
    // An abort ends the process by a signal, so it has no exit code.
    hold(out.status.code().is_none(), || {
        format!("the process did not abort: {said}{}", String::from_utf8_lossy(&out.stderr))
    })?;
    let mut journal = Journal::default();
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let [what, writer, batch] = words[..]
            && let (Ok(writer), Ok(batch)) = (writer.parse(), batch.parse())
        {
            journal.note(Event { writer, batch, acknowledged: what == "kept" });
        }
    }
    Ok(journal)
}

/// Runs writers, an upload and a collection in the worker until the failpoint aborts it. Prints each attempt
/// and each acknowledgement.
pub(crate) fn work_until_abort(folder: &Path, point: &str, after: u64, seed: u64) -> Proven<()> {
    let fs = account(folder, Env::system())?;
    prepare(folder, &fs)?;
    let note: Note = Arc::new(|event: Event| {
        let what = if event.acknowledged { "kept" } else { "tried" };
        #[expect(clippy::disallowed_methods, reason = "a process reads it, not a person")]
        let mut out = std::io::stdout().lock();
        // Without a reader nobody misses the line.
        let _ = writeln!(out, "{what} {} {}", event.writer, event.batch);
        let _ = out.flush();
    });
    fs.runtime().failpoints().arm(point, Failure::Abort, u32::try_from(after).unwrap_or(u32::MAX));
    let errors = run(load(&fs, &note, seed))?;
    Err(Broken::because(format!("the work ended without an abort: {errors:?}")))
}

/// Creates extents to merge, a pack to remove, a range to free and a past to remove, for `gc`.
fn prepare(folder: &Path, fs: &Arc<SqliteFs>) -> Proven<()> {
    run(async {
        fs.commit(Batch::new([write("/first", "first")?])).await?;
        fs.commit(Batch::new([append("/first", "second")?])).await?;
        // The same bytes three times, stored once.
        let mut upload = fs.stage(&at("/zeros")?).await?;
        upload.write(vec![0; 3 << 20].into()).await?;
        fs.commit(Batch::new([write("/zeros", Body::Staged(upload.finish().await?))?])).await?;
        for n in 0..EARLIER {
            let path = format!("/past-{}", n % 9);
            let op = if n / 9 % 3 == 2 { Op::remove_file(at(&path)?) } else { write(&path, format!("{n}"))? };
            fs.commit(Batch::new([op]).visible()).await?;
        }
        let off = ContentLimit { pattern: PathPattern::parse("/past-*")?, keep: Duration::ZERO };
        let retention = Retention { commits: Some(KEPT), content: vec![off], ..Retention::default() };
        fs.set_retention(retention).await?;
        Ok(())
    })?;
    std::fs::create_dir_all(folder.join("packs"))?;
    Ok(std::fs::write(folder.join(LEFT_OVER), "x")?)
}

/// Runs writers, an uploader and a collection at the same time. Each ends with its first error; returns the
/// errors.
async fn load(fs: &Arc<SqliteFs>, note: &Note, seed: u64) -> Proven<Vec<String>> {
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        tasks.push(tokio::spawn(pairs(Arc::clone(fs), Arc::clone(note), writer)));
    }
    tasks.push(tokio::spawn(uploads(Arc::clone(fs), Arc::clone(note), seed)));
    let collector = Arc::clone(fs);
    tasks.push(tokio::spawn(async move { Ok(collector.gc(Duration::ZERO).await.map(drop)?) }));
    let mut errors = Vec::new();
    for task in tasks {
        match tokio::time::timeout(PATIENCE, task).await {
            Err(_) => return Err(Broken::because("a call hangs")),
            Ok(Err(panic)) => errors.push(panic.to_string()),
            Ok(Ok(Err(error))) => errors.push(error.to_string()),
            Ok(Ok(Ok(()))) => {}
        }
    }
    Ok(errors)
}

/// Writes two files per batch, which must always have the same content.
async fn pairs(fs: Arc<SqliteFs>, note: Note, writer: u64) -> Proven<()> {
    for batch in 1..=BATCHES {
        note(Event { writer, batch, acknowledged: false });
        let text = format!("word{batch}");
        let ops = [write(&format!("/one-{writer}"), text.clone())?, write(&format!("/two-{writer}"), text)?];
        fs.commit(Batch { message: format!("{writer} {batch}"), ..Batch::new(ops) }).await?;
        note(Event { writer, batch, acknowledged: true });
    }
    Ok(())
}

async fn uploads(fs: Arc<SqliteFs>, note: Note, seed: u64) -> Proven<()> {
    for batch in 1..=2 {
        note(Event { writer: UPLOADER, batch, acknowledged: false });
        let to = format!("/upload-{batch}");
        let mut upload = fs.stage(&at(&to)?).await?;
        upload.write(Bytes::from(content(seed ^ batch, 0, UPLOAD))).await?;
        let op = write(&to, Body::Staged(upload.finish().await?))?;
        fs.commit(Batch::from(op).message(format!("{UPLOADER} {batch}"))).await?;
        note(Event { writer: UPLOADER, batch, acknowledged: true });
    }
    Ok(())
}

/// Opens the account again, and checks that it has a prefix of the batches of each writer that includes the
/// acknowledged ones.
fn check(folder: &Path, journal: &Journal, report: &mut Report) -> Proven<()> {
    // It still exists if `gc` was prevented from removing it.
    let _ = std::fs::remove_file(folder.join(LEFT_OVER));
    let fs = SqliteFs::open(folder, Env::system(), garth_engine::rule::sample::registry())?;
    sound(&*fs)?;
    run(async {
        let oldest = fs.retention().await?.oldest;
        let log = fs.changes(&ChangesQuery::since(oldest).limit(MAX_PAGE)).await?;
        hold(log.commits.iter().map(|commit| commit.commit.seq.0).eq(oldest.0 + 1..=log.head.0), || {
            "the log has gaps".to_owned()
        })?;
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for commit in &log.commits {
            let parsed = commit.commit.message.split_once(' ');
            let Some((writer, batch)) = parsed.and_then(|(w, b)| Some((w.parse().ok()?, b.parse().ok()?)))
            else {
                continue;
            };
            let before = last.insert(writer, batch).unwrap_or(0);
            hold(batch == before + 1, || format!("writer {writer} has batch {batch} after {before}"))?;
        }
        for (writer, (tried, acknowledged)) in &journal.0 {
            let kept = last.get(writer).copied().unwrap_or(0);
            hold(kept >= *acknowledged && kept <= *tried, || {
                format!("writer {writer} was told of {acknowledged}, tried {tried}, and {kept} is there")
            })?;
            report.add("batches acknowledged and kept", *acknowledged);
            report.add("batches kept despite an error", kept - acknowledged);
            for file in [format!("/one-{writer}"), format!("/two-{writer}")] {
                if *writer != UPLOADER && kept > 0 {
                    let text = read(&*fs, &file).await?;
                    hold(text == format!("word{kept}"), || format!("{file} says {text}, not word{kept}"))?;
                }
            }
            for batch in (1..=kept).filter(|_| *writer == UPLOADER) {
                let bytes = fs.read(&at(&format!("/upload-{batch}"))?, ByteRange::ALL).await?;
                hold(bytes.len() == UPLOAD, || format!("upload {batch} has {} bytes", bytes.len()))?;
            }
        }
        // After a new start the account accepts writes again, whatever the failure was.
        fs.commit(Batch::new([write("/again", "again")?])).await?;
        Proven::Ok(())
    })?;
    block_on(fs.gc(Duration::ZERO))?;
    sound(&*fs)
}
