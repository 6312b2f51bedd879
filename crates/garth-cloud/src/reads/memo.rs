//! Rows that were fetched, by their keys, and the keys that a read lacked.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use garth_engine::engine::planner::NodeRow;

/// Values of keys of one kind.
#[derive(Debug)]
pub(super) struct Memo<K, V> {
    found: RefCell<HashMap<K, V>>,
    asked: RefCell<Asked<K>>,
}

/// Keys that were asked for.
#[derive(Debug)]
struct Asked<K> {
    /// Keys to fetch, in the order in which they were asked for.
    wanted: Vec<K>,
    /// Set of the keys in `wanted`.
    waiting: HashSet<K>,
    /// All keys that were asked for, in that order.
    all: Vec<K>,
    known: HashSet<K>,
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self { found: RefCell::default(), asked: RefCell::default() }
    }
}

impl<K> Default for Asked<K> {
    fn default() -> Self {
        Self { wanted: Vec::new(), waiting: HashSet::new(), all: Vec::new(), known: HashSet::new() }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Memo<K, V> {
    /// Returns the value of a key that was fetched.
    pub(super) fn known(&self, key: &K) -> Option<V> {
        self.found.borrow().get(key).cloned()
    }

    /// Returns what `of` returns for any value that was fetched.
    pub(super) fn find<T>(&self, of: impl Fn(&K, &V) -> Option<T>) -> Option<T> {
        self.found.borrow().iter().find_map(|(key, value)| of(key, value))
    }

    /// Returns the number of keys that were fetched and for which `of` returns true.
    pub(super) fn count(&self, of: impl Fn(&K) -> bool) -> usize {
        self.found.borrow().keys().filter(|key| of(key)).count()
    }

    /// Notes a key to fetch.
    pub(super) fn want(&self, key: K) {
        let mut asked = self.asked.borrow_mut();
        if self.found.borrow().contains_key(&key) || !asked.waiting.insert(key.clone()) {
            return;
        }
        if asked.known.insert(key.clone()) {
            asked.all.push(key.clone());
        }
        asked.wanted.push(key);
    }

    /// Adds a value.
    pub(super) fn put(&self, key: K, value: V) {
        self.found.borrow_mut().insert(key, value);
    }

    /// Returns the keys to fetch.
    pub(super) fn take_wanted(&self) -> Vec<K> {
        let mut asked = self.asked.borrow_mut();
        asked.waiting.clear();
        std::mem::take(&mut asked.wanted)
    }

    /// Forgets all values, and notes the keys that were asked for to be fetched again.
    pub(super) fn renew(&self) {
        self.found.borrow_mut().clear();
        let asked = std::mem::take(&mut *self.asked.borrow_mut());
        asked.all.into_iter().for_each(|key| self.want(key));
    }
}

/// Versions of one node: for the first commit of each, the last commit that is known to show it, and the
/// version; `None` for commits before the node.
type Spans = BTreeMap<u64, (u64, Option<NodeRow>)>;

/// Versions of nodes. One that was fetched for a commit is also that of the commits since it was made.
#[derive(Debug, Default)]
pub(super) struct Versions {
    known: RefCell<HashMap<u64, Spans>>,
    /// Inodes and commits to fetch, and those whose earlier versions are fetched as well.
    pub(super) single: Memo<(u64, u64), ()>,
    pub(super) runs: Memo<(u64, u64), ()>,
}

impl Versions {
    /// Returns the version of a node after commit `seq`, if that is known.
    pub(super) fn known(&self, ino: u64, seq: u64) -> Option<Option<NodeRow>> {
        let known = self.known.borrow();
        let (_, (until, row)) = known.get(&ino)?.range(..=seq).next_back()?;
        (seq <= *until).then(|| row.clone())
    }

    /// Returns the commit of the version after one, if that is known; `None` in it for the newest version.
    pub(super) fn next(&self, ino: u64, seq: u64, newest: u64) -> Option<Option<u64>> {
        let known = self.known.borrow();
        let spans = known.get(&ino)?;
        let (until, _) = spans.get(&seq)?;
        if *until == newest {
            return Some(None);
        }
        let next = until + 1;
        spans.contains_key(&next).then_some(Some(next))
    }

    /// Adds the version of a node after commit `seq`.
    pub(super) fn put(&self, ino: u64, seq: u64, row: Option<NodeRow>) {
        let begin = row.as_ref().map_or(0, |row| row.seq);
        let mut known = self.known.borrow_mut();
        let span = known.entry(ino).or_default().entry(begin).or_insert((seq, row));
        span.0 = span.0.max(seq);
    }

    /// Forgets all versions, and notes to fetch them again.
    pub(super) fn renew(&self) {
        self.known.borrow_mut().clear();
        self.single.renew();
        self.runs.renew();
    }
}

#[cfg(test)]
mod tests {
    use garth_engine::model::Kind;

    use super::*;

    fn version(seq: u64) -> NodeRow {
        NodeRow {
            ino: 7,
            seq,
            kind: Kind::File,
            mode: 0,
            uid: 0,
            gid: 0,
            rdev: 0,
            nlink: 1,
            size: 0,
            atime: 0,
            mtime: 0,
            ctime: 0,
            birthtime: 0,
            target: None,
            attrs_seq: 0,
            expires_at: None,
            content_seq: seq,
        }
    }

    #[test]
    fn version_is_known_from_its_commit_on() {
        let versions = Versions::default();
        versions.put(7, 9, Some(version(5)));
        versions.put(7, 4, None);
        let known = |seq| versions.known(7, seq).map(|row| row.map(|row| row.seq));
        assert_eq!([0, 4, 5, 9, 10].map(known), [Some(None), Some(None), Some(Some(5)), Some(Some(5)), None]);
        assert_eq!(versions.next(7, 5, 100), None, "a version may follow commit 9");
        versions.put(7, 100, Some(version(10)));
        assert_eq!((versions.next(7, 5, 100), versions.next(7, 10, 100)), (Some(Some(10)), Some(None)));
        versions.put(7, 7, Some(version(5)));
        assert_eq!(known(9), Some(Some(5)), "an earlier commit takes nothing away");
    }

    #[test]
    fn renewed_keys_are_fetched_again() {
        let memo: Memo<u64, u64> = Memo::default();
        memo.want(1);
        memo.want(1);
        assert_eq!(memo.take_wanted(), [1]);
        memo.put(1, 10);
        memo.want(1);
        memo.want(2);
        memo.put(3, 30);
        assert_eq!((memo.known(&1), memo.take_wanted()), (Some(10), vec![2]));
        memo.want(2);
        assert_eq!(memo.take_wanted(), [2], "it was not found");
        memo.renew();
        assert_eq!(memo.take_wanted(), [1, 2], "nobody asked for the other");
        assert_eq!((memo.known(&1), memo.known(&3)), (None, None));
    }
}
