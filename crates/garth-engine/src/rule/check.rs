//! The check of one file's content, fed piece by piece: the judge of commits and the look at what is there
//! already read in different ways.

use super::lines::{Lines, Place};
use super::schema::{Budget, MAX_STEPS, SchemaText};
use super::secrets::Secrets;
use super::{Rule, json};
use crate::path::TreePath;

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
        if let Some(reason) = rule.demand().expiry_refused(expires) {
            return Err(reason);
        }
        let checking = rule.demand().begin(size, Place::START)?;
        Ok(checking.map(|checking| Self { checking, budget: Budget::new(MAX_STEPS) }))
    }

    /// Takes the next piece of the content.
    ///
    /// # Errors
    /// As [`Check::begin`].
    pub fn feed(&mut self, piece: &[u8]) -> Result<(), String> {
        self.checking.feed(piece, &mut self.budget)
    }

    /// Ends the check. Gives the place from which to go on once the file has grown.
    ///
    /// # Errors
    /// As [`Check::begin`].
    pub fn finish(mut self) -> Result<Option<Place>, String> {
        self.checking.finish(&mut self.budget)
    }
}

/// A check on its way.
pub(super) enum Checking<'a> {
    /// Of the content as one value.
    Whole {
        /// What there was of it yet.
        text: Vec<u8>,
        schema: Option<&'a SchemaText>,
    },
    /// Of each line.
    Lines(Lines<'a>),
    /// For secrets.
    Secrets(Secrets),
}

impl Checking<'_> {
    /// Takes the next piece of the content.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn feed(&mut self, piece: &[u8], budget: &mut Budget) -> Result<(), String> {
        match self {
            Self::Whole { text, .. } => {
                text.extend_from_slice(piece);
                Ok(())
            }
            Self::Lines(lines) => lines.feed(piece, budget).map_err(|wrong| no_lines(&wrong)),
            Self::Secrets(secrets) => secrets.feed(piece),
        }
    }

    /// Ends the check. Gives the place from which to go on once the file has grown.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn finish(self, budget: &mut Budget) -> Result<Option<Place>, String> {
        match self {
            Self::Whole { text, .. } if text.is_empty() => {
                Err("has to be JSON, as all files there, and would be empty".to_owned())
            }
            Self::Whole { text, schema: None } => match json::skip(&text) {
                Ok(()) => Ok(None),
                Err(flaw) => Err(format!("has to be JSON, as all files there: {flaw}")),
            },
            Self::Whole { text, schema: Some(schema) } => {
                let judged = schema.schema().check_text(&text, budget);
                judged.map(|()| None).map_err(|wrong| format!("breaks the schema of files there: {wrong}"))
            }
            Self::Lines(lines) => lines.finish(budget).map(Some).map_err(|wrong| no_lines(&wrong)),
            Self::Secrets(secrets) => secrets.finish().map(Some),
        }
    }
}

fn no_lines(wrong: &super::lines::WrongLine) -> String {
    format!("breaks the rule for lines of files there: {wrong}")
}
