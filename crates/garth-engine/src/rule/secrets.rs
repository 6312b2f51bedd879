//! Files that may have no secrets, judged piece by piece: what an append leaves is judged from where it
//! begins, with some bytes before that.

use super::lines::Place;
use crate::text::secret::{CONTEXT, Secret, find};

/// Bytes that are held at most, besides a piece: looked at once they are there.
const HELD: usize = 256 << 10;

/// The check of a file for secrets.
pub(super) struct Secrets {
    /// Where the check begins.
    from: Place,
    /// Bytes before that, which are fed first, and line feeds among them.
    back: usize,
    back_lines: u64,
    /// Bytes that are looked at next, and what is around them.
    held: Vec<u8>,
    /// Secrets that so many of them make were judged before.
    judged: usize,
    /// What was fed and is no longer held, in bytes and in line feeds.
    dropped: usize,
    dropped_lines: u64,
}

impl Secrets {
    /// Bytes before a place that are fed first to go on from there.
    pub(super) const LOOKS_BACK: u64 = CONTEXT as u64;

    pub(super) fn new(from: Place) -> Self {
        let back = from.offset.min(Self::LOOKS_BACK) as usize;
        let (held, back_lines) = (Vec::new(), 0);
        Self { from, back, back_lines, held, judged: back, dropped: 0, dropped_lines: 0 }
    }

    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<(), String> {
        let known = self.back.saturating_sub(self.dropped + self.held.len());
        self.back_lines += lines(&piece[..known.min(piece.len())]);
        self.held.extend_from_slice(piece);
        if self.held.len() < HELD {
            return Ok(());
        }
        // the last ones are judged with what comes behind them
        let until = self.held.len() - CONTEXT;
        self.judge(until)?;
        self.dropped_lines += lines(&self.held[..until - CONTEXT]);
        self.dropped += until - CONTEXT;
        self.held.drain(..until - CONTEXT);
        self.judged = CONTEXT;
        Ok(())
    }

    /// Judges the rest, and says where what is appended begins.
    pub(super) fn finish(self) -> Result<Place, String> {
        self.judge(self.held.len())?;
        let fed = (self.dropped + self.held.len()) as u64;
        let offset = self.from.offset + fed.saturating_sub(self.back as u64);
        Ok(Place { offset, line: self.line_at(self.held.len()) })
    }

    /// Refuses secrets up to `until` that bytes behind those that were judged before have made.
    fn judge(&self, until: usize) -> Result<(), String> {
        let is_new = |secret: &Secret| secret.basis.end > self.judged && secret.bytes.end <= until;
        let Some(secret) = find(&self.held).into_iter().find(is_new) else { return Ok(()) };
        let line = self.line_at(secret.bytes.start);
        Err(format!(
            "may have no secrets, as all files there; line {line} has what looks like one: {}",
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
