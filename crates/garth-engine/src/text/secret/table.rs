//! Values of a column whose head says that they are secret, in tables of Markdown and in rows of values
//! separated by tabs, commas or semicolons.

use super::assigned::run;
use super::links;
use super::span::Secret;
use super::value::{Named, Tie};
use super::words::{is_word, look_at};

/// Limits of a table below a name: its bytes, and its rows.
const TABLE: usize = 1 << 10;
const ROWS: usize = 24;
/// Number of rows without a secret after which a table is about something else.
const MISSES: usize = 4;
/// Number of bytes of a row that tell whether it is one.
const BEGINNING: usize = 96;
/// Limit on the bytes of a head after its name.
const CELL: usize = 40;
/// Limit on the bytes of the heads before a name, and of those after it.
const HEAD: usize = 160;

impl Named<'_> {
    /// Finds the values below a name that is the head of a column.
    pub(super) fn column(&self, found: &mut Vec<Secret>) {
        let Some(column) = self.head() else { return };
        let text = self.text;
        let rest = &text[self.word.end..text.len().min(self.word.end + TABLE)];
        look_at(rest.len().min(HEAD));
        let mut from = match rest.iter().position(|byte| *byte == b'\n') {
            Some(length) => length + 1,
            None => return,
        };
        let mut misses = 0;
        for _ in 0..ROWS {
            let length = rest[from..].iter().position(|byte| *byte == b'\n').unwrap_or(rest.len() - from);
            let row = &rest[from..from + length];
            look_at(length);
            let mut cells = row.split(|byte| *byte == column.sign);
            // Other lines are judged without the lines before them (`named_before`), so none is a row here.
            let is_row = row.iter().take(BEGINNING).any(|byte| *byte == column.sign)
                && (!b",;".contains(&column.sign) || !row.trim_ascii().contains(&b' '));
            if !is_row || cells.clone().take(column.of + 1).count() != column.of {
                return;
            }
            let before: usize = cells.by_ref().take(column.at).map(|cell| cell.len() + 1).sum();
            let Some(cell) = cells.next() else { return };
            let place = self.word.end + from + before + run(cell, 0, b" *", cell.len());
            let end = self.word.end + from + before + cell.len();
            // A head below a head: the same rows would be read again for each of them.
            if cell.trim_ascii() == &text[self.word.clone()] {
                return;
            }
            // A cell with blanks is a sentence.
            let is_value = !cell.trim_ascii().contains(&b' ');
            let secret = self.value(place, Tie::Sign).filter(|it| is_value && it.bytes.end <= end);
            misses = if secret.is_some() { 0 } else { misses + 1 };
            found.extend(secret);
            if misses > MISSES {
                return;
            }
            from += length + 1;
            if from >= rest.len() {
                return;
            }
        }
    }

    /// Returns the column of which this name is the head.
    pub(super) fn head(&self) -> Option<Column> {
        let text = self.text;
        let cell = &text[self.word.end..text.len().min(self.word.end + CELL)];
        let cell = &cell[..cell.iter().position(|byte| b"|,;\t\r\n".contains(byte)).unwrap_or(cell.len())];
        // "password of the database" is the head of passwords, "password policy" is not.
        let mut more = cell.split(|byte| b"\"'`*) ".contains(byte)).filter(|word| !word.is_empty());
        let is_link = |word| links::is_link(word, self.judgement);
        if !more.next().is_none_or(is_link) || cell.len() == CELL {
            return None;
        }
        let before = &text[self.word.start.saturating_sub(HEAD)..self.word.start];
        look_at(before.len().min(HEAD));
        let line = before.iter().rposition(|byte| *byte == b'\n').map_or(before, |at| &before[at + 1..]);
        if line.len() == HEAD {
            return None;
        }
        let behind = &text[self.word.end..text.len().min(self.word.end + HEAD)];
        let behind = &behind[..behind.iter().position(|byte| *byte == b'\n')?];
        let has = |sign: u8| line.contains(&sign) || behind.contains(&sign);
        let sign = b"|\t;,".iter().copied().find(|sign| has(*sign))?;
        let cells = |part: &[u8]| part.split(|byte| *byte == sign).count() - 1;
        let own = line.rsplit(|byte| *byte == sign).next().unwrap_or_default();
        // Prose has blanks around signs.
        let is_prose = |part: &[u8]| sign != b'|' && part.contains(&b' ');
        let is_cell = own.iter().all(|byte| is_word(*byte) || b" *`\"'".contains(byte));
        let words = own.trim_ascii().split(|byte| *byte == b' ').count();
        if is_prose(line) || is_prose(behind) || !is_cell || words > 3 {
            return None;
        }
        Some(Column { sign, at: cells(line), of: cells(line) + cells(behind) + 1 })
    }
}

/// Place of a column in its table.
pub(super) struct Column {
    /// Separator of cells.
    sign: u8,
    /// Number of cells before it.
    at: usize,
    /// Number of cells of a row.
    of: usize,
}
