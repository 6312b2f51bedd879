//! Content of hits: their text, without withheld lines and secrets, and the lines around it.

use std::ops::Range;

use super::files::{Files, FoundFile};
use super::passage::{Passage, readable};
use super::withheld::without_withheld;
use crate::model::{ByteRange, HitContext, MAX_CONTEXT_BYTES};
use crate::rule::Rules;
use crate::text::context::{Piece, around, best_line};
use crate::text::passage::{self, Span};
use crate::text::question::Question;
use crate::text::secret::{CONTEXT, SearchedText};

/// Returns the best line of a passage, with up to `most` lines before and after it. `first` is the number of
/// the first line of the passage.
pub(super) fn context<F: Files>(
    files: &F,
    rules: &Rules,
    file: &FoundFile,
    (passage, first): (&Passage, u64),
    (question, most): (&Question, usize),
) -> Result<HitContext, F::Error> {
    let span = passage.span;
    let text = files.read(&file.node, ByteRange { offset: span.off, length: span.len })?;
    // Before the best line is chosen: that must not be a withheld line.
    let text = without_withheld(files, &file.path, text.to_vec(), first)?;
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let best = best_line(lines.iter().map(|line| readable(line, passage.form)), question);
    let off = passage.span.off + lines[..best].iter().map(|line| line.len() as u64).sum::<u64>();
    let end = off + lines.get(best).map_or(0, |line| line.len() as u64);
    // The best line may be as long as a passage, half of the context. A quarter is left on each side of it.
    let side = (MAX_CONTEXT_BYTES - passage::MAX) as u64 / 2;
    let start = off.saturating_sub(side);
    let bytes = files.read(&file.node, (start..end.saturating_add(side)).into())?;
    let ends = start + bytes.len() as u64 >= file.node.size;
    let piece = Piece { bytes: &bytes, starts: start == 0, ends };
    let found = around(piece, (off - start) as usize..(end - start) as usize, most);
    let (best, at) = (first + best as u64, |byte: usize| start + byte as u64);
    let before = best - found.before as u64;
    let bytes = at(found.bytes.start)..at(found.bytes.end);
    let part = Span { off: bytes.start, len: bytes.end - bytes.start, newline: false };
    let text = shown_whole(files, rules, file, (part, before))?;
    Ok(HitContext {
        text: String::from_utf8_lossy(&text).into_owned(),
        best,
        lines: before..before + found.lines as u64,
        bytes,
    })
}

/// Returns pieces of a part of a file as shown: withheld lines are blanked, and secrets are masked unless a
/// rule shows them. `first` is the number of the part's first line.
pub(super) fn shown<F: Files>(
    files: &F,
    rules: &Rules,
    file: &FoundFile,
    (span, first): (Span, u64),
    pieces: impl Iterator<Item = Range<usize>>,
) -> Result<Vec<Vec<u8>>, F::Error> {
    // The bytes around a span decide if it is a secret.
    let from = span.off.saturating_sub(CONTEXT as u64);
    let length = span.end() + CONTEXT as u64 - from;
    let around = files.read(&file.node, ByteRange { offset: from, length })?;
    let (before, rest) = around.split_at(around.len().min((span.off - from) as usize));
    let (text, behind) = rest.split_at(rest.len().min(span.len as usize));
    let text = without_withheld(files, &file.path, text.to_vec(), first)?;
    let pieces = pieces.map(|piece| piece.start.min(text.len())..piece.end.min(text.len()));
    Ok(match rules.shows_secrets(&file.path) {
        true => pieces.map(|piece| text[piece].to_vec()).collect(),
        false => {
            let searched = SearchedText::new(before, &text, behind);
            pieces.map(|piece| searched.masked(piece).into_owned()).collect()
        }
    })
}

/// Returns one part of a file as [`shown`].
pub(super) fn shown_whole<F: Files>(
    files: &F,
    rules: &Rules,
    file: &FoundFile,
    part: (Span, u64),
) -> Result<Vec<u8>, F::Error> {
    let whole = 0..part.0.len as usize;
    Ok(shown(files, rules, file, part, std::iter::once(whole))?.pop().unwrap_or_default())
}
