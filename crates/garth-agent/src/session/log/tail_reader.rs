//! Reads the lines of a log from its end backwards. The cost grows with the lines that are taken, not with
//! those before them.

use std::ops::Range;

use super::draft::Draft;
use super::lines::{End, Line};
use crate::session::handle::Sessions;
use crate::session::store::files::Log;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::model::{At, ByteRange, Entry};
use garth_engine::path::TreePath;

/// Bytes of the first read. Each further read takes as many as are held already, up to [`MOST`].
const FIRST: u64 = 32 << 10;
/// Limit on the bytes of one read.
const MOST: u64 = 1 << 20;

/// Events that are searched for one of a type, from the end.
const MAX_EVENTS: usize = 100_000;

impl Sessions<'_> {
    /// Returns the last event of a type, also in a view of the past.
    ///
    /// # Errors
    /// `TooLarge` if none of the last 100,000 events has this type; from the filesystem.
    pub(crate) async fn last_event(&self, session: &str, kind: &str) -> Result<Option<String>> {
        let file = At::from(self.file(session, Log::Events.file())?);
        let Some(Entry { size, .. }) = self.fs.stat(&file).await.optional()? else { return Ok(None) };
        // Line numbers are found by key, and a view of the past has no keys. They are not needed here.
        let end = End { lines: u64::MAX, bytes: size, open: false };
        let mut back = TailReader::new(self, session, Log::Events, end)?;
        for _ in 0..MAX_EVENTS {
            let Some(line) = back.next().await? else { return Ok(None) };
            let is_it = |draft: &Draft| draft.text("type").as_deref() == Some(kind);
            // Most events are of another type: they are not worth parsing.
            if line.text.contains(kind) && Draft::parse(&line.text).is_ok_and(|draft| is_it(&draft)) {
                return Ok(Some(line.text));
            }
        }
        let message = format!("{session}: none of its last {MAX_EVENTS} events is a {kind}");
        Err(Error::new(ErrorKind::TooLarge, message))
    }
}

/// Iterates over lines, the last first.
pub(crate) struct TailReader<'a> {
    sessions: &'a Sessions<'a>,
    file: TreePath,
    /// Bytes read and not taken yet, from `start` on.
    waiting: Vec<u8>,
    start: u64,
    /// Number of the next line.
    number: u64,
}

impl<'a> TailReader<'a> {
    /// Returns a reader that starts at the end of a log.
    pub(crate) fn new(sessions: &'a Sessions<'a>, session: &str, log: Log, end: End) -> Result<Self> {
        let file = sessions.file(session, log.file())?;
        Ok(Self { sessions, file, waiting: Vec::new(), start: end.bytes, number: end.lines })
    }

    /// Returns the line before the last one returned.
    pub(crate) async fn next(&mut self) -> Result<Option<Line>> {
        if self.number == 0 {
            return Ok(None);
        }
        loop {
            let text = self.waiting.strip_suffix(b"\n").unwrap_or(&self.waiting);
            // The line starts after the line feed of the one before, or at the beginning of the file. Until
            // one of these is in the buffer, more has to be read.
            let first = text.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
            if let Some(first) = first.or((self.start == 0 && !self.waiting.is_empty()).then_some(0)) {
                let bytes: Range<u64> = self.start + first as u64..self.start + text.len() as u64;
                let text = String::from_utf8_lossy(&text[first..]).into_owned();
                self.waiting.truncate(first);
                let number = self.number;
                self.number -= 1;
                return Ok(Some(Line { number, bytes, text }));
            }
            if self.start == 0 {
                return Ok(None);
            }
            self.read().await?;
        }
    }

    /// Reads the bytes before `start`.
    async fn read(&mut self) -> Result<()> {
        let most = (self.waiting.len() as u64).clamp(FIRST, MOST);
        let offset = self.start.saturating_sub(most);
        let range = ByteRange { offset, length: self.start - offset };
        let piece = self.sessions.fs.read(&At::from(&self.file), range).await?;
        if piece.len() as u64 != range.length {
            return Err(Error::at(ErrorKind::Stale, &self.file, "was cut while it was read"));
        }
        self.waiting.splice(..0, piece);
        self.start = offset;
        crate::retry::yield_now().await;
        Ok(())
    }
}
