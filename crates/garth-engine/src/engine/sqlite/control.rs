//! What operators have set for an account, as its database keeps it: rules, and quotas (`write/quotas.rs`).
//! Their version is in the head row, so that each process notices at its next commit what another one has
//! set.

use std::sync::{Arc, Mutex};

use rusqlite::{Connection, params};

use crate::engine::planner::JudgedRow;
use crate::engine::sqlite::projected::check_version;
use crate::engine::sqlite::read::rows;
use crate::error::{Error, ErrorKind};
use crate::rule::{Class, Demand, Digest, Place, Registry, Rule, Rules};
use crate::runtime::lock::lock;
use crate::sqlite::{DbResult, all, one};

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
    check_version(rows::head(conn)?.projections, registry)?;
    conn.prepare_cached("UPDATE head SET control = control + 1")?.execute([])?;
    Ok(())
}

/// How far a file was found to be as a demand asks.
pub(crate) fn judged(conn: &Connection, ino: u64, demand: &Digest) -> DbResult<Option<JudgedRow>> {
    let sql = "SELECT etag, until, lines FROM judged WHERE ino = ?1 AND demand = ?2";
    one(conn, sql, params![ino, demand], |row| {
        let until = Place { offset: row.get(1)?, line: row.get(2)? };
        Ok(JudgedRow { etag: row.get(0)?, until })
    })
}

/// Remembers it.
pub(crate) fn remember_judged(
    conn: &Connection,
    (ino, demand): &(u64, Digest),
    row: &JudgedRow,
) -> DbResult<()> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO judged (ino, demand, etag, until, lines) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![ino, demand, row.etag, row.until.offset, row.until.line])?;
    Ok(())
}

/// Forgets what was found of a file that has lost its last name.
pub(crate) fn forget_judged(conn: &Connection, ino: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM judged WHERE ino = ?1")?.execute([ino])?;
    Ok(())
}

/// Forgets what was found by demands that no rule has any more, up to `limit` rows; how many.
pub(crate) fn forget_lifted(conn: &Connection, registry: &Registry, limit: usize) -> DbResult<usize> {
    let known: Vec<Digest> = read_rules(conn, registry)?.all().map(|rule| *rule.digest()).collect();
    let mut last = Vec::new();
    // from demand to demand: their rows may be many
    let next = "SELECT min(demand) FROM judged WHERE demand > ?1";
    while let Some(demand) = one(conn, next, [&last], |row| row.get::<_, Option<Vec<u8>>>(0))?.flatten() {
        if !known.iter().any(|known| known[..] == demand) {
            let sql = "DELETE FROM judged WHERE demand = ?1 AND ino IN
                 (SELECT ino FROM judged WHERE demand = ?1 LIMIT ?2)";
            return Ok(conn.prepare_cached(sql)?.execute(params![demand, limit])?);
        }
        last = demand;
    }
    Ok(0)
}
