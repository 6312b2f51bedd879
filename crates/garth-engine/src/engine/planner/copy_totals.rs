//! Limits on the copies of a batch. They hold for all of its copies together, or a small batch could create
//! any number of rows in one commit.

use crate::error::{Error, ErrorKind, Result};
use crate::model::{MAX_COPIED_NAMES, MAX_COPIED_PIECES};

/// Names and extents that the copies of a batch have created so far.
#[derive(Default)]
pub(super) struct CopyTotals {
    names: usize,
    pieces: usize,
}

impl CopyTotals {
    /// Counts names that a copy is about to create.
    pub(super) fn names(&mut self, more: usize) -> Result<()> {
        let advice = "names; copy the directories below one by one, each in a commit of its own";
        count((&mut self.names, MAX_COPIED_NAMES), more, advice)
    }

    /// Counts extents that a copy is about to create.
    pub(super) fn pieces(&mut self, more: usize) -> Result<()> {
        let advice = "pieces of content; copy it in parts, each in a commit of its own";
        count((&mut self.pieces, MAX_COPIED_PIECES), more, advice)
    }
}

fn count((all, most): (&mut usize, usize), more: usize, advice: &str) -> Result<()> {
    // Does not underflow: a refused count is not added.
    if more > most - *all {
        let message = format!("the copies of a batch make at most {most} {advice}");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    *all += more;
    Ok(())
}
