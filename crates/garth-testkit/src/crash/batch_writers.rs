//! Workload of batches: writers in a child process that commit two files at once directly to the engine,
//! which HTTP has no request for. The child reports acknowledgements on stdout and, started again, the data
//! that it reads.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use futures::future::try_join_all;
use garth_engine::model::{
    At, Batch, Body, ByteRange, Commit, HistoryPage, Ino, Kind, MAX_PAGE, Op, SetAttrs, VersionId, WalkPage,
};
use garth_engine::{ErrorKind, FileSystem, TreePath};
use serde::{Deserialize, Serialize};

use super::attempts::{Attempt, WRITERS, Workload, top};
use super::crash_moment::{Moment, Phase};
use super::journal::{Acknowledged, Journal, Observed, Seen};
use super::kill::kill;

/// Files of a batch.
pub(super) const FILES: u32 = 2;

/// Longer values are staged first, in bytes, so that a crash may come between the upload and its commit.
const STAGED: usize = 64 << 10;

/// A line of the child on stdout.
#[derive(Debug, Deserialize, Serialize)]
enum Line {
    /// The tree is open; the writers start.
    Ready,
    /// The next batch of the writer is acknowledged.
    Acknowledged { writer: u32, versions: Vec<String> },
    /// A batch failed; the writer stops.
    Failed { writer: u32, why: String },
    /// A file and its versions, newest first.
    Seen { path: String, current: Option<String>, versions: Vec<(String, String)> },
}

type Done<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Runs in the child: writes batches until it is killed. A writer starts the next batch only after the line
/// of the last one is printed. Engines may block the thread, so each writer has one.
///
/// # Errors
/// If stdout is closed.
pub fn write_until_killed(fs: &Arc<dyn FileSystem>, seed: u64, round: u32) -> Done<()> {
    tell(&Line::Ready)?;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let fs = fs.clone();
            thread::spawn(move || -> Done<()> {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(write_as(fs.as_ref(), Workload { seed, files: FILES }, round, writer))
            })
        })
        .collect();
    for writer in writers {
        writer.join().map_err(|_| "a writer panicked")??;
    }
    Ok(())
}

async fn write_as(fs: &dyn FileSystem, workload: Workload, round: u32, writer: u32) -> Done<()> {
    for n in 1.. {
        let attempt = Attempt { round, writer, n };
        let value = workload.value(attempt);
        let commit = match commit(fs, &workload.paths(attempt), &value).await {
            Ok(commit) => commit,
            Err(error) => return tell(&Line::Failed { writer, why: format!("{attempt}: {error}") }),
        };
        let versions = (0..FILES as usize).map(|file| commit.version(file).to_string()).collect();
        // Printed only after the commit has returned, so that a printed line is an acknowledgement.
        tell(&Line::Acknowledged { writer, versions })?;
    }
    Ok(())
}

async fn commit(fs: &dyn FileSystem, paths: &[String], value: &str) -> garth_engine::Result<Commit> {
    let mut ops = Vec::new();
    for path in paths {
        let at = At::Path(TreePath::parse(path)?);
        let body = if value.len() > STAGED {
            let mut upload = fs.stage(&at).await?;
            upload.write(Bytes::copy_from_slice(value.as_bytes())).await?;
            Body::Staged(upload.finish().await?)
        } else {
            Body::from(value.to_owned())
        };
        // Attributes have index rows, which must survive together with the content.
        let marks = SetAttrs::new().tags(["written"]).metadata("length", value.len().to_string());
        ops.push(Op::write(at, body).with_parents().with_attrs(marks));
    }
    // The negative control commits the files of a batch one by one.
    if !splits_batches() {
        return fs.commit(Batch::new(ops)).await;
    }
    let mut commits = Vec::new();
    for op in ops {
        commits.push(fs.commit(Batch::new([op])).await?);
    }
    let outcomes = commits.iter().flat_map(|commit| commit.outcomes.clone()).collect();
    let mut last = commits
        .pop()
        .ok_or_else(|| garth_engine::Error::new(ErrorKind::InvalidArgument, "nothing to write"))?;
    last.outcomes = outcomes;
    Ok(last)
}

/// Returns true if this process is the negative control that commits a batch one operation at a time.
fn splits_batches() -> bool {
    std::env::var_os("GARTH_FAULT").is_some_and(|fault| fault == "split-batch")
}

/// Runs in the child: prints every file below the directory of a round, with its complete history.
///
/// # Errors
/// Errors of the filesystem.
pub async fn read_all(fs: &dyn FileSystem, round: u32) -> Done<()> {
    let top = At::Path(TreePath::parse(&top(round))?);
    let mut page = WalkPage::default().limit(MAX_PAGE);
    loop {
        let walk = match fs.walk(&top, &page).await {
            // The crash came before the first commit.
            Err(error) if error.is(ErrorKind::NotFound) => return Ok(()),
            other => other?,
        };
        for item in walk.items.iter().filter(|item| item.kind == Kind::File) {
            tell(&see(fs, &item.path).await?)?;
        }
        page.after = walk.items.last().map(|item| item.path.clone());
        if !walk.more {
            return Ok(());
        }
    }
}

