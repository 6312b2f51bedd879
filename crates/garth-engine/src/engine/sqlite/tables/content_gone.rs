//! Table `content_gone`: states whose content of a file is gone, while the log still has them. `gc` first
//! marks them, and removes the content after the grace period.

use rusqlite::{Connection, params};

pub(crate) use crate::engine::relational::content_search::Span;
use crate::engine::sqlite::tables::MAX;
use crate::sqlite::{DbResult, all, one};

/// Mark of a span whose content is being removed: nobody opened a view before that time.
const REMOVING: i64 = i64::MIN;

/// Position in the order of marks: the mark, the node, and the end of the span.
pub(crate) type MarkKey = (i64, u64, u64);

/// Key before those of all marks.
pub(crate) const FIRST_MARK: MarkKey = (REMOVING, 0, 0);

/// Returns true if the content that a node had after commit `seq` is gone for a view that was opened at a
/// time. A view from before the mark reads it until it is removed.
pub(crate) fn is_gone(conn: &Connection, ino: u64, seq: u64, opened: i64) -> DbResult<bool> {
    // Content that is removed comes first, whatever else covers the state.
    let sql = "SELECT coalesce(marked, ?3) FROM content_gone
         WHERE ino = ?1 AND till > ?2 AND since <= ?2 ORDER BY 1 LIMIT 1";
    let marked = one(conn, sql, params![ino.min(MAX), seq.min(MAX), REMOVING], |row| row.get::<_, i64>(0))?;
    Ok(marked.is_some_and(|marked| opened >= marked))
}

/// Returns true if the content of all these states is marked or removed.
pub(crate) fn is_marked(conn: &Connection, span: Span) -> DbResult<bool> {
    let sql = "SELECT 1 FROM content_gone WHERE ino = ?1 AND till >= ?3 AND since <= ?2 LIMIT 1";
    Ok(one(conn, sql, [span.ino, span.since, span.till], |_| Ok(()))?.is_some())
}

/// Returns the spans of a node, in order of their ends.
pub(crate) fn all_of(conn: &Connection, ino: u64) -> DbResult<Vec<Span>> {
    let sql = "SELECT since, till FROM content_gone WHERE ino = ?1 ORDER BY till";
    all(conn, sql, [ino], |row| Ok(Span { ino, since: row.get(0)?, till: row.get(1)? }))
}

/// Marks states: no view that is opened later reads their content. Returns false if they were marked before.
pub(crate) fn mark(conn: &Connection, span: Span, now: i64) -> DbResult<bool> {
    let Span { ino, since, till } = span;
    if is_marked(conn, span)? {
        return Ok(false);
    }
    // Adjacent spans with one mark are removed together.
    let sql = "UPDATE OR IGNORE content_gone SET till = ?3 WHERE ino = ?1 AND till = ?2 AND marked = ?4";
    if conn.prepare_cached(sql)?.execute(params![ino, since, till, now])? == 0 {
        conn.prepare_cached(
            "INSERT INTO content_gone (ino, till, since, marked) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (ino, till) DO UPDATE SET since = min(since, excluded.since)",
        )?
        .execute(params![ino, till, since, now])?;
    }
    Ok(true)
}

/// Returns the first span after `after` that was marked at or before a time, and its place in that order.
pub(crate) fn next_marked(
    conn: &Connection,
    before: i64,
    after: MarkKey,
) -> DbResult<Option<(Span, MarkKey)>> {
    let sql = "SELECT ino, since, till, marked FROM content_gone
         WHERE marked <= ?1 AND (marked, ino, till) > (?2, ?3, ?4) ORDER BY marked, ino, till LIMIT 1";
    one(conn, sql, params![before, after.0, after.1, after.2], |row| {
        let span = Span { ino: row.get(0)?, since: row.get(1)?, till: row.get(2)? };
        Ok((span, (row.get(3)?, span.ino, span.till)))
    })
}

