//! Statements of a find, all on one state of the account.

use garth_engine::model::find::FindPlace;
use garth_engine::model::{FindQuery, Within};
use garth_engine::{Error, ErrorKind, Result, TreePath};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::keys::{Key, NAMES, Name, Span};
use crate::client::{Connection, Param, Pipe, param};
use crate::rows::derived::key;
use crate::values::columns::{column, int, number};
use crate::values::parameters::{ints, texts};

/// Names of a node that are read at a time, if it has many.
const MANY_NAMES: usize = 4096;

/// Keys `p` with their nodes and the first names of these, in their order. Entries expire by the time at
/// which the transaction began.
macro_rules! with_names {
    ($($keys:expr),*) => {
        concat!(
            "SELECT p.key, p.ino, p.line, p.off, p.len,
                coalesce(v.nlink > 0 AND (v.expires_at IS NULL
                    OR v.expires_at > (extract(epoch FROM now()) * 1000000)::bigint * 1000), false),
                n.dir, n.name
            FROM (", $($keys,)* ") p
            LEFT JOIN LATERAL (SELECT nlink, expires_at FROM garth.node
                WHERE account = $1 AND ino = p.ino ORDER BY seq DESC LIMIT 1) v ON true
            LEFT JOIN LATERAL (SELECT dir, name FROM garth.name
                WHERE account = $1 AND ino = p.ino ORDER BY dir, name LIMIT 65) n ON v.nlink > 0
            ORDER BY p.key, p.ino, p.line, n.dir, n.name"
        )
    };
}

/// Keys after a place, up to the end of the range.
macro_rules! keys {
    ($until:literal) => {
        with_names!(
            "SELECT key, ino, line, off, len FROM garth.projected
            WHERE account = $1 AND projection = $2 AND (key, ino, line) > ($3, $4, $5)",
            $until,
            " ORDER BY key, ino, line LIMIT $6"
        )
    };
}

const KEYS: &str = keys!("");
const KEYS_UNTIL: &str = keys!(" AND key < $7");
/// Kinds of the nodes at paths.
const KINDS: &str = "SELECT n.kind FROM unnest($2::text[], $3::text[]) k(dir, name)
    CROSS JOIN LATERAL (SELECT kind FROM garth.name
        WHERE account = $1 AND dir = k.dir AND name = k.name OFFSET 0) n";
/// One key in the files at paths.
const KEYS_OF_FILES: &str = with_names!(
    "SELECT r.* FROM (SELECT DISTINCT n.ino FROM unnest($4::text[], $5::text[]) k(dir, name)
        CROSS JOIN LATERAL (SELECT ino FROM garth.name
            WHERE account = $1 AND dir = k.dir AND name = k.name AND kind = 0 OFFSET 0) n
        WHERE n.ino >= $6) f
    CROSS JOIN LATERAL (SELECT key, ino, line, off, len FROM garth.projected
        WHERE account = $1 AND projection = $2 AND key = $3 AND ino = f.ino
            AND line >= CASE WHEN f.ino = $6 THEN greatest($7, $8) ELSE $8 END
        ORDER BY line LIMIT $9) r
    ORDER BY r.ino, r.line LIMIT $10"
);
/// Keys of nodes in a range.
macro_rules! keys_of_nodes {
    ($until:literal) => {
        with_names!(
            "SELECT r.* FROM unnest($3::bigint[]) k(ino)
            CROSS JOIN LATERAL (SELECT key, ino, line, off, len FROM garth.projected
                WHERE account = $1 AND ino = k.ino AND projection = $2 AND key >= $4",
            $until,
            " OFFSET 0) r LIMIT $5"
        )
    };
}

const KEYS_OF_NODES: &str = keys_of_nodes!("");
const KEYS_OF_NODES_UNTIL: &str = keys_of_nodes!(" AND key < $6");
/// Nodes with names at paths and in ranges of directories.
const NODES_WITHIN: &str = "SELECT ino FROM (
        SELECT n.ino FROM unnest($2::text[], $3::text[]) k(dir, name)
        CROSS JOIN LATERAL (SELECT ino FROM garth.name
            WHERE account = $1 AND dir = k.dir AND name = k.name OFFSET 0) n
        UNION ALL
        SELECT n.ino FROM unnest($4::text[], $5::text[]) k(first, last)
        CROSS JOIN LATERAL (SELECT ino FROM garth.name
            WHERE account = $1 AND dir >= k.first AND dir < k.last LIMIT $6) n) a LIMIT $6";
