//! Keys that follow from groups of commits. After each group they are compared with those that each node
//! should have.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;

use super::*;
use crate::model::{Attributes, Projection};
use crate::rule::Registry;
use crate::rule::projection::{ContentProjection, Keys};

/// Rows of keys: inode, projection, key and line, which a database has as primary key, with offset and
/// length.
pub(super) type RowsOfKeys = BTreeMap<(u64, Projection, String, u64), (u64, u64)>;

/// Store with the keys of its nodes.
pub(super) struct KeyedStore {
    pub(super) store: Store,
    pub(super) registry: Registry,
    pub(super) rows: RowsOfKeys,
    /// Ranges of content that the last group has read for its keys.
    read: RefCell<Vec<(u64, u64)>>,
    /// Number of queries and rows of the store that the keys of the last group took.
    asked: usize,
}

impl KeyedStore {
    pub(super) fn new() -> Self {
        let registry = crate::rule::sample::registry().with_projection(ids());
        let (rows, read) = (RowsOfKeys::new(), RefCell::default());
        Self { store: Store::new(), registry, rows, read, asked: 0 }
    }

    /// Commits operations as a group, one commit each, and applies the changes of keys. Returns these in
    /// words.
    fn group(&mut self, ops: impl IntoIterator<Item = Op>) -> Vec<String> {
        let mut changed = ChangedNodes::new(self.store.head.next_ino);
        for op in ops {
            let before = self.store.head.seq;
            let Applied { delta, .. } = self.store.run([op]);
            for (dir, name, row) in self.store.names_below_at("", before, usize::MAX).unwrap() {
                if delta.subtrees.has_moved_away(&dir) {
                    changed.moved(&self.registry, &row, &name, &dir, delta.subtrees.now(&dir).as_deref());
                }
            }
            changed.by(&self.registry, &delta);
        }
        self.read.borrow_mut().clear();
        self.store.asked.store(0, Relaxed);
        let mut changes = Vec::new();
        let outcome: Result<()> = each_key_change(&*self, &self.registry, &changed, &mut |ino, change| {
            changes.push((ino, change));
            Ok(())
        });
        outcome.unwrap();
        self.asked = self.store.asked.load(Relaxed);
        let read = self.read.take();
        changes.iter().for_each(|(ino, change)| self.apply(*ino, change));
        assert_eq!(self.rows, self.due(), "after {changes:?}");
        *self.read.borrow_mut() = read;
        changes.iter().map(|(_, change)| words(change)).collect()
    }

    pub(super) fn apply(&mut self, ino: u64, change: &KeysChange) {
        match change {
            KeysChange::Forget => self.rows.retain(|(of, ..), _| *of != ino),
            KeysChange::Remove(projection, key) => {
                let removed = self.rows.remove(&(ino, *projection, key.clone(), 0));
                assert!(removed.is_some(), "a key that is removed exists: {change:?}");
            }
            KeysChange::Cut(projection, from) => {
                self.rows.retain(|(of, one, ..), (off, _)| *of != ino || one != projection || *off < *from);
            }
            KeysChange::Add(row) => insert(&mut self.rows, ino, row),
        }
    }

    /// Returns the rows that the nodes should have.
    fn due(&self) -> RowsOfKeys {
        let mut rows = RowsOfKeys::new();
        for ino in 1..self.store.head.next_ino {
            let Some(node) = self.store.node(ino).unwrap() else { continue };
            let outcome: Result<()> = each_key(self, &self.registry, &node, &mut |row| {
                insert(&mut rows, ino, &row);
                Ok(())
            });
            outcome.unwrap();
        }
        rows
    }
}

fn insert(rows: &mut RowsOfKeys, ino: u64, row: &KeyRow) {
    let key = (ino, row.projection, row.key.clone(), row.line);
    let before = rows.insert(key, (row.off, row.len));
    assert_eq!(before, None, "a row that is added is new: {row:?}");
}

/// Returns a change in words. A line is given as `NUMBER:OFFSET+LENGTH`.
fn words(change: &KeysChange) -> String {
    match change {
        KeysChange::Forget => "forget".to_owned(),
        KeysChange::Remove(_, key) => format!("remove {key}"),
        KeysChange::Cut(_, off) => format!("cut {off}"),
        KeysChange::Add(KeyRow { key, line: 0, .. }) => format!("add {key}"),
        KeysChange::Add(KeyRow { key, line, off, .. }) if key.is_empty() => format!("end {line}:{off}"),
        KeysChange::Add(KeyRow { key, line, off, len, .. }) => format!("add {key} {line}:{off}+{len}"),
    }
}

impl KeyedRows for KeyedStore {
    fn node(&self, ino: u64) -> Result<Option<NodeRow>> {
        self.store.node(ino)
    }

