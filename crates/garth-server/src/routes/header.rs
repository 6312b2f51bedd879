//! Headers of calls.

use axum::http::{HeaderMap, HeaderName};

/// Header that a call declares.
pub(super) struct Header {
    /// Name, in lower case. A final `*` stands for any ending.
    pub(super) name: &'static str,
    pub(super) is_required: bool,
    /// Meaning, a sentence.
    pub(super) meaning: &'static str,
}

impl Header {
    /// Returns the names of this header in a request, in byte order.
    pub(super) fn sent<'h>(&self, headers: &'h HeaderMap) -> Vec<&'h str> {
        let is_this = |name: &str| match self.name.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == self.name,
        };
        let mut names: Vec<&str> =
            headers.keys().map(HeaderName::as_str).filter(|name| is_this(name)).collect();
        names.sort_unstable();
        names
    }
}
