//! Garbage collection while another process reads, holds files open and uploads: it removes orphans only.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::executor::block_on;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Body, ByteRange, HistoryPage, Moment, Op, Seq, SetAttrs, SnapshotsPage};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem};

use super::worker_process::Worker;
use super::{
    About, Broken, Proof, Proven, Report, Setting, account, append, at, hold, read, remove, run, sound, write,
};
use crate::data::random::Random;
use crate::reference::file_content::content;

/// Longer than an upload may wait, in seconds.
const LONG: u64 = 25 * 3600;

/// Garbage collection with readers and open handles in another process. The size is the number of files.
#[derive(Clone, Copy, Debug)]
pub struct Collection;

impl Proof for Collection {
    fn about(&self) -> About {
        About {
            name: "gc",
            claim: "`gc` removes only orphans while another process is active.",
            full: 300,
            ci: 12,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        collect(setting.folder, &setting.worker(), setting.size, setting.seed)
    }
}

/// Writes `files` files in several versions to an account below `folder`, creates orphans of every kind, and
/// collects while `proof-worker` (`binary`) runs.
///
/// # Errors
/// Data that was removed although it is needed, or kept although it is not.
fn collect(folder: &Path, binary: &Path, files: u64, seed: u64) -> Proven<Report> {
    let place = folder.to_str().ok_or_else(|| Broken::because("the folder's path is not UTF-8"))?;
    let (env, clock) = Env::manual(Env::system().now());
    let fs = account(folder, env.clone())?;
    let kept = run(history(&fs, files, seed))?;
    let mut other = Worker::start(binary, &["serve", place])?;

    doomed(&fs, &mut other)?;

    // One file that the other process writes after its last name was removed, and one that this process
    // writes.
    block_on(fs.commit(Batch::new([write("/held", "before;")?, write("/here", "before;")?])))?;
    other.ask("hold /held")?;
    let here = block_on(fs.open(&at("/here")?))?;
    block_on(fs.commit(Batch::new([remove("/held")?, remove("/here")?])))?;
    other.ask("held-append after;")?;
    let late = |text: &str| Op::append(here.ino(), Body::from(text.to_owned())).must_exist();
    block_on(fs.commit(Batch::new([late("after;")])))?;

    let uploads = run(uploads(&fs))?;
    let attrs = SetAttrs::new().expires_at(env.now().plus_seconds(1));
    block_on(fs.commit(Batch::new([write("/short-lived/file", "soon gone")?.with_attrs(attrs)])))?;
    // The short-lived file expires, but no upload is old enough to be collected.
    clock.advance(Duration::from_secs(2));

    let held = block_on(fs.gc(Duration::ZERO))?;
    hold(held.expired == 1 && held.staged == 0 && held.versions == 0, || {
        format!("with files held open and uploads waiting gc removes {held:?}")
    })?;
    let seen = other.ask("held-read")?;
    hold(seen == "before;after;", || format!("the other process holds `{seen}` after gc"))?;
    let seen = block_on(here.read_at(0, 100))?;
    hold(seen == "before;after;", || format!("this process holds {seen:?} after gc"))?;
    run(check(&fs, &kept))?;
    sound(&*fs)?;

    other.ask("release")?;
    drop(here);
    block_on(fs.sync())?;
    let Uploads { used, unused, abandoned } = uploads;
    block_on(fs.commit(Batch::new([Op::append(at("/used")?, Body::Staged(used))])))?;
    clock.advance(Duration::from_secs(LONG));
    let aged = block_on(fs.gc(Duration::ZERO))?;
    hold(aged.expired == 0 && aged.staged == 2 && aged.versions == 2 && aged.packs >= 1, || {
        format!("of two closed files and two abandoned uploads gc removes {aged:?}")
    })?;
    // The upload that was in flight all the time gets an error, instead of being accepted without its bytes.
    let refused = block_on(abandoned.finish());
    hold(refused.as_ref().is_err_and(|error| error.is(ErrorKind::NotFound)), || {
        format!("an upload that was collected ends with {refused:?}")
    })?;
    let stale = Op::patch(at("/used")?, 0, Body::Staged(unused));
    let refused = block_on(fs.commit(Batch::new([stale])));
    hold(refused.as_ref().is_err_and(|error| error.is(ErrorKind::NotFound)), || {
        format!("a body that was collected is used: {refused:?}")
    })?;
    block_on(fs.gc(Duration::ZERO))?;
    run(check(&fs, &kept))?;
    let bytes = block_on(fs.read(&at("/used")?, ByteRange::ALL))?;
    hold(bytes == content(11, 0, 3_000_000), || "the upload that was used has other bytes".to_owned())?;
    let seen = other.ask("read /f0")?;
    hold(seen == block_on(read(&*fs, "/f0"))?, || format!("the other process reads `{seen}`"))?;
    sound(&*fs)?;
    let counts = ["versions kept", "versions removed while held", "versions removed", "uploads removed"];
    let mut report = Report::of(counts)
        .with("versions kept", kept.len())
        .with("versions removed while held", held.versions)
        .with("versions removed", aged.versions)
        .with("uploads removed", aged.staged);
    report.note(format!("while held: {held:?}; afterwards: {aged:?}"));
    Ok(report)
}

/// Checks a file without a name that this process writes and closes while the other one only reads it: `gc`
/// announces its removal, and the other process objects.
fn doomed(fs: &SqliteFs, other: &mut Worker) -> Proven<()> {
    block_on(fs.commit(Batch::new([write("/theirs", "before;")?])))?;
    other.ask("hold /theirs")?;
    let ours = block_on(fs.open(&at("/theirs")?))?;
    block_on(fs.commit(Batch::new([remove("/theirs")?])))?;
    let late = Op::append(ours.ino(), "after;").must_exist();
    block_on(fs.commit(Batch::new([late])))?;
    drop(ours);
    block_on(fs.sync())?;
    for (grace, step) in [(Duration::from_secs(600), "said"), (Duration::ZERO, "asked")] {
        let collected = block_on(fs.gc(grace))?;
        hold(collected.versions == 0, || format!("{step}: gc removes {collected:?}"))?;
        let seen = other.ask("held-read")?;
        hold(seen == "before;after;", || format!("{step}: the other process holds `{seen}` after gc"))?;
        other.ask("renew")?;
    }
    other.ask("release")?;
    let collected = block_on(fs.gc(Duration::ZERO))?;
    hold(collected.versions == 1, || format!("of a file that nobody holds gc removes {collected:?}"))?;
    sound(fs)
}

/// A version: file, commit, content.
type Kept = (String, Seq, String);

/// Creates versions of files, some of them removed, with snapshots in between.
async fn history(fs: &SqliteFs, files: u64, seed: u64) -> Proven<Vec<Kept>> {
    let mut random = Random::new(seed);
    let mut kept = Vec::new();
    for round in 0..4 {
        for file in 0..files {
            let name = format!("/f{file}");
            let commit = match random.below(3) {
                0 if round > 0 => fs.commit(Batch::new([append(&name, format!("more {round}"))?])).await?,
                _ => fs.commit(Batch::new([write(&name, format!("{file} in round {round}"))?])).await?,
            };
            kept.push((name.clone(), commit.seq, read(fs, &name).await?));
        }
        fs.commit(Batch::new([Op::snapshot(format!("round-{round}-end"))])).await?;
    }
    for file in 1..files / 2 {
        fs.commit(Batch::new([remove(&format!("/f{file}"))?])).await?;
    }
    Ok(kept)
}

/// Checks that every version and every snapshot is unchanged.
async fn check(fs: &SqliteFs, kept: &[Kept]) -> Proven<()> {
    for (file, seq, text) in kept {
        let then = fs.as_of(&Moment::Seq(*seq)).await?;
        hold(read(&*then, file).await? == *text, || format!("{file} was other bytes after commit {seq}"))?;
        let page = HistoryPage::default().before_commit(Seq(seq.0 + 1)).limit(1);
        let versions = fs.history(&at(file)?, &page).await?.items;
        let id = versions.first().map(|version| version.id).filter(|id| id.seq == *seq);
        let id = id.ok_or_else(|| Broken::because(format!("{file} has lost its version of commit {seq}")))?;
        let bytes = fs.open_version(id).await?.read_at(0, 1 << 20).await?;
        hold(bytes == text.as_bytes(), || format!("version {id} is other bytes"))?;
    }
    let snapshots = fs.snapshots(&SnapshotsPage::default()).await?.items;
    hold(snapshots.len() == 4, || format!("the snapshots are {snapshots:?}"))?;
    for snapshot in snapshots {
        read(&*fs.as_of(&Moment::Snapshot(snapshot.name)).await?, "/f1").await?;
    }
    Ok(())
}

struct Uploads {
    used: garth_engine::model::StagedBody,
    unused: garth_engine::model::StagedBody,
    abandoned: Box<dyn garth_engine::Upload>,
}

/// Starts one upload that waits for its commit, one that nobody will use, and one that never ends.
async fn uploads(fs: &Arc<SqliteFs>) -> Proven<Uploads> {
    let mut begun = Vec::new();
    for seed in [11, 12, 13] {
        let mut upload = fs.stage(&at("/upload")?).await?;
        upload.write(Bytes::from(content(seed, 0, 3_000_000))).await?;
        begun.push(upload);
    }
    let mut begun = begun.into_iter();
    let (Some(used), Some(unused), Some(abandoned)) = (begun.next(), begun.next(), begun.next()) else {
        return Err(Broken::because("three uploads are three"));
    };
    Ok(Uploads { used: used.finish().await?, unused: unused.finish().await?, abandoned })
}