/// Returns the earliest mark.
pub(crate) fn first_mark(conn: &Connection) -> DbResult<Option<i64>> {
    let sql = "SELECT min(marked) FROM content_gone WHERE marked IS NOT NULL";
    Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Returns the number of nodes with marked spans, whose content is not removed.
pub(crate) fn count_marked(conn: &Connection) -> DbResult<u64> {
    let sql = "SELECT count(DISTINCT ino) FROM content_gone WHERE marked IS NOT NULL";
    Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Returns true if a span was marked at a time later than `now`.
pub(crate) fn is_any_ahead(conn: &Connection, now: i64) -> DbResult<bool> {
    Ok(one(conn, "SELECT 1 FROM content_gone WHERE marked > ?1 LIMIT 1", [now], |_| Ok(()))?.is_some())
}

/// Marks at most `limit` of the spans again that were marked at a time later than `now`. Returns their
/// number.
pub(crate) fn mark_again(conn: &Connection, now: i64, limit: usize) -> DbResult<usize> {
    let sql = "UPDATE content_gone SET marked = ?1 WHERE (ino, till) IN
         (SELECT ino, till FROM content_gone WHERE marked > ?1 LIMIT ?2)";
    Ok(conn.prepare_cached(sql)?.execute(params![now, limit])?)
}

/// Returns true if the removal of the content of a span has begun; `None` if the span is not marked.
pub(crate) fn is_being_removed(conn: &Connection, span: Span) -> DbResult<Option<bool>> {
    let sql = "SELECT marked FROM content_gone
         WHERE ino = ?1 AND since = ?2 AND till = ?3 AND marked IS NOT NULL";
    let marked = one(conn, sql, [span.ino, span.since, span.till], |row| row.get::<_, i64>(0))?;
    Ok(marked.map(|marked| marked == REMOVING))
}

/// Begins the removal of the content of a span, which nobody reads from now on.
pub(crate) fn begin_removal(conn: &Connection, span: Span) -> DbResult<()> {
    conn.prepare_cached("UPDATE content_gone SET marked = ?3 WHERE ino = ?1 AND till = ?2")?
        .execute(params![span.ino, span.till, REMOVING])?;
    Ok(())
}

/// Returns a span together with the adjacent ones whose content is removed.
pub(crate) fn with_adjacent(conn: &Connection, span: Span) -> DbResult<Span> {
    let before = "SELECT since FROM content_gone WHERE ino = ?1 AND till = ?2 AND marked IS NULL";
    let after = "SELECT till FROM content_gone WHERE ino = ?1 AND since = ?2 AND till > ?2 AND marked IS NULL
         ORDER BY till DESC LIMIT 1";
    let since = one(conn, before, [span.ino, span.since], |row| row.get(0))?;
    let till = one(conn, after, [span.ino, span.till], |row| row.get(0))?;
    Ok(Span { since: since.unwrap_or(span.since), till: till.unwrap_or(span.till), ..span })
}

/// Notes that the content of a span is removed. `joined` contains it and the adjacent spans.
pub(crate) fn settle(conn: &Connection, span: Span, joined: Span) -> DbResult<()> {
    conn.prepare_cached(
        "DELETE FROM content_gone WHERE ino = ?1 AND (till = ?2
             OR marked IS NULL AND since >= ?3 AND till <= ?4)",
    )?
    .execute([span.ino, span.till, joined.since, joined.till])?;
    conn.prepare_cached(
        "INSERT OR REPLACE INTO content_gone (ino, till, since, marked) VALUES (?1, ?2, ?3, NULL)",
    )?
    .execute([span.ino, joined.till, joined.since])?;
    Ok(())
}

/// Removes the spans of a node that end at or before commit `till`.
pub(crate) fn remove_until(conn: &Connection, ino: u64, till: u64) -> DbResult<()> {
    conn.prepare_cached("DELETE FROM content_gone WHERE ino = ?1 AND till <= ?2")?.execute([ino, till])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::schema;

    fn span(ino: u64, since: u64, till: u64) -> Span {
        Span { ino, since, till }
    }

    fn tables() -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        conn
    }

    /// Returns the states up to 12 whose content is gone for a view opened at a time.
    fn gone(conn: &Connection, opened: i64) -> Vec<u64> {
        (0..12).filter(|seq| is_gone(conn, 7, *seq, opened).unwrap()).collect()
    }

    #[test]
    fn views_from_before_a_mark_read_until_removal() {
        let conn = tables();
        assert!(mark(&conn, span(7, 2, 4), 100).unwrap());
        assert!(!mark(&conn, span(7, 2, 4), 200).unwrap(), "marked before");
        assert_eq!((gone(&conn, 99), gone(&conn, 100)), (vec![], vec![2, 3]));
        assert_eq!(is_being_removed(&conn, span(7, 2, 4)).unwrap(), Some(false));
        begin_removal(&conn, span(7, 2, 4)).unwrap();
        assert_eq!(is_being_removed(&conn, span(7, 2, 4)).unwrap(), Some(true));
        assert_eq!(gone(&conn, i64::MIN), [2, 3]);
        settle(&conn, span(7, 2, 4), span(7, 2, 4)).unwrap();
        assert_eq!(is_being_removed(&conn, span(7, 2, 4)).unwrap(), None);
        assert_eq!(gone(&conn, i64::MIN), [2, 3]);
        remove_until(&conn, 7, 3).unwrap();
        assert_eq!(gone(&conn, 0), [2, 3]);
        remove_until(&conn, 7, 4).unwrap();
        assert_eq!(gone(&conn, 0), [0; 0]);
    }

    #[test]
    fn marks_come_in_their_order() {
        let conn = tables();
        assert_eq!(first_mark(&conn).unwrap(), None);
        for (marked, one) in [(200, span(7, 5, 9)), (100, span(8, 1, 3)), (100, span(7, 1, 3))] {
            assert!(mark(&conn, one, marked).unwrap());
        }
        assert_eq!((first_mark(&conn).unwrap(), count_marked(&conn).unwrap()), (Some(100), 2));
        let next = |before, after| next_marked(&conn, before, after).unwrap();
        assert_eq!(next(99, FIRST_MARK), None);
        let (one, after) = next(300, FIRST_MARK).unwrap();
        assert_eq!(one, span(7, 1, 3));
        let (two, after) = next(300, after).unwrap();
        assert_eq!(two, span(8, 1, 3));
        assert_eq!(next(199, after), None);
        begin_removal(&conn, span(7, 5, 9)).unwrap();
        assert_eq!(next(99, FIRST_MARK).unwrap().0, span(7, 5, 9), "an interrupted removal goes on first");
    }

    #[test]
    fn marks_of_a_clock_that_was_ahead_are_set_again() {
        let conn = tables();
        for (marked, one) in [(100, span(7, 1, 3)), (900, span(7, 5, 7)), (950, span(8, 1, 2))] {
            assert!(mark(&conn, one, marked).unwrap());
        }
        assert!(is_any_ahead(&conn, 200).unwrap());
        assert_eq!([1, 5, 5].map(|limit| mark_again(&conn, 200, limit).unwrap()), [1, 1, 0]);
        assert!(!is_any_ahead(&conn, 200).unwrap());
        assert_eq!((gone(&conn, 100), gone(&conn, 200)), (vec![1, 2], vec![1, 2, 5, 6]));
    }

    #[test]
    fn adjacent_spans_become_one() {
        let conn = tables();
        for one in [span(7, 1, 3), span(7, 3, 5)] {
            assert!(mark(&conn, one, 100).unwrap());
        }
        let (first, _) = next_marked(&conn, 100, FIRST_MARK).unwrap().unwrap();
        assert_eq!(first, span(7, 1, 5), "they have one mark");
        settle(&conn, first, first).unwrap();
        for one in [span(7, 8, 9), span(7, 5, 6)] {
            assert!(mark(&conn, one, 200).unwrap());
        }
        assert_eq!(with_adjacent(&conn, span(7, 8, 9)).unwrap(), span(7, 8, 9));
        assert_eq!(with_adjacent(&conn, span(7, 5, 6)).unwrap(), span(7, 1, 6));
        settle(&conn, span(7, 8, 9), span(7, 8, 9)).unwrap();
        assert!(mark(&conn, span(7, 6, 8), 300).unwrap());
        assert_eq!(with_adjacent(&conn, span(7, 6, 8)).unwrap(), span(7, 6, 9), "5 to 6 still waits");
        settle(&conn, span(7, 6, 8), span(7, 6, 9)).unwrap();
        settle(&conn, span(7, 5, 6), with_adjacent(&conn, span(7, 5, 6)).unwrap()).unwrap();
        let rows: u64 = conn.query_row("SELECT count(*) FROM content_gone", [], |row| row.get(0)).unwrap();
        assert_eq!((rows, gone(&conn, 0)), (1, vec![1, 2, 3, 4, 5, 6, 7, 8]));
    }
}
