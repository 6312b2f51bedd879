//! Lines that search leaves out: lines for which another file has keys.

use std::collections::HashSet;
use std::ops::Range;

use rusqlite::params;

use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{MAX, live_names, nodes};
use crate::model::Projection;
use crate::path::TreePath;
use crate::sqlite::{DbResult, one};
use crate::text::withheld::blanked;

impl ReadView<'_> {
    /// Returns true if the file at a path has a key.
    pub(super) fn has_key(&self, file: &TreePath, projection: Projection, key: &str) -> DbResult<bool> {
        match self.live_file(file)? {
            Some(ino) => self.node_has_key(ino, projection, key),
            None => Ok(false),
        }
    }

    fn live_file(&self, file: &TreePath) -> DbResult<Option<u64>> {
        let Some((dir, name)) = file.split() else { return Ok(None) };
        let Some(row) = live_names::get(self.conn, dir.key(), name.as_str())? else { return Ok(None) };
        let Some(node) = nodes::version(self.conn, row.ino, MAX)? else { return Ok(None) };
        Ok((!node.expired(self.time)).then_some(node.ino))
    }

    fn node_has_key(&self, ino: u64, projection: Projection, key: &str) -> DbResult<bool> {
        let sql = "SELECT 1 FROM projected WHERE ino = ?1 AND projection = ?2 AND key = ?3 LIMIT 1";
        Ok(one(self.conn, sql, params![ino, projection.number(), key], |_| Ok(()))?.is_some())
    }

    /// Returns true if search leaves out lines of the file at a path.
    pub(super) fn withholds(&self, path: &TreePath) -> DbResult<bool> {
        match self.control.registry().withheld(path) {
            Some(by) => self.has_key(&by.file, by.projection, by.any),
            None => Ok(false),
        }
    }

    /// Returns the lines of a range that search leaves out of the file at a path.
    pub(super) fn withheld(&self, path: &TreePath, lines: Range<u64>) -> DbResult<HashSet<u64>> {
        let mut withheld = HashSet::new();
        let Some(by) = self.control.registry().withheld(path) else { return Ok(withheld) };
        let Some(ino) = self.live_file(&by.file)? else { return Ok(withheld) };
        // One lookup for the common case that nothing is withheld.
        if !self.node_has_key(ino, by.projection, by.any)? {
            return Ok(withheld);
        }
        for line in lines {
            for key in (by.keys)(line) {
                if self.node_has_key(ino, by.projection, &key)? {
                    withheld.insert(line);
                    break;
                }
            }
        }
        Ok(withheld)
    }

    /// Blanks the withheld lines in a part of the file at a path. `first` is the number of its first line.
    pub(super) fn without_withheld(&self, path: &TreePath, text: Vec<u8>, first: u64) -> DbResult<Vec<u8>> {
        let end = first + text.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        let withheld = self.withheld(path, first..end)?;
        Ok(if withheld.is_empty() { text } else { blanked(text, first, |line| withheld.contains(&line)) })
    }
}
