//! Private keys as text: blocks of lines between a line that begins and one that ends them (RFC 7468,
//! OpenPGP, OpenSSH).

use std::ops::Range;

use super::span::Secret;

/// Longest block that is taken as one, 32 KiB: larger keys are not in use.
const LONGEST: usize = 32 << 10;
/// So much of a line is looked at at once.
const LINE: usize = 1 << 10;
/// A shorter run of base64 is no part of a key: text about keys has `MIIE...`.
const RUN: usize = 16;
const DASHES: &[u8] = b"-----";
const KIND: &str = "private key";

/// Returns a key that begins or ends with this word. What is before `done` was looked at before.
pub(super) fn at(text: &[u8], word: &Range<usize>, done: usize) -> Option<Secret> {
    let bytes = &text[word.clone()];
    if bytes.ends_with(b"-----BEGIN") {
        let begin = word.end - b"-----BEGIN".len();
        let body = label(text, word.end)?;
        let end = end_of(text, begin, body).or_else(|| open_until(text, body))?;
        return Some(Secret::new(begin..end, KIND));
    }
    if bytes.starts_with(b"-----END") {
        let end = label(text, word.end)?;
        let start = back_from(text, word.start, done);
        return has_run(&text[start..word.start]).then(|| Secret::new(start..end, KIND));
    }
    None
}

/// Behind the label of a private key and its dashes; `None` for another label.
fn label(text: &[u8], at: usize) -> Option<usize> {
    let window = &text[at..text.len().min(at + 64)];
    let length = window.iter().position(|byte| !matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b' '))?;
    let (label, rest) = window.split_at(length);
    let label = label.trim_ascii();
    let private = label.ends_with(b"PRIVATE KEY") || label.ends_with(b"PRIVATE KEY BLOCK");
    (private && rest.starts_with(DASHES)).then_some(at + length + DASHES.len())
}

/// The end of a block that has one.
fn end_of(text: &[u8], begin: usize, body: usize) -> Option<usize> {
    let most = text.len().min(begin + LONGEST);
    let mut at = body;
    loop {
        at += text[at..most].windows(DASHES.len()).position(|window| window == DASHES)?;
        let marker = &text[at..];
        if marker.starts_with(b"-----BEGIN") {
            return None;
        }
        if marker.starts_with(b"-----END") {
            let end = label(text, at + b"-----END".len())?;
            return has_run(&text[body..at]).then_some(end);
        }
        at += DASHES.len();
    }
}

fn has_run(body: &[u8]) -> bool {
    body.split(|byte| !is_base64(*byte)).any(|run| run.len() >= RUN)
}

/// The end of the lines of a block that has none yet.
fn open_until(text: &[u8], body: usize) -> Option<usize> {
    let most = text.len().min(body + LONGEST);
    let (mut at, mut end, mut run) = (body, body, false);
    while at < most {
        let line = &text[at..most.min(at + LINE)];
        let line = line.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        let bare = bare(line);
        if !bare.iter().all(|byte| is_base64(*byte)) && !is_header(bare) {
            break;
        }
        at += line.len();
        if !bare.is_empty() {
            run |= has_run(bare);
            end = at - (line.len() - line.trim_ascii_end().len());
        }
    }
    run.then_some(end)
}

/// The beginning of the lines of a block of which only the end is there.
fn back_from(text: &[u8], end: usize, done: usize) -> usize {
    let least = done.max(end.saturating_sub(LONGEST));
    let (mut start, mut at) = (end, end);
    while at > least {
        let break_before = text[least..at - 1].iter().rposition(|byte| *byte == b'\n');
        let from = break_before.map_or(least, |before| least + before + 1);
        let line = &text[from..at];
        let bare = bare(line);
        // base64 comes in fours
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

/// Returns true if a text may begin with lines of a block: one of them is its end, or the first is one of
/// base64, which comes in fours, or a header.
pub(super) fn may_go_on(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n').map(bare).filter(|line| !line.is_empty()).take(3);
    let first = lines.next().unwrap_or_default();
    let full =
        first.len() >= RUN && first.len().is_multiple_of(4) && first.iter().all(|byte| is_base64(*byte));
    full || is_header(first) || first.starts_with(DASHES) || lines.any(|line| line.starts_with(DASHES))
}

/// A line without what it is quoted with, in code, in a mail or in a list.
fn bare(line: &[u8]) -> &[u8] {
    let is_around = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`>\\,|;*#".contains(byte);
    let start = line.iter().position(|byte| !is_around(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_around(byte)).map_or(start, |last| last + 1);
    let bare = &line[start..end];
    // strings of code that are joined
    bare.strip_suffix(b"\" +").or_else(|| bare.strip_suffix(b"' +")).unwrap_or(bare)
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// `Proc-Type: 4,ENCRYPTED` and the like.
fn is_header(line: &[u8]) -> bool {
    let names: [&[u8]; 5] = [b"Proc-Type:", b"DEK-Info:", b"Comment:", b"Version:", b"Hash:"];
    names.iter().any(|name| line.starts_with(name))
}
