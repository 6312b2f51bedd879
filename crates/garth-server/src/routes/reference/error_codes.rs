//! Reference of the codes of errors.

use std::fmt::Write as _;

use serde::Serialize;

use crate::errors::Code;

/// Code of the errors of the API.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ErrorReference {
    /// Code: the field `code` of an error.
    pub code: &'static str,
    /// Status of most errors with this code.
    pub status: u16,
    /// Further statuses of errors with this code.
    pub further_statuses: Vec<u16>,
    /// Kinds: the field `kind` of an error is one of these.
    pub kinds: Vec<&'static str>,
    /// Meaning, in sentences.
    pub meaning: &'static str,
    /// Advice, a sentence.
    pub advice: &'static str,
    /// Use of sending the same request again: `no`, `yes`, or `reread` if it must be based on the current
    /// state.
    pub retry: &'static str,
}

/// Returns every code of errors, in the order of statuses.
pub fn errors() -> Vec<ErrorReference> {
    let reference = |code: &Code| {
        let row = code.row();
        let kinds = [row.kind].into_iter().chain(row.further_kinds.iter().copied());
        ErrorReference {
            code: row.name,
            status: row.status.as_u16(),
            further_statuses: row.further_statuses.iter().map(|status| status.as_u16()).collect(),
            kinds: kinds.map(|kind| kind.as_str()).collect(),
            meaning: row.meaning,
            advice: row.advice,
            retry: row.retry.as_str(),
        }
    };
    Code::ALL.iter().map(reference).collect()
}

const HEAD: &str = "
## Errors

The body of every error is an object `error` with `code`, `kind`, `message` and `request_id`, and `path` if the error is
about a path or key that the caller may see ([errors](kv-api.md#errors)). *Retry* says whether the same request can
succeed if it is sent again: `reread` requires one that is based on the current state.

| code | status | kinds | meaning | what to do | retry |
|---|---|---|---|---|---|
";

/// Adds the section on errors to the page of the reference.
pub(super) fn section(page: &mut String) {
    page.push_str(HEAD);
    for error in errors() {
        let ErrorReference { code, meaning, advice, retry, .. } = error;
        let statuses = [error.status].into_iter().chain(error.further_statuses);
        let statuses = statuses.map(|status| status.to_string()).collect::<Vec<_>>().join(", ");
        let kinds = error.kinds.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ");
        // Writing to a `String` does not fail.
        let _ = writeln!(page, "| `{code}` | {statuses} | {kinds} | {meaning} | {advice} | {retry} |");
    }
}
