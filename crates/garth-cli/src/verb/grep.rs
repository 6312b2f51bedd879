//! `garth grep`: lines by regular expression, in bounded memory.

use std::sync::Arc;

use clap::Args;
use futures::TryStreamExt;
use garth::fs::resolve::Follow;
use garth::model::{At, ByteRange, Kind};
use garth::{Error, ErrorKind, FileSystem, TreePath, stream};
use regex::bytes::{Regex, RegexBuilder};
use serde_json::json;

use crate::app::App;
use crate::args::Past;
use crate::escape::escaped;
use crate::fail::{Failure, Failures, Result};
use crate::out::base64;
use crate::walk::Walker;

/// Longest line that is searched, in bytes. 16 MiB.
const MAX_LINE: usize = 16 << 20;

/// Find lines by regular expression, in a file or everything below a directory
///
/// Links below the directory are not followed; of a binary file only its path is shown. With --json one object
/// a line (path, line, text; base64 if it is not UTF-8) or, for a binary file and with -l, one a file (path,
/// binary). The exit code is 1 if nothing matches, as with grep.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth grep -n 'TODO|FIXME' /projects")]
pub(crate) struct Grep {
    /// The expression (syntax of the Rust `regex` crate)
    regex: String,
    /// Where to look
    #[arg(default_value = "/")]
    path: String,
    /// Ignore case
    #[arg(short, long)]
    ignore_case: bool,
    /// Show only the paths of files that match
    #[arg(short = 'l', long)]
    files_with_matches: bool,
    /// Show line numbers
    #[arg(short = 'n', long)]
    line_number: bool,
    #[command(flatten)]
    past: Past,
}

impl Grep {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let regex = RegexBuilder::new(&self.regex).case_insensitive(self.ignore_case).build();
        let regex = regex.map_err(|error| Failure::Usage(error.to_string()))?;
        let fs = app.pinned(&self.past).await?;
        let mut walker = Walker::new(Arc::clone(&fs), &self.path, Follow::Yes, true).await?;
        let mut failures = Failures::default();
        let (mut first, mut single, mut any) = (true, false, false);
        while let Some((path, entry)) = walker.next().await? {
            single |= first && entry.kind != Kind::Directory;
            first = false;
            if entry.kind != Kind::File {
                continue;
            }
            let found = self.file(app, &*fs, &path, &regex, single).await;
            let outcome = found.map(|found| any |= found);
            failures.add(outcome, app.global.json)?;
        }
        failures.done()?;
        if any { Ok(()) } else { Err(Failure::Reported(1)) }
    }

    /// Searches one file; gives whether anything matched.
    async fn file(
        &self,
        app: &mut App,
        fs: &dyn FileSystem,
        path: &TreePath,
        regex: &Regex,
        single: bool,
    ) -> Result<bool> {
        let file = fs.open(&At::Path(path.clone())).await?;
        let mut chunks = std::pin::pin!(stream(file, ByteRange::ALL));
        let mut lines = Lines::default();
        let mut found = false;
        loop {
            let chunk = chunks.try_next().await?;
            let end = chunk.is_none();
            lines.add(chunk.as_deref().unwrap_or_default());
            while let Some(line) = lines.next(end) {
                if !regex.is_match(lines.text(&line)) {
                    continue;
                }
                found = true;
                if self.files_with_matches || lines.binary {
                    self.whole(app, path, lines.binary)?;
                    return Ok(true);
                }
                self.line(app, path, line.number, lines.text(&line), single)?;
            }
            if end {
                return Ok(found);
            }
            if lines.waiting() > MAX_LINE {
                let message = format!("a line has more than {MAX_LINE} bytes; not searched from there on");
                return Err(Error::at(ErrorKind::TooLarge, path, message).into());
            }
        }
    }

    fn whole(&self, app: &mut App, path: &TreePath, binary: bool) -> Result {
        let json = json!({"path": path.as_str(), "binary": binary});
        let shown = escaped(path.as_str());
        if binary && !self.files_with_matches {
            return app.out.item(&json, format_args!("binary file matches: {shown}"));
        }
        app.out.item(&json, shown)
    }

    fn line(&self, app: &mut App, path: &TreePath, number: u64, line: &[u8], single: bool) -> Result {
        let json = match std::str::from_utf8(line) {
            Ok(text) => json!({"path": path.as_str(), "line": number, "text": text}),
            Err(_) => json!({"path": path.as_str(), "line": number, "base64": base64(line)}),
        };
        let path = if single { String::new() } else { format!("{}:", escaped(path.as_str())) };
        let number = if self.line_number { format!("{number}:") } else { String::new() };
        app.out.item(&json, format_args!("{path}{number}{}", plain(&String::from_utf8_lossy(line))))
    }
}

/// A line for the terminal: control characters escaped, tabs kept.
fn plain(text: &str) -> String {
    let parts: Vec<_> = text.split('\t').map(escaped).collect();
    parts.join("\t")
}

/// One line: its number, and where it is in the buffer, without its end.
struct Line {
    number: u64,
    start: usize,
    end: usize,
}

/// Cuts what streams in into lines. A file with a NUL is binary; there NUL ends a line too, so that none grows
/// long.
#[derive(Default)]
struct Lines {
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    number: u64,
    binary: bool,
}

impl Lines {
    fn add(&mut self, chunk: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.binary |= chunk.contains(&0);
        self.buffer.extend_from_slice(chunk);
    }

    /// The next line; at the `end`, also one that nothing ends.
    fn next(&mut self, end: bool) -> Option<Line> {
        let rest = &self.buffer[self.start..];
        let length = rest.iter().position(|byte| *byte == b'\n' || (self.binary && *byte == 0));
        let (length, skip) = match length {
            Some(length) => (length, 1),
            None if end && !rest.is_empty() => (rest.len(), 0),
            None => return None,
        };
        let start = self.start;
        let end = start + rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]).len();
        self.start += length + skip;
        self.number += 1;
        Some(Line { number: self.number, start, end })
    }

    /// The bytes of a line; good until bytes are added.
    fn text(&self, line: &Line) -> &[u8] {
        &self.buffer[line.start..line.end]
    }

    /// Bytes of a line whose end has not come yet.
    fn waiting(&self) -> usize {
        self.buffer.len() - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&str]) -> Vec<(u64, String)> {
        let mut lines = Lines::default();
        let mut all = Vec::new();
        for (at, chunk) in chunks.iter().chain([&""]).enumerate() {
            lines.add(chunk.as_bytes());
            while let Some(line) = lines.next(at == chunks.len()) {
                all.push((line.number, String::from_utf8(lines.text(&line).to_vec()).expect("text")));
            }
        }
        all
    }

    #[test]
    fn lines_are_whole_however_they_stream_in() {
        let whole = vec![(1, "one".to_owned()), (2, String::new()), (3, "three".to_owned())];
        assert_eq!(lines(&["one\n\nthree"]), whole);
        assert_eq!(lines(&["o", "ne\r\n", "\nth", "ree\n"]), whole);
        assert_eq!(lines(&[]), Vec::new());
    }

    #[test]
    fn nul_ends_a_line_of_a_binary_file() {
        assert_eq!(lines(&["a\0b\nc"]).len(), 3);
    }
}
