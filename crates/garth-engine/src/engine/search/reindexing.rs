//! Change of the passages of a file by an edit: the ones to remove, and the ones to add. It depends only on
//! the passages before the edit and the bytes after it, both read through [`IndexedText`]. Nothing has to be
//! written before all of it is known.

mod cover;
mod indexed_text;
mod new_passages;
mod rebuild;
mod secret_context;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::engine::search::Passage;
use crate::engine::search::indexing::Region;
use crate::text::Tokenizer;
use crate::text::passage::{Edit, Form, SNIFF, is_text};

pub use cover::segment_end;
pub use indexed_text::{IndexedText, MAX_OFFSET};
pub use new_passages::{NewPassage, cut_region};
pub use rebuild::{RebuiltPart, rebuild};

/// Change of a file, as far as it concerns the index.
#[derive(Clone, Copy, Debug)]
pub struct FileEdit<'a> {
    /// True if search may see the file. False for a deleted file, too.
    pub searchable: bool,
    /// Its content type, if it has one.
    pub content_type: Option<&'a str>,
    /// Change of its bytes. [`Edit::replace`] if its type changed or it became searchable.
    pub edit: Edit,
    /// Byte from which its text is not indexed yet; `None` if all of it is. Such text is indexed later, so
    /// the edit adds no passage.
    pub unindexed: Option<u64>,
}

/// Change of the passages of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reindexed {
    /// Numbers of the passages to remove.
    pub removed: Vec<i64>,
    /// Passages to add, in order.
    pub added: Vec<NewPassage>,
    /// Byte from which the text is to be indexed later, to be recorded; `None` if the record stays as it is.
    pub unindexed: Option<u64>,
    /// Bytes in which the removed and the added passages are. Empty if nothing changes.
    pub region: Range<u64>,
}

/// Returns the change of the passages of a file by an edit. Of its text, at most `room` bytes are indexed,
/// which are subtracted from `room`; the rest is left for later.
///
/// # Errors
/// Errors of `text`.
pub fn reindex<T: IndexedText>(
    text: &mut T,
    file: &FileEdit<'_>,
    room: &mut u64,
    tokenizer: &mut Tokenizer,
) -> Result<Reindexed, T::Error> {
    let plan = plan(text, file, room)?;
    let mut added = Vec::new();
    let unindexed = plan.each_passage(text, tokenizer, &mut |passage| {
        added.push(passage);
        Ok(())
    })?;
    Ok(Reindexed { removed: plan.removed, added, unindexed, region: plan.changed })
}

/// Returns the change of a file whose text cannot be read now: the passages that an edit touches, and those
/// after them, are removed, and this text is indexed later.
///
/// # Errors
/// Errors of `text`.
pub fn leave<T: IndexedText>(text: &mut T, searchable: bool, edit: &Edit) -> Result<Reindexed, T::Error> {
    let Plan { removed, changed, unindexed, .. } = leave_more(text, searchable, &edit.visible(), MAX_OFFSET)?;
    Ok(Reindexed { removed, added: Vec::new(), unindexed, region: changed })
}

/// Change of the passages of a file, before the new ones are cut. An engine that cuts them one by one, while
/// it writes them, does not hold the text of a large file in memory.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Numbers of the passages to remove.
    pub removed: Vec<i64>,
    /// Bytes in which the removed and the new passages are.
    pub changed: Range<u64>,
    /// Region to cut into new passages, if there are any.
    pub region: Option<Region>,
    /// Byte from which the text is to be indexed later, without a region.
    unindexed: Option<u64>,
}

impl Plan {
    /// Calls `add` for each new passage, in order. Returns the byte from which the text is to be indexed
    /// later, to be recorded. The passages to remove may still be in the index, and new ones may be already.
    ///
    /// # Errors
    /// Errors of `text` and `add`.
    pub fn each_passage<T: IndexedText>(
        &self,
        text: &mut T,
        tokenizer: &mut Tokenizer,
        add: &mut dyn FnMut(NewPassage) -> Result<(), T::Error>,
    ) -> Result<Option<u64>, T::Error> {
        let Some(region) = &self.region else { return Ok(self.unindexed) };
        let reached = cut_region(text, region, tokenizer, add)?;
        Ok(region.open.then_some(reached))
    }

