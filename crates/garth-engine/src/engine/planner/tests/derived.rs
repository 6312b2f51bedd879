//! Keys and passages that are derived from what was fetched for a group, against those that are derived from
//! the rows once the group is written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;
use garth_testkit::data::random::Random;

use super::keys::KeyedStore;
use super::*;
use crate::engine::search::{FileEdit, IndexedText, NewPassage, Passage, Reindexed, reindex};
use crate::model::Attributes;
use crate::text::passage::{Edit, MAX_TEXT};
use crate::text::{Tokenizer, secret};

/// Store with the keys and the passages of its files.
struct IndexedStore {
    keyed: KeyedStore,
    /// Passages of each file with their numbers, by offset.
    passages: BTreeMap<u64, BTreeMap<u64, (i64, NewPassage)>>,
    /// Number of the last passage that was added.
    last: i64,
}

/// One file of a store.
struct StoredFile<'a> {
    store: &'a IndexedStore,
    ino: u64,
}

impl IndexedText for StoredFile<'_> {
    type Error = Error;

    fn passages(&mut self, from: u64, to: u64) -> Result<Vec<Passage>> {
        Ok(self.store.passages(self.ino, from..=to))
    }

    fn last_before(&mut self, off: u64) -> Result<Option<Passage>> {
        Ok(self.store.passages(self.ino, 0..=off.saturating_sub(1)).pop().filter(|_| off > 0))
    }

    fn read(&mut self, bytes: Range<u64>) -> Result<Vec<u8>> {
        Ok(self.store.bytes(self.ino, bytes).to_vec())
    }
}

impl IndexedStore {
    fn new() -> Self {
        Self { keyed: KeyedStore::new(), passages: BTreeMap::new(), last: 0 }
    }

    fn size(&self, ino: u64) -> u64 {
        self.keyed.store.node(ino).unwrap().map_or(0, |node| node.size)
    }

    fn bytes(&self, ino: u64, range: Range<u64>) -> Bytes {
        let end = range.end.min(self.size(ino));
        if range.start < end { self.keyed.content(ino, range.start, end).unwrap() } else { Bytes::new() }
    }

    fn passages(&self, ino: u64, offsets: std::ops::RangeInclusive<u64>) -> Vec<Passage> {
        let own = self.passages.get(&ino).into_iter().flat_map(|own| own.range(offsets.clone()));
        let passage = |(id, passage): &(i64, NewPassage)| {
            let NewPassage { span, line_feeds, form, words, .. } = *passage;
            Passage { id: *id, ino: Ino(ino), span, line_feeds, form, words }
        };
        own.map(|(_, row)| passage(row)).collect()
    }

    /// Returns the value of a key of derived rows.
    fn answer(&self, key: &RowKey) -> RowValue {
        match key {
            RowKey::Keys(ino) => {
                let own = self.keyed.rows.keys().filter(|(of, .., line)| of == ino && *line == 0);
                RowValue::NodeKeys(own.map(|(_, projection, key, _)| (*projection, key.clone())).collect())
            }
            RowKey::Line(ino, projection, off) => {
                RowValue::Line(self.keyed.line_before(*ino, *projection, *off).unwrap())
            }
            RowKey::Passages(ino, from, to) => RowValue::Passages(self.passages(*ino, *from..=*to)),
            RowKey::PassageBefore(ino, off) => {
                let before = self.passages(*ino, 0..=off - 1);
                RowValue::Passages(before.last().copied().into_iter().collect())
            }
            RowKey::Unindexed(_) => RowValue::Unindexed(None),
            RowKey::Content(ino, from, to) => RowValue::Content(self.bytes(*ino, *from..*to)),
            RowKey::Tail(ino) => RowValue::Tail(Box::new(self.tail(*ino))),
            other => panic!("{other:?} is no key of derived rows"),
        }
    }

    fn tail(&self, ino: u64) -> Tail {
        let all = self.passages(ino, 0..=u64::MAX);
        let passages = all[all.len().saturating_sub(TAIL_PASSAGES)..].to_vec();
        let last = passages.last().map_or(0, |last| last.span.off);
        let from = last.saturating_sub(2 * secret::CONTEXT as u64);
        let own = self.keyed.rows.keys().filter(|(of, .., line)| *of == ino && *line > 0);
        let projections: BTreeSet<_> = own.map(|(_, projection, ..)| *projection).collect();
        let line = |one| Some((one, self.keyed.line_before(ino, one, u64::MAX).unwrap()?));
        let lines = projections.into_iter().filter_map(line).collect();
        Tail { passages, unindexed: None, lines, from, bytes: self.bytes(ino, from..u64::MAX) }
    }

