//! What rules are shown of a batch: what it touched, and the state that it would leave.

use std::collections::BTreeMap;

use super::Planner;
use super::rows::{NameRow, RowKey, Rows};
use super::subtrees::Key;
use crate::error::Result;
use crate::model::{Batch, Ino, Kind, Within};
use crate::path::{Name, TreePath};
use crate::rule::{self, Caller, Entries, File, Left, Touched};

impl<R: Rows> Planner<'_, R> {
    /// Refuses a batch that breaks a rule. Asked once its operations are done: what rules judge is the state
    /// that it would leave, and all of it.
    pub(super) fn judge(&self, batch: &Batch) -> Result<()> {
        rule::judge(self.rules, Caller::of(batch), self.within, &self.touched()?, &mut After(self))
    }

    fn touched(&self) -> Result<Touched> {
        let written = self
            .delta
            .nodes
            .values()
            .filter(|node| node.kind == Kind::File && node.content_seq == self.seq && node.nlink > 0);
        let mut touched =
            Touched { written: written.map(|node| Ino(node.ino)).collect(), ..Touched::default() };
        let mut moved = Vec::new();
        for (ino, key, row) in self.delta.all_given() {
            match row.kind {
                Kind::File => touched.named.push((TreePath::from_row(&key.0, &key.1), Ino(ino))),
                // what is in a directory that the batch made has got its own name in it
                Kind::Directory if ino < self.first_ino => {
                    let now = TreePath::from_row(&key.0, &key.1);
                    moved.extend(self.rules.may_have(&now).then_some((ino, now)));
                }
                _ => {}
            }
        }
        self.foresee(moved.iter().map(|(ino, _)| RowKey::NamesOf(*ino, Within::everything(), usize::MAX)));
        for (ino, now) in moved {
            touched.moved.extend(self.place(ino)?.map(|before| (before, now)));
        }
        Ok(touched)
    }

    /// Where a directory was before the batch.
    fn place(&self, ino: u64) -> Result<Option<TreePath>> {
        let names = self.rows.names_of(ino, &Within::everything(), usize::MAX)?;
        Ok(names.first().map(|(dir, name)| TreePath::from_row(dir, name)))
    }

    /// Names of a node within some subtrees, or all of them; without a question to the database where the
    /// batch itself knows the only one.
    fn names_after(&self, ino: u64, within: &Within) -> Result<Vec<Key>> {
        if self.node(ino)?.nlink == 1 {
            if let Some(key) = self.delta.given(ino).next() {
                return Ok(vec![key.clone()]);
            }
            if let Some(key) = self.addressed.get(&ino)
                && self.still_names(key, ino)?
            {
                return Ok(vec![key.clone()]);
            }
        }
        self.names_within(ino, within)
    }

    /// Whether a name that led to a node in the middle of the batch still does.
    fn still_names(&self, key: &Key, ino: u64) -> Result<bool> {
        let row = match self.delta.names.get(key) {
            Some(change) => change.after,
            None if self.delta.subtrees.is_empty() => return Ok(true),
            None => self.name(&key.0, &key.1)?,
        };
        Ok(row.is_some_and(|row| row.ino == ino))
    }

    /// Names in a directory as the batch leaves them, up to about `limit`.
    fn entries_after(&self, dir: &str, limit: usize) -> Result<BTreeMap<String, NameRow>> {
        let source = self.delta.subtrees.source(dir);
        let rows = source.map_or(Ok(Vec::new()), |source| self.rows.names_in(&source, limit))?;
        let mut entries: BTreeMap<String, NameRow> = rows.into_iter().collect();
        for ((_, name), after) in self.delta.changed_in(dir) {
            match after {
                Some(row) => entries.insert(name.clone(), row),
                None => entries.remove(name),
            };
        }
        Ok(entries)
    }
}

/// The state that a batch would leave.
struct After<'p, 'a, R>(&'p Planner<'a, R>);

impl<R: Rows> Left for After<'_, '_, R> {
    const FORESEES: bool = R::FORESEES;

    fn file(&mut self, ino: Ino) -> Result<Option<File>> {
        let node = self.0.node(ino.0)?;
        let there = node.kind == Kind::File && node.nlink > 0 && !node.expired(self.0.time);
        Ok(there.then_some(File { size: node.size }))
    }

    fn paths(&mut self, ino: Ino, within: &Within) -> Result<Vec<TreePath>> {
        let names = self.0.names_after(ino.0, within)?;
        Ok(names.iter().map(|(dir, name)| TreePath::from_row(dir, name)).collect())
    }

    fn entry(&mut self, dir: &TreePath, name: &Name) -> Result<Option<(Ino, Kind)>> {
        let row = self.0.name(dir.key(), name.as_str())?;
        Ok(row.map(|row| (Ino(row.ino), row.kind)))
    }

    fn entries(&mut self, dir: &TreePath, limit: usize) -> Result<Entries> {
        let entries = self.0.entries_after(dir.key(), limit)?.into_iter();
        entries.map(|(name, row)| Ok((Name::parse(&name)?, Ino(row.ino), row.kind))).collect()
    }

    fn content(&mut self, ino: Ino, size: u64) -> Result<Vec<u8>> {
        if R::FORESEES {
            let stored = |chunk: &u64| !self.0.delta.chunks.contains_key(chunk);
            let chunks = self.0.extents(ino.0, 0, size)?.into_iter().map(|extent| extent.chunk);
            self.0.foresee(chunks.filter(stored).map(RowKey::Chunk));
        }
        self.0.read(ino.0, 0, size)
    }
}