    /// Keeps what fits into `room` of the region. Takes its length from `room`.
    fn limit<T: IndexedText>(&mut self, text: &mut T, edit: &Edit, room: &mut u64) -> Result<(), T::Error> {
        let Some(region) = &mut self.region else { return Ok(()) };
        let Range { start, end } = region.bytes;
        if end - start <= *room {
            *room -= end - start;
            return Ok(());
        }
        // Passages after the unindexed part would never be replaced. Up to the end of the file, they are
        // removed already.
        if end < region.size {
            self.removed.extend(numbers(&text.passages(end, MAX_OFFSET)?));
            self.changed.end = edit.old_size.max(region.size);
        }
        region.bytes = start..start + *room;
        region.open = true;
        // Later files of the group are left completely.
        *room = 0;
        Ok(())
    }
}

/// Plans the change of the passages of a file by an edit. Of its text, at most `room` bytes are indexed,
/// which are subtracted from `room`; the rest is left for later.
///
/// # Errors
/// Errors of `text`.
pub fn plan<T: IndexedText>(text: &mut T, file: &FileEdit<'_>, room: &mut u64) -> Result<Plan, T::Error> {
    let edit = file.edit.visible();
    // Its text is indexed later, so the edit only says from which byte.
    if let Some(from) = file.unindexed {
        return leave_more(text, file.searchable, &edit, from);
    }
    let mut plan = replaced(text, file, &edit)?;
    plan.limit(text, &edit, room)?;
    Ok(plan)
}

/// Plans the change of a file that is indexed up to byte `from`: the passages that it touches are left for
/// later, too.
fn leave_more<T: IndexedText>(
    text: &mut T,
    searchable: bool,
    edit: &Edit,
    from: u64,
) -> Result<Plan, T::Error> {
    // The change is in the part that is still to be indexed.
    if searchable && edit.start >= from {
        return Ok(Plan::default());
    }
    let keep = if searchable { text.last_before(edit.start)?.map(|it| it.span.off) } else { None };
    let keep = keep.unwrap_or(0);
    let removed = numbers(&text.passages(keep, MAX_OFFSET)?);
    Ok(Plan { removed, changed: keep..edit.old_size.max(keep), region: None, unindexed: Some(keep) })
}

/// Plans the change of a file that is completely indexed.
fn replaced<T: IndexedText>(text: &mut T, file: &FileEdit<'_>, edit: &Edit) -> Result<Plan, T::Error> {
    // A file that was empty before has no passages.
    let last = if edit.old_size == 0 { None } else { text.last_before(MAX_OFFSET)? };
    let leave_out = |text: &mut T| match last {
        Some(_) => all_removed(text, edit),
        None => Ok(Plan::default()),
    };
    if !file.searchable || edit.new_size == 0 {
        return leave_out(text);
    }
    if edit.start >= edit.end && edit.new_size == edit.old_size {
        return Ok(Plan::default());
    }
    // A file that is not text by its first bytes does not become text by later ones.
    if last.is_none() && edit.start >= SNIFF {
        return Ok(Plan::default());
    }
    let size = edit.new_size;
    let mut form = last.filter(|last| text.has_form(last)).map(|last| last.form);
    // Only the first bytes tell whether a file is text, and in which form.
    if edit.start < SNIFF || form.is_none() {
        let prefix = text.read(0..size.min(SNIFF))?;
        let now = Form::of(&prefix);
        if !is_text(&prefix, file.content_type) {
            return leave_out(text);
        }
        // All passages were tokenized in the other form.
        if form.is_some_and(|form| form != now) {
            let region = Region { bytes: 0..size, form: now, open: false, size };
            let removed = all_removed(text, edit)?;
            return Ok(Plan { region: Some(region), ..removed });
        }
        form = Some(now);
    }
    let form = form.unwrap_or_default();
    let (mut bytes, mut removed) = (0..size, Vec::new());
    if last.is_some() {
        bytes = cover::changed(text, edit, form)?;
        let to = if bytes.end == size { MAX_OFFSET } else { bytes.end.saturating_sub(1) };
        removed = numbers(&text.passages(bytes.start, to)?);
    }
    if !bytes.is_empty() {
        secret_context::widen(text, edit, &mut bytes, &mut removed)?;
    }
    let end = if bytes.end == size { size.max(edit.old_size) } else { bytes.end };
    let region = Region { bytes: bytes.clone(), form, open: false, size };
    Ok(Plan { removed, changed: bytes.start..end, region: Some(region), unindexed: None })
}

/// Plans the removal of all passages of a file.
fn all_removed<T: IndexedText>(text: &mut T, edit: &Edit) -> Result<Plan, T::Error> {
    let removed = numbers(&text.passages(0, MAX_OFFSET)?);
    let changed = 0..edit.old_size.max(edit.new_size);
    Ok(Plan { removed, changed, region: None, unindexed: None })
}

fn numbers(passages: &[Passage]) -> Vec<i64> {
    passages.iter().map(|passage| passage.id).collect()
}
