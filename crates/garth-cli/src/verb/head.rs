//! `garth head` and `garth tail`: print one end of a file, without reading the rest.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use garth_engine::OpenFile;
use garth_engine::model::ByteRange;

use crate::app::App;
use crate::args::{Past, TREE_PATH};
use crate::content;
use crate::escape::escaped;
use crate::fail::{Failure, Failures, Result};
use crate::size::parse_size;

use super::cat::open;

/// Bytes that are searched for line ends at once: the largest extent, which is read completely anyway.
const STEP: usize = 1 << 20;
/// Interval at which `tail -f` checks for more data.
const POLL: Duration = Duration::from_millis(200);

/// Print the first lines of files
///
/// `head -20` means `head -n 20`. With --json, prints one object per file: path, version, size, offset,
/// encoding and content.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth head -n 20 /logs/run.jsonl")]
pub(crate) struct Head {
    /// Files to print
    #[arg(value_hint = TREE_PATH, required = true)]
    paths: Vec<String>,
    /// Print this many lines; with `-`, all but the last COUNT
    #[arg(short = 'n', long, value_name = "[-]COUNT", default_value = "10", allow_hyphen_values = true)]
    lines: Start,
    /// Print this many bytes (512, 10k, 1M) instead of lines; with `-`, all but the last BYTES
    #[arg(short = 'c', long, value_name = "[-]BYTES", conflicts_with = "lines", allow_hyphen_values = true)]
    bytes: Option<Start>,
    /// Print no headers
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    past: Past,
}

/// Print the last lines of files
///
/// `tail -20` means `tail -n 20`. With --json, prints one object per file: path, version, size, offset,
/// encoding and content.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth tail -n 20 /logs/run.jsonl")]
pub(crate) struct Tail {
    /// Files to print
    #[arg(value_hint = TREE_PATH, required = true)]
    paths: Vec<String>,
    /// Print the last COUNT lines; with `+`, start at line COUNT
    #[arg(short = 'n', long, value_name = "[+]COUNT", default_value = "10", allow_hyphen_values = true)]
    lines: Count,
    /// Print the last BYTES bytes (512, 10k, 1M) instead of lines; with `+`, start at byte BYTES
    #[arg(short = 'c', long, value_name = "[+]BYTES", conflicts_with = "lines", allow_hyphen_values = true)]
    bytes: Option<Count>,
    /// Keep printing data as it is appended, also after the file is renamed
    #[arg(short, long, conflicts_with = "at")]
    follow: bool,
    /// Print no headers
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    past: Past,
}

/// First part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// First lines or bytes, this many.
    First(u64),
    /// All but the last lines or bytes, this many.
    AllBut(u64),
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.strip_prefix('-') {
            Some(last) => Ok(Self::AllBut(parse_size(last)?)),
            None => Ok(Self::First(parse_size(text)?)),
        }
    }
}

/// Last part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    /// Last lines or bytes, this many.
    Last(u64),
    /// Lines or bytes from this one on; the first is 1.
    From(u64),
}

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.strip_prefix('+') {
            Some(first) => Ok(Self::From(parse_size(first)?)),
            // As in tail: `-n -5` means the same as `-n 5`.
            None => Ok(Self::Last(parse_size(text.strip_prefix('-').unwrap_or(text))?)),
        }
    }
}

impl Head {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let headed = self.paths.len() > 1 && !self.quiet;
        print_each(app, &self.paths, &self.past, headed, async |file| {
            let length = match (self.bytes, self.lines) {
                (Some(Start::First(bytes)), _) => bytes,
                (Some(Start::AllBut(bytes)), _) => file.stat().await?.size.saturating_sub(bytes),
                (None, Start::First(lines)) => end_of_lines(file, lines).await?,
                (None, Start::AllBut(lines)) => start_of_last(file, file.stat().await?.size, lines).await?,
            };
            Ok(ByteRange { offset: 0, length })
        })
        .await
    }
}

