//! Removes old content of path classes that keep less than the log does.

use garth_engine::Result;

use super::step::{Progress, Run};

/// Place in a search for old content.
#[derive(Debug, Default)]
pub(crate) struct Place {}

/// Does a step of the search for old content, and of its removal. Counts what it removed in `run.collected`.
///
/// # Errors
/// As [`Run::step`].
pub(crate) async fn step(_run: &mut Run<'_>, _place: &mut Place) -> Result<Progress> {
    Ok(Progress::Done)
}
