//! The formats of transcripts, and their names.

use std::fmt;
use std::str::FromStr;

use garth_engine::error::{Error, Result};

/// Format of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TranscriptFormat {
    /// The lines of `messages.jsonl`.
    Garth,
    /// Messages of pi-ai.
    Pi,
    /// Chat Completions of `OpenAI`.
    OpenAi,
    /// Messages of Anthropic.
    Anthropic,
    /// Text with headings, for people.
    Markdown,
}

impl TranscriptFormat {
    const ALL: [Self; 5] = [Self::Garth, Self::Pi, Self::OpenAi, Self::Anthropic, Self::Markdown];

    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Garth => "garth",
            Self::Pi => "pi",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Markdown => "markdown",
        }
    }

    /// Returns true if imported messages of it are also stored as they came.
    pub(super) const fn is_native(self) -> bool {
        matches!(self, Self::Pi | Self::OpenAi | Self::Anthropic)
    }
}

impl fmt::Display for TranscriptFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TranscriptFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == text).ok_or_else(|| {
            let all = "garth, pi, openai, anthropic or markdown";
            Error::invalid(format!("{text}: is no format of transcripts; write {all}"))
        })
    }
}
