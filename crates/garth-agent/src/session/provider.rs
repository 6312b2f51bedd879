//! Messages as model providers take them, so that none refuses the list: each call has its result right
//! behind it, ids and names are of the form that all know, and nothing that looks like a secret goes out.
//! `docs/specs/provider-lists.md` has the rules.

mod anthropic;
mod ids;
mod openai;
#[cfg(test)]
mod tests;
mod turns;

use std::fmt;
use std::str::FromStr;

pub(super) use self::turns::is_taken;
use self::turns::{Part, Turn, turns};
use super::log::message::Message;
use garth_engine::error::{Error, Result};
use garth_engine::text::secret::masked;

/// Whose form a list has.
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

/// A list that a provider takes: `{"messages":[...]}` for `OpenAI`, `{"system":"...","messages":[...]}` for
/// Anthropic, where `system` is left out if there is none. `system` comes before all messages; `after` are
/// texts for the model behind them.
pub fn list(format: Format, system: &str, messages: &[Message], after: &[String]) -> String {
    let mut turns = turns(messages);
    if !system.is_empty() {
        turns.insert(0, Turn::System(masked(system).into_owned()));
    }
    let after = after.iter().filter(|text| !text.is_empty());
    let after: Vec<_> = after.map(|text| Part::Text(masked(text).into_owned())).collect();
    if !after.is_empty() {
        turns.push(Turn::User(after));
    }
    match format {
        Format::OpenAi => openai::list(turns),
        Format::Anthropic => anthropic::list(turns),
    }
}
