//! Private keys as text: blocks of lines between a line that begins and one that ends them (RFC 7468,
//! OpenPGP, OpenSSH).

use std::ops::Range;

use super::span::{LONGEST, Secret};
use super::words::look_at;

/// Number of bytes of a line that are looked at in one step.
const LINE: usize = 1 << 10;
/// Minimum length of a run of base64 in a key: text about keys has `MIIE...`.
pub(super) const RUN: usize = 16;
pub(super) const DASHES: &[u8] = b"-----";
pub(super) const KIND: &str = "private key";

/// Limits in which the judgements differ.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    /// Limit on the bytes of one secret. Of a longer block, the first or the last ones are taken.
    pub(super) longest: usize,
    /// Returns true for bytes that may be between the lines that begin and end a block.
    pub(super) body: fn(&[u8]) -> bool,
}

/// Returns the key that begins or ends with this word. Bytes before `done` have been searched.
pub(super) fn at(text: &[u8], word: &Range<usize>, done: usize, blocks: Blocks) -> Option<Secret> {
    let longest = blocks.longest;
    let bytes = &text[word.clone()];
    if bytes.ends_with(b"-----BEGIN") {
        let begin = word.end - b"-----BEGIN".len();
        let body = label(text, word.end)?;
        // A block without its end is a secret as well: a piece of text may be cut in the middle of a key.
        let end = end_of(text, begin, body, blocks).or_else(|| end_of_open_block(text, body, longest))?;
        return Some(Secret::new(begin..end, KIND));
    }
    if bytes.starts_with(b"-----END") {
        let end = label(text, word.end)?;
        let start = start_before(text, word.start, done, longest);
        return has_run(&text[start..word.start]).then(|| Secret::new(start..end, KIND));
    }
    None
}

/// Returns the private lines of a key of PuTTY after this word, `Private-Lines`, and their number.
pub(super) fn putty(text: &[u8], word: &Range<usize>) -> Option<Secret> {
    let count = text[word.end..].strip_prefix(b": ")?;
    let digits = count.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    let rest = count[digits..].strip_prefix(b"\r").unwrap_or(&count[digits..]);
    let body = text.len() - rest.strip_prefix(b"\n").filter(|_| digits > 0)?.len();
    let end = end_of_open_block(text, body, LONGEST)?;
    let start = body + text[body..end].iter().position(|byte| is_base64(*byte)).unwrap_or(0);
    Some(Secret { bytes: start..end, basis: word.start..end, kind: KIND })
}

/// Returns the place after the label of a private key and its dashes; `None` for other labels.
fn label(text: &[u8], at: usize) -> Option<usize> {
    let window = &text[at..text.len().min(at + 64)];
    let length = window.iter().position(|byte| !matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b' '))?;
    let (label, rest) = window.split_at(length);
    let label = label.trim_ascii();
    // Certificates and public keys have the same form.
    let private = label.ends_with(b"PRIVATE KEY") || label.ends_with(b"PRIVATE KEY BLOCK");
    (private && rest.starts_with(DASHES)).then_some(at + length + DASHES.len())
}

/// Returns the end of a complete block.
fn end_of(text: &[u8], begin: usize, body: usize, blocks: Blocks) -> Option<usize> {
    let most = text.len().min(begin + blocks.longest);
    let mut at = body;
    loop {
        let length = text[at..most].windows(DASHES.len()).position(|window| window == DASHES);
        look_at(length.unwrap_or(most - at));
        at += length?;
        let marker = &text[at..];
        // A block within a block: the outer one has no end.
        if marker.starts_with(b"-----BEGIN") {
            return None;
        }
        if marker.starts_with(b"-----END") {
            let end = label(text, at + b"-----END".len())?;
            return (has_run(&text[body..at]) && (blocks.body)(&text[body..at])).then_some(end);
        }
        at += DASHES.len();
    }
}

fn has_run(body: &[u8]) -> bool {
    body.split(|byte| !is_base64(*byte)).any(|run| run.len() >= RUN)
}

