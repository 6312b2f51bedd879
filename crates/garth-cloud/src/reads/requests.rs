//! The statements that fetch all rows that a read asked for.

use super::fetched::FetchedRows;
use super::round::Round;
use super::{content, log, names, nodes, open_entries, spans};

impl FetchedRows {
    /// Adds the statements that fetch the rows that were asked for. Rows of nodes come with those of names,
    /// so they are sent first.
    pub(crate) fn send(&self, round: &mut Round<'_>) {
        self.log.head.want(());
        names::send(&self.names, round);
        open_entries::send(&self.names, round, self.registry.version());
        nodes::send(&self.nodes, round);
        content::send(&self.contents, round);
        log::send(&self.log, round);
        spans::send(&self.spans, round);
    }
}
