//! Identical rows in plain SQLite: reads the tables that garth has filled, and measures the insertion of
//! their rows into empty tables with the same schema and settings, one transaction for every 32 operations.
//!
//! It does not repeat garth's reads, checks, updates and search indexing, so this is a lower bound.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::figures::Figures;
use crate::fixed::{GROUP, database};

struct Table {
    insert: String,
    rows: Vec<Vec<Value>>,
}

/// Copies the largest database below `from`, which garth has open, into a new folder.
pub(crate) fn keep(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir(to)?;
    let copy = to.join("tree.db").into_os_string().into_string().ok().context("the folder is not UTF-8")?;
    // A plain copy of an open database could miss the commits in its log.
    Connection::open(largest(from)?)?.execute("VACUUM INTO ?1", [copy])?;
    Ok(())
}

fn largest(folder: &Path) -> Result<PathBuf> {
    let all = databases(folder)?;
    Ok(all.into_iter().max_by_key(|(size, _)| *size).context("garth left no database")?.1)
}

/// Inserts the rows of the largest database below `from`, which result from `ops` appends, into a new one in
/// `to`.
pub(crate) fn run(from: &Path, to: &Path, ops: usize) -> Result<Figures> {
    let source = Connection::open(largest(from)?)?;
    let mut target = database(to)?;
    let tables = copy_schema(&source, &target)?;
    let groups = ops.div_ceil(GROUP);
    let start = Instant::now();
    for group in 0..groups {
        let transaction = target.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        for table in &tables {
            let (first, end) = (group * table.rows.len() / groups, (group + 1) * table.rows.len() / groups);
            let mut insert = transaction.prepare_cached(&table.insert)?;
            for row in &table.rows[first..end] {
                insert.execute(params_from_iter(row))?;
            }
        }
        transaction.commit()?;
    }
    let mut figures = Figures::default();
    figures.time("append", start.elapsed(), ops);
    Ok(figures)
}

/// Creates the ordinary tables and their indexes, without the search tables. Returns their rows.
fn copy_schema(source: &Connection, target: &Connection) -> Result<Vec<Table>> {
    let mut schema = source.prepare(
        "SELECT m.type, m.tbl_name, m.sql FROM sqlite_schema m LEFT JOIN pragma_table_list t ON t.name = m.tbl_name \
         WHERE m.sql IS NOT NULL AND t.type = 'table' AND t.schema = 'main' AND m.type IN ('table', 'index') \
         ORDER BY m.type = 'index', m.rowid",
    )?;
    let parts = schema.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let mut tables = Vec::new();
    for part in parts {
        let (kind, table, sql): (String, String, String) = part?;
        target.execute(&sql, [])?;
        if kind == "table" {
            tables.push(rows(source, &table)?);
        }
    }
    Ok(tables)
}

fn rows(source: &Connection, table: &str) -> Result<Table> {
    let mut columns =
        source.prepare("SELECT '\"' || name || '\"' FROM pragma_table_xinfo(?1) WHERE hidden = 0")?;
    let columns = columns.query_map([table], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let mut select = source.prepare(&format!("SELECT {} FROM \"{table}\"", columns.join(", ")))?;
    let values = |row: &rusqlite::Row<'_>| (0..columns.len()).map(|column| row.get(column)).collect();
    let rows = select.query_map([], values)?.collect::<Result<Vec<Vec<Value>>, _>>()?;
    let marks = vec!["?"; columns.len()].join(", ");
    Ok(Table { insert: format!("INSERT INTO \"{table}\" ({}) VALUES ({marks})", columns.join(", ")), rows })
}

/// Returns every SQLite database below a folder with its size, including its write-ahead log.
fn databases(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(databases(&path)?);
            continue;
        }
        let mut start = [0; 16];
        if File::open(&path)?.read_exact(&mut start).is_ok() && &start == b"SQLite format 3\0" {
            let mut log = path.clone().into_os_string();
            log.push("-wal");
            let size = path.metadata()?.len() + std::fs::metadata(log).map_or(0, |log| log.len());
            found.push((size, path));
        }
    }
    Ok(found)
}
