//! Reads lines of messages and events by their numbers. The cost of a read grows with the lines that are
//! asked for, not with those before them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use crate::boxed;
use crate::registry::projections;
use crate::registry::projections::sessions::line_key;
use crate::session::handle::{Sessions, missing};
use crate::session::store::files::Log;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{At, ByteRange, FindItem, FindLine, FindQuery, MAX_PAGE, MAX_READ};
use garth_engine::path::TreePath;

/// Bytes read at a time.
const PIECE: u64 = 128 << 10;

/// Longest line that is read. A rule prevents longer ones.
const MAX_LINE: usize = 16 << 20;

/// Default of the bytes at which a page ends, 4 MiB.
pub(crate) const MAX_PAGE_BYTES: usize = 4 << 20;

/// Lines read at a time where some may be retracted.
const PART: u64 = 512;

/// Limit on the lines of a page.
const MAX_PAGE_LINES: usize = 10_000;

/// A selection of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Select {
    /// The log.
    #[doc(hidden)]
    pub log: Log,
    /// Line numbers; the first is 1.
    #[doc(hidden)]
    pub lines: RangeInclusive<u64>,
    /// True to include retracted messages.
    #[doc(hidden)]
    pub retracted: bool,
    /// Bytes at which a page ends.
    pub(crate) page_bytes: usize,
}

impl Select {
    /// Selects messages, retracted ones left out.
    pub fn messages(lines: RangeInclusive<u64>) -> Self {
        Self { log: Log::Messages, lines, retracted: false, page_bytes: MAX_PAGE_BYTES }
    }

    /// Selects events.
    pub fn events(lines: RangeInclusive<u64>) -> Self {
        Self { log: Log::Events, lines, retracted: true, page_bytes: MAX_PAGE_BYTES }
    }

    /// Includes retracted messages.
    #[must_use]
    pub fn with_retracted(self) -> Self {
        Self { retracted: true, ..self }
    }
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// Line number; the first is 1.
    pub number: u64,
    /// Byte range in the file, without the line feed.
    pub bytes: Range<u64>,
    /// Text, without the line feed.
    pub text: String,
}

/// A page of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lines {
    /// The lines, in their order.
    pub items: Vec<Line>,
    /// Number at which the next page starts, if more lines were asked for.
    pub next: Option<u64>,
}

/// End of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct End {
    /// Number of lines.
    pub lines: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// True if the last line lacks its line feed.
    pub open: bool,
}

