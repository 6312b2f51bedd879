//! Names of the messages in which a search found something.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;

use super::hit::{FoundMessage, HitKind, SessionName};
use crate::recall::{Answers, ReadLines, Wanted, read_lines, retracted, wanted_lines, words_said};
use crate::session::{Message, Meta};
use garth_engine::error::{ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, ByteRange, Hit, Timestamp};
use garth_engine::path::TreePath;
use garth_engine::text::question::Question;

/// Limit on the bytes that are read of a `meta.json`, 64 KiB.
const META: u64 = 64 << 10;

/// Returns the ranges to read of the session with these messages: around the hits, and its `meta.json`.
pub(super) fn wanted(messages: &TreePath, hits: &[&Hit]) -> Wanted {
    let meta = TreePath::from_row(messages.parent().unwrap_or_default().key(), "meta.json");
    let mut wanted = wanted_lines(messages, hits);
    wanted.push((At::Path(meta), ByteRange { offset: 0, length: META }));
    wanted
}

/// Returns the message of each hit in one session; `None` for a hit whose messages are retracted.
pub(super) async fn described(
    fs: &dyn FileSystem,
    (messages, names): (&TreePath, [&str; 3]),
    hits: &[&Hit],
    question: Option<&Question>,
    mut answers: Answers,
) -> Result<Vec<Option<HitKind>>> {
    let lines = read_lines(fs, messages, hits, &mut answers).await?;
    let lines = lines.map(|(_, lines)| lines).unwrap_or_default();
    // Without its meta, the session still has the names of its path.
    let id = answers.due().ok().and_then(|(_, meta)| Meta::parse(&meta).ok()).map(|meta| meta.id);
    let session = SessionName::new(names, id);
    // Asked again: a message may have been retracted after the search.
    let shown: BTreeSet<u64> = hits.iter().flat_map(|hit| hit.lines.clone()).collect();
    let withheld = retracted(fs, messages, &shown).await?;
    let mut described = Vec::with_capacity(hits.len());
    for hit in hits {
        let message = message_of(hit, &lines, &withheld, question)?;
        described.push(message.map(|message| HitKind::Message { session: session.clone(), message }));
    }
    Ok(described)
}

/// Returns the message in a hit that contains the largest share of the words of the question, or of one part
/// of a long one; of equally good ones, the first. `None` if all are retracted.
fn message_of(
    hit: &Hit,
    lines: &ReadLines,
    withheld: &HashSet<u64>,
    question: Option<&Question>,
) -> Result<Option<FoundMessage>> {
    // The last line of a hit may only be touched by its line feed.
    let inside = lines.range(hit.lines.clone()).filter(|(_, (place, _))| place.start < hit.bytes.end);
    let inside: Vec<(u64, &Bytes)> = inside.map(|(line, (_, text))| (*line, text)).collect();
    let shown: Vec<(u64, &Bytes)> =
        inside.iter().copied().filter(|(line, _)| !withheld.contains(line)).collect();
    if inside.is_empty() {
        let line = hit.lines.start;
        return Ok((!withheld.contains(&line)).then(|| FoundMessage::at(line)));
    }
    let mut best: Option<(f64, u64, &Bytes)> = None;
    for (line, text) in &shown {
        let words = match question {
            // One message needs no comparison.
            Some(question) if shown.len() > 1 => words_said(text, question)?,
            _ => 0.0,
        };
        if best.is_none_or(|(most, ..)| words > most) {
            best = Some((words, *line, *text));
        }
    }
    best.map(|(_, line, text)| read(line, text)).transpose()
}

/// Returns the message in a line.
///
/// # Errors
/// `TimedOut` if the time to compute is over.
fn read(line: u64, text: &[u8]) -> Result<FoundMessage> {
    let message = match std::str::from_utf8(text).map(Message::parse) {
        Ok(Err(error)) if error.is(ErrorKind::TimedOut) => return Err(error),
        Ok(message) => message.ok(),
        Err(_) => None,
    };
    Ok(match message {
        Some(Message { id, role, created_at, .. }) => FoundMessage {
            line,
            id: Some(id),
            role: Some(role),
            time: Timestamp::parse_rfc3339(&created_at).ok(),
        },
        None => FoundMessage::at(line),
    })
}