impl Tail {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        if self.follow {
            return self.follow(app).await;
        }
        let headed = self.paths.len() > 1 && !self.quiet;
        print_each(app, &self.paths, &self.past, headed, async |file| self.range(file).await).await
    }

    async fn range(&self, file: &dyn OpenFile) -> garth_engine::Result<ByteRange> {
        let size = file.stat().await?.size;
        let offset = match (self.bytes, self.lines) {
            (Some(Count::Last(bytes)), _) => size.saturating_sub(bytes),
            // As in tail: `+1` is the first byte, and `+0` means the same.
            (Some(Count::From(first)), _) => first.saturating_sub(1).min(size),
            (None, Count::Last(lines)) => start_of_last(file, size, lines).await?,
            (None, Count::From(first)) => end_of_lines(file, first.saturating_sub(1)).await?,
        };
        Ok(ByteRange { offset, length: size.saturating_sub(offset) })
    }

    async fn follow(&self, app: &mut App) -> Result {
        let [path] = &self.paths[..] else {
            return Err(Failure::Usage("--follow can be used with one path only".into()));
        };
        let fs = app.tree().await?.fs;
        let (path, file) = open(&*fs, path).await?;
        let mut range = self.range(&*file).await?;
        loop {
            if range.length > 0 {
                content::print(app, Some(&path), Arc::clone(&file), range).await?;
                app.out.flush()?;
            }
            let printed = range.offset + range.length;
            // The command does nothing else, so it may block.
            app.env.sleep(POLL);
            let size = file.stat().await?.size;
            if size < printed {
                app.out.warn(format_args!("{}: file truncated", escaped(path.as_str())));
            }
            let offset = if size < printed { 0 } else { printed };
            range = ByteRange { offset, length: size - offset };
        }
    }
}

/// Prints the range of each file that `range` returns.
async fn print_each(
    app: &mut App,
    paths: &[String],
    past: &Past,
    headed: bool,
    range: impl AsyncFn(&dyn OpenFile) -> garth_engine::Result<ByteRange>,
) -> Result {
    // Pinned, so that the range and the content are of one version.
    let fs = app.pinned(past).await?;
    let mut failures = Failures::default();
    let mut first = true;
    for path in paths {
        let outcome = async {
            let (path, file) = open(&*fs, path).await?;
            let range = range(&*file).await?;
            if headed {
                let gap = if std::mem::take(&mut first) { "" } else { "\n" };
                app.out.note(format_args!("{gap}==> {} <==", escaped(path.as_str())))?;
            }
            content::print(app, Some(&path), file, range).await
        }
        .await;
        app.out.flush()?;
        failures.add(outcome, app.global.json)?;
    }
    failures.done()
}

/// Returns the end of the first `count` lines, or the end of the file if it has fewer.
async fn end_of_lines(file: &dyn OpenFile, count: u64) -> garth_engine::Result<u64> {
    let (mut left, mut offset) = (count, 0);
    while left > 0 {
        let bytes = file.read_at(offset, STEP).await?;
        if bytes.is_empty() {
            break;
        }
        let mut length = bytes.len();
        for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            left -= 1;
            if left == 0 {
                length = at + 1;
                break;
            }
        }
        offset += length as u64;
    }
    Ok(offset)
}

/// Returns the start of the last `count` lines of a file of `size` bytes, searched from its end.
async fn start_of_last(file: &dyn OpenFile, size: u64, count: u64) -> garth_engine::Result<u64> {
    if count == 0 {
        return Ok(size);
    }
    let (mut left, mut end) = (count, size);
    while end > 0 {
        let start = end.saturating_sub(STEP as u64);
        let bytes = file.read_at(start, usize::try_from(end - start).unwrap_or(STEP)).await?;
        for (at, _) in bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let next = start + at as u64 + 1;
            // A line feed at the end of the file ends the last line and begins no other.
            if next == size {
                continue;
            }
            left -= 1;
            if left == 0 {
                return Ok(next);
            }
        }
        end = start;
    }
    Ok(0)
}
