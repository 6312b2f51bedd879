//! The check of one file's content, fed piece by piece: the judge of commits and the look at what is there
//! already read in different ways.

use super::{Demand, Rule, what_is_no_json};
use crate::path::TreePath;

/// Where in a file a check goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Bytes before it.
    pub offset: u64,
    /// Lines before it.
    pub line: u64,
}

pub(super) struct Budget;
pub(super) fn budget() -> Budget {
    Budget
}

/// Something that a rule would refuse as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Where.
    pub path: TreePath,
    /// What is wrong, in words that follow the path.
    pub reason: String,
}

/// A check of a file that is there, for a rule that is to be set.
pub struct Check<'a> {
    checking: Checking<'a>,
    budget: Budget,
}

impl<'a> Check<'a> {
    /// Begins with a file of this size. `None` if nothing of it is to be read.
    ///
    /// # Errors
    /// What is wrong, in words that follow the path.
    pub fn begin(rule: &'a Rule, size: u64, expires: bool) -> Result<Option<Self>, String> {
        if expires && *rule.demand() == Demand::AppendOnly {
            return Err("is to be append-only, and would expire".to_owned());
        }
        let checking = rule.demand().begin(size, Place::default())?;
        Ok(checking.map(|checking| Self { checking, budget: budget() }))
    }

    /// Takes the next piece of the content.
    ///
    /// # Errors
    /// As [`Check::begin`].
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), String> {
        self.checking.feed(piece, &mut self.budget)
    }

    /// Ends the check.
    ///
    /// # Errors
    /// As [`Check::begin`].
    pub fn finish(mut self) -> Result<(), String> {
        self.checking.finish(&mut self.budget).map(drop)
    }
}

/// A check on its way.
pub(super) enum Checking<'a> {
    /// Of the content as a whole.
    Json(Vec<u8>, std::marker::PhantomData<&'a ()>),
}

impl Checking<'_> {
    pub(super) fn json(size: u64) -> Self {
        Self::Json(Vec::with_capacity(usize::try_from(size).unwrap_or_default()), std::marker::PhantomData)
    }

    /// Takes the next piece of the content.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn feed(&mut self, piece: &[u8], _budget: &mut Budget) -> Result<(), String> {
        match self {
            Self::Json(text, _) => {
                text.extend_from_slice(piece);
                Ok(())
            }
        }
    }

    /// Ends the check. Gives the place from which to go on once the file has grown.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn finish(self, _budget: &mut Budget) -> Result<Option<Place>, String> {
        match self {
            Self::Json(text, _) => match what_is_no_json(&text) {
                Some(reason) => Err(reason),
                None => Ok(None),
            },
        }
    }
}
