//! Passages of a file, and the text by which each is found: without the words of secrets.

use std::ops::Range;

use super::passage::readable;
use crate::text::passage::{Form, MAX, SEGMENT, border, cut};
use crate::text::secret::{self, CONTEXT, Secret};

/// Bytes before a line that tell whether a private key or a named value there may continue in it.
const LINE_END: u64 = 96;

/// Text of a file that is being indexed.
pub trait FileText {
    /// Error of the storage.
    type Error;

    /// Reads bytes of the file; fewer than requested only at its end.
    fn read(&mut self, bytes: Range<u64>) -> Result<Vec<u8>, Self::Error>;

    /// Returns true if the indexed passage that ends at `off` ends with a line feed.
    fn begins_line(&mut self, off: u64) -> Result<bool, Self::Error>;
}

/// A part of a file to be cut into passages and indexed.
#[derive(Clone, Debug)]
pub struct Region {
    /// Begins and ends at borders of passages; an open region ends anywhere.
    pub bytes: Range<u64>,
    /// Form of the file.
    pub form: Form,
    /// True if more text follows: bytes after the last cut are not indexed yet.
    pub open: bool,
    /// Size of the file, as far as search sees it.
    pub size: u64,
}

/// Passage that is being indexed.
#[derive(Clone, Debug)]
pub struct CutPassage<'a> {
    /// Offset of its first byte.
    pub off: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Text by which it is found.
    pub text: String,
}

/// Cuts a region into passages and calls `index` for each. Returns the byte after the last one. Secrets are
/// left out, recognised with [`CONTEXT`] on both sides of each passage.
///
/// # Errors
/// Errors of `file` and `index`.
pub fn each_passage<T: FileText>(
    file: &mut T,
    region: &Region,
    index: &mut dyn FnMut(CutPassage<'_>) -> Result<(), T::Error>,
) -> Result<u64, T::Error> {
    let Range { start: mut off, end } = region.bytes;
    while off < end {
        let start = off;
        let segment = segment_end(off, region.size, &mut |bytes| file.read(bytes))?;
        let known = if region.open { segment.min(end) } else { segment };
        let (held, text) = in_context(file, off..known)?;
        let secrets = secret::find(&held);
        let mut at = text.start;
        for length in cut(&held[text], known == segment, region.form) {
            if off >= end {
                break;
            }
            index(passage(off, &held, at..at + length, region.form, &secrets))?;
            at += length;
            off += length as u64;
        }
        // The next passage is not complete.
        if off == start || known < segment {
            break;
        }
    }
    Ok(off)
}

/// Calls `index` for bytes of a file as one passage.
///
/// # Errors
/// Errors of `file` and `index`.
pub fn one_passage<T: FileText>(
    file: &mut T,
    bytes: Range<u64>,
    form: Form,
    index: &mut dyn FnMut(CutPassage<'_>) -> Result<(), T::Error>,
) -> Result<(), T::Error> {
    let off = bytes.start;
    let (held, text) = in_context(file, bytes)?;
    let secrets = secret::find(&held);
    index(passage(off, &held, text, form, &secrets))
}

/// Returns a passage. `place` is its range in `held`, in which `secrets` were found.
fn passage<'a>(
    off: u64,
    held: &'a [u8],
    place: Range<usize>,
    form: Form,
    secrets: &[Secret],
) -> CutPassage<'a> {
    let bytes = &held[place.clone()];
    CutPassage { off, bytes, text: readable(&secret::blanked(bytes, secrets, place), form) }
}

/// Returns bytes of a file with those around them that decide which parts are secrets, and the range of the
/// bytes in these.
fn in_context<T: FileText>(file: &mut T, bytes: Range<u64>) -> Result<(Vec<u8>, Range<usize>), T::Error> {
    let mut held = file.read(bytes.start..bytes.end + CONTEXT as u64)?;
    let length = held.len().min((bytes.end - bytes.start) as usize);
    let before = context_before(file, bytes.start, &held)?;
    let text = before.len()..before.len() + length;
    held.splice(..0, before);
    Ok((held, text))
}

/// Returns the bytes before a region that decide about its first bytes, `first`. If the region begins a line
/// there are none, except for lines that may continue a private key or a value that is named on an earlier
/// line.
fn context_before<T: FileText>(file: &mut T, off: u64, first: &[u8]) -> Result<Vec<u8>, T::Error> {
    if off == 0 || first.is_empty() {
        return Ok(Vec::new());
    }
    let begins_line = file.begins_line(off)?;
    if begins_line && !secret::may_continue_secret(first) {
        return Ok(Vec::new());
    }
    // Otherwise, in a log of short lines, thousands of them would be read before each.
    if begins_line
        && secret::needs_opening_line(first)
        && !secret::may_open(&file.read(off.saturating_sub(LINE_END)..off)?)
    {
        return Ok(Vec::new());
    }
    file.read(off.saturating_sub(secret::reach(first) as u64)..off)
}

/// Returns the number of line feeds of a passage, and true if it ends with one.
pub fn describe(bytes: &[u8]) -> (u64, bool) {
    (bytes.iter().filter(|byte| **byte == b'\n').count() as u64, bytes.last() == Some(&b'\n'))
}

/// Returns eight bytes of BLAKE3: enough to recognise a passage of other bytes.
pub fn hash(bytes: &[u8]) -> i64 {
    let mut first = [0; 8];
    first.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
    i64::from_le_bytes(first)
}

/// Returns the end of the segment in which a passage begins at `off`; at most `size`.
///
/// # Errors
/// Errors of `read`.
pub fn segment_end<E>(
    off: u64,
    size: u64,
    read: &mut dyn FnMut(Range<u64>) -> Result<Vec<u8>, E>,
) -> Result<u64, E> {
    let near = off / SEGMENT * SEGMENT;
    for multiple in [near, near + SEGMENT] {
        if multiple == 0 || multiple + (MAX as u64) < off {
            continue;
        }
        if multiple >= size {
            break;
        }
        let window = read(multiple - 1..(multiple + MAX as u64).min(size))?;
        let Some(border) = border(&window) else { break };
        let border = multiple - 1 + border as u64;
        if border > off {
            return Ok(border.min(size));
        }
    }
    Ok(size)
}