    /// Commits operations as a group, one commit each, of which some may be refused. Checks the changes of
    /// keys and passages, and applies them. Returns them with the number of rounds.
    fn group(&mut self, ops: impl IntoIterator<Item = Op>) -> (Derived, usize) {
        let batches: Vec<Batch> = ops.into_iter().map(|op| Batch::new([op])).collect();
        let all: Vec<&Batch> = batches.iter().collect();
        let begin = self.keyed.store.head;
        let state = Fetched { head: begin, now: self.keyed.store.now() };
        let (planned, derived, rounds) = fetched::derive_group_fetched(
            &self.keyed.store,
            state,
            &all,
            &|key| Ok(self.answer(key)),
            &self.keyed.registry,
        );
        let derived = derived.unwrap();
        assert_eq!(planned.len(), batches.len(), "all in one run: {batches:?}");
        let (mut changed, mut edits) = (ChangedNodes::new(begin.next_ino), BTreeMap::<u64, Edit>::new());
        for (batch, planned) in batches.iter().zip(&planned) {
            let Ok(Planned::Apply { delta, head, commit }) = planned else { continue };
            self.keyed.store.write(batch, (delta, *head, commit));
            changed.by(&self.keyed.registry, delta);
            for (ino, edit) in &delta.index {
                edits.entry(*ino).and_modify(|known| *known = known.then(*edit)).or_insert(*edit);
            }
        }
        self.check(&derived, (&changed, &edits), &begin);
        for (ino, change) in &derived.keys {
            self.keyed.apply(*ino, change);
        }
        for (ino, change) in &derived.passages {
            self.apply(*ino, change);
        }
        (derived, rounds)
    }

    /// Checks changes against those that are derived from the rows that are written.
    fn check(
        &self,
        derived: &Derived,
        (changed, edits): (&ChangedNodes, &BTreeMap<u64, Edit>),
        begin: &HeadRow,
    ) {
        let mut keys = Vec::new();
        let outcome: Result<()> =
            each_key_change(&self.keyed, &self.keyed.registry, changed, &mut |ino, change| {
                keys.push((ino, change));
                Ok(())
            });
        outcome.unwrap();
        assert_eq!(derived.keys, keys);
        let (mut room, mut passages) = (MAX_TEXT, BTreeMap::new());
        for (ino, edit) in edits {
            let Some(node) = self.keyed.store.node(*ino).unwrap() else { continue };
            let attributes = |seq| -> Result<Attributes> { self.keyed.store.attributes(*ino, seq) };
            let file = IndexedFile::new(&node, attributes).unwrap();
            let Some(file) = file.filter(|file| !file.stays_left_out(&node, begin)) else { continue };
            let content_type = file.content_type.as_deref();
            let edit = FileEdit { searchable: file.searchable, content_type, edit: *edit, unindexed: None };
            let mut text = StoredFile { store: self, ino: *ino };
            let change = reindex(&mut text, &edit, &mut room, &mut Tokenizer::default()).unwrap();
            passages.extend(Some((*ino, change)).filter(|(_, change)| *change != Reindexed::default()));
        }
        assert_eq!(derived.passages, passages);
    }

    fn apply(&mut self, ino: u64, change: &Reindexed) {
        let own = self.passages.entry(ino).or_default();
        own.retain(|_, (id, _)| !change.removed.contains(id));
        for passage in &change.added {
            self.last += 1;
            let before = own.insert(passage.span.off, (self.last, passage.clone()));
            assert_eq!(before, None, "added next to another passage");
        }
        assert_eq!(change.unindexed, None, "there is room for all");
    }
}

/// Returns a record of JSON Lines with words.
fn record(number: usize) -> String {
    format!("{{\"id\": \"r{number}\", \"text\": \"number {number} about cranes in the harbour\"}}\n")
}

