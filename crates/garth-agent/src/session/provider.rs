//! Message lists that model providers accept: each call is followed by its result, ids and names have the
//! form that all of them allow, and nothing that looks like a secret is sent. `docs/specs/provider-lists.md`
//! has the rules.

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
use garth_engine::compute::working;
use garth_engine::error::{Error, Result};
use garth_engine::text::secret::masked;

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

/// Returns a list that a provider accepts: `{"messages":[...]}` for `OpenAI`,
/// `{"system":"...","messages":[...]}` for Anthropic, without `system` if it is empty. `system` comes before
/// all messages; the texts of `after` follow them.
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
    let list = match format {
        Format::OpenAi => openai::list(turns),
        Format::Anthropic => anthropic::list(turns),
    };
    working(list.len());
    list
}
