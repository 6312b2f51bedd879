//! The part of a file whose passages an edit changes. The passages depend on the bytes of the file alone, so
//! they are cut again from the first one that the edit can change to the first old border after it that is a
//! new border as well.

use std::ops::Range;

use super::indexed_text::IndexedText;
use crate::engine::search::indexing;
use crate::text::passage::{Edit, Form, MAX, SEGMENT, cut, is_closed, reaches};

/// Returns the end of the segment of a file in which a passage begins at `off`; at most `size`.
///
/// # Errors
/// Errors of `text`.
pub fn segment_end<T: IndexedText>(text: &mut T, off: u64, size: u64) -> Result<u64, T::Error> {
    indexing::segment_end(off, size, &mut |bytes| text.read(bytes))
}

/// Returns the bytes whose passages have to be cut again after an edit of a file of this form.
pub(super) fn changed<T: IndexedText>(text: &mut T, edit: &Edit, form: Form) -> Result<Range<u64>, T::Error> {
    let start = first_changed(text, edit, form)?;
    Ok(start..first_unchanged(text, edit, form, start)?)
}

/// Returns the start of the first passage that an edit can change.
fn first_changed<T: IndexedText>(text: &mut T, edit: &Edit, form: Form) -> Result<u64, T::Error> {
    let mut place = edit.start;
    let multiple = place / SEGMENT * SEGMENT;
    // The edit may move the border of a segment that no line before it decides.
    if multiple > 0 && place - multiple < MAX as u64 && !text.read(multiple - 1..place)?.contains(&b'\n') {
        place = multiple - 1;
    }
    let Some(mut first) = text.last_before(place + 1)? else { return Ok(0) };
    if place >= edit.old_size {
        // All passages before the last one have been cut in view of the bytes that decide about them.
        let is_left = is_closed(first.span, form) && first.span.end() <= place;
        return Ok(if is_left { first.span.end() } else { first.span.off });
    }
    while let Some(before) = text.last_before(first.span.off)? {
        if is_closed(before.span, form) || !reaches(before.span.off, place) {
            break;
        }
        first = before;
    }
    Ok(first.span.off)
}

/// Returns the first border of passages after an edit that stays; otherwise the end of the file.
fn first_unchanged<T: IndexedText>(
    text: &mut T,
    edit: &Edit,
    form: Form,
    start: u64,
) -> Result<u64, T::Error> {
    let size = edit.new_size;
    if edit.end >= size || size < edit.old_size {
        return Ok(size);
    }
    let multiple = edit.end / SEGMENT * SEGMENT;
    let most = multiple + MAX as u64;
    // Up to `most`, the edit may have moved the border of a segment.
    let stable = if multiple > 0 { edit.end.max(most) } else { edit.end };
    let mut off = start;
    while off < size {
        let end = segment_end(text, off, size)?;
        for length in cut(&text.read(off..end)?, true, form) {
            off += length as u64;
            if off >= stable && off < size && !text.passages(off, off)?.is_empty() {
                return Ok(off);
            }
        }
    }
    Ok(size)
}