const NAMES_AFTER: &str = "SELECT dir, name FROM garth.name
    WHERE account = $1 AND ino = $2 AND (dir, name) > ($3, $4) ORDER BY dir, name LIMIT $5";
const KEYED: &str = "SELECT keyed FROM garth.head WHERE account = $1";

/// Files in which one key is looked up.
pub(super) struct FileRange {
    pub(super) key: String,
    pub(super) names: Vec<Name>,
    /// First inode and, in this file, the first line.
    pub(super) ino: u64,
    pub(super) line: u64,
    /// Most keys of a file.
    pub(super) most: usize,
    /// Most keys of all files.
    pub(super) all: usize,
}

/// Transaction that reads one state of an account.
pub(super) struct Snapshot<'c> {
    conn: &'c Connection,
    account: i64,
    /// Version of the projections whose keys are read.
    version: u64,
    has_begun: bool,
}

impl<'c> Snapshot<'c> {
    pub(super) fn new(conn: &'c Connection, account: i64, version: u64) -> Self {
        Self { conn, account, version, has_begun: false }
    }

    /// Ends the transaction.
    pub(super) async fn end(self) -> Result<()> {
        let mut pipe = Pipe::new(self.conn);
        if self.has_begun {
            // After a statement that failed, it rolls back.
            pipe.simple("COMMIT");
        }
        pipe.run().await.map(drop)
    }

    /// Returns the keys after a place, at most `most`. `ends` ends the transaction with them.
    pub(super) async fn keys(
        &mut self,
        query: &FindQuery,
        span: &Span,
        most: usize,
        ends: bool,
    ) -> Result<Vec<Key>> {
        let mut params = vec![
            number_of(query),
            bytes(&span.key),
            param(span.ino, Type::INT8),
            param(span.line, Type::INT8),
            count(most),
        ];
        let sql = if query.to.is_some() { KEYS_UNTIL } else { KEYS };
        params.extend(query.to.as_deref().map(bytes));
        let mut rows = self.run(vec![(sql, params)], ends).await?;
        keys_of(&rows.pop().unwrap_or_default())
    }

    /// Returns the rows of a key in files; `None` if one of the names is that of another node than a file.
    pub(super) async fn keys_of_files(
        &mut self,
        query: &FindQuery,
        files: &FileRange,
        ends: bool,
    ) -> Result<Option<Vec<Key>>> {
        let params = vec![
            number_of(query),
            bytes(&files.key),
            texts(files.names.iter().map(|(dir, _)| dir.clone())),
            texts(files.names.iter().map(|(_, name)| name.clone())),
            param(int(files.ino), Type::INT8),
            param(int(files.line), Type::INT8),
            param(int(query.lines_from), Type::INT8),
            count(files.most),
            count(files.all),
        ];
        let kinds = vec![
            texts(files.names.iter().map(|(dir, _)| dir.clone())),
            texts(files.names.iter().map(|(_, name)| name.clone())),
        ];
        let mut rows = self.run(vec![(KINDS, kinds), (KEYS_OF_FILES, params)], ends).await?;
        let (keys, kinds) = (rows.pop().unwrap_or_default(), rows.pop().unwrap_or_default());
        for kind in &kinds {
            if column::<i16>(kind, 0)? != 0 {
                return Ok(None);
            }
        }
        keys_of(&keys).map(Some)
    }

    /// Returns the keys of nodes in the range of a query, at most `most`, in their order.
    pub(super) async fn keys_of_nodes(
        &mut self,
        query: &FindQuery,
        inos: Vec<u64>,
        most: usize,
    ) -> Result<Vec<Key>> {
        let mut params = vec![number_of(query), ints(inos.into_iter()), bytes(&query.from), count(most)];
        let sql = if query.to.is_some() { KEYS_OF_NODES_UNTIL } else { KEYS_OF_NODES };
        params.extend(query.to.as_deref().map(bytes));
        keys_of(&self.query(sql, params).await?)
    }

    /// Returns the nodes of names at paths and in ranges of directories, at most `most`.
    pub(super) async fn nodes_within(
        &mut self,
        names: Vec<Name>,
        ranges: Vec<(String, String)>,
        most: usize,
    ) -> Result<Vec<u64>> {
        // A text has no NUL. Nothing is between a directory and the text that is its end then.
        let end = |end: &String| end.replace('\0', "\u{1}");
        let params = vec![
            texts(names.iter().map(|(dir, _)| dir.clone())),
            texts(names.iter().map(|(_, name)| name.clone())),
            texts(ranges.iter().map(|(first, _)| end(first))),
            texts(ranges.iter().map(|(_, last)| end(last))),
            count(most),
        ];
        self.query(NODES_WITHIN, params).await?.iter().map(|row| number(row, 0)).collect()
    }

