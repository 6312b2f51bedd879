//! Control data that operators set for an account: rules, retention (`maintain/set_retention.rs`), and quotas
//! (`maintain/set_quota.rs`). Its version is in the head row, so that each process notices at its next commit
//! when another one has changed it.

use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use crate::engine::relational::control_rows;
use crate::engine::relational::gate_judgements::Judgements;
use crate::engine::sqlite::tables::{head, judged_prefixes, retention};
use crate::rule::retention::{ContentLimits, Retention};
use crate::rule::{Digest, PathPattern, Registry, Rule, Rules};
use crate::sqlite::{DbResult, all};
use crate::threads::lock::lock;

/// The rules and limits in force at a version of the control data.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    version: u64,
    pub(crate) rules: Arc<Rules>,
    /// Retention as it was set.
    pub(crate) retention: Arc<Retention>,
    /// Content limits of the retention.
    pub(crate) limits: Arc<ContentLimits>,
}

impl Control {
    fn new(version: u64, rules: Rules, retention: Retention) -> Self {
        let limits = Arc::new(ContentLimits::new(&retention.content));
        Self { version, rules: Arc::new(rules), retention: Arc::new(retention), limits }
    }
}

/// The rules that were read last, for all readers and writers, the registry that they add to, and the
/// judgements of gates.
#[derive(Debug)]
pub(crate) struct ControlCache {
    registry: Registry,
    last: Mutex<Control>,
    judgements: Judgements,
}

impl ControlCache {
    /// Returns the state of a tree for which nothing was set.
    pub(crate) fn new(registry: Registry) -> Self {
        let last = Control::new(0, registry.rules().clone(), Retention::default());
        Self { registry, last: Mutex::new(last), judgements: Judgements::default() }
    }

    /// Returns the rules and projections that every tree has.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the judgements of the files of gates.
    pub(crate) fn judgements(&self) -> &Judgements {
        &self.judgements
    }

    /// Returns the control data of a version, which the caller has read from the head row in this
    /// transaction.
    pub(crate) fn at(&self, conn: &Connection, version: u64) -> DbResult<Control> {
        let known = lock(&self.last).clone();
        if known.version == version {
            return Ok(known);
        }
        // Read without the lock: readers need not wait for each other.
        let (rules, retention) = (read_rules(conn, &self.registry)?, retention::get(conn)?);
        let read = Control::new(version, rules, retention);
        let mut known = lock(&self.last);
        // A transaction on an older state may get here later.
        if known.version < version {
            *known = read.clone();
        }
        Ok(read)
    }
}

/// Returns the rules in force.
pub(crate) fn read_rules(conn: &Connection, registry: &Registry) -> DbResult<Rules> {
    let rows = all(conn, "SELECT class, demand, terms FROM rule ORDER BY class, demand", [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
    })?;
    Ok(control_rows::rules(registry, rows)?)
}

/// Sets a rule.
pub(crate) fn set_rule(conn: &Connection, registry: &Registry, rule: &Rule) -> DbResult<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO rule (class, demand, terms) VALUES (?1, ?2, ?3)")?
        .execute([rule.pattern().as_str(), rule.constraint().name(), &rule.constraint().terms()])?;
    changed(conn, registry)
}

/// Removes a rule. Returns true if it existed.
pub(crate) fn remove_rule(
    conn: &Connection,
    registry: &Registry,
    pattern: &PathPattern,
    constraint: &str,
) -> DbResult<bool> {
    let removed = conn
        .prepare_cached("DELETE FROM rule WHERE class = ?1 AND demand = ?2")?
        .execute([pattern.as_str(), constraint])?;
    if removed > 0 {
        changed(conn, registry)?;
    }
    Ok(removed > 0)
}

/// Announces to every process that rules, retention or quotas have changed. A process that may not write may
/// not set them either.
pub(crate) fn changed(conn: &Connection, registry: &Registry) -> DbResult<()> {
    check_version(head::get(conn)?.projections, registry)?;
    head::next_control(conn)
}

/// Removes at most `limit` rows of constraints that no rule has any more. Returns their number.
pub(crate) fn forget_removed_constraints(
    conn: &Connection,
    registry: &Registry,
    limit: usize,
) -> DbResult<usize> {
    let known: Vec<Digest> = read_rules(conn, registry)?.all().map(|rule| *rule.digest()).collect();
    let mut last = Vec::new();
    // From constraint to constraint, because each may have many rows.
    while let Some(constraint) = judged_prefixes::next_demand(conn, &last)? {
        if !known.iter().any(|known| known[..] == constraint) {
            return judged_prefixes::remove_of_constraint(conn, &constraint, limit);
        }
        last = constraint;
    }
    Ok(0)
}

/// Fails if another process stores keys that this one does not know. Called inside the write transaction;
/// `version` is that of the head row.
pub(crate) fn check_version(version: u64, registry: &Registry) -> DbResult<()> {
    Ok(control_rows::check_version(version, registry)?)
}
