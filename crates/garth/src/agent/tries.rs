//! A change that begins anew with what it reads when others were faster.

use crate::error::{Error, ErrorKind};

/// How often a change that lost a race looks again: one of many that change the same file wins each time.
const TRIES: usize = 1000;

/// The tries of a change.
#[derive(Debug, Default)]
pub(crate) struct Tries(usize);

impl Tries {
    /// Whether to try once more after this.
    pub(crate) fn again(&mut self, error: &Error) -> bool {
        self.0 += 1;
        // a conflict that has no path is about what the caller asked for
        error.is(ErrorKind::Conflict) && error.path().is_some() && self.0 < TRIES
    }
}
