//! Reads of a handle that the removal of the past makes: overlays, classes of files, and commits by age. The
//! handle must reach the whole account.

use std::time::Duration;

use garth_engine::Result;
use garth_engine::engine::relational::content_search::{AgeSpan, to_search};
use garth_engine::engine::relational::judged_names::judged_names;
use garth_engine::engine::relational::kept_states;
use garth_engine::model::Timestamp;
use garth_engine::rule::retention::{ContentLimits, Keep};

use super::PgStore;
use super::reader::View;

impl PgStore {
    /// Returns the states over which overlays lie; `None` if there are too many overlays.
    ///
    /// # Errors
    /// Errors of the database.
    #[allow(clippy::redundant_closure, reason = "the function itself is not general over lifetimes")]
    pub(crate) async fn all_forks(&self) -> Result<Option<Vec<u64>>> {
        self.reading(|_| {}, |view| kept_states::all_forks(view)).await
    }

    /// Returns how long old content of some files is kept, by their names.
    ///
    /// # Errors
    /// Errors of the database.
    pub(crate) async fn keeps_of(&self, inos: &[u64], limits: &ContentLimits) -> Result<Vec<Keep>> {
        let keep = |view: &View<'_>, ino: &u64| Ok(limits.keep_of(&judged_names(view, *ino)?));
        self.reading(|_| {}, |view| inos.iter().map(|ino| keep(view, ino)).collect()).await
    }

    /// Returns the commits to search for old content of some ages, each with the commit up to which the log
    /// was searched. Ended rows are removed, or may be, up to commit `reached`.
    ///
    /// # Errors
    /// Errors of the database.
    pub(crate) async fn spans_to_search(
        &self,
        ages: &[(Duration, u64)],
        reached: u64,
        now: Timestamp,
    ) -> Result<Vec<AgeSpan>> {
        let read = |view: &View<'_>| {
            ages.iter().map(|(age, place)| to_search(view.rows, *age, (*place, reached), now)).collect()
        };
        self.reading(|_| {}, read).await
    }
}
