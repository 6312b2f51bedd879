//! The part of `fsck` that checks names and nodes.

use rusqlite::{Connection, params};

use super::past_rows::named_since;
use super::{Check, Fsck, ROWS};
use crate::engine::planner::NodeRow;
use crate::engine::sqlite::tables::node_columns::KindColumn;
use crate::engine::sqlite::tables::{MAX, head, live_names, names_of_node, nodes};
use crate::error::Result;
use crate::model::{Ino, Kind, Within};
use crate::sqlite::{DbResult, all, one};

/// Key of a name.
type Key = (String, String);

impl Check<'_> {
    /// Checks that each name is in a directory and names a node of its kind, also in the oldest readable
    /// state.
    pub(super) fn names(&mut self) -> Result<()> {
        self.walk((String::new(), String::new()), |view, report, (dir, name): Key| {
            let oldest = head::get(view.conn)?.oldest;
            let sql = "SELECT dir, name, ino, since, kind FROM name WHERE (dir, name) > (?1, ?2)
                 ORDER BY dir, name LIMIT ?3";
            let names: Vec<(String, String, u64, u64, Kind)> =
                all(view.conn, sql, params![dir, name, ROWS], |row| {
                    let kind = row.get::<_, KindColumn>(4)?.0;
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, kind))
                })?;
            // The names of a directory follow each other, so it is looked up once.
            let mut there = None;
            for (dir, name, ino, since, kind) in &names {
                report.names += 1;
                if there != Some(dir) && !is_directory(view.conn, dir)? {
                    report.add("name", format!("{dir}/{name} is in no directory"));
                } else {
                    there = Some(dir);
                }
                let path = format!("{dir}/{name}");
                named(view.conn, report, &path, *ino, *kind)?;
                if oldest > 0 {
                    named_since(view.conn, report, &path, *ino, oldest.max(*since))?;
                }
            }
            Ok(names.last().map(|(dir, name, ..)| (dir.clone(), name.clone())))
        })
    }

    /// Checks that each version has its attributes, that each node has as many names as its link count says,
    /// and that each expiry is listed.
    pub(super) fn nodes(&mut self) -> Result<()> {
        self.walk((0, 0), |view, report, (ino, seq): (u64, u64)| {
            let sql =
                "SELECT ino, seq, attrs_seq FROM node WHERE (ino, seq) > (?1, ?2) ORDER BY ino, seq LIMIT ?3";
            let versions: Vec<(u64, u64, u64)> = all(view.conn, sql, params![ino, seq, ROWS], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
            // The versions of a node may continue from the piece before, where the node was checked.
            let mut judged = ino;
            for (ino, seq, attrs) in &versions {
                report.versions += 1;
                let sql = "SELECT 1 FROM attribute WHERE ino = ?1 AND seq = ?2";
                if *attrs > 0 && one(view.conn, sql, [ino, attrs], |_| Ok(()))?.is_none() {
                    let what =
                        format!("version {seq} of node {ino} has lost its attributes of commit {attrs}");
                    report.add("attribute", what);
                }
                if judged != *ino
                    && let Some(node) = nodes::version(view.conn, *ino, MAX)?
                {
                    links(view.conn, report, &node)?;
                    expiry(view.conn, report, &node)?;
                }
                judged = *ino;
            }
            Ok(versions.last().map(|(ino, seq, _)| (*ino, *seq)))
        })?;
        self.walk(0, |view, report, from: u64| {
            let sql = "SELECT ino FROM expiry WHERE ino > ?1 ORDER BY ino LIMIT ?2";
            let inos: Vec<u64> = all(view.conn, sql, params![from, ROWS], |row| row.get(0))?;
            for ino in &inos {
                if nodes::version(view.conn, *ino, MAX)?.is_none() {
                    report.add("expiry", format!("node {ino} is listed to expire but does not exist"));
                }
            }
            Ok(inos.last().copied())
        })
    }
}

fn is_directory(conn: &Connection, path: &str) -> DbResult<bool> {
    let Some((dir, name)) = path.rsplit_once('/') else { return Ok(path.is_empty()) };
    Ok(live_names::get(conn, dir, name)?.is_some_and(|row| row.kind == Kind::Directory))
}

fn named(conn: &Connection, report: &mut Fsck, path: &str, ino: u64, kind: Kind) -> DbResult<()> {
    match nodes::version(conn, ino, MAX)? {
        None => report.add("name", format!("{path} names node {ino}, which does not exist")),
        Some(node) if node.kind != kind => {
            report.add("name", format!("{path} and its node {ino} are of different kinds"));
        }
        Some(node) if node.nlink == 0 => {
            report.add("link_count", format!("{path} names node {ino}, which should have no name"));
        }
        Some(_) => {}
    }
    Ok(())
}

fn links(conn: &Connection, report: &mut Fsck, node: &NodeRow) -> DbResult<()> {
    let names = names_of_node::behind(conn, node.ino, &Within::everything(), ("", ""), usize::MAX)?;
    let dir = match names.first() {
        // The root has no name.
        _ if node.ino == Ino::ROOT.0 => Some(String::new()),
        // The link count of a directory is that of its subdirectories, which are found by its path.
        Some((dir, name)) if node.kind == Kind::Directory => Some(format!("{dir}/{name}")),
        _ => None,
    };
    let count = match dir {
        None => names.len() as u64,
        Some(dir) => {
            let sql = "SELECT 2 + count(*) FROM name WHERE dir = ?1 AND kind = ?2";
            conn.prepare_cached(sql)?
                .query_row(params![dir, KindColumn(Kind::Directory)], |row| row.get::<_, u64>(0))?
        }
    };
    if count != node.nlink {
        report
            .add("link_count", format!("node {} has link count {}, but {count} links", node.ino, node.nlink));
    }
    Ok(())
}

fn expiry(conn: &Connection, report: &mut Fsck, node: &NodeRow) -> DbResult<()> {
    let listed: Option<i64> =
        one(conn, "SELECT at FROM expiry WHERE ino = ?1", [node.ino], |row| row.get(0))?;
    // A node without a name no longer expires.
    if listed != node.expires_at.filter(|_| node.nlink > 0) {
        let what = format!("the expiry of node {} differs from the list of expiries", node.ino);
        report.add("expiry", what);
    }
    Ok(())
}
