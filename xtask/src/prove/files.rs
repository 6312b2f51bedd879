//! What one file can take: many appenders, many writers that each want to be the next, and a size far above memory.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::TryStreamExt;
use garth::engine::sqlite::SqliteFs;
use garth::model::At;
use garth::model::batch::{Batch, Body, Create, Op, Precondition, SetAttrs};
use garth::model::query::{ByteRange, HistoryPage, MAX_PAGE};
use garth::{Env, ErrorKind, FileSystem, FileSystemExt, TreePath};

/// Writers at once.
const WRITERS: u64 = 64;
/// Bytes of an appended line, its end included.
const LINE: u64 = 200;
/// Bytes of a piece of the large file.
const PIECE: u64 = 1 << 20;
/// Ranges compared.
const RANGES: u64 = 1_000;
/// Longest range, in bytes.
const LONGEST: u64 = 256 << 10;

/// Appends lines from all writers at once; reads every version.
pub(super) fn appenders(appends: u64) -> Result<()> {
    let (folder, fs, file) = fresh()?;
    block_on(async {
        let each = appends.div_ceil(WRITERS);
        let tasks = (0..WRITERS).map(|writer| {
            let (fs, file) = (fs.clone(), file.clone());
            tokio::spawn(async move {
                for number in 0..each {
                    fs.append(&file, line(writer, number).into()).await?;
                }
                Ok::<_, garth::Error>(())
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await??;
        }
        let (count, at) = (each * WRITERS, At::Path(file));
        let text = fs.read(&at, ByteRange::ALL).await?;
        let mut next = [0; WRITERS as usize];
        for line_there in text.chunks(LINE as usize) {
            let writer =
                std::str::from_utf8(line_there)?.split_once(' ').context("a line")?.0.parse::<u64>()?;
            let number = &mut next[usize::try_from(writer)?];
            ensure!(
                line_there == line(writer, *number).as_bytes(),
                "line {number} of writer {writer} is not next"
            );
            *number += 1;
        }
        ensure!(next.iter().all(|&lines| lines == each), "lines are missing");
        let versions = versions(&fs, &at, &text).await?;
        ensure!(versions == count, "{versions} versions of {count} appends");
        ensure!(fs.fsck()?.findings.is_empty(), "fsck has findings");
        println!(
            "{count} appends of {LINE} B by {WRITERS}: none lost, {versions} versions read, fsck finds nothing"
        );
        let open = disk_use(folder.path())?;
        drop(fs);
        let closed = disk_use(folder.path())?;
        println!("{open} B on disk while open, {closed} B once closed");
        ensure!(open < 20_000_000 || count > 10_100, "10,000 appends take under 20 MB");
        Ok(())
    })
}

fn line(writer: u64, number: u64) -> String {
    format!("{writer} {number:<width$}\n", width = LINE as usize - 2 - writer.to_string().len())
}

/// Reads each version of an append-only file: its length, and the whole of what it says it is.
async fn versions(fs: &SqliteFs, at: &At, text: &Bytes) -> Result<u64> {
    let (mut count, mut page) = (0, HistoryPage { before: None, limit: MAX_PAGE });
    loop {
        let versions = fs.history(at, &page).await?;
        let Some(last) = versions.last() else { return Ok(count) };
        page.before = Some(last.commit.seq);
        for version in &versions {
            let size = version.entry.as_ref().context("each version is of the file")?.size;
            let file = fs.open_version(version.id).await?;
            let read = file.read_at(0, usize::try_from(size + 1)?).await?;
            ensure!(read == text[..usize::try_from(size)?], "version {} is not a prefix", version.id);
        }
        count += versions.len() as u64;
    }
}

/// In each round all writers want to replace the same version.
pub(super) fn cas(rounds: u64) -> Result<()> {
    let (_folder, fs, file) = fresh()?;
    block_on(async {
        let mut version = fs.write(&file, Bytes::from_static(b"start")).await?;
        for round in 0..rounds {
            let tasks = (0..WRITERS).map(|writer| {
                let (fs, at, text) = (fs.clone(), At::Path(file.clone()), format!("{round} {writer}"));
                let (create, attrs) = (Create::Never, SetAttrs::default());
                let write =
                    Op::Write { at: at.clone(), body: Body::from(text), create, parents: false, attrs };
                let preconditions = vec![(at, Precondition::Version(version))];
                tokio::spawn(async move { fs.commit(Batch { preconditions, ..Batch::new([write]) }).await })
            });
            let mut winners = Vec::new();
            for (writer, task) in tasks.collect::<Vec<_>>().into_iter().enumerate() {
                match task.await? {
                    Ok(commit) => winners.push((writer, commit.version(0))),
                    Err(error) => {
                        ensure!(error.is(ErrorKind::Conflict), "a loser is told of a conflict, not {error}");
                    }
                }
            }
            ensure!(winners.len() == 1, "{} of {WRITERS} won round {round}", winners.len());
            let content = fs.read(&At::Path(file.clone()), ByteRange::ALL).await?;
            ensure!(content == format!("{round} {}", winners[0].0), "the winner's content is there");
            version = winners[0].1;
        }
        println!("{rounds} rounds of {WRITERS} writers: one winner each, its content there");
        Ok(())
    })
}

/// Writes a file by stream, reads it back by stream, then ranges of it.
pub(super) fn big(mib: u64, seed: u64) -> Result<()> {
    let (_folder, fs, file) = fresh()?;
    block_on(async {
        let mut upload = fs.stage().await?;
        for piece in 0..mib {
            upload.write(content(piece * PIECE, PIECE)).await?;
        }
        let (at, body) = (At::Path(file), Body::Staged(upload.finish().await?));
        let (create, attrs) = (Create::New, SetAttrs::default());
        fs.apply(Op::Write { at: at.clone(), body, create, parents: false, attrs }).await?;
        let handle = fs.open(&at).await?;
        let pieces = garth::stream(handle.clone(), ByteRange::ALL).map_err(anyhow::Error::from);
        let read = pieces.try_fold(0, |offset, piece| async move {
            ensure!(piece == content(offset, piece.len() as u64), "bytes from {offset} differ");
            Ok(offset + piece.len() as u64)
        });
        ensure!(read.await? == mib * PIECE, "all of it comes back");
        for range in 0..RANGES {
            let offset = mix(seed ^ (range << 32)) % (mib * PIECE);
            let length = (1 + mix(offset ^ seed) % LONGEST).min(mib * PIECE - offset);
            let read = handle.read_at(offset, usize::try_from(length)?).await?;
            ensure!(read == content(offset, length), "the range of {length} bytes from {offset} differs");
        }
        let peak = peak_kib()? / 1024;
        println!(
            "{mib} MiB written and read by stream, {RANGES} ranges equal, {peak} MiB of memory at the peak"
        );
        ensure!(peak < 64, "memory stays under 64 MiB");
        Ok(())
    })
}

/// What the file holds, worked out for any place: 8 bytes for each number, in order, mixed.
fn content(offset: u64, length: u64) -> Bytes {
    let words = offset / 8..(offset + length).div_ceil(8);
    let bytes: Vec<u8> = words.flat_map(|word| mix(word).to_le_bytes()).collect();
    let skip = (offset % 8) as usize;
    Bytes::from(bytes).slice(skip..skip + length as usize)
}

/// The mixing step of splitmix64 (Steele, Lea and Flood, 2014).
fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn fresh() -> Result<(tempfile::TempDir, Arc<SqliteFs>, TreePath)> {
    let folder = tempfile::tempdir()?;
    let fs = SqliteFs::open(folder.path(), Env::system())?;
    Ok((folder, fs, TreePath::parse("/file")?))
}

fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(future)
}

/// Bytes of all files in a folder, with all below it.
fn disk_use(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        sum += if about.is_dir() { disk_use(&entry.path())? } else { about.len() };
    }
    Ok(sum)
}

/// `VmHWM` of this process: most memory it held at once, in KiB.
fn peak_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("needs Linux's /proc")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in /proc")?;
    line.trim().trim_end_matches("kB").trim().parse().context("VmHWM is a number")
}
