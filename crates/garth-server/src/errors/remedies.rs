//! Ways to mend a failure that not every caller can take: users of the HTTP API can send other fields,
//! and models can call other tools.

use std::borrow::Cow;

use garth_engine::error::Advice;

/// Advice on a failure, for the callers who can follow it.
#[derive(Clone, Debug, Default)]
pub(super) struct Remedies {
    /// Advice of the library, in the words of the command line.
    pub(super) advice: Option<(Advice, String)>,
    /// Hints for models, which name tools in backquotes.
    pub(super) hints: Vec<Cow<'static, str>>,
}

/// Returns advice of the library for clients of the HTTP API. `text` has the words of the command line.
pub(super) fn for_clients(advice: Advice, text: &str) -> &str {
    match advice {
        Advice::UploadLimit => {
            "send parts of at most that size to `POST /v1/uploads`, and join them with `POST /v1/batch`"
        }
        Advice::LowerLayer => "leave \"overlay\" out to read the past of the account",
        Advice::Command | Advice::OtherCaller | Advice::StoredBytes | Advice::Recall => text,
    }
}