impl Sessions<'_> {
    /// Returns a page with as many of the selected lines as fit.
    ///
    /// # Errors
    /// `NotFound` for a missing session; from the filesystem.
    #[boxed]
    pub async fn lines(&self, session: &str, select: &Select) -> Result<Lines> {
        let most = (MAX_PAGE_LINES, select.page_bytes);
        if select.log == Log::Messages && !select.retracted && self.has_retracted(session).await? {
            return self.live_lines(session, select.lines.clone(), most).await;
        }
        let file = self.file(session, select.log.file())?;
        let page = self.lines_of(&file, select.lines.clone(), most).await;
        page.map_err(|error| no_session(error, session))
    }

    /// Returns a page of messages, without those that were retracted. Steps over long runs of these.
    async fn live_lines(
        &self,
        session: &str,
        lines: RangeInclusive<u64>,
        (most, most_bytes): (usize, usize),
    ) -> Result<Lines> {
        let (mut page, mut bytes) = (Lines::default(), 0);
        let mut next = (*lines.start()).max(1);
        while next <= *lines.end() {
            let last = lines.end().min(&next.saturating_add(PART - 1)).to_owned();
            let gone = self.retracted(session, next..=last).await?;
            // A run of retracted lines in this part may continue after it.
            let after = gone.iter().map(|lines| lines.end() + 1).filter(|after| *after > last).max();
            let read = self.raw_lines(session, Log::Messages, next..=last, usize::MAX).await?;
            let is_end = read.items.is_empty() && read.next.is_none();
            for line in read.items {
                if gone.iter().any(|lines| lines.contains(&line.number)) {
                    continue;
                }
                if page.items.len() == most || (bytes > 0 && bytes + line.text.len() > most_bytes) {
                    page.next = Some(line.number);
                    return Ok(page);
                }
                bytes += line.text.len();
                page.items.push(line);
            }
            // A selection can have no end: beyond the log, the loop would never finish.
            if is_end {
                break;
            }
            next = read.next.unwrap_or(after.unwrap_or(last + 1));
        }
        Ok(page)
    }

    /// Returns the end of a log.
    ///
    /// # Errors
    /// `NotFound` for a missing session; from the filesystem.
    #[boxed]
    pub async fn end(&self, session: &str, log: Log) -> Result<End> {
        self.end_of(&self.file(session, log.file())?).await.map_err(|error| no_session(error, session))
    }

    /// Returns the end of a file of lines.
    pub(crate) async fn end_of(&self, file: &TreePath) -> Result<End> {
        // Read before the key: if the file grows in between, the key is the later one, and its line the end.
        let size = self.fs.stat(&At::from(file)).await?.size;
        let query = FindQuery::ends(projections::SESSION_LINE).within(file.clone()).limit(1);
        let found = self.fs.find(&query).await?.items;
        let Some(line) = found.into_iter().find_map(|item| item.line) else { return Ok(End::default()) };
        let open = size > line.bytes.start;
        Ok(End { lines: line.number - u64::from(!open), bytes: size.max(line.bytes.start), open })
    }

    /// Returns the lines of a log that have a key, from a line number on, in their order.
    pub(crate) async fn keyed(
        &self,
        session: &str,
        log: Log,
        key: &str,
        from: u64,
        limit: usize,
    ) -> Result<Vec<FindItem>> {
        self.keyed_in(&self.file(session, log.file())?, key, from, limit).await
    }

    async fn keyed_in(&self, file: &TreePath, key: &str, from: u64, limit: usize) -> Result<Vec<FindItem>> {
        let query = FindQuery::new(projections::SESSION_LINE).equal(key).lines_from(from).limit(limit);
        Ok(self.fs.find(&query.within(file.clone())).await?.items)
    }

    /// Returns the first line that has a key.
    pub(crate) async fn line_with(&self, session: &str, log: Log, key: &str) -> Result<Option<Line>> {
        let found = self.keyed(session, log, key, 0, 1).await?;
        let Some(place) = found.into_iter().find_map(|item| item.line) else { return Ok(None) };
        let text = self.text_of(&self.file(session, log.file())?, place.bytes.clone()).await?;
        Ok(Some(Line { number: place.number, bytes: place.bytes, text }))
    }

    /// Returns the place of the first line that has each of these keys, in the order of the keys; `None`
    /// where no line has one.
    ///
    /// The keys are read in their order: a page covers all keys before its end, and the next page starts at
    /// the first key that is left. Adjacent keys, such as those of one writer, take one page; keys far apart
    /// take a short page each.
    pub(super) async fn places_of(
        &self,
        session: &str,
        log: Log,
        keys: &[String],
    ) -> Result<Vec<Option<FindLine>>> {
        let file = self.file(session, log.file())?;
        let of_lines = || FindQuery::new(projections::SESSION_LINE).within(file.clone());
        // The index stores long keys in a shorter form, and its pages return that form.
        let keys: Vec<String> = keys.iter().map(|key| of_lines().equal(key).from).collect();
        let mut left: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
        let (mut found, mut after) = (BTreeMap::new(), None);
        let mut limit = left.len();
        while let (Some(first), Some(last)) = (left.first().copied(), left.last().copied()) {
            let range = of_lines().from(first).to(format!("{last}\0"));
            let answer = self.fs.find(&range.after(after.take()).limit(limit.clamp(1, MAX_PAGE))).await?;
            let end = answer.items.last().map(|item| item.key.clone());
            for item in answer.items {
                if let Some(line) = item.line.filter(|_| left.contains(&*item.key)) {
                    // Of several lines with one key the first is returned first.
                    found.entry(item.key).or_insert(line);
                }
            }
            let Some(next) = answer.next else { break };
            match end {
                Some(end) => {
                    let before = left.len();
                    left.retain(|key| *key > &*end);
                    // A page with few keys consists mostly of lines without one: the lines that are read in
                    // vain stay in proportion to the keys found.
                    limit = 2 * (before - left.len());
                }
                None => after = Some(next),
            }
        }
        Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
    }

    /// Returns the texts of the first of some lines of a log: at least one, and as many as one answer holds.
    pub(super) async fn first_texts(
        &self,
        session: &str,
        log: Log,
        lines: &[Range<u64>],
    ) -> Result<Vec<String>> {
        let file = self.file(session, log.file())?;
        let fits = |bytes: &Range<u64>| bytes.end - bytes.start <= MAX_READ as u64;
        // One answer holds no line longer than `MAX_READ`; it is read in pieces, by itself.
        if let Some(long) = lines.first().filter(|bytes| !fits(bytes)) {
            return Ok(vec![self.text_of(&file, long.clone()).await?]);
        }
        let asked: Vec<_> = lines.iter().take_while(|bytes| fits(bytes)).take(MAX_PAGE).cloned().collect();
        let items: Vec<_> =
            asked.iter().map(|bytes| (At::from(&file), ByteRange::from(bytes.clone()))).collect();
        let answers = self.fs.fetch_many(&items).await?.items;
        let texts = asked.into_iter().zip(answers).map(|(bytes, answer)| {
            let (_, text) = answer?;
            if (text.len() as u64) < bytes.end - bytes.start {
                return Err(Error::at(ErrorKind::Stale, &file, "was cut while it was read"));
            }
            utf8(&file, text.to_vec())
        });
        texts.collect()
    }

    async fn text_of(&self, file: &TreePath, bytes: Range<u64>) -> Result<String> {
        utf8(file, self.bytes_of(file, bytes).await?)
    }

    /// Reads a byte range of a file into memory. The caller bounds it.
    pub(crate) async fn bytes_of(&self, file: &TreePath, bytes: Range<u64>) -> Result<Vec<u8>> {
        let mut read = Vec::new();
        while bytes.start + (read.len() as u64) < bytes.end {
            let offset = bytes.start + read.len() as u64;
            let length = (bytes.end - offset).min(garth_engine::model::MAX_READ as u64);
            let piece = self.fs.read(&At::from(file), ByteRange { offset, length }).await?;
            if piece.is_empty() {
                return Err(Error::at(ErrorKind::Stale, file, "was cut while it was read"));
            }
            read.extend_from_slice(&piece);
        }
        Ok(read)
    }

    /// Returns number and first byte of the nearest indexed line at or before a line.
    async fn place_before(&self, file: &TreePath, number: u64) -> Result<Option<(u64, u64)>> {
        let (key, first) = line_key(number);
        if first == 1 {
            return Ok(Some((1, 0)));
        }
        let found = self.keyed_in(file, &key, first, 1).await?;
        Ok(found.into_iter().find_map(|item| item.line).map(|line| (line.number, line.bytes.start)))
    }

    /// Returns lines, retracted ones included, at most `limit`.
    pub(crate) async fn raw_lines(
        &self,
        session: &str,
        log: Log,
        lines: RangeInclusive<u64>,
        limit: usize,
    ) -> Result<Lines> {
        let lines = self.lines_of(&self.file(session, log.file())?, lines, (limit, MAX_PAGE_BYTES)).await;
        lines.map_err(|error| no_session(error, session))
    }

    /// Returns lines of a file, at most `limit` of them, and about `most` bytes.
    pub(crate) async fn lines_of(
        &self,
        file: &TreePath,
        lines: RangeInclusive<u64>,
        (limit, most): (usize, usize),
    ) -> Result<Lines> {
        let mut page = Lines::default();
        let first = (*lines.start()).max(1);
        // Every 64th line has a key: at most 63 lines are read before the first one that was asked for.
        let Some((mut number, mut start)) = self.place_before(file, first).await? else {
            return Ok(page);
        };
        let (mut pieces, mut taken) = (Pieces::default(), 0);
        let mut at = start;
        while number <= *lines.end() {
            let piece = self.fs.read(&At::from(file), ByteRange { offset: at, length: PIECE }).await?;
            at += piece.len() as u64;
            let is_end = (piece.len() as u64) < PIECE;
            pieces.add(&piece);
            while number <= *lines.end() {
                let Some(line) = pieces.line(is_end, |byte| *byte == b'\n') else { break };
                let length = line.len();
                let bytes = start..start + length as u64;
                if number >= first {
                    // The first line is in the page however long it is, or paging would never get past it.
                    if page.items.len() == limit || (taken > 0 && taken + length > most) {
                        page.next = Some(number);
                        return Ok(page);
                    }
                    taken += length;
                    let text = String::from_utf8_lossy(line).into_owned();
                    page.items.push(Line { number, bytes: bytes.clone(), text });
                }
                (number, start) = (number + 1, bytes.end + 1);
            }
            if is_end {
                break;
            }
            if pieces.rest() > MAX_LINE {
                let message = format!("has a line of more than {MAX_LINE} bytes");
                return Err(Error::at(ErrorKind::TooLarge, file, message));
            }
            crate::retry::yield_now().await;
        }
        Ok(page)
    }
}

