//! Control data of an account that commits obey: the rules in force, and the limit on its stored bytes. Its
//! version is in the head row, so that each process notices at its next commit when another one has changed
//! it.

use std::sync::{Arc, Mutex, PoisonError};

use garth_engine::Result;
use garth_engine::engine::relational::control_rows;
use garth_engine::rule::{Registry, Rules};
use tokio_postgres::Row;

use crate::rows::columns::column;

/// Rules and limit, unless they are of version `$2`: a row for each rule that operators have set, or one
/// without a rule. A statement of its own, behind the lock.
pub(crate) const CONTROL: &str = r#"SELECT r.class, r.demand, r.terms, t.stored FROM garth.head h
    LEFT JOIN garth.retention t ON t.account = h.account
    LEFT JOIN garth.rule r ON r.account = h.account
    WHERE h.account = $1 AND h.control <> $2 ORDER BY r.class COLLATE "C", r.demand COLLATE "C""#;

/// Rules and limits in force at a version of the control data.
#[derive(Clone)]
pub(crate) struct Control {
    pub(crate) version: u64,
    pub(crate) rules: Arc<Rules>,
    /// Limit on the stored bytes.
    pub(crate) stored: Option<u64>,
}

/// Control data that was read last, and the registry that it adds to.
pub(crate) struct ControlCache {
    registry: Registry,
    last: Mutex<Control>,
}

impl ControlCache {
    /// Returns the state of an account for which nothing was set.
    pub(crate) fn new(registry: Registry) -> Self {
        let rules = Arc::new(registry.rules().clone());
        Self { registry, last: Mutex::new(Control { version: 0, rules, stored: None }) }
    }

    /// Returns the rules and projections that every account has.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the control data that was read last.
    pub(crate) fn last(&self) -> Control {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the control data of a version, given the rows of [`CONTROL`] for any other version.
    pub(crate) fn at(&self, known: &Control, version: u64, rows: &[Row]) -> Result<Control> {
        if known.version == version {
            return Ok(known.clone());
        }
        let mut set = Vec::new();
        for row in rows {
            // An account without rules has a row without one.
            if let Some(pattern) = column::<Option<String>>(row, 0)? {
                set.push((pattern, column(row, 1)?, column(row, 2)?));
            }
        }
        let stored = rows.first().map(|row| column::<Option<i64>>(row, 3)).transpose()?.flatten();
        let rules = Arc::new(control_rows::rules(&self.registry, set)?);
        let read = Control { version, rules, stored: stored.map(i64::cast_unsigned) };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // A transaction on an older state may get here later.
        if last.version < version {
            *last = read.clone();
        }
        Ok(read)
    }
}
