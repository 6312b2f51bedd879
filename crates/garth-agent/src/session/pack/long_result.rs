//! Long results of tools, and how many bytes of them a pack shows.

use std::sync::OnceLock;

use super::options::LEAST_SHOWN;
use crate::count::count;
use crate::session::content::swap::Chunked;
use crate::session::handle::Sessions;
use crate::session::log::draft::Role;
use crate::session::log::lines::Line;
use crate::session::log::message::{Block, Message};
use crate::session::render::{Cut, cut_tokens, flat};
use garth_engine::error::Result;

/// Bytes whose tokens are counted to estimate those of a long text, at its start and at its end.
const SAMPLE: usize = 4 << 10;

/// Length from which the tokens of a text are estimated first.
const LONG: usize = 64 << 10;

/// Attempts to find as many bytes as have some number of tokens.
const ATTEMPTS: usize = 6;

/// A result that is long enough to be shown in part.
#[derive(Debug)]
pub(super) struct LongResult {
    line: Line,
    /// The message, with a result that has no text.
    message: Message,
    text: String,
    swap: OnceLock<Chunked>,
}

impl LongResult {
    /// Returns the result of a message, or `None` if it is short, or no result.
    pub(super) fn of(line: &Line, message: &Message) -> Option<Self> {
        let [Block::ToolResult { call_id, name, error, content }] = &*message.content else { return None };
        let text = flat(content);
        if message.role != Role::Tool || text.len() as u64 <= 2 * LEAST_SHOWN {
            return None;
        }
        let (call_id, name, error) = (call_id.clone(), name.clone(), *error);
        let content = vec![Block::ToolResult { call_id, name, error, content: Vec::new() }];
        let message = Message { content, ..message.clone() };
        Some(Self { line: line.clone(), message, text, swap: OnceLock::new() })
    }

    /// Returns the estimated tokens of a text that has many more than `most`, without counting all of it.
    pub(super) fn estimate_beyond(&self, most: u64) -> Option<u64> {
        if self.text.len() < LONG {
            return None;
        }
        let head = &self.text[..self.text.floor_char_boundary(SAMPLE)];
        let tail = &self.text[self.text.ceil_char_boundary(self.text.len() - SAMPLE)..];
        let tokens = (count(head) + count(tail)) as u64;
        let all = self.text.len() as u64 / (head.len() + tail.len()) as u64 * tokens;
        (all > most).then_some(all)
    }

    /// Returns the swap entry that leads to the whole result, with its chunk.
    pub(super) fn swap(&self, sessions: &Sessions<'_>) -> Result<&Chunked> {
        if let Some(swap) = self.swap.get() {
            return Ok(swap);
        }
        // The id is a hash of the line. It is computed once, though several lengths are tried.
        let bytes = self.text.len();
        let summary = format!("result of a tool in messages:{}, {bytes} bytes", self.line.number);
        let swap = sessions.swap_of_cut(&self.line, summary)?;
        Ok(self.swap.get_or_init(|| swap))
    }

    /// Returns the shortest cut, and its tokens.
    pub(super) fn shortest(&self, sessions: &Sessions<'_>) -> Result<(Cut, u64)> {
        self.shown(sessions, LEAST_SHOWN)
    }

    /// Returns a cut that has at most `most` tokens, or the shortest one, with its tokens.
    pub(super) fn cut_to(&self, sessions: &Sessions<'_>, most: u64) -> Result<(Cut, u64)> {
        let longest = (self.text.len() as u64).saturating_sub(1).max(LEAST_SHOWN);
        // Four bytes a token, until a count says more.
        let mut bytes = most.saturating_mul(4).clamp(LEAST_SHOWN, longest);
        let mut best = None;
        for _ in 0..ATTEMPTS {
            let (cut, tokens) = self.shown(sessions, bytes)?;
            // A little less than this count suggests, so that the next attempt mostly fits.
            let next = (bytes.saturating_mul(most) / tokens.max(1) / 32 * 31).clamp(LEAST_SHOWN, longest);
            let fits = tokens <= most;
            // Once a cut fits, another count has to gain more than an eighth to be worth it.
            let is_last =
                if fits { next <= bytes + bytes / 8 } else { best.is_some() || bytes == LEAST_SHOWN };
            if fits {
                best = Some((cut, tokens));
            }
            if is_last {
                break;
            }
            bytes = next;
        }
        best.map_or_else(|| self.shortest(sessions), Ok)
    }

    fn shown(&self, sessions: &Sessions<'_>, bytes: u64) -> Result<(Cut, u64)> {
        let swap = self.swap(sessions)?.0.id.clone();
        let cut = Cut { line: self.line.number, swap, head: bytes / 4 * 3, tail: bytes / 4 };
        let tokens = cut_tokens(&self.message, &self.text, &cut);
        Ok((cut, tokens))
    }
}