    /// Returns the names of a node within some subtrees, after one, in their order: all, or more than
    /// `limit`.
    pub(super) async fn names_after(
        &mut self,
        ino: u64,
        after: &Name,
        within: &Within,
        limit: usize,
    ) -> Result<Vec<Name>> {
        let (mut names, mut after) = (Vec::new(), after.clone());
        loop {
            let text = |text: &str| param(text.to_owned(), Type::TEXT);
            let params = vec![param(int(ino), Type::INT8), text(&after.0), text(&after.1), count(MANY_NAMES)];
            let rows = self.query(NAMES_AFTER, params).await?;
            for row in &rows {
                after = (column(row, 0)?, column(row, 1)?);
                if within.contains(&TreePath::from_row(&after.0, &after.1)) {
                    names.push(after.clone());
                }
            }
            if rows.len() < MANY_NAMES || names.len() > limit {
                return Ok(names);
            }
        }
    }

    /// Runs a statement, whose first parameter is the account.
    pub(super) async fn query(&mut self, sql: &'static str, params: Vec<Param>) -> Result<Vec<Row>> {
        Ok(self.run(vec![(sql, params)], false).await?.pop().unwrap_or_default())
    }

    /// Runs statements in one round trip, which begins the transaction if it has not begun, and ends it with
    /// `ends`. Returns their rows in order.
    async fn run(
        &mut self,
        statements: Vec<(&'static str, Vec<Param>)>,
        ends: bool,
    ) -> Result<Vec<Vec<Row>>> {
        let (mut pipe, begins) = (Pipe::new(self.conn), !self.has_begun);
        let own = || param(self.account, Type::INT8);
        if begins {
            pipe.simple(format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                 SELECT set_config('garth.account', '{}', true), \
                 set_config('statement_timeout', '10000', true)",
                self.account
            ));
        }
        let keyed = begins.then(|| pipe.query(KEYED, vec![own()]));
        let mut places = Vec::with_capacity(statements.len());
        for (sql, params) in statements {
            places.push(pipe.query(sql, [own()].into_iter().chain(params).collect()));
        }
        if ends {
            pipe.simple("COMMIT");
        }
        // Even if a statement fails: the transaction has to be ended.
        self.has_begun = !ends;
        let mut answers = pipe.run().await?;
        let mut take = |place: usize| answers.get_mut(place).map(std::mem::take).unwrap_or_default();
        if let Some(place) = keyed {
            check_keyed(take(place).first(), self.version)?;
        }
        Ok(places.into_iter().map(take).collect())
    }
}

/// Fails if keys of the registered projections are missing.
fn check_keyed(head: Option<&Row>, version: u64) -> Result<()> {
    let missing = || Error::new(ErrorKind::NotFound, "the account does not exist, or was deleted");
    if number(head.ok_or_else(missing)?, 0)? >= version {
        return Ok(());
    }
    Err(Error::new(ErrorKind::WouldBlock, "the keys of the account are being derived; try again"))
}

fn number_of(query: &FindQuery) -> Param {
    param(query.projection.number().cast_signed(), Type::INT4)
}

/// Returns a key as a column has it.
fn bytes(key: &str) -> Param {
    param(key.as_bytes().to_vec(), Type::BYTEA)
}

fn count(number: usize) -> Param {
    param(int(number as u64), Type::INT8)
}

/// Returns the keys in rows, which follow each other by key and name.
fn keys_of(rows: &[Row]) -> Result<Vec<Key>> {
    let mut keys: Vec<Key> = Vec::new();
    for row in rows {
        let (ino, line) = (number(row, 1)?, number(row, 2)?);
        let place = FindPlace { key: key(row, 0)?, ino, line, path: None };
        if keys.last().is_none_or(|last| last.place != place) {
            let names = Vec::with_capacity(1);
            let (off, len) = (number(row, 3)?, number(row, 4)?);
            keys.push(Key { place, off, len, is_live: column(row, 5)?, names });
        }
        if let (Some(dir), Some(name)) = (column(row, 6)?, column(row, 7)?)
            && let Some(last) = keys.last_mut()
        {
            last.names.push((dir, name));
        }
    }
    debug_assert!(keys.iter().all(|key| key.names.len() <= NAMES + 1), "as the statement limits them");
    Ok(keys)
}
