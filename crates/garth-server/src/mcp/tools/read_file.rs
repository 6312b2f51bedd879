//! The tool `read_file`: lines of a text file.

mod window;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use garth_engine::compute::working;
use garth_engine::fs::OpenFile;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{At, ByteRange, Entry, Moment, VersionId};
use garth_engine::{ErrorKind, FileSystem, TreePath};
use schemars::JsonSchema;
use serde::Serialize;

use self::window::{CutLine, Window};
use super::answer::{ToolAnswer, bytes};
use super::past::fetch_version;
use super::paths::{place, shown, text_path};
use super::versions::version;
use crate::errors::Refusal;
use crate::fields::{MAX_INTEGER, fields, integer, string_of};
use crate::routes::call::Call;

/// Bytes that are read at once.
const STEP: usize = 256 << 10;
/// Limit on the bytes that are read to find a line, 64 MiB.
const MAX_SCANNED: u64 = 64 << 20;
/// Limit on the lines of an answer.
const MAX_LINES: u64 = 2000;
/// Size from which the answer also links to the complete file, in bytes.
const LARGE: u64 = 1 << 20;

fields! {
    /// Reads a text file as numbered lines, up to 16 KiB at once; lines over 2,000 bytes are cut. A cut
    /// answer says how to continue. Returns the version, for if_version. Other files come as a link.
    pub(crate) struct ReadFileFields<'a> {
        /// Path, such as /notes/a.md.
        path: Cow<'a, str> = string_of("path");
        /// First line.
        offset: u64 = integer(1, MAX_INTEGER), or 1;
        /// Bytes to skip in that line.
        column: usize = integer(0, MAX_INTEGER), or 0;
        /// Number of lines.
        limit: u64 = integer(1, MAX_LINES), or MAX_LINES;
        /// Earlier version.
        version: Option<Cow<'a, str>> = string_of("version");
    }
}

/// Runs the tool.
pub(super) async fn read_file(
    fs: &Arc<dyn FileSystem>,
    call: &Call<'_>,
    fields: ReadFileFields<'_>,
) -> Result<ToolAnswer, Refusal> {
    let version = version("version", fields.version.as_deref())?;
    let past = match version {
        Some(version) => Some(fs.as_of(&Moment::Seq(version.seq)).await?),
        None => None,
    };
    let (now, fs) = (&**fs, past.as_deref().unwrap_or(&**fs));
    let first = ByteRange { offset: 0, length: STEP as u64 };
    let asked = place(call, &fields.path, text_path).await?;
    let (path, entry, start) = match version {
        Some(version) => fetch_version((now, fs), &asked, version, first).await?,
        None => {
            let found = resolve::retry(fs, &asked, Follow::Yes, |path| async move {
                let (entry, bytes) = fs.fetch(&At::from(&path), first).await?;
                Ok((path, entry, bytes))
            });
            found.await?
        }
    };
    if !is_text(&start) {
        return binary(&path, &entry);
    }
    let lines = (start.len() as u64 == entry.size).then(|| line_count(&start));
    let window = Window::new(&header(&path, &entry), fields.offset, fields.limit);
    let mut window = window.skipping(fields.column);
    scan(fs, &path, &entry, start, &mut window).await?;
    let read = window.scanned();
    let is_cut_short = !window.has_more() && read < entry.size;
    if window.is_empty() && entry.size > 0 && !is_cut_short {
        let message = format!("\"offset\" is after the end: {path} has {} lines", window.lines());
        return Err(Refusal::validation(message));
    }
    let next = window.next();
    if is_cut_short {
        let scanned = bytes(read);
        window.end_with(&format!(
            "The rest is not read as lines, which end at {scanned}; read the linked file."
        ));
    } else if let Some(next) = next {
        let last = lines.map(|lines| format!(", to line {lines}")).unwrap_or_default();
        window.end_with(&format!("There is more{last}: continue with offset = {next}."));
    } else if entry.size == 0 {
        window.end_with("The file is empty.");
    }
    let cut_lines = window.take_cut_lines();
    let is_linked = is_cut_short || !cut_lines.is_empty() || (entry.size >= LARGE && next.is_some());
    let (text, content) = window.into_texts();
    let read = FileRead {
        path: &path,
        version: entry.etag,
        size: entry.size,
        content: Some(content),
        truncated: is_cut_short || !cut_lines.is_empty() || next.is_some(),
        cut_lines,
        next_offset: next,
    };
    let answer = ToolAnswer::new(text, &read)?;
    Ok(if is_linked { answer.link(&path, &entry) } else { answer })
}

fn header(path: &TreePath, entry: &Entry) -> String {
    format!("{}  {}  version {}", shown(path.as_str()), bytes(entry.size), entry.etag)
}

/// Returns the number of lines of a text.
fn line_count(text: &[u8]) -> u64 {
    working(text.len());
    text.split_inclusive(|byte| *byte == b'\n').count() as u64
}

/// Reads a file, of which `start` is the beginning, until the window is full.
async fn scan(
    fs: &dyn FileSystem,
    path: &TreePath,
    entry: &Entry,
    start: Bytes,
    window: &mut Window,
) -> Result<(), Refusal> {
    let (mut bytes, mut file) = (start, None::<Arc<dyn OpenFile>>);
    while !bytes.is_empty() {
        working(bytes.len());
        window.feed(&bytes);
        if window.has_more() || window.scanned() >= entry.size.min(MAX_SCANNED) {
            break;
        }
        let opened = match file {
            Some(opened) => opened,
            None => open(fs, path, entry).await?,
        };
        bytes = opened.read_at(window.scanned(), STEP).await?;
        file = Some(opened);
    }
    window.end();
    Ok(())
}

/// Opens the version of a file; the file itself in a tree without versions.
async fn open(fs: &dyn FileSystem, path: &TreePath, entry: &Entry) -> Result<Arc<dyn OpenFile>, Refusal> {
    match fs.open_version(entry.version).await {
        Err(error) if error.is(ErrorKind::Unsupported) => Ok(fs.open(&At::from(path)).await?),
        opened => Ok(opened?),
    }
}

/// Returns true if the beginning of a file is UTF-8 without NUL. It may end within a character.
fn is_text(bytes: &[u8]) -> bool {
    let is_utf8 = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    is_utf8 && !bytes.contains(&0)
}

/// Returns the answer for a file that is not text.
fn binary(path: &TreePath, entry: &Entry) -> Result<ToolAnswer, Refusal> {
    let text = format!("{}\nThis is not text: read it by the link.", header(path, entry));
    let (version, size) = (entry.etag, entry.size);
    let read = FileRead {
        path,
        version,
        size,
        content: None,
        truncated: false,
        cut_lines: Vec::new(),
        next_offset: None,
    };
    Ok(ToolAnswer::new(text, &read)?.link(path, entry))
}

/// Structured answer.
#[derive(Serialize, JsonSchema)]
pub(super) struct FileRead<'a> {
    path: &'a TreePath,
    version: VersionId,
    size: u64,
    /// Lines without numbers; none of a file that is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// True if `content` lacks a part of the file after the offset.
    truncated: bool,
    /// Lines of `content` that are cut, each with the column at which its rest begins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cut_lines: Vec<CutLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
}