/// Text that is read in pieces, and cut into lines.
#[derive(Debug, Default)]
struct Pieces {
    text: Vec<u8>,
    /// Start of the first line that was not returned.
    start: usize,
    /// End of its bytes that have no line feed. If each piece looked at them again, a long line would cost
    /// the square of its length.
    searched: usize,
}

impl Pieces {
    /// Adds a piece, and drops the lines that were returned.
    fn add(&mut self, piece: &[u8]) {
        self.text.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.text.extend_from_slice(piece);
    }

    /// Returns the next line, without its line feed; `None` if its end has not been added yet.
    fn line(&mut self, is_end: bool, is_line_feed: impl FnMut(&u8) -> bool) -> Option<&[u8]> {
        let found = self.text[self.searched..].iter().position(is_line_feed);
        let end = match found.map(|at| self.searched + at) {
            Some(end) => end,
            // Other interfaces may leave out the last line feed.
            None if is_end && self.rest() > 0 => self.text.len(),
            None => {
                self.searched = self.text.len();
                return None;
            }
        };
        let line = self.start..end;
        self.start = (end + 1).min(self.text.len());
        self.searched = self.start;
        Some(&self.text[line])
    }

    /// Returns the number of bytes that were not returned.
    fn rest(&self) -> usize {
        self.text.len() - self.start
    }
}

