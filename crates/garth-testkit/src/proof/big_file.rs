//! File far larger than the memory that may be used for it: streamed in and out, changed in the middle,
//! compared with a generator that knows every byte. The process is a separate one, whose peak memory the
//! kernel reports.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{Batch, Body, ByteRange, Moment, Op};
use garth_engine::{Env, FileSystem};

use super::{About, Broken, Proof, Proven, Report, Setting, account, at, hold, peak_memory, run};
use crate::data::random::Random;
use crate::reference::file_content::{Expected, content};

/// Limit on the peak memory of the process, in bytes.
pub const MOST_MEMORY: u64 = 64 << 20;
/// Bytes of one write of an upload; not a multiple of a chunk.
const STEP: usize = 700_001;
/// Ranges read at random and compared.
const RANGES: u64 = 300;

/// File that is larger than the memory of the process that writes and reads it. The size is in MiB.
#[derive(Clone, Copy, Debug)]
pub struct BigFile;

impl Proof for BigFile {
    fn about(&self) -> About {
        About {
            name: "big-file",
            claim: "A large file is written, changed and read by stream in little memory.",
            full: 1_024,
            ci: 96,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        big_file(setting.folder, &setting.worker(), setting.size << 20, setting.seed)
    }
}

/// Has a worker (`binary` is `proof-worker`) write, change and read a file of `size` bytes in `folder`.
///
/// # Errors
/// A byte that differs, or more memory than [`MOST_MEMORY`].
fn big_file(folder: &Path, binary: &Path, size: u64, seed: u64) -> Proven<Report> {
    let place = folder.to_str().ok_or_else(|| Broken::because("the folder's path is not UTF-8"))?;
    let out = std::process::Command::new(binary)
        .args(["big-file", place, &size.to_string(), &seed.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let numbers: Vec<u64> = said.trim().split(' ').filter_map(|number| number.parse().ok()).collect();
    let [peak, compared] = numbers[..] else {
        return Err(Broken::because(format!("{said}{}", String::from_utf8_lossy(&out.stderr))));
    };
    let report = Report::of(["bytes written", "bytes compared", "bytes of peak memory"])
        .with("bytes written", size)
        .with("bytes compared", compared)
        .with("bytes of peak memory", peak);
    hold(peak < MOST_MEMORY, || format!("too much memory: {report}"))?;
    Ok(report)
}

/// Writes, changes and reads the file, in the worker. Returns the line to print: `peak compared`.
pub(crate) fn write_and_read(folder: &Path, size: u64, seed: u64) -> Proven<String> {
    let fs = account(folder, Env::system())?;
    let compared = run(changes(&fs, size, seed))?;
    Ok(format!("{} {compared}", peak_memory()?))
}

async fn changes(fs: &Arc<SqliteFs>, size: u64, seed: u64) -> Proven<u64> {
    let (mut random, mut file) = (Random::new(seed), Expected::default());
    let upload = |length, seed| async move {
        let mut upload = fs.stage(&at("/big")?).await?;
        let mut sent = 0;
        while sent < length {
            let step = STEP.min((length - sent) as usize);
            upload.write(Bytes::from(content(seed, sent, step))).await?;
            sent += step as u64;
        }
        Proven::Ok(Body::Staged(upload.finish().await?))
    };
    file.write(0, size, seed);
    let body = upload(size, seed).await?;
    fs.commit(Batch::new([super::write("/big", body)?])).await?;
    let mut compared = compare(fs, &file).await? + ranges(&**fs, &file, &mut random).await?;
    // Compared again at the end, when the current file shares only some of the content.
    let whole = (fs.head().await?.seq, file.clone());

    let mut ops = Vec::new();
    for n in 1..20 {
        let (offset, length) = (random.below(size), 1 + random.below(300_000));
        file.write(offset, length, seed + n);
        ops.push(Op::patch(at("/big")?, offset, content(seed + n, 0, length as usize)));
    }
    fs.commit(Batch::new(ops)).await?;
    let (middle, long) = (size / 2 - 12_345, size / 8);
    file.write(middle, long, seed + 50);
    let body = upload(long, seed + 50).await?;
    fs.commit(Batch::new([Op::patch(at("/big")?, middle, body)])).await?;
    compared += ranges(&**fs, &file, &mut random).await?;

    let less = size - size / 10 - 7;
    file.truncate(less);
    fs.commit(Batch::new([Op::truncate(at("/big")?, less)])).await?;
    // The bytes after the new end must read as zeros, not as those that were cut off.
    file.truncate(less + 3_000_000);
    fs.commit(Batch::new([Op::truncate(at("/big")?, less + 3_000_000)])).await?;
    let end = file.size();
    file.write(end, 5_000_001, seed + 60);
    fs.commit(Batch::new([super::append("/big", content(seed + 60, 0, 5_000_001))?])).await?;
    compared += compare(fs, &file).await? + ranges(&**fs, &file, &mut random).await?;

    let (seq, then) = whole;
    let past = fs.as_of(&Moment::Seq(seq)).await?;
    compared += ranges(&*past, &then, &mut random).await?;
    Ok(compared)
}

/// Streams the complete file and compares it.
async fn compare(fs: &Arc<SqliteFs>, file: &Expected) -> Proven<u64> {
    let handle = fs.open(&at("/big")?).await?;
    let mut bytes = std::pin::pin!(handle.stream(ByteRange::ALL));
    let mut offset = 0;
    while let Some(step) = bytes.try_next().await? {
        hold(step == file.read(offset, step.len()), || format!("other bytes from {offset} on"))?;
        offset += step.len() as u64;
    }
    hold(offset == file.size(), || format!("the stream ends at {offset}, not at {}", file.size()))?;
    Ok(offset)
}

async fn ranges(fs: &dyn FileSystem, file: &Expected, random: &mut Random) -> Proven<u64> {
    let mut compared = 0;
    for _ in 0..RANGES {
        // Some ranges begin or end after the end of the file.
        let (offset, length) = (random.below(file.size() + 1000), random.below(200_000));
        let bytes = fs.read(&at("/big")?, ByteRange { offset, length }).await?;
        hold(bytes == file.read(offset, length as usize), || {
            format!("other bytes within {offset} and {length} more")
        })?;
        compared += bytes.len() as u64;
    }
    Ok(compared)
}
