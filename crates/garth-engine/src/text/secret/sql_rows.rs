//! Values of rows of SQL below a column whose name says that they are secret:
//! `INSERT INTO users (name, password) VALUES ('ann', '…')`.

use super::assigned::run;
use super::span::Secret;
use super::value::{Named, Tie, is_quote};
use super::words::look_at;

/// Limits of the rows after a list of columns: their bytes, and their number.
const TABLE: usize = 1 << 10;
const ROWS: usize = 24;
/// Limit on the bytes of a list of columns on each side of a name.
const COLUMNS: usize = 160;

impl Named<'_> {
    /// Finds the values of the column of this name.
    pub(super) fn rows(&self, found: &mut Vec<Secret>) {
        let Some((column, mut at)) = self.column_of_statement() else { return };
        let text = &self.text[..self.text.len().min(at + TABLE)];
        let from = at;
        for _ in 0..ROWS {
            at += run(text, at, b" \t\r\n,", 40);
            if text.get(at) != Some(&b'(') {
                break;
            }
            at += 1;
            let mut cell = 0;
            loop {
                at += run(text, at, b" \t\r\n", 40);
                if cell == column && is_quote(text.get(at)) {
                    found.extend(self.value(at, Tie::Sign));
                }
                at = end_of_cell(text, at);
                match text.get(at) {
                    Some(b',') => (cell, at) = (cell + 1, at + 1),
                    Some(_) => break,
                    None => return look_at(at - from),
                }
            }
            at += 1;
        }
        look_at(at - from);
    }

    /// Returns the number of the column of this name in the list of a statement, and the place of the rows.
    fn column_of_statement(&self) -> Option<(usize, usize)> {
        let text = self.text;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$.`\"', \t\r\n".contains(byte);
        let behind = &text[self.word.end..text.len().min(self.word.end + COLUMNS)];
        let closes =
            behind.iter().take_while(|byte| is_part(byte) || **byte == b']' || **byte == b'[').count();
        if behind.get(closes) != Some(&b')') {
            return None;
        }
        let mut at = self.word.end + closes + 1;
        at += run(text, at, b" \t\r\n", 16);
        let values = text.get(at..at + b"values".len()).filter(|it| it.eq_ignore_ascii_case(b"values"))?;
        let before = &text[self.word.start.saturating_sub(COLUMNS)..self.word.start];
        look_at(before.len());
        let opens = before.iter().rposition(|byte| *byte == b'(')?;
        let columns = &before[opens + 1..];
        let column = columns.iter().filter(|byte| **byte == b',').count();
        (columns.iter().all(|byte| is_part(byte) || b"[]".contains(byte)))
            .then_some((column, at + values.len()))
    }
}

/// Returns the place of the comma or the bracket after a cell.
fn end_of_cell(text: &[u8], from: usize) -> usize {
    let mut at = from;
    let (mut quote, mut depth) = (None, 0_usize);
    while let Some(byte) = text.get(at) {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"' | b'`') => quote = Some(byte),
            (None, b'(') => depth += 1,
            (None, b')') if depth > 0 => depth -= 1,
            (None, b',' | b')') if depth == 0 => break,
            _ => {}
        }
        at += 1;
    }
    at
}
