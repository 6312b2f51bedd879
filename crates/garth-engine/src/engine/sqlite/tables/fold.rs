//! Tables `fold` and `fold_node`: the removal of ended rows that is in progress, and the nodes that it has
//! yet to visit. The place is written with each step, so that a removal that was interrupted goes on.

use rusqlite::{Connection, params};

pub(crate) use crate::engine::relational::fold_pass::{Pass, Phase};
use crate::engine::sqlite::tables::head;
use crate::sqlite::{DbResult, one};

/// Returns the removal in progress.
pub(crate) fn get(conn: &Connection) -> DbResult<Option<Pass>> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, u64>(1)?, row.get(2)?));
    let Some((till, phase, at)) = one(conn, "SELECT till, phase, at FROM fold", [], read)? else {
        return Ok(None);
    };
    Ok(Some(Pass { till, phase: Phase::of_number(phase)?, at }))
}

/// Returns true if a removal is in progress up to the same commit and in the same phase, at whatever place.
pub(crate) fn is_at(conn: &Connection, pass: Pass) -> DbResult<bool> {
    Ok(get(conn)?.is_some_and(|it| it.is_in(pass)))
}

/// Writes the removal in progress.
pub(crate) fn put(conn: &Connection, pass: Pass) -> DbResult<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO fold (id, till, phase, at) VALUES (1, ?1, ?2, ?3)")?
        .execute(params![pass.till, pass.phase.number(), pass.at])?;
    Ok(())
}

/// Ends the removal in progress.
pub(crate) fn end(conn: &Connection) -> DbResult<()> {
    conn.execute("DELETE FROM fold", [])?;
    Ok(())
}

/// Returns the last commit up to which ended rows are removed, or may be by the removal in progress.
pub(crate) fn reached(conn: &Connection) -> DbResult<u64> {
    let pass = get(conn)?.filter(|pass| pass.phase > Phase::Waiting);
    Ok(pass.map_or(0, |pass| pass.till).max(head::get(conn)?.folded))
}

/// Returns the first commit that is in the log. Of those before it, only commits with idempotency keys are.
pub(crate) fn log_begin(conn: &Connection) -> DbResult<u64> {
    match get(conn)? {
        Some(Pass { phase: Phase::Log, at, .. }) => Ok(at + 1),
        _ => Ok(head::get(conn)?.folded),
    }
}

/// Adds a node to visit.
pub(crate) fn add_node(conn: &Connection, ino: u64) -> DbResult<()> {
    conn.prepare_cached("INSERT OR IGNORE INTO fold_node (ino) VALUES (?1)")?.execute([ino])?;
    Ok(())
}

/// Returns the next node to visit.
pub(crate) fn next_node(conn: &Connection) -> DbResult<Option<u64>> {
    one(conn, "SELECT ino FROM fold_node ORDER BY ino LIMIT 1", [], |row| row.get(0))
}

/// Removes a node that was visited.
pub(crate) fn remove_node(conn: &Connection, ino: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM fold_node WHERE ino = ?1")?.execute([ino])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::schema;

    #[test]
    fn place_of_a_removal_is_read_as_written() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        head::set_folded(&conn, 3).unwrap();
        assert_eq!((get(&conn).unwrap(), reached(&conn).unwrap(), log_begin(&conn).unwrap()), (None, 3, 3));
        for phase in (0..6).map(|number| Phase::of_number(number).unwrap()) {
            let pass = Pass { till: 9, phase, at: 5 };
            put(&conn, pass).unwrap();
            assert_eq!(get(&conn).unwrap(), Some(pass));
            assert_eq!(reached(&conn).unwrap(), if phase == Phase::Waiting { 3 } else { 9 });
            assert_eq!(log_begin(&conn).unwrap(), if phase == Phase::Log { 6 } else { 3 });
            assert!(is_at(&conn, Pass { at: 7, ..pass }).unwrap());
            assert!(!is_at(&conn, Pass { till: 8, ..pass }).unwrap());
            let other = if phase == Phase::Log { Phase::Nodes } else { Phase::Log };
            assert!(!is_at(&conn, pass.begin(other, 5)).unwrap());
        }
        conn.execute("UPDATE fold SET phase = 6", []).unwrap();
        assert!(get(&conn).is_err());
        end(&conn).unwrap();
        assert_eq!(get(&conn).unwrap(), None);
    }

    #[test]
    fn nodes_are_visited_once() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        [8, 7, 8].iter().for_each(|ino| add_node(&conn, *ino).unwrap());
        let mut visited = Vec::new();
        while let Some(ino) = next_node(&conn).unwrap() {
            visited.push(ino);
            remove_node(&conn, ino).unwrap();
        }
        assert_eq!(visited, [7, 8]);
    }
}
