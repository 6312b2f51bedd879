//! Tables `retention`, `content_limit`, `content_age` and `held`: the limits that operators have set, how far
//! `gc` has searched the log for old content of each age, and the states that snapshots and overlays kept
//! then.

use std::collections::BTreeSet;
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::engine::relational::retention::content_limit;
use crate::rule::retention::{ContentLimit, Retention};
use crate::sqlite::{DbResult, all, one};

/// Returns the retention of the account.
pub(crate) fn get(conn: &Connection) -> DbResult<Retention> {
    let limits = one(conn, "SELECT age, commits, stored FROM retention", [], |row| {
        Ok((row.get::<_, Option<u64>>(0)?, row.get(1)?, row.get(2)?))
    })?;
    let (age, commits, stored) = limits.unwrap_or_default();
    let rows = all(conn, "SELECT class, keep FROM content_limit ORDER BY class", [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, u64>(1)?))
    })?;
    let content = rows.iter().map(|(class, keep)| Ok(content_limit(class, *keep)?));
    let content = content.collect::<DbResult<Vec<_>>>()?;
    Ok(Retention { age: age.map(Duration::from_secs), commits, stored, content })
}

/// Writes the retention of the account. The caller announces the change of control data.
pub(crate) fn put(conn: &Connection, retention: &Retention) -> DbResult<()> {
    let Retention { age, commits, stored, content } = retention;
    conn.execute(
        "INSERT OR REPLACE INTO retention (id, age, commits, stored) VALUES (1, ?1, ?2, ?3)",
        params![age.map(|age| age.as_secs()), commits, stored],
    )?;
    conn.execute("DELETE FROM content_limit", [])?;
    let mut insert = conn.prepare_cached("INSERT INTO content_limit (class, keep) VALUES (?1, ?2)")?;
    for ContentLimit { pattern, keep } in content {
        insert.execute(params![pattern.as_str(), keep.as_secs()])?;
    }
    Ok(())
}

/// Returns the last commit up to which the log was searched for old content of an age; 0 at the beginning.
pub(crate) fn searched(conn: &Connection, age: Duration) -> DbResult<u64> {
    let sql = "SELECT seq FROM content_age WHERE keep = ?1";
    Ok(one(conn, sql, [age.as_secs()], |row| row.get(0))?.unwrap_or(0))
}

/// Sets the last commit up to which the log was searched for old content of an age.
pub(crate) fn set_searched(conn: &Connection, age: Duration, seq: u64) -> DbResult<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO content_age (keep, seq) VALUES (?1, ?2)")?
        .execute(params![age.as_secs(), seq])?;
    Ok(())
}

/// Has the log searched again from the beginning for old content of an age.
pub(crate) fn search_again(conn: &Connection, age: Duration) -> DbResult<()> {
    conn.execute("DELETE FROM content_age WHERE keep = ?1", [age.as_secs()])?;
    Ok(())
}

/// Has the log searched again from the beginning where the search went beyond its end.
pub(crate) fn search_lost_again(conn: &Connection) -> DbResult<()> {
    conn.execute("DELETE FROM content_age WHERE seq > (SELECT seq FROM head)", [])?;
    Ok(())
}

/// Returns the commits whose states were kept at the last search.
pub(crate) fn held(conn: &Connection) -> DbResult<BTreeSet<u64>> {
    Ok(all(conn, "SELECT seq FROM held", [], |row| row.get(0))?.into_iter().collect())
}

/// Notes that the states after some commits are kept no longer, and others are, until `is_over` returns true.
/// Takes the noted ones from the lists. Content that only the dropped ones kept is looked for again.
pub(crate) fn change_held(
    conn: &Connection,
    dropped: &mut Vec<u64>,
    added: &mut Vec<u64>,
    mut is_over: impl FnMut() -> bool,
) -> DbResult<()> {
    // Content that a state shows was replaced by a later commit.
    if let Some(first) = dropped.iter().min() {
        conn.execute("UPDATE content_age SET seq = ?1 WHERE seq > ?1", [first])?;
    }
    for (commits, sql) in [
        (dropped, "DELETE FROM held WHERE seq = ?1"),
        (added, "INSERT OR IGNORE INTO held (seq) VALUES (?1)"),
    ] {
        while let Some(seq) = commits.pop() {
            conn.prepare_cached(sql)?.execute([seq])?;
            if is_over() {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::schema;
    use crate::rule::PathPattern;

    #[test]
    fn retention_is_read_as_it_was_set() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        assert_eq!(get(&conn).unwrap(), Retention::default());
        let limit = |pattern: &str, keep| ContentLimit {
            pattern: PathPattern::parse_stored(pattern).unwrap(),
            keep: Duration::from_secs(keep),
        };
        let mut retention = Retention {
            age: Some(Duration::from_secs(7)),
            commits: None,
            stored: Some(i64::MAX as u64),
            // An earlier version took control characters.
            content: vec![limit("/a/**", 0), limit("/b", 9), limit("/b\n\u{202e}", 9)],
        };
        put(&conn, &retention).unwrap();
        assert_eq!(get(&conn).unwrap(), retention);
        retention.content.remove(0);
        (retention.age, retention.commits) = (None, Some(0));
        put(&conn, &retention).unwrap();
        assert_eq!(get(&conn).unwrap(), retention);
        conn.execute("UPDATE content_limit SET class = '' WHERE class = '/b'", []).unwrap();
        assert!(get(&conn).is_err(), "content must not be kept longer than was set");
    }

    #[test]
    fn search_for_old_content_begins_again() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        let ages = [0, 60, 3600].map(Duration::from_secs);
        ages.iter().for_each(|age| set_searched(&conn, *age, 5).unwrap());
        set_searched(&conn, ages[2], 3).unwrap();
        let all = || ages.map(|age| searched(&conn, age).unwrap());
        assert_eq!(all(), [5, 5, 3]);
        change_held(&conn, &mut Vec::new(), &mut vec![2, 4], || false).unwrap();
        assert_eq!((all(), held(&conn).unwrap()), ([5, 5, 3], BTreeSet::from([2, 4])));
        // Each in a step of its own.
        let (mut dropped, mut added) = (vec![4], vec![6]);
        change_held(&conn, &mut dropped, &mut added, || true).unwrap();
        assert_eq!((dropped.len(), added.len(), held(&conn).unwrap()), (0, 1, BTreeSet::from([2])));
        change_held(&conn, &mut dropped, &mut added, || true).unwrap();
        assert_eq!((all(), held(&conn).unwrap()), ([4, 4, 3], BTreeSet::from([2, 6])));
        search_again(&conn, ages[1]).unwrap();
        assert_eq!(all(), [4, 0, 3]);
    }
}
