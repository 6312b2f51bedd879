//! Passages of a part of a file, cut from its bytes again, whatever passages the index has there: for text
//! that is indexed later than it was written, and for an index that is rebuilt.

use std::ops::Range;

use super::indexed_text::{IndexedText, MAX_OFFSET};
use super::new_passages::{NewPassage, cut_region_and_rest};
use super::secret_context::line_from;
use super::{numbers, segment_end};
use crate::engine::search::indexing::Region;
use crate::text::Tokenizer;
use crate::text::passage::{Form, MAX_TEXT, SNIFF, is_text};

/// Passages of a part of a file that are indexed again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RebuiltPart {
    /// Numbers of the passages to remove.
    pub removed: Vec<i64>,
    /// Passages to add, in order.
    pub added: Vec<NewPassage>,
    /// Bytes that were cut again; `None` if search sees no text in the file.
    pub bytes: Option<Range<u64>>,
    /// Byte to continue from; `None` if the file is done.
    pub next: Option<u64>,
    /// True if the index covers the file after the part, with the passages that it had.
    pub follows: bool,
    /// True for a file that search may see.
    pub searchable: bool,
}

/// Cuts a file again from byte `off` on, about `step` bytes: the part ends with a segment. Stored passages
/// are replaced by those that should exist, and after the change the passages cover the file as before.
/// `file` is the size of the file and its content type; `None` if search may not see it.
///
/// # Errors
/// Errors of `text`.
pub fn rebuild<T: IndexedText>(
    text: &mut T,
    file: Option<(u64, Option<&str>)>,
    (off, step): (u64, u64),
    tokenizer: &mut Tokenizer,
) -> Result<RebuiltPart, T::Error> {
    let searchable = file.is_some();
    let (size, content_type) = file.map_or((0, None), |(size, kind)| (size.min(MAX_TEXT), kind));
    let prefix = text.read(0..size.min(SNIFF))?;
    if size == 0 || !is_text(&prefix, content_type) {
        let removed = numbers(&text.passages(0, MAX_OFFSET)?);
        return Ok(RebuiltPart { removed, searchable, ..RebuiltPart::default() });
    }
    // Begins at the border of a stored passage, if there are any.
    let start = match text.last_before(off.saturating_add(1))? {
        Some(before) if before.span.end() > off => before.span.off,
        _ => line_from(text, off.min(size))?,
    };
    let mut end = start;
    while end < size && end - start < step {
        end = segment_end(text, end, size)?;
    }
    let to = if end == size { MAX_OFFSET } else { end.saturating_sub(1) };
    let old = text.passages(start, to)?;
    let follows = !text.passages(end, end)?.is_empty();
    // The end of an old passage that the new border cuts in two.
    let rest = old.last().map(|last| end..last.span.end().min(size)).filter(|rest| rest.start < rest.end);
    let follows = follows || rest.is_some();
    let region = Region { bytes: start..end, form: Form::of(&prefix), open: false, size };
    let mut added = Vec::new();
    cut_region_and_rest(text, &region, rest, tokenizer, &mut |passage| {
        added.push(passage);
        Ok(())
    })?;
    let next = (end < size).then_some(end);
    let bytes = Some(start..end);
    Ok(RebuiltPart { removed: numbers(&old), added, bytes, next, follows, searchable })
}
