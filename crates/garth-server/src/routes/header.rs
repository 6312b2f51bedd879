//! Headers of calls.

/// Header that a call declares.
pub(super) struct Header {
    /// Name, in lower case.
    pub(super) name: &'static str,
    pub(super) is_required: bool,
    /// Meaning, a sentence.
    pub(super) meaning: &'static str,
}
