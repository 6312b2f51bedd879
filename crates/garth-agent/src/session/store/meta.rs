//! `meta.json` of a session, and the words of its state.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::files::META;
use crate::identity::StoredClass;
use crate::session::handle::{Sessions, missing};
use crate::small_file::{File, pretty, read_all, repairable};
use garth_engine::error::{Error, Result};
use garth_engine::model::At;
use garth_engine::path::TreePath;

/// Size limit of `meta.json` and of the small files next to it, 1 MiB.
pub(crate) const MAX_FILE: usize = 1 << 20;

/// Largest number of `meta.json`, 2^53 − 1: every reader of JSON reads it exactly, and one more does not
/// overflow.
pub const MAX_COUNT: u64 = (1 << 53) - 1;

/// Limit on the tokens that a caller can report at once or give as a budget: a thousand million, more than
/// any model takes.
pub const MAX_TOKENS_REPORTED: u64 = 1_000_000_000;

/// Checks a number of tokens from outside.
///
/// # Errors
/// `InvalidArgument` for a number above [`MAX_TOKENS_REPORTED`].
pub(crate) fn check_tokens(what: &str, tokens: u64) -> Result<()> {
    if tokens <= MAX_TOKENS_REPORTED {
        return Ok(());
    }
    Err(Error::invalid(format!("{what}: {tokens} tokens exceed the limit of {MAX_TOKENS_REPORTED}")))
}

/// Field of `meta.json` in which the session of a child names its parent: `{agent}/{session}#{child}`.
pub(crate) const PARENT: &str = "parent";

/// State of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SessionState")]
pub enum State {
    /// The agent works on it.
    Active,
    /// The agent waits for input.
    Idle,
    /// It ended with success.
    Done,
    /// It ended with an error.
    Error,
    /// It was cancelled.
    Cancelled,
}

impl State {
    const ALL: [Self; 5] = [Self::Active, Self::Idle, Self::Done, Self::Error, Self::Cancelled];

    /// Returns the word that the file `state` has.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::Done => "done",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns true for a final state.
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

/// Tokens used by models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TokenUsage")]
pub struct Usage {
    /// Tokens of prompts.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens of answers.
    #[serde(default)]
    pub output_tokens: u64,
    /// Total. If omitted, the sum of both.
    #[serde(default)]
    pub total_tokens: u64,
}

impl Usage {
    /// Returns the sum of this and `more`.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        // The sums are limited because a number above `MAX_COUNT` makes `meta.json` unreadable.
        let both = more.input_tokens.saturating_add(more.output_tokens);
        let total = if more.total_tokens == 0 { both } else { more.total_tokens };
        Self {
            input_tokens: self.input_tokens.saturating_add(more.input_tokens).min(MAX_COUNT),
            output_tokens: self.output_tokens.saturating_add(more.output_tokens).min(MAX_COUNT),
            total_tokens: self.total_tokens.saturating_add(total).min(MAX_COUNT),
        }
    }

    /// Checks the usage of one call of a model.
    ///
    /// # Errors
    /// `InvalidArgument` for a number above [`MAX_TOKENS_REPORTED`].
    pub(crate) fn check(&self) -> Result<()> {
        let most = self.input_tokens.max(self.output_tokens).max(self.total_tokens);
        check_tokens("usage", most)
    }
}

/// Contents of `meta.json`, in the order in which the fields are written. Unknown fields follow them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    rename = "SessionMeta",
    description = "Metadata of a session. Fields that other programs stored are included."
)]
pub struct Meta {
    /// UUID. It stays when the directory is moved.
    pub id: String,
    /// Name of the session at its creation.
    pub name: String,
    /// Class of the session: `main`, `dm` or `group`; another program may have stored other text.
    #[schemars(with = "String")]
    pub class: StoredClass,
    /// Agent.
    pub agent: String,
    /// Audience of the session: the user, chat or channel that it belongs to.
    pub user: String,
    /// Session key, by which channels find the session. Missing if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// Name of the model. Missing if none is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Context window of the model, in tokens. Missing if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Title. Missing if none is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Tokens used so far.
    #[serde(default)]
    pub usage: Usage,
    /// Tokens of the last prompt whose size was reported. Missing before the first report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_input_tokens: Option<u64>,
    /// Line of the last message that was compacted away: packs start after it. Missing if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted_to: Option<u64>,
    /// Number of the last archived part: a time, in milliseconds since 1970. Missing without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_part: Option<u64>,
    /// Name of the session that it replaced in a reset. Missing if it replaced none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// Name of the session that replaced it in a reset. Missing before a reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Path of the archive that its reset wrote. Missing before a reset, and if it had no messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// Time at which it got a final state; RFC 3339. Missing before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Meta {
    /// Parses `meta.json`.
    ///
    /// # Errors
    /// `InvalidArgument` for invalid JSON, a missing field, or a number above [`MAX_COUNT`].
    pub fn parse(text: &[u8]) -> Result<Self> {
        let meta: Self =
            serde_json::from_slice(text).map_err(|error| Error::invalid(format!("meta.json: {error}")))?;
        let Usage { input_tokens, output_tokens, total_tokens } = meta.usage;
        let counts = [meta.context_window, meta.last_input_tokens, meta.compacted_to, meta.last_part];
        let mut all = counts.into_iter().flatten().chain([input_tokens, output_tokens, total_tokens]);
        // Other programs can write this file: sums of larger numbers would overflow.
        match all.find(|count| *count > MAX_COUNT) {
            Some(count) => Err(Error::invalid(format!("meta.json: the count {count} is too large"))),
            None => Ok(meta),
        }
    }

    /// Parses the `meta.json` that was read at a path.
    ///
    /// # Errors
    /// `Corrupt` at that path.
    pub(crate) fn read(path: &TreePath, file: &File) -> Result<Self> {
        let how = "`garth repair` restores it, and so does setting anything of the session";
        let meta = file.read().and_then(Self::parse);
        meta.map_err(|error| repairable(path, error.message(), how))
    }

    /// Returns true for the session of a child.
    pub(crate) fn is_child(&self) -> bool {
        self.other.contains_key(PARENT)
    }

    /// Returns agent and session of the parent, if it is the session of a child.
    pub(crate) fn parent(&self) -> Option<(&str, &str)> {
        let (agent, rest) = self.other.get(PARENT)?.as_str()?.split_once('/')?;
        Some((agent, rest.rsplit_once('#')?.0))
    }

    /// Returns the text of `meta.json`.
    ///
    /// # Errors
    /// `InvalidArgument` for a value without a JSON form.
    pub fn to_json(&self) -> Result<String> {
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
        let meta = Meta::read(&path, &file)?;
        Ok((file, meta))
    }

    /// Returns the address whose existence is that of the session, for a precondition.
    pub(crate) fn is_there(&self, session: &str) -> Result<At> {
        Ok(At::from(self.file(session, META)?))
    }
}
