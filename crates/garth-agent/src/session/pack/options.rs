//! Input of a pack: the options of the caller, and the files of the session.

use super::manifest::{Pack, Reserved};
use crate::session::store::swap_index::Swapped;
use crate::small_file::File;
use garth_engine::error::{Error, ErrorKind};
use garth_engine::model::Entry;

/// Limit on the tokens of a pack, whatever its budget.
pub const MAX_TOKENS: u64 = 1_000_000;

/// Minimum of bytes of a result that is shown in part. Three quarters of these are its head.
pub(super) const LEAST_SHOWN: u64 = 600;

/// Size limit of `pack.json`, 16 MiB.
pub(super) const MAX_PACK: usize = (16 << 20) - 1;

/// Options of a pack. By default it extends the last one, within the budget of the session (see
/// [`PackOptions::budget`]), and is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackOptions {
    /// Token budget, reserved tokens included; 0: no limit. Default: `context/budget`, else the context
    /// window of the session's model.
    #[doc(hidden)]
    pub budget: Option<u64>,
    /// Tokens of the budget to reserve.
    #[doc(hidden)]
    pub reserved: Reserved,
    /// True to build a new pack rather than to extend the last one: with the derived files as they are now,
    /// and with all messages if these fit, else until a quarter of the budget is free.
    #[doc(hidden)]
    pub fresh: bool,
    /// Entries of `refs.jsonl` to expand: the pack includes the content that they refer to.
    #[doc(hidden)]
    pub expand: Vec<String>,
    /// True to write nothing.
    #[doc(hidden)]
    pub dry: bool,
}

impl PackOptions {
    /// Sets the token budget; 0 removes the limit. The default is that of `context/budget`, else the context
    /// window in `meta.json`, else none; every pack has at most [`MAX_TOKENS`] tokens.
    #[must_use]
    pub fn budget(self, tokens: u64) -> Self {
        Self { budget: Some(tokens), ..self }
    }

    /// Sets the tokens to reserve.
    #[must_use]
    pub fn reserved(self, reserved: Reserved) -> Self {
        Self { reserved, ..self }
    }

    /// Builds a new pack rather than to extend the last one.
    #[must_use]
    pub fn fresh(self) -> Self {
        Self { fresh: true, ..self }
    }

    /// Sets the entries of `refs.jsonl` to expand.
    #[must_use]
    pub fn expand(self, entries: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { expand: entries.into_iter().map(Into::into).collect(), ..self }
    }

    /// Writes nothing.
    #[must_use]
    pub fn dry(self) -> Self {
        Self { dry: true, ..self }
    }
}

/// Contents of the files of a session that determine its next pack.
pub(super) struct PackFiles {
    pub(super) before: Option<Pack>,
    /// `pack.json` as it was read.
    pub(super) pack: Option<File>,
    /// `pack.md` before the messages were read: a retraction empties it.
    pub(super) text: Option<Entry>,
    pub(super) budget: Option<u64>,
    pub(super) swap_file: Option<File>,
    pub(super) swapped: Vec<Swapped>,
    /// First line that may be in a pack: those before it were compacted away.
    pub(super) first: u64,
}

/// Returns the error for messages that every pack has to contain, whose tokens do not fit beside the
/// reserved ones.
pub(super) fn too_small(session: &str, tokens: u64, reserved: u64) -> Error {
    let what = "the last message of the user and the unfinished step take";
    let message = if tokens > MAX_TOKENS {
        format!(
            "{session}: {what} {tokens} tokens, and a pack has at most {MAX_TOKENS}; retract the longest \
             message, and append a shorter one"
        )
    } else {
        let least = tokens.saturating_add(reserved);
        format!("{session}: {what} {least} tokens with what is reserved; give a budget of {least} or more")
    };
    Error::new(ErrorKind::BudgetTooSmall, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_budget_is_named_that_no_pack_can_have() {
        let error = too_small("work", MAX_TOKENS, 5);
        assert!(error.message().ends_with("give a budget of 1000005 or more"), "{error}");
        let error = too_small("work", MAX_TOKENS + 1, 5);
        assert!(error.message().contains("a pack has at most 1000000; retract"), "{error}");
    }
}