fn utf8(file: &TreePath, line: Vec<u8>) -> Result<String> {
    String::from_utf8(line).map_err(|_| Error::at(ErrorKind::Corrupt, file, "has a line that is not UTF-8"))
}

/// Returns the error for a session whose file is missing.
fn no_session(error: Error, session: &str) -> Error {
    if error.is_absent() { missing(session) } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines of a text that is read in pieces, and the number of bytes that were compared with a
    /// line feed.
    fn split(text: &[u8], piece: usize) -> (Vec<Vec<u8>>, usize) {
        let (mut pieces, mut lines, mut compared) = (Pieces::default(), Vec::new(), 0);
        let parts = text.chunks(piece).map(|part| (part, false)).chain([(&b""[..], true)]);
        for (part, is_end) in parts {
            pieces.add(part);
            let mut is_line_feed = |byte: &u8| {
                compared += 1;
                *byte == b'\n'
            };
            while let Some(line) = pieces.line(is_end, &mut is_line_feed) {
                lines.push(line.to_vec());
            }
        }
        (lines, compared)
    }

    #[test]
    fn each_byte_of_a_long_line_is_compared_once() {
        for size in [10_000, 20_000] {
            let text = [&b"short\n"[..], &vec![b'x'; size], b"\n\nopen"].concat();
            for piece in [10, 4096] {
                let (lines, compared) = split(&text, piece);
                assert_eq!((lines.len(), lines[1].len(), compared), (4, size, text.len()), "{piece}");
            }
        }
    }

    #[test]
    fn lines_do_not_depend_on_pieces() {
        for text in ["", "\n", "a", "a\n", "\n\na\n\nbcd\ne", "one\ntwo\n"] {
            let due: Vec<Vec<u8>> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
            for piece in 1..=text.len() + 1 {
                assert_eq!(split(text.as_bytes(), piece).0, due, "{text:?} in pieces of {piece}");
            }
        }
    }
}
