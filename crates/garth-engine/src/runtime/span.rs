//! Spans that name an account in the log. They have the level `ERROR`, so that every filter which shows an
//! event shows the account with it. They hold its name alone: no path, no content.

use std::fmt;

use tracing::Span;

/// Returns a span that names an account, below the span that the caller is in.
pub(crate) fn account(name: &str) -> Span {
    tracing::error_span!("account", account = name)
}

/// Span of an open account, for threads that serve many. It is made once: entering it costs less than making
/// one for each group of commits.
pub(crate) struct AccountSpan {
    name: String,
    span: Span,
}

impl AccountSpan {
    pub(crate) fn new(name: &str) -> Self {
        // Without a parent: later events do not belong to the caller that opened the account.
        let span = tracing::error_span!(parent: None, "account", account = name);
        Self { name: name.to_owned(), span }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        self.span.in_scope(work)
    }
}

impl fmt::Debug for AccountSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountSpan").field("name", &self.name).finish_non_exhaustive()
    }
}
