//! Formats of lists.

use std::fmt;
use std::str::FromStr;

use garth_engine::error::{Error, Result};

/// Format of a list of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Chat Completions of `OpenAI`.
    OpenAi,
    /// Messages of Anthropic.
    Anthropic,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        })
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Self::OpenAi, Self::Anthropic];
        all.into_iter().find(|format| format.to_string() == text).ok_or_else(|| {
            Error::invalid(format!("{text}: is no format of lists; write openai or anthropic"))
        })
    }
}
