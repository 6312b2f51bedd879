//! `meta.json` of a session, and the words for its state.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::files::META;
use crate::session::handle::{Sessions, missing};
use crate::small::{File, pretty, read_all};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::At;

/// Size limit of `meta.json` and of the small files beside it, 1 MiB.
pub(super) const MAX_FILE: usize = 1 << 20;

/// Whether a session is at work, at rest or at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is at work.
    Active,
    /// It waits for somebody.
    Idle,
    /// It reached its end.
    Done,
    /// It failed.
    Error,
    /// Somebody ended it.
    Cancelled,
}

impl State {
    const ALL: [Self; 5] = [Self::Active, Self::Idle, Self::Done, Self::Error, Self::Cancelled];

    /// As the file `state` says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::Done => "done",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the session is at its end.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Error | Self::Cancelled)
    }
}

impl FromStr for State {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid(format!("{text}: is no state of a session; write one of {all}"))
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Tokens that models took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Of prompts.
    #[serde(default)]
    pub input_tokens: u64,
    /// Of answers.
    #[serde(default)]
    pub output_tokens: u64,
    /// Both; if it is not given, their sum.
    #[serde(default)]
    pub total_tokens: u64,
}

impl Usage {
    /// This and more.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        let both = more.input_tokens.saturating_add(more.output_tokens);
        let total = if more.total_tokens == 0 { both } else { more.total_tokens };
        Self {
            input_tokens: self.input_tokens.saturating_add(more.input_tokens),
            output_tokens: self.output_tokens.saturating_add(more.output_tokens),
            total_tokens: self.total_tokens.saturating_add(total),
        }
    }
}

/// What is known of a session. Fields in the order in which they are written; those that are not known here
/// are kept behind them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// A UUID; the directory may be moved, this stays.
    pub id: String,
    /// The name of its directory when it was made.
    pub name: String,
    /// Who can have spoken in it; `main`: the user alone.
    pub class: String,
    /// The agent.
    pub agent: String,
    /// The user.
    pub user: String,
    /// What leads to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// The model that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many tokens that model takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Tokens so far.
    #[serde(default)]
    pub usage: Usage,
    /// Tokens of the last prompt of which that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_input_tokens: Option<u64>,
    /// The last message that was compacted away: packs begin behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted_to: Option<u64>,
    /// The number of the last part of it that was archived, which are milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_part: Option<u64>,
    /// The session that it was reset from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// The session that goes on in its place, since it was reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Where what was said in it was archived when it was reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// When it reached its end; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Fields that others have put there.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Meta {
    /// Reads `meta.json`.
    ///
    /// # Errors
    /// `InvalidArgument` for what is none.
    pub fn parse(text: &[u8]) -> Result<Self> {
        serde_json::from_slice(text).map_err(|error| Error::invalid(format!("meta.json: {error}")))
    }

    /// As `meta.json` has it.
    pub fn to_json(&self) -> String {
        pretty(self)
    }
}

impl Sessions<'_> {
    /// Returns `meta.json` of a session, as it was read and parsed.
    pub(crate) async fn meta(&self, session: &str) -> Result<(File, Meta)> {
        let path = self.file(session, META)?;
        let [file] =
            read_all(self.fs, std::slice::from_ref(&path), MAX_FILE).await?.try_into().unwrap_or([None]);
        let file = file.ok_or_else(|| missing(session))?;
        let meta = Meta::parse(file.bytes.as_deref().unwrap_or_default());
        let meta = meta.map_err(|error| Error::new(ErrorKind::Corrupt, format!("{session}: {error}")))?;
        Ok((file, meta))
    }

    /// Returns the address whose existence is that of the session, for a precondition.
    pub(crate) fn is_there(&self, session: &str) -> Result<At> {
        Ok(At::from(self.file(session, META)?))
    }
}