/// Returns the end of the lines of a block whose end is missing.
fn end_of_open_block(text: &[u8], body: usize, longest: usize) -> Option<usize> {
    let most = text.len().min(body + longest);
    let (mut at, mut end, mut run) = (body, body, false);
    while at < most {
        let line = &text[at..most.min(at + LINE)];
        let line = line.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        let bare = bare(line);
        look_at(line.len());
        if !bare.iter().all(|byte| is_base64(*byte)) && !is_header(bare) {
            break;
        }
        at += line.len();
        if !bare.is_empty() {
            // Headers and short lines alone are no key.
            run |= has_run(bare);
            end = at - (line.len() - line.trim_ascii_end().len());
        }
    }
    run.then_some(end)
}

/// Returns the start of the lines of a block whose beginning is missing.
fn start_before(text: &[u8], end: usize, done: usize, longest: usize) -> usize {
    let least = done.max(end.saturating_sub(longest));
    let (mut start, mut at) = (end, end);
    while at > least {
        let break_before = text[least..at - 1].iter().rposition(|byte| *byte == b'\n');
        let from = break_before.map_or(least, |before| least + before + 1);
        let line = &text[from..at];
        let bare = bare(line);
        look_at(line.len());
        // Lines of base64 have a multiple of four characters.
        if !bare.iter().all(|byte| is_base64(*byte)) || !bare.len().is_multiple_of(4) {
            break;
        }
        if !bare.is_empty() {
            start = from + line.iter().position(|byte| is_base64(*byte)).unwrap_or(0);
        }
        at = from;
    }
    start
}

/// Returns true for the lines of a key, with the signs that they are quoted with.
pub(super) fn is_body(body: &[u8]) -> bool {
    let is_part = |byte: &u8| is_base64(*byte) || b" \t\r\"'`>\\,|;*#".contains(byte);
    body.split(|byte| *byte == b'\n').all(|line| line.iter().all(is_part) || is_header(bare(line)))
}

/// Returns true if a text may begin with lines of a block: one of its first lines ends a block, or the
/// first is base64 or a header.
pub(super) fn may_continue_secret(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n').map(bare).filter(|line| !line.is_empty()).take(3);
    let first = lines.next().unwrap_or_default();
    let is_body = !first.is_empty() && first.iter().all(|byte| is_base64(*byte));
    is_body || is_header(first) || first.starts_with(DASHES) || lines.any(|line| line.starts_with(DASHES))
}

/// Returns true if a text begins with a short line that may be the last of a block, after a full line.
pub(super) fn may_be_last_line(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n').map(bare).filter(|line| !line.is_empty()).take(3);
    let first = lines.next().unwrap_or_default();
    let is_short = first.len() < RUN && first.iter().all(|byte| is_base64(*byte));
    is_short && !lines.any(|line| line.starts_with(DASHES))
}

/// Returns true if a text ends with a full line of a block. The text may be just the end of that line.
pub(super) fn ends_with_full_line(text: &[u8]) -> bool {
    let mut lines = text.rsplit(|byte| *byte == b'\n').map(bare).filter(|line| !line.is_empty());
    let last = lines.next().unwrap_or_default();
    last.len() >= RUN && last[last.len() - RUN..].iter().all(|byte| is_base64(*byte))
}

/// Returns a line without the signs that it is quoted with, in code, in a mail or in a list.
fn bare(line: &[u8]) -> &[u8] {
    let is_around = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`>\\,|;*#".contains(byte);
    let start = line.iter().position(|byte| !is_around(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_around(byte)).map_or(start, |last| last + 1);
    let bare = &line[start..end];
    // Strings of code that are joined.
    bare.strip_suffix(b"\" +").or_else(|| bare.strip_suffix(b"' +")).unwrap_or(bare)
}

pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Returns true for `Proc-Type: 4,ENCRYPTED` and similar headers.
fn is_header(line: &[u8]) -> bool {
    let names: [&[u8]; 5] = [b"Proc-Type:", b"DEK-Info:", b"Comment:", b"Version:", b"Hash:"];
    names.iter().any(|name| line.starts_with(name))
}