    fn attributes(&self, ino: u64, seq: u64) -> Result<Attributes> {
        self.store.attributes(ino, seq)
    }

    fn names_of(&self, ino: u64, within: &Within, limit: usize) -> Result<Vec<Key>> {
        self.store.names_of(ino, within, limit)
    }

    fn keys(&self, ino: u64, projection: Projection) -> Result<Vec<String>> {
        let own = self.rows.keys().filter(|(of, one, ..)| *of == ino && *one == projection);
        Ok(own.map(|(_, _, key, _)| key.clone()).collect())
    }

    fn line_before(&self, ino: u64, projection: Projection, off: u64) -> Result<Option<(u64, u64)>> {
        let own = self.rows.iter().filter(|((of, one, ..), _)| *of == ino && *one == projection);
        let lines = own.map(|((.., line), (at, _))| (*line, *at)).filter(|(_, at)| *at <= off);
        Ok(lines.max_by_key(|(_, at)| *at))
    }

    fn content(&self, ino: u64, from: u64, to: u64) -> Result<Bytes> {
        self.read.borrow_mut().push((from, to));
        let mut bytes = vec![0; (to - from) as usize];
        for extent in self.store.extents(ino, from, to)? {
            let extent = extent.cut(from, to);
            let data = &self.store.chunks[&extent.chunk].data;
            let (at, skip, len) = ((extent.off - from) as usize, extent.skip as usize, extent.len as usize);
            bytes[at..at + len].copy_from_slice(&data[skip..skip + len]);
        }
        Ok(bytes.into())
    }

    fn hole_end(&self, ino: u64, from: u64, to: u64) -> Result<Option<u64>> {
        if !self.store.extents(ino, from, to)?.is_empty() {
            return Ok(None);
        }
        let after = self.store.extents(ino, to, u64::MAX)?;
        Ok(Some(after.first().map_or(u64::MAX, |extent| extent.off)))
    }
}

/// Returns the projection of the ids of records of JSON Lines.
fn ids() -> ContentProjection {
    let id = |_: u64, line: &[u8]| -> Vec<String> {
        let record: Option<serde_json::Value> = serde_json::from_slice(line).ok();
        record.and_then(|record| Some(record.get("id")?.as_str()?.to_owned())).into_iter().collect()
    };
    let is_name = |name: &str| name.ends_with(".jsonl");
    ContentProjection::new(Projection::new(2000), &["/log/*.jsonl"], is_name, Keys::OfLines(id))
}

fn tagged(tags: &[&str]) -> SetAttrs {
    SetAttrs::new().tags(tags.iter().copied())
}

/// No changes of keys.
const NOTHING: [&str; 0] = [];

#[test]
fn changed_tags_write_only_their_difference() {
    let mut tree = KeyedStore::new();
    let added = tree.group([Op::write(at("/f"), "").with_attrs(tagged(&["a", "b"]))]);
    assert_eq!(added, ["add a", "add b"]);
    assert_eq!(tree.group([Op::set_attrs(at("/f"), tagged(&["b", "c"]))]), ["remove a", "add c"]);
    let ops = [tagged(&["d"]), tagged(&["c"])].map(|tags| Op::set_attrs(at("/f"), tags));
    assert_eq!(tree.group(ops), ["remove b"], "those at the end of the group count");
    assert_eq!(tree.group([Op::set_attrs(at("/f"), tagged(&[]))]), ["remove c"]);
}

#[test]
fn removed_node_forgets_its_keys() {
    let mut tree = KeyedStore::new();
    tree.group([Op::mkdir(at("/d")).with_attrs(tagged(&["a"]))]);
    tree.group([Op::write(at("/kv/f"), "one\n").with_parents()]);
    assert_eq!(tree.group([Op::remove(at("/d"))]), ["forget"]);
    assert_eq!(tree.group([Op::remove(at("/kv/f"))]), ["forget"]);
    let write = Op::write(at("/kv/f"), "one\n").with_attrs(tagged(&["a"]));
    assert_eq!(tree.group([write, Op::remove(at("/kv/f"))]), NOTHING, "it never had any");
}

#[test]
fn new_file_outside_patterns_reads_nothing() {
    let mut tree = KeyedStore::new();
    assert_eq!(tree.group([Op::write(at("/f"), "one\n"), Op::append(at("/f"), "two\n")]), NOTHING);
    assert_eq!(tree.asked, 0);
}

