//! A change that begins anew with what it reads when others were faster.

use garth_engine::error::{Error, ErrorKind};

/// How often a change that lost a race looks again: one of many that change the same file wins each time.
const TRIES: usize = 1000;

/// The tries of a change.
#[derive(Debug)]
pub(crate) struct Tries {
    made: usize,
    most: usize,
}

impl Default for Tries {
    fn default() -> Self {
        Self::at_most(TRIES)
    }
}

impl Tries {
    /// So many: for a change that reads much.
    pub(crate) fn at_most(most: usize) -> Self {
        Self { made: 0, most }
    }

    /// Whether to try once more after this.
    pub(crate) fn again(&mut self, error: &Error) -> bool {
        self.made += 1;
        // a conflict that has no path is about what the caller asked for
        error.is(ErrorKind::Conflict) && error.path().is_some() && self.made < self.most
    }
}
