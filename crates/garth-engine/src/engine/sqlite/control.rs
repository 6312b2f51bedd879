//! What operators have set for an account, as its database keeps it: rules, and quotas
//! (`maintain/set_quota.rs`). Their version is in the head row, so that each process notices at its next
//! commit what another one has set.

use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use crate::engine::sqlite::projections::check_version;
use crate::engine::sqlite::tables::{head, judged_prefixes};
use crate::error::{Error, ErrorKind};
use crate::rule::{Class, Demand, Digest, Registry, Rule, Rules};
use crate::sqlite::{DbResult, all};
use crate::threads::lock::lock;

/// The rules that were in force at a version of what operators have set.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    version: u64,
    pub(crate) rules: Arc<Rules>,
}

/// The rules that were read last, for all that read and write, and the registry that they add to.
#[derive(Debug)]
pub(crate) struct KnownControl {
    registry: Registry,
    last: Mutex<Control>,
}

impl KnownControl {
    /// Returns the state of a tree for which nothing was set.
    pub(crate) fn new(registry: Registry) -> Self {
        let last = Control { version: 0, rules: Arc::new(registry.rules().clone()) };
        Self { registry, last: Mutex::new(last) }
    }

    /// The rules and projections that every tree has.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What is set at a version, which the head row of this transaction tells.
    pub(crate) fn at(&self, conn: &Connection, version: u64) -> DbResult<Control> {
        let known = lock(&self.last).clone();
        if known.version == version {
            return Ok(known);
        }
        let read = Control { version, rules: Arc::new(read_rules(conn, &self.registry)?) };
        let mut known = lock(&self.last);
        // an older transaction may be the later one here
        if known.version < version {
            *known = read.clone();
        }
        Ok(read)
    }
}

/// The rules in force.
pub(crate) fn read_rules(conn: &Connection, registry: &Registry) -> DbResult<Rules> {
    let rows = all(conn, "SELECT class, demand, terms FROM rule ORDER BY class, demand", [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
    })?;
    let mut rules = registry.rules().clone();
    for (class, demand, terms) in rows {
        // to write without a rule that cannot be read would be to break it
        let unreadable = |error: Error| {
            let message =
                format!("the rule `{demand}` for {class} cannot be read; use the garth that set it");
            Error::new(ErrorKind::Corrupt, message).with_source(error)
        };
        let rule = Class::parse(&class)
            .and_then(|class| Ok(Rule::new(class, Demand::parse(&demand, &terms)?)))
            .map_err(unreadable)?;
        rules = rules.with(rule).map_err(unreadable)?;
    }
    Ok(rules)
}

/// Sets a rule.
pub(crate) fn set_rule(conn: &Connection, registry: &Registry, rule: &Rule) -> DbResult<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO rule (class, demand, terms) VALUES (?1, ?2, ?3)")?
        .execute([rule.class().as_str(), rule.demand().name(), &rule.demand().terms()])?;
    changed(conn, registry)
}

/// Removes a rule; whether it was there.
pub(crate) fn remove_rule(
    conn: &Connection,
    registry: &Registry,
    class: &Class,
    demand: &str,
) -> DbResult<bool> {
    let removed = conn
        .prepare_cached("DELETE FROM rule WHERE class = ?1 AND demand = ?2")?
        .execute([class.as_str(), demand])?;
    if removed > 0 {
        changed(conn, registry)?;
    }
    Ok(removed > 0)
}

/// Tells every process that something was set, rules or quotas. Who may not write may not set either.
pub(crate) fn changed(conn: &Connection, registry: &Registry) -> DbResult<()> {
    check_version(head::get(conn)?.projections, registry)?;
    head::next_control(conn)
}

/// Forgets what was found by demands that no rule has any more, up to `limit` rows; how many.
pub(crate) fn forget_lifted(conn: &Connection, registry: &Registry, limit: usize) -> DbResult<usize> {
    let known: Vec<Digest> = read_rules(conn, registry)?.all().map(|rule| *rule.digest()).collect();
    let mut last = Vec::new();
    // from demand to demand: their rows may be many
    while let Some(demand) = judged_prefixes::next_demand(conn, &last)? {
        if !known.iter().any(|known| known[..] == demand) {
            return judged_prefixes::remove_of_demand(conn, &demand, limit);
        }
        last = demand;
    }
    Ok(0)
}