async fn see(fs: &dyn FileSystem, path: &TreePath) -> Done<Line> {
    let at = At::Path(path.clone());
    let current = text(fs.read(&at, ByteRange::ALL).await?.to_vec());
    let history = fs.history(&at, &HistoryPage::default().limit(MAX_PAGE)).await?;
    let read = |id: VersionId| async move {
        let file = fs.open_version(id).await?;
        let size = usize::try_from(file.stat().await?.size)?;
        Done::Ok((id.to_string(), text(file.read_at(0, size).await?.to_vec())))
    };
    let versions =
        try_join_all(history.items.iter().filter(|version| version.id.ino != Ino::NONE).map(|v| read(v.id)))
            .await?;
    Ok(Line::Seen { path: path.to_string(), current: Some(current), versions })
}

/// Returns bytes as text. Bytes that are not UTF-8 are no value either, and the check reports them.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| format!("not UTF-8: {e}"))
}

/// Prints a line in one write, so that a kill never leaves half a line before another.
#[expect(clippy::disallowed_methods, reason = "a process reads it, not a person")]
fn tell(line: &Line) -> Done<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    Ok(std::io::stdout().lock().write_all(&text)?)
}

/// Runs in the harness: starts the writers.
pub(super) fn start(
    mut command: Command,
    data: &Path,
    workload: Workload,
    round: u32,
    moment: &Arc<Moment>,
) -> Result<(Child, Reader), String> {
    let mut child = spawn(&mut command, "write", data, workload, round)?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("the writer has no stdout")?);
    match next(&mut lines)? {
        Some(Line::Ready) => {}
        other => {
            kill(&mut child);
            return Err(format!("the writer did not start: it said {other:?}"));
        }
    }
    let moment = moment.clone();
    Ok((child, Reader(thread::spawn(move || read_journal(lines, &moment)))))
}

/// Runs in the harness: reads the data.
pub(super) fn observe(
    mut command: Command,
    data: &Path,
    workload: Workload,
    round: u32,
) -> Result<Observed, String> {
    let mut child = spawn(&mut command, "read", data, workload, round)?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("the reader has no stdout")?);
    let mut observed = Observed::new();
    while let Some(line) = next(&mut lines)? {
        let Line::Seen { path, current, versions } = line else { continue };
        let versions = versions.into_iter().map(|(id, value)| Ok((id.parse()?, value)));
        let versions = versions.collect::<garth_engine::Result<_>>().map_err(|e| e.to_string())?;
        observed.insert(path, Seen { current, versions });
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    if status.success() {
        Ok(observed)
    } else {
        Err(format!("the tree cannot be read after the crash: {status}"))
    }
}

fn spawn(
    command: &mut Command,
    verb: &str,
    data: &Path,
    workload: Workload,
    round: u32,
) -> Result<Child, String> {
    command.arg(verb).arg(data).arg(workload.seed.to_string()).arg(round.to_string());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start {} ({e})", command.get_program().display()))
}

fn next(lines: &mut BufReader<ChildStdout>) -> Result<Option<Line>, String> {
    let mut line = String::new();
    lines.read_line(&mut line).map_err(|e| e.to_string())?;
    if !line.ends_with('\n') {
        // The end, or a line that the kill has cut off and that therefore acknowledges nothing.
        return Ok(None);
    }
    serde_json::from_str(&line).map(Some).map_err(|e| format!("the child said `{line:.200}`: {e}"))
}

/// Journal in progress: acknowledgements are recorded as they come in.
pub(super) struct Reader(JoinHandle<Result<Journal, String>>);

impl Reader {
    pub(super) fn journal(self) -> Result<Journal, String> {
        self.0.join().map_err(|_| "the reader panicked".to_owned())?
    }
}

fn read_journal(mut lines: BufReader<ChildStdout>, moment: &Moment) -> Result<Journal, String> {
    let mut journal = Journal::new();
    while let Some(line) = next(&mut lines)? {
        match line {
            Line::Acknowledged { writer, versions } => {
                let versions = versions.iter().map(|id| id.parse()).collect::<garth_engine::Result<_>>();
                let log = journal.writers.get_mut(writer as usize).ok_or("no such writer")?;
                let versions = versions.map_err(|e| e.to_string())?;
                // The start of the write in the child is unknown here; it counts as before the crash.
                let sure = moment.acknowledged(Phase::Working);
                log.acknowledged.push(Acknowledged { versions, sure });
            }
            // After the crash has begun, a write may fail.
            Line::Failed { writer, why } if !moment.has_come() => {
                return Err(format!("writer {writer} failed before the crash: {why}"));
            }
            Line::Ready | Line::Failed { .. } | Line::Seen { .. } => {}
        }
    }
    for writer in &mut journal.writers {
        // The next batch may have been pending.
        writer.attempted = writer.acknowledged.len() as u32 + 1;
    }
    Ok(journal)
}
