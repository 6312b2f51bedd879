//! Check that a file has no secrets, piece by piece. An append is judged from its start, with some bytes
//! before it.

use super::lines::Place;
use crate::text::secret::{CONTEXT, Secret, find};

/// Bytes that are held before they are searched. The last piece may exceed them.
const HELD: usize = 256 << 10;

/// Check of a file for secrets.
pub(super) struct Secrets {
    /// Place where the check starts.
    from: Place,
    /// Bytes before that place, which are fed first.
    back: usize,
    /// Line feeds among those bytes.
    back_lines: u64,
    /// Bytes that are searched next, with bytes around them.
    held: Vec<u8>,
    /// Number of held bytes whose secrets have been judged.
    judged: usize,
    /// Bytes that were fed and are no longer held.
    dropped: usize,
    /// Line feeds among those bytes.
    dropped_lines: u64,
}

impl Secrets {
    /// Bytes before a place that are fed first to continue from there.
    pub(super) const LOOKS_BACK: u64 = CONTEXT as u64;

    pub(super) fn new(from: Place) -> Self {
        let back = from.offset.min(Self::LOOKS_BACK) as usize;
        let (held, back_lines) = (Vec::new(), 0);
        Self { from, back, back_lines, held, judged: back, dropped: 0, dropped_lines: 0 }
    }

    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<(), String> {
        let known = self.back.saturating_sub(self.dropped + self.held.len());
        // Line feeds before the place are part of its line number already.
        self.back_lines += lines(&piece[..known.min(piece.len())]);
        self.held.extend_from_slice(piece);
        // Searched in large steps, because the bytes around are searched again each time.
        if self.held.len() < HELD {
            return Ok(());
        }
        // The last bytes are judged together with those that follow them.
        let until = self.held.len() - CONTEXT;
        self.judge(until)?;
        // Some bytes that were judged stay, as context of the next ones.
        self.dropped_lines += lines(&self.held[..until - CONTEXT]);
        self.dropped += until - CONTEXT;
        self.held.drain(..until - CONTEXT);
        self.judged = CONTEXT;
        Ok(())
    }

    /// Takes the zero bytes of a hole. So many of them are searched that the bytes before have all their
    /// context, and the bytes after as well; the others cannot be part of a secret.
    pub(super) fn skip(&mut self, length: u64) -> Result<(), String> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.feed(&vec![0; length.min(HELD)])?;
        // Only zeros are held by now.
        self.dropped = self.dropped.saturating_add(length.saturating_sub(HELD));
        Ok(())
    }

    /// Judges the rest. Returns the place where appended bytes start.
    pub(super) fn finish(self) -> Result<Place, String> {
        self.judge(self.held.len())?;
        let fed = (self.dropped + self.held.len()) as u64;
        let offset = self.from.offset + fed.saturating_sub(self.back as u64);
        Ok(Place { offset, line: self.line_at(self.held.len()) })
    }

    /// Refuses secrets up to `until` that were not complete when the bytes before were judged.
    fn judge(&self, until: usize) -> Result<(), String> {
        let is_new = |secret: &Secret| secret.basis.end > self.judged && secret.bytes.end <= until;
        // Others were judged with the bytes before, or are judged with those that follow.
        let Some(secret) = find(&self.held).into_iter().find(is_new) else { return Ok(()) };
        let line = self.line_at(secret.bytes.start);
        Err(format!(
            "must not contain secrets by a rule; line {line} has what looks like one: {}",
            secret.kind
        ))
    }

    fn line_at(&self, at: usize) -> u64 {
        self.from.line + self.dropped_lines + lines(&self.held[..at]) - self.back_lines
    }
}

fn lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}
