//! What to do about a failure, where not every caller can do it: users of the HTTP API can send other fields,
//! and models can call other tools.

use std::borrow::Cow;

use garth_engine::error::Advice;

use super::{Refusal, bounded};

/// Advice on a failure, for the callers who can follow it.
#[derive(Clone, Debug, Default)]
pub(super) struct Remedies {
    /// Advice of the library, in the words of the command line.
    advice: Option<(Advice, String)>,
    /// Hints for models, which name tools in backquotes.
    hints: Vec<Cow<'static, str>>,
}

impl Refusal {
    /// Adds a hint for models. Clients of the HTTP API do not see it.
    pub(crate) fn hinting(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.remedies.get_or_insert_default().hints.push(hint.into());
        self
    }

    /// Adds advice of the library.
    pub(super) fn advised(mut self, advice: Option<(Advice, &str)>) -> Self {
        if let Some((advice, text)) = advice {
            self.remedies.get_or_insert_default().advice = Some((advice, text.to_owned()));
        }
        self
    }

    /// Returns the advice of the library, with the words of the command line.
    pub(crate) fn advice(&self) -> Option<(Advice, &str)> {
        let (advice, text) = self.remedies.as_ref()?.advice.as_ref()?;
        Some((*advice, text.as_str()))
    }

    /// Returns the hints for models.
    pub(crate) fn hints(&self) -> impl Iterator<Item = &str> {
        self.remedies.iter().flat_map(|remedies| &remedies.hints).map(|hint| &**hint)
    }

    /// Returns the message for clients of the HTTP API, with the advice of the library in their words.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self.advice() {
            Some((advice, text)) => {
                let advice = for_clients(advice, text);
                Cow::Owned(bounded(Cow::Owned(format!("{}; {advice}", self.message))))
            }
            None => Cow::Borrowed(&self.message),
        }
    }
}

/// Returns advice of the library for clients of the HTTP API. `text` has the words of the command line.
fn for_clients(advice: Advice, text: &str) -> &str {
    match advice {
        Advice::UploadLimit => {
            "send parts of at most that size to `POST /v1/uploads`, and join them with `POST /v1/batch`"
        }
        Advice::LowerLayer => "leave \"overlay\" out to read the past of the account",
        Advice::Command | Advice::OtherCaller | Advice::Recall => text,
    }
}
