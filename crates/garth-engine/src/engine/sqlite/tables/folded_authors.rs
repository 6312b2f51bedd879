//! Tables `author` and `folded_author`: who made the commits that are no longer in the log. The bytes that
//! they wrote are still read, and keep their author. Commits in a row by one author share a row.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use crate::engine::relational::folded_authors::{DEFAULT, author_of, numbered};
use crate::model::Author;
use crate::sqlite::{DbResult, all, one};

/// Returns the author of a commit that is no longer in the log.
pub(crate) fn of(conn: &Connection, seq: u64) -> DbResult<Author> {
    let sql = "SELECT folded_author.author, author.json
         FROM folded_author LEFT JOIN author ON author.id = folded_author.author
         WHERE till >= ?1 ORDER BY till LIMIT 1";
    let found = one(conn, sql, [seq], |row| Ok((row.get::<_, u64>(0)?, row.get::<_, Option<String>>(1)?)))?;
    Ok(author_of(seq, found.as_ref().map(|(number, json)| (*number, json.as_deref())))?)
}

/// Returns the last commit whose author is known here; 0 if there is none.
pub(crate) fn last(conn: &Connection) -> DbResult<u64> {
    let sql = "SELECT coalesce(max(till), 0) FROM folded_author";
    Ok(conn.query_row(sql, [], |row| row.get(0))?)
}

/// Returns the next `limit` rows after commit `from`: their commits, and true for those whose author is
/// missing.
pub(crate) fn without_author(conn: &Connection, from: u64, limit: usize) -> DbResult<Vec<(u64, bool)>> {
    let sql =
        "SELECT till, author <> ?3 AND NOT EXISTS (SELECT 1 FROM author WHERE id = folded_author.author)
         FROM folded_author WHERE till > ?1 ORDER BY till LIMIT ?2";
    all(conn, sql, params![from, limit, DEFAULT], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Writer of the authors of commits that leave the log, in ascending order.
#[derive(Debug)]
pub(crate) struct Spans {
    /// Last row: its commit and author.
    last: Option<(u64, u64)>,
    /// Numbers of the authors that this writer has met, by their JSON.
    known: HashMap<String, u64>,
}

impl Spans {
    /// Returns a writer that continues after the commits that have been written.
    pub(crate) fn begin(conn: &Connection) -> DbResult<Self> {
        let sql = "SELECT till, author FROM folded_author ORDER BY till DESC LIMIT 1";
        let last = one(conn, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Self { last, known: HashMap::new() })
    }

    /// Writes the author of a commit, which is later than all before. `author` is that of its row in the log.
    pub(crate) fn push(&mut self, conn: &Connection, seq: u64, author: Option<&str>) -> DbResult<()> {
        let author = self.number_of(conn, author)?;
        match self.last {
            Some((till, last)) if last == author => {
                conn.prepare_cached("UPDATE folded_author SET till = ?2 WHERE till = ?1")?
                    .execute(params![till, seq])?;
            }
            _ => {
                conn.prepare_cached("INSERT INTO folded_author (till, author) VALUES (?1, ?2)")?
                    .execute(params![seq, author])?;
            }
        }
        self.last = Some((seq, author));
        Ok(())
    }

    fn number_of(&mut self, conn: &Connection, author: Option<&str>) -> DbResult<u64> {
        let Some(json) = author else { return Ok(DEFAULT) };
        if let Some(number) = self.known.get(json) {
            return Ok(*number);
        }
        let number = match numbered(Some(json)) {
            Some(json) => number_in_table(conn, json)?,
            None => DEFAULT,
        };
        self.known.insert(json.to_owned(), number);
        Ok(number)
    }
}

/// Returns the number of an author, who gets one if there is none.
fn number_in_table(conn: &Connection, json: &str) -> DbResult<u64> {
    if let Some(id) = one(conn, "SELECT id FROM author WHERE json = ?1", [json], |row| row.get(0))? {
        return Ok(id);
    }
    let sql = "INSERT INTO author (json) VALUES (?1) RETURNING id";
    Ok(conn.prepare_cached(sql)?.query_row([json], |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::schema;

    fn rows(conn: &Connection) -> (u64, u64) {
        let sql = "SELECT (SELECT count(*) FROM folded_author), (SELECT count(*) FROM author)";
        conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    }

    #[test]
    fn commits_in_a_row_by_one_author_share_a_row() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        let [scout, clerk] = ["scout", "clerk"].map(Author::agent);
        let [of_scout, of_clerk] = [&scout, &clerk].map(|author| serde_json::to_string(author).unwrap());
        let log = [None, None, Some(&of_scout), Some(&of_scout), Some(&of_clerk), None, Some(&of_scout)];
        // Half of them in another step.
        let mut spans = Spans::begin(&conn).unwrap();
        for (at, author) in log.iter().enumerate() {
            if at == 3 {
                spans = Spans::begin(&conn).unwrap();
            }
            spans.push(&conn, at as u64 + 1, author.map(String::as_str)).unwrap();
        }
        assert_eq!(rows(&conn), (5, 2));
        let default = Author::default();
        let expected = [&default, &default, &scout, &scout, &clerk, &default, &scout];
        for (at, author) in expected.into_iter().enumerate() {
            assert_eq!(of(&conn, at as u64 + 1).unwrap(), *author, "commit {}", at + 1);
        }
        assert!(of(&conn, 8).is_err(), "no row says who made it");
    }

    #[test]
    fn unreadable_author_becomes_the_default_one() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        let mut spans = Spans::begin(&conn).unwrap();
        spans.push(&conn, 1, Some("{\"agent\": ")).unwrap();
        spans.push(&conn, 2, None).unwrap();
        assert_eq!(of(&conn, 1).unwrap(), Author::default());
        assert_eq!(rows(&conn), (1, 0));
    }

    #[test]
    fn lost_author_is_damage() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        let mut spans = Spans::begin(&conn).unwrap();
        spans.push(&conn, 1, Some("{\"agent\":\"scout\"}")).unwrap();
        conn.execute("DELETE FROM author", []).unwrap();
        assert!(of(&conn, 1).is_err());
    }
}
