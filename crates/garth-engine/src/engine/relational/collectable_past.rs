//! Report of what collections would remove of the past of a node.

use super::content_search::{Span, joined};
use super::reads::tree_rows::MAX;
use crate::fs::store::Collectable;

/// Past of a node, of which a collection would remove a part.
#[derive(Debug)]
pub struct NodePast {
    /// First commit whose state stays readable.
    oldest: u64,
    /// Commit that took the last name of the node; `None` if it has one.
    unlinked: Option<u64>,
    /// States whose content goes before the past does.
    gone: Vec<Span>,
}

impl NodePast {
    /// Returns the past of a node. `unlinked` is the commit that took its last name, `spans` are the states
    /// whose content is gone or would be, and `oldest` is the first commit whose state stays readable.
    pub fn new(spans: Vec<Span>, unlinked: Option<u64>, oldest: u64) -> Self {
        let mut past = Self { oldest, unlinked, gone: joined(spans) };
        if past.has_ended() {
            // The last content of a removed file waits until nobody has it open, and then goes with the node.
            past.gone.retain(|span| Some(span.till) != unlinked);
        }
        for span in &mut past.gone {
            if Some(span.till) == unlinked {
                // The last content is live.
                span.till = MAX;
            }
        }
        past
    }

    /// Returns true if no readable state shows the node.
    fn has_ended(&self) -> bool {
        self.unlinked.is_some_and(|last| last <= self.oldest)
    }

    /// Returns true if live extents have to be counted.
    pub fn has_no_name(&self) -> bool {
        self.unlinked.is_some()
    }

    /// Counts an extent: its first commit, its end (0 for a live one) and its length.
    pub fn count_extent(&self, (since, till, len): (u64, u64, u64), report: &mut Collectable) {
        // Written without a name, which no state shows.
        if self.unlinked.is_some_and(|last| since > last) {
            return;
        }
        let end = if till == 0 { MAX } else { till };
        // Because of that wait, the past goes before it.
        let is_first = |span: &Span| span.till < MAX || end > self.oldest;
        if self.gone.iter().any(|span| span.since <= since && end <= span.till && is_first(span)) {
            report.content_bytes += len;
        } else if self.has_ended() || end <= self.oldest {
            report.ended_bytes += len;
        }
    }

    /// Returns the last commit whose versions are counted, and the number of them that stay.
    pub fn counted_versions(&self) -> (u64, u64) {
        match self.unlinked.filter(|_| self.has_ended()) {
            Some(last) => (last, 0),
            // The newest one until then is that of the oldest state.
            None => (self.oldest, 1),
        }
    }
}