#[test]
fn appends_take_no_round_for_derived_rows() {
    let mut tree = IndexedStore::new();
    let tagged = SetAttrs::new().tags(["t"]);
    let paths: [fn(usize) -> TreePath; 3] = [
        |n| at(&format!("/log/{}.jsonl", n % 8)),
        |n| at(&format!("/kv/{}", n % 8)),
        |n| at(&format!("/text/{}", n % 8)),
    ];
    for path in paths {
        let long: String = (0..400).map(record).collect();
        let new = (0..8).map(|n| {
            let body = if n % 2 == 0 { long.clone() } else { record(n) };
            Op::write(path(n), body).with_parents().with_attrs(tagged.clone())
        });
        assert_eq!(tree.group(new).0.passages.len(), 8);
        let (derived, rounds) = tree.group((0..64).map(|n| Op::append(path(n), record(n))));
        assert_eq!((derived.passages.len(), rounds), (8, 2), "{}", path(0));
    }
}

#[test]
fn replaced_and_removed_files_take_no_round_for_derived_rows() {
    let mut tree = IndexedStore::new();
    let path = |n: usize| at(&format!("/text/{n}"));
    let text = |n: usize| (n..n + 300).map(record).collect::<String>();
    tree.group((0..8).map(|n| Op::write(path(n), text(n)).with_parents()));
    let (derived, rounds) = tree.group((0..8).map(|n| Op::write(path(n), text(2 * n + 1))));
    assert_eq!((derived.passages.len(), rounds), (8, 2));
    let (derived, rounds) = tree.group((0..8).map(|n| Op::remove(path(n))));
    assert_eq!((derived.passages.len(), rounds), (8, 2));
    assert!(tree.passages.values().all(BTreeMap::is_empty));
}

#[test]
fn file_that_becomes_searchable_is_read_at_once() {
    let mut tree = IndexedStore::new();
    let hidden = |hidden: bool| SetAttrs::new().searchable(!hidden);
    let text: String = (0..5_000).map(record).collect();
    let (derived, _) = tree.group([Op::write(at("/f"), text).with_attrs(hidden(true))]);
    assert!(derived.passages.is_empty());
    let (derived, rounds) = tree.group([Op::set_attrs(at("/f"), hidden(false))]);
    assert!(derived.passages.values().next().is_some_and(|change| change.added.len() > 100));
    assert!(rounds <= 6, "{rounds}");
}

/// Returns a random operation on a few files. None moves a directory.
fn any_op(random: &mut Random) -> Op {
    let paths = ["/kv/a", "/kv/b", "/log/a.jsonl", "/nodes/a/.status", "/nodes/a/b", "/text/a", "/text/b"];
    let (one, two) = (at(random.pick(&paths)), at(random.pick(&paths)));
    let count = if random.one_in(3) { 300 } else { random.below(4) as usize };
    let from = random.below(50) as usize;
    let text: String = (from..from + count).map(record).collect();
    let place = if random.one_in(2) { random.below(200) } else { random.below(30_000) };
    match random.below(14) {
        0..=1 => Op::write(one, text).with_parents(),
        2..=5 => Op::append(one, text),
        6 => Op::patch(one, place, text),
        7 => Op::truncate(one, place),
        8 => Op::punch(one, place, random.below(2_000)),
        9 => Op::copy_range(one, 0, random.below(5_000), two, place),
        10 => Op::remove(one),
        11 => Op::rename(one, two),
        12 => Op::link(one, two),
        _ => {
            let attrs = SetAttrs::new().tags([random.pick(&["t", "u"])]);
            Op::set_attrs(one, if random.one_in(2) { attrs } else { attrs.searchable(random.one_in(2)) })
        }
    }
}

#[test]
fn random_groups_derive_what_their_rows_tell() {
    let (mut keys, mut passages, mut most) = (0, 0, 0);
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let mut tree = IndexedStore::new();
        tree.group(["/kv", "/log", "/nodes/a", "/text"].map(|dir| Op::mkdir_all(at(dir))));
        for _ in 0..30 {
            let count = 1 + random.below(6);
            let ops: Vec<Op> = (0..count).map(|_| any_op(&mut random)).collect();
            let (derived, rounds) = tree.group(ops);
            keys += derived.keys.len();
            passages += derived.passages.len();
            most = rounds.max(most);
        }
    }
    assert!(keys > 500 && passages > 200, "{keys} keys, {passages} files");
    assert!(most <= 16, "{most} rounds");
}
