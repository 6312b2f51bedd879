//! The row cache of the writer: consecutive batches touch the same directories and files.
//!
//! It is valid while only this connection writes. `PRAGMA data_version` changes when another connection has
//! committed, in this process or another. It is read inside each write transaction, where no other connection
//! can write.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Connection;

use crate::engine::planner::{Delta, NameRow, NewestNode};
use crate::model::Attributes;
use crate::rule::quota::Quotas;
use crate::sqlite::DbResult;

/// Most rows of a kind. Typically less than 100 KiB for an account; 3 MiB with the longest paths and targets.
const MOST: usize = 256;

/// Live names, newest versions of nodes, and, during a transaction, the attributes that it wrote.
#[derive(Default)]
pub(crate) struct RowCache {
    /// The `data_version` that the rows belong to.
    version: Option<i64>,
    rows: RefCell<CachedRows>,
    /// The quotas of the tree, with the usage after the last commit.
    quotas: RefCell<Option<Arc<Quotas>>>,
}

#[derive(Default)]
struct CachedRows {
    /// `None` for a name that does not exist.
    names: HashMap<(String, String), Option<NameRow>>,
    nodes: HashMap<u64, NewestNode>,
    /// With the commit that set them. Kept for one transaction only, because a set may have 256 KiB.
    attributes: HashMap<u64, (u64, Attributes)>,
}

impl RowCache {
    /// Begins a transaction on `conn`. Clears the cache if another connection has committed after the last
    /// one.
    pub(crate) fn begin(&mut self, conn: &Connection) -> DbResult<()> {
        let version = conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.version != Some(version) {
            self.forget();
            self.version = Some(version);
        }
        Ok(())
    }

    /// Ends a transaction.
    pub(crate) fn end(&self) {
        self.rows.borrow_mut().attributes.clear();
    }

    /// Clears the cache, after a rollback or a transaction that wrote past it.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn name(
        &self,
        dir: &str,
        name: &str,
        read: impl FnOnce() -> DbResult<Option<NameRow>>,
    ) -> DbResult<Option<NameRow>> {
        let key = (dir.to_owned(), name.to_owned());
        if let Some(row) = self.rows.borrow().names.get(&key) {
            return Ok(*row);
        }
        let row = read()?;
        let names = &mut self.rows.borrow_mut().names;
        // Reads evict nothing: only `put` empties a full cache.
        if names.len() < MOST {
            names.insert(key, row);
        }
        Ok(row)
    }

    pub(crate) fn node(
        &self,
        ino: u64,
        read: impl FnOnce() -> DbResult<Option<NewestNode>>,
    ) -> DbResult<Option<NewestNode>> {
        if let Some(node) = self.rows.borrow().nodes.get(&ino) {
            return Ok(Some(node.clone()));
        }
        let node = read()?;
        self.keep(node.clone());
        Ok(node)
    }

    /// Keeps a node that was read.
    pub(crate) fn keep(&self, node: Option<NewestNode>) {
        let nodes = &mut self.rows.borrow_mut().nodes;
        if let Some(node) = node
            && nodes.len() < MOST
        {
            nodes.insert(node.row.ino, node);
        }
    }

    pub(crate) fn attributes(
        &self,
        ino: u64,
        seq: u64,
        read: impl FnOnce() -> DbResult<Attributes>,
    ) -> DbResult<Attributes> {
        // Only if they are of that commit: a later batch of the group may have set others.
        match self.rows.borrow().attributes.get(&ino) {
            Some((since, attributes)) if *since == seq => return Ok(attributes.clone()),
            _ => {}
        }
        read()
    }

    pub(crate) fn quotas(&self, read: impl FnOnce() -> DbResult<Quotas>) -> DbResult<Arc<Quotas>> {
        if let Some(quotas) = &*self.quotas.borrow() {
            return Ok(Arc::clone(quotas));
        }
        let quotas = Arc::new(read()?);
        *self.quotas.borrow_mut() = Some(Arc::clone(&quotas));
        Ok(quotas)
    }

    /// Clears all rows. Quotas stay.
    pub(crate) fn clear(&self) {
        *self.rows.borrow_mut() = CachedRows::default();
    }

    /// Adds the rows that a batch wrote. A batch larger than the cache clears it: its rows are unlikely to be
    /// used again, and the rows that it replaced must not stay.
    pub(crate) fn apply(&self, delta: &Delta, seq: u64) {
        if !delta.quotas.is_empty()
            && let Some(quotas) = &mut *self.quotas.borrow_mut()
        {
            Arc::make_mut(quotas).use_up(&delta.quotas);
        }
        let large = delta.names.len().max(delta.nodes.len()) > MOST;
        // The ranges of subtrees are rewritten by statements that name no single row.
        if large || !delta.subtrees.is_empty() {
            return self.clear();
        }
        let CachedRows { names, nodes, attributes } = &mut *self.rows.borrow_mut();
        for (key, change) in &delta.names {
            put(names, key.clone(), change.after);
        }
        for (node, write) in delta.node_writes() {
            put(nodes, node.ino, write.newest(node));
        }
        for (ino, set) in &delta.attributes {
            put(attributes, *ino, (seq, set.clone()));
        }
    }
}

fn put<K: Eq + std::hash::Hash, V>(rows: &mut HashMap<K, V>, key: K, row: V) {
    if rows.len() >= MOST {
        rows.clear();
    }
    rows.insert(key, row);
}
