//! Judgement of changes by a rule that is to be set, on rows of the state after them.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use garth_engine::engine::planner::{JudgedRow, RowStore, judge_state};
use garth_engine::engine::relational::confinement::Reach;
use garth_engine::engine::relational::reads::gated_facts::GatedFacts;
use garth_engine::engine::relational::reads::tree_rows::{MAX, TreeRows as _};
use garth_engine::engine::relational::reads::tree_view::TreeView;
use garth_engine::engine::relational::rule_changes::{ChangedPlaces, ChangesVerdict, MOST_BYTES, verdict};
use garth_engine::model::{Changes, ChangesQuery};
use garth_engine::rule::{Digest, Rule, Rules};
use garth_engine::{Error, ErrorKind, Result};

use super::PgRows;
use crate::reads::FetchedRows;
use crate::rows::committer::Committer;

/// Places up to which files satisfy the constraint of a rule.
pub(crate) type JudgedFiles = BTreeMap<(u64, Digest), JudgedRow>;

impl PgRows<'_> {
    /// Returns changes of the log. The transaction has begun.
    ///
    /// # Errors
    /// `Gone` for changes that the log no longer has; `TooLarge` if this takes more than `trips` trips in
    /// all; errors of the database.
    pub(crate) async fn changes(&mut self, query: &ChangesQuery, trips: usize) -> Result<Changes> {
        let Committer { control, judgements, open, .. } = self.committer;
        let mut fetched = FetchedRows::new(control.registry().clone(), Arc::clone(judgements), MAX);
        let (reach, time) = (Reach::everything(), self.now());
        loop {
            fetched.begin();
            let changes = {
                let view = TreeView {
                    rows: &fetched,
                    open,
                    reach: &reach,
                    as_of: None,
                    is_past: false,
                    oldest: OnceCell::new(),
                    time,
                    opened: i64::MAX,
                    gated: GatedFacts::default(),
                };
                view.changes(query)
            };
            if (&fetched).is_complete() {
                return changes;
            }
            self.check_trips(trips)?;
            self.read(&mut fetched).await?;
        }
    }

    /// Judges what changes have touched by a rule alone, in the state of this transaction, which has begun.
    /// `Much` if this takes more than `trips` trips in all.
    ///
    /// # Errors
    /// Errors of the database.
    pub(crate) async fn judge(
        &mut self,
        rule: &Rule,
        places: &ChangedPlaces,
        trips: usize,
    ) -> Result<ChangesVerdict<JudgedFiles>> {
        self.rows = RowStore::new(Arc::new(Rules::only(rule.clone())));
        loop {
            let Some(state) = self.state.as_ref().map(|state| state.fetched) else {
                return Err(Error::new(ErrorKind::Io, "the transaction has not begun"));
            };
            let at = (state.head, state.now);
            let judged = judge_state(&self.rows, at, &places.files, &places.paths, MOST_BYTES);
            if !self.rows.missed() {
                return verdict(judged);
            }
            if self.check_trips(trips).is_err() {
                return Ok(ChangesVerdict::Much);
            }
            self.round().await?;
        }
    }

    fn now(&self) -> i64 {
        self.state.as_ref().map_or(0, |state| state.fetched.now.0)
    }

    fn check_trips(&self, trips: usize) -> Result<()> {
        if self.trips < trips {
            return Ok(());
        }
        Err(Error::new(ErrorKind::TooLarge, "judging the changes takes too many steps"))
    }
}
