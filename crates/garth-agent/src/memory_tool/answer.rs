//! Answers of the memory tool.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::once::Outcome;
use garth_engine::error::Error;

/// Answer to a command: a text for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MemoryToolResult")]
#[non_exhaustive]
pub struct Answer {
    /// Text for the model.
    pub text: String,
    /// True if the command failed and changed nothing; the text is the reason.
    pub is_error: bool,
}

impl Answer {
    pub(super) fn done(text: String) -> Self {
        Self { text, is_error: false }
    }

    pub(super) fn failed(text: String) -> Self {
        Self { text, is_error: true }
    }
}

impl Outcome for Answer {}

/// Reason why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Text for the model, which can correct the command.
    Model(String),
    /// Error for the program: the storage failed, or access is denied.
    Program(Error),
}

impl Failure {
    pub(super) fn model(text: impl Into<String>) -> Self {
        Self::Model(text.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Program(error)
    }
}
