//! Context of passages that decides whether a span in them is a secret, whose words the index must not
//! contain. A secret may extend over two appends, and over the border of two passages.

use std::ops::Range;

use super::indexed_text::IndexedText;
use crate::text::passage::Edit;
use crate::text::secret::{self, CONTEXT, Secret};

/// Returns the place from which passages have to be indexed again if text from `off` on is: a passage whose
/// last line continues there may contain the beginning of a secret.
///
/// # Errors
/// Errors of `text`.
pub(super) fn line_from<T: IndexedText>(text: &mut T, off: u64) -> Result<u64, T::Error> {
    let before = text.last_before(off)?.filter(|it| it.span.end() == off && !it.span.newline);
    Ok(before.map_or(off, |it| it.span.off))
}

/// Returns true if an edit may make a private key of lines before `border`, where a line begins. The end of a
/// key makes one of the lines before it, and members of an object say that those before them are of a key.
/// Appended text contains what says so, or completes it.
fn may_complete_key<T: IndexedText>(text: &mut T, edit: &Edit, border: u64) -> Result<bool, T::Error> {
    let most = CONTEXT as u64;
    let (mut is_block, mut is_object) = (true, true);
    // First, because most appends end here, and are shorter than the text after the border.
    if edit.start >= edit.old_size {
        let new = text.read(edit.start.saturating_sub(secret::MARKER)..edit.start + most)?;
        is_block = secret::may_end_key(&new);
        is_object = secret::may_mark_object_as_key(&new);
    }
    if is_block || is_object {
        let behind = text.read(border..border + most)?;
        is_block &= secret::may_be_part_of_key(&behind);
        is_object &= secret::may_mark_object_as_key(&behind);
    }
    if is_block || !is_object {
        return Ok(is_block);
    }
    Ok(secret::may_have_member_of_key(&text.read(border.saturating_sub(most)..border)?))
}

/// Adds the passages next to a region in which an edit may have completed or broken a secret. Before the
/// region these are the passages of the same line, and those of a private key whose end an append adds. Their
/// numbers are added to `removed`.
pub(super) fn widen<T: IndexedText>(
    text: &mut T,
    edit: &Edit,
    region: &mut Range<u64>,
    removed: &mut Vec<i64>,
) -> Result<(), T::Error> {
    let (first, last, most) = (region.start, region.end, CONTEXT as u64);
    let appends = edit.start >= edit.old_size;
    while region.start > 0 && first - region.start < most {
        let border = region.start;
        let before = text.last_before(border)?.filter(|it| it.span.end() == border);
        let Some(before) = before else { break };
        let from = border.saturating_sub(most);
        if before.span.newline && !may_complete_key(text, edit, border)? {
            break;
        }
        let window = text.read(from..border + most)?;
        let (border, known) = ((border - from) as usize, (edit.start - from) as usize);
        let now = secret::find(&window);
        let is_same = if appends {
            // The existing text was judged without the appended text.
            let then = secret::find(&window[..known.min(window.len())]);
            let parts = |found: &[Secret]| -> Vec<_> {
                secret::within(found, 0..border).map(|(bytes, _)| bytes).collect()
            };
            parts(&then) == parts(&now)
        } else {
            !now.iter().any(|it| it.bytes.start < border && it.basis.end > border)
        };
        if is_same {
            break;
        }
        region.start = before.span.off;
        removed.push(before.id);
    }
    while region.end < edit.new_size && region.end - last < most {
        let border = region.end;
        let Some(behind) = text.passages(border, border)?.pop() else { break };
        let from = border.saturating_sub(most);
        let window = text.read(from..border + most)?;
        let border = (border - from) as usize;
        let begins_line = border > 0 && window.get(border - 1) == Some(&b'\n');
        let stands_alone = begins_line && !secret::may_continue_secret(&window[border..]);
        let reaching = |secret: &Secret| secret.basis.start < border && secret.bytes.end > border;
        if stands_alone || !secret::find(&window).iter().any(reaching) {
            break;
        }
        region.end = behind.span.end().min(edit.new_size);
        removed.push(behind.id);
    }
    Ok(())
}