#[test]
fn file_has_keys_by_its_second_name() {
    let mut tree = KeyedStore::new();
    assert_eq!(tree.group([Op::write(at("/f"), "one\ntwo\n")]), NOTHING);
    let linked = tree.group([Op::link(at("/f"), at("/kv/f")).with_parents()]);
    assert_eq!(linked, ["add one 1:0+3", "add two 2:4+3", "end 3:8"]);
    assert_eq!(tree.group([Op::append(at("/f"), "three\n")]), ["cut 8", "add three 3:8+5", "end 4:14"]);
    assert_eq!(tree.group([Op::remove(at("/f"))]), NOTHING);
    assert_eq!(tree.group([Op::rename(at("/kv/f"), at("/kv/g"))]), NOTHING, "it still matches");
    assert_eq!(tree.group([Op::link(at("/kv/g"), at("/g")), Op::remove(at("/kv/g"))]), ["cut 0"]);
}

#[test]
fn file_with_many_names_keeps_its_keys() {
    let mut tree = KeyedStore::new();
    tree.group([Op::write(at("/kv/f"), "one\n").with_parents()]);
    let ino = tree.store.node_of("/kv/f").ino;
    tree.store.name_often(ino, "/other", 0..20);
    assert_eq!(tree.group([Op::append(at("/kv/f"), "two\n")]), ["cut 4", "add two 2:4+3", "end 3:8"]);
}

#[test]
fn append_derives_keys_from_the_last_line_on() {
    let mut tree = KeyedStore::new();
    let f = || at("/log/f.jsonl");
    let begun = tree.group([Op::write(f(), "{\"id\":\"a\"}\n{\"id\":").with_parents()]);
    assert_eq!(begun, ["add a 1:0+10", "end 2:11"], "an unfinished record has no id");
    let more = tree.group([Op::append(f(), "\"b\"}\n{\"id\":\"c\"}\n")]);
    assert_eq!(more, ["cut 11", "add b 2:11+10", "add c 3:22+10", "end 4:33"]);
    assert_eq!(tree.read.take(), [(11, 33)]);
    let records = ["{\"id\":\"d\"}\n", "{\"id\":\"e\"}\n"];
    let twice = tree.group(records.map(|record| Op::append(f(), record)));
    assert_eq!(twice, ["cut 33", "add d 4:33+10", "add e 5:44+10", "end 6:55"]);
    assert_eq!(tree.read.take(), [(33, 55)], "once a group");
}

#[test]
fn truncation_cuts_keys_of_lines() {
    let mut tree = KeyedStore::new();
    tree.group([Op::write(at("/kv/f"), "one\ntwo\nthree\n").with_parents()]);
    let mut truncate = |size| tree.group([Op::truncate(at("/kv/f"), size)]);
    assert_eq!(truncate(6), ["cut 4", "add tw 2:4+2", "end 2:4"]);
    assert_eq!(truncate(4), ["cut 4", "end 2:4"]);
    assert_eq!(truncate(0), ["cut 0", "end 1:0"]);
}

#[test]
fn hole_is_not_read_for_keys() {
    let mut tree = KeyedStore::new();
    tree.group([Op::write(at("/kv/f"), "").with_parents()]);
    let changes = tree.group([Op::truncate(at("/kv/f"), 1 << 30), Op::append(at("/kv/f"), "\nend\n")]);
    assert_eq!(changes.len(), 4, "{changes:?}");
    let end = (1_u64 << 30) + 1;
    assert_eq!(changes[2..], [format!("add end 2:{end}+3"), format!("end 3:{}", end + 4)]);
    let read: u64 = tree.read.take().into_iter().map(|(from, to)| to - from).sum();
    assert!(read <= 1 << 20, "{read} bytes");
}

#[test]
fn renamed_file_forgets_keys_of_its_old_pattern() {
    let mut tree = KeyedStore::new();
    let status = || at("/nodes/a/.status");
    assert_eq!(tree.group([Op::write(status(), "ACTIVE").with_parents()]), ["add ACTIVE"]);
    assert_eq!(tree.group([Op::write(status(), "DONE")]), ["remove ACTIVE", "add DONE"]);
    assert_eq!(tree.group([Op::rename(status(), at("/nodes/a/old"))]), ["remove DONE"]);
    assert_eq!(tree.group([Op::rename(at("/nodes/a/old"), status())]), ["add DONE"]);
    assert_eq!(tree.group([Op::rename(status(), at("/words/a")).with_parents()]).len(), 3);
}

#[test]
fn moved_directory_changes_keys_of_its_files() {
    let mut tree = KeyedStore::new();
    tree.group([Op::write(at("/kv/d/f"), "one\n").with_parents()]);
    assert_eq!(tree.group([Op::rename(at("/kv/d"), at("/kv/e"))]), NOTHING, "they still match");
    assert_eq!(tree.group([Op::rename(at("/kv/e"), at("/e"))]), ["cut 0"]);
    assert_eq!(tree.group([Op::rename(at("/e"), at("/kv/g"))]), ["add one 1:0+3", "end 2:4"]);
}
