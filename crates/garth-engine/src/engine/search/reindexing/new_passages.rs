//! New passages of a file, with all that the index stores of them.

use std::cell::Cell;
use std::ops::Range;

use super::indexed_text::IndexedText;
use crate::engine::search::indexing::{
    CutPassage, FileText, Region, describe, each_passage, hash, one_passage,
};
use crate::text::Tokenizer;
use crate::text::passage::{Form, Span};

/// Passage to be added to the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPassage {
    /// Byte range in the file.
    pub span: Span,
    /// Number of line feeds in the passage.
    pub line_feeds: u64,
    /// Form in which the passage is indexed.
    pub form: Form,
    /// First eight bytes of the BLAKE3 hash of its bytes, in little endian.
    pub hash: i64,
    /// Its tokens, each once, separated by spaces; frequent ones also with their levels.
    pub tokens: String,
    /// Number of its words.
    pub words: u64,
}

impl NewPassage {
    fn of(passage: &CutPassage<'_>, form: Form, tokenizer: &mut Tokenizer) -> Self {
        let (line_feeds, newline) = describe(passage.bytes);
        let (tokens, words) = tokenizer.tokens(&passage.text);
        let span = Span { off: passage.off, len: passage.bytes.len() as u64, newline };
        Self { span, line_feeds, form, hash: hash(passage.bytes), tokens, words }
    }
}

/// File of which a region is being cut.
struct CutText<'a, T> {
    text: &'a mut T,
    /// Place of the last new passage, which may not be in the index yet.
    last: &'a Cell<Option<Span>>,
}

impl<T: IndexedText> FileText for CutText<'_, T> {
    type Error = T::Error;

    fn read(&mut self, bytes: Range<u64>) -> Result<Vec<u8>, T::Error> {
        self.text.read(bytes)
    }

    fn begins_line(&mut self, off: u64) -> Result<bool, T::Error> {
        let before = match self.last.get() {
            Some(last) => Some(last),
            None => self.text.last_before(off)?.map(|it| it.span),
        };
        Ok(before.is_some_and(|it| it.end() == off && it.newline))
    }
}

/// Calls `add` for each passage of a region, in order. Returns the byte after the last one.
///
/// # Errors
/// Errors of `text` and `add`.
pub fn cut_region<T: IndexedText>(
    text: &mut T,
    region: &Region,
    tokenizer: &mut Tokenizer,
    add: &mut dyn FnMut(NewPassage) -> Result<(), T::Error>,
) -> Result<u64, T::Error> {
    let last = Cell::new(None);
    each_passage(&mut CutText { text, last: &last }, region, &mut |passage| {
        let passage = NewPassage::of(&passage, region.form, tokenizer);
        last.set(Some(passage.span));
        add(passage)
    })
}

/// Calls `add` for each passage of a region, in order, and for the bytes after it, `rest`, as one more.
///
/// # Errors
/// Errors of `text` and `add`.
pub(super) fn cut_region_and_rest<T: IndexedText>(
    text: &mut T,
    region: &Region,
    rest: Option<Range<u64>>,
    tokenizer: &mut Tokenizer,
    add: &mut dyn FnMut(NewPassage) -> Result<(), T::Error>,
) -> Result<(), T::Error> {
    let last = Cell::new(None);
    let mut each = |passage: CutPassage<'_>| {
        let passage = NewPassage::of(&passage, region.form, tokenizer);
        last.set(Some(passage.span));
        add(passage)
    };
    each_passage(&mut CutText { text: &mut *text, last: &last }, region, &mut each)?;
    match rest {
        Some(rest) => one_passage(&mut CutText { text, last: &last }, rest, region.form, &mut each),
        None => Ok(()),
    }
}
