//! What a batch does to what quotas count: worked out from its changes once they are all known, in proportion
//! to what changed. A directory that moves costs questions about what is in it only where it crosses the
//! border of a quota. Why counters: `docs/decisions/quotas-are-counted-in-the-commit.md`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::rows::{NameRow, NodeRow, RowKey, Rows};
use super::state::Planner;
use super::subtrees::{Key, Region, is_in, up};
use crate::error::Result;
use crate::model::quota::Quota;
use crate::model::{Kind, Within};
use crate::rule::quota::{self, Count, Quotas};

/// So many due entries are asked for first, then twice as many each time: a database far away is asked few
/// times, however many there are.
const FIRST_DUE: usize = 64;

/// Ranges of directories, each up to but without its end; none overlap.
type Ranges = Vec<(String, String)>;

/// What a batch would leave below the paths of quotas.
struct Counting {
    quotas: Arc<Quotas>,
    /// What changes, by the key of the path.
    changes: BTreeMap<String, Count>,
    /// Files that need a look of their own, with the names of theirs that the database has as far as the
    /// batch met them.
    files: BTreeMap<u64, BTreeSet<Key>>,
    /// Directories of the database that a quota lost or got as a whole, by its key.
    moved: HashMap<String, (Ranges, Ranges)>,
}

impl<R: Rows> Planner<'_, R> {
    /// Counts what the batch would leave below the paths of quotas, and refuses it if that is too much. What
    /// has expired there is met first, until the rest fits.
    pub(super) fn count(&mut self, control: u64) -> Result<()> {
        // nobody has set one
        if control == 0 && !R::FORESEES {
            return Ok(());
        }
        let quotas = self.rows.quotas()?;
        if quotas.is_empty() {
            return Ok(());
        }
        let (changes, files, moved) = (BTreeMap::new(), BTreeMap::new(), HashMap::new());
        let mut counting = Counting { quotas, changes, files, moved };
        self.count_names(&mut counting)?;
        self.count_sizes(&mut counting)?;
        self.count_moved(&mut counting)?;
        self.count_files(&mut counting)?;
        self.meet_due(&mut counting)?;
        let Counting { quotas, changes, .. } = &counting;
        let after = |quota: &Quota| Some(added(quota.used.into(), *changes.get(quota.path.key())?));
        let counted: Vec<_> = quotas.iter().filter_map(|quota| Some((quota, after(quota)?))).collect();
        quota::refuse(self.within, counted.iter().copied())?;
        for (quota, after) in counted.into_iter().filter(|(quota, after)| *after != quota.used.into()) {
            self.delta.quotas.insert(quota.path.key().to_owned(), after.usage()?);
        }
        Ok(())
    }

    /// Counts the names that the batch gave and ended one by one.
    fn count_names(&self, counting: &mut Counting) -> Result<()> {
        let subtrees = &self.delta.subtrees;
        if R::FORESEES && !subtrees.is_empty() {
            self.foresee(self.delta.names.keys().filter_map(|(dir, name)| {
                let source = subtrees.source(dir).filter(|source| source != dir)?;
                Some(RowKey::Name(source, name.clone()))
            }));
        }
        let quotas = Arc::clone(&counting.quotas);
        let (mut last, mut over): (Option<&str>, Vec<&str>) = (None, Vec::new());
        for (key, change) in &self.delta.names {
            if last != Some(key.0.as_str()) {
                (last, over) = (Some(key.0.as_str()), quotas.over(&key.0).collect());
            }
            if over.is_empty() {
                continue;
            }
            let left = subtrees.has_left(&key.0);
            // a name that came with its directory, and that the batch has ended or replaced there
            let source = if left { subtrees.source(&key.0) } else { None };
            let source = source.map(|source| (source, key.1.clone()));
            let hidden = source.as_ref().map(|(dir, name)| self.rows.name(dir, name)).transpose()?.flatten();
            let mut entries = i128::from(change.after.is_some()) - i128::from(hidden.is_some());
            if let Some(before) = &change.before {
                // the names of a directory that has left are counted as a whole
                entries -= i128::from(!left);
                counting.look_at(before, Some(key));
            }
            if let Some(hidden) = &hidden {
                counting.look_at(hidden, source.as_ref());
            }
            if let Some(after) = &change.after {
                counting.look_at(after, None);
            }
            for key in &over {
                counting.change(key).entries += entries;
            }
        }
        Ok(())
    }

    /// Finds the files whose size has changed. Most are known by the one name that they were written to:
    /// where no quota is above it, nothing is read.
    fn count_sizes(&self, counting: &mut Counting) -> Result<()> {
        let is_written = |node: &&NodeRow| {
            node.kind == Kind::File && node.ino < self.first_ino && node.content_seq == self.seq
        };
        let written = self.delta.nodes.values().filter(is_written).filter(|node| {
            let elsewhere = |key: &Key| {
                !self.delta.names.contains_key(key) && counting.quotas.over(&key.0).next().is_none()
            };
            !(node.nlink == 1
                && self.delta.subtrees.is_empty()
                && !counting.files.contains_key(&node.ino)
                && self.addressed.get(&node.ino).is_some_and(elsewhere))
        });
        let written: Vec<(u64, u64)> = written.map(|node| (node.ino, node.size)).collect();
        self.foresee(written.iter().map(|(ino, _)| RowKey::Node(*ino)));
        for (ino, size) in written {
            if self.rows.node(ino)?.is_some_and(|before| before.size != size) {
                counting.files.entry(ino).or_default();
            }
        }
        Ok(())
    }

    /// The quotas above and below the directories that have left or come, by their keys.
    fn met_by_moves(&self, quotas: &Quotas) -> BTreeSet<String> {
        let subtrees = &self.delta.subtrees;
        let parts = subtrees.parts("").into_iter().filter(|(at, region)| *at != region.dir);
        let dirs = parts.flat_map(|(at, region)| [at, region.dir]);
        let dirs = dirs.chain(subtrees.left().into_iter().map(|region| region.dir));
        let mut met = BTreeSet::new();
        for dir in dirs.collect::<BTreeSet<String>>() {
            met.extend(quotas.over(&dir).chain(quotas.below(&dir)).map(str::to_owned));
        }
        met
    }

    /// Counts what was moved and removed with directories.
    fn count_moved(&self, counting: &mut Counting) -> Result<()> {
        if self.delta.subtrees.is_empty() {
            return Ok(());
        }
        let left =
            self.delta.subtrees.left().into_iter().map(|region| (region.dir.clone(), region)).collect();
        let quotas = Arc::clone(&counting.quotas);
        for key in self.met_by_moves(&quotas) {
            let key = key.as_str();
            let before = left_in(&left, key);
            let parts = self.delta.subtrees.parts(key).into_iter();
            let after =
                parts.filter(|(at, region)| *at != region.dir).flat_map(|(_, region)| region.ranges());
            let after: Ranges = after.collect();
            let (lost, got) = (minus(&before, &after), minus(&after, &before));
            if !lost.is_empty() || !got.is_empty() {
                counting.moved.insert(key.to_owned(), (lost, got));
            }
        }
        let asked = counting.moved.values().flat_map(|(lost, got)| [lost, got]);
        let asked: BTreeSet<Ranges> = asked.filter(|ranges| !ranges.is_empty()).cloned().collect();
        self.foresee(asked.iter().cloned().map(RowKey::Tally));
        let mut tallies = HashMap::new();
        for ranges in asked {
            let tally = self.rows.tally(&ranges)?;
            for ino in &tally.shared {
                counting.files.entry(*ino).or_default();
            }
            tallies.insert(ranges, tally);
        }
        let moved = std::mem::take(&mut counting.moved);
        for (key, (lost, got)) in &moved {
            for (ranges, sign) in [(lost, -1), (got, 1)] {
                if let Some(tally) = tallies.get(ranges) {
                    let change = counting.change(key);
                    change.entries += sign * i128::from(tally.entries);
                    change.bytes += sign * i128::try_from(tally.bytes).unwrap_or(i128::MAX);
                }
            }
        }
        counting.moved = moved;
        Ok(())
    }

    /// Counts the bytes of files that have a look of their own: below each path where they had a name, and
    /// below each where they have one.
    fn count_files(&self, counting: &mut Counting) -> Result<()> {
        let files = std::mem::take(&mut counting.files);
        let quotas = Arc::clone(&counting.quotas);
        // what came with a directory was elsewhere before
        let everything = Within::everything();
        let around = if counting.moved.is_empty() { quotas.places() } else { &everything };
        self.foresee(files.keys().filter(|ino| **ino < self.first_ino).map(|ino| RowKey::Node(*ino)));
        if R::FORESEES {
            self.foresee_names(&files, around)?;
        }
        for (ino, met) in files {
            let after = self.node(ino)?;
            let before = if ino < self.first_ino { self.rows.node(ino)? } else { None };
            if let Some(before) = before {
                let names = self.names_before(&before, met, around)?;
                if before.nlink == 1 {
                    counting.leave_out(&names, before.size);
                }
                for key in places(&quotas, before.nlink, &names) {
                    counting.change(key).bytes -= i128::from(before.size);
                }
            }
            if after.nlink > 0 {
                let names = self.names_after(ino, quotas.places())?;
                for key in places(&quotas, after.nlink, &names) {
                    counting.change(key).bytes += i128::from(after.size);
                }
            }
        }
        Ok(())
    }

    /// Foresees the names of files of which the batch does not know all.
    fn foresee_names(&self, files: &BTreeMap<u64, BTreeSet<Key>>, places: &Within) -> Result<()> {
        let mut read = Ok(());
        for (ino, met) in files.iter().filter(|(ino, _)| **ino < self.first_ino) {
            match self.rows.node(*ino) {
                Ok(Some(node)) if node.nlink != met.len() as u64 => {
                    self.foresee([RowKey::NamesOf(*ino, places.clone(), usize::MAX)]);
                }
                Ok(_) => {}
                Err(error) => read = read.and(Err(error)),
            }
            // after the batch they are looked for everywhere where directories have moved
            let all = (!self.delta.subtrees.is_empty()).then(Within::everything);
            self.foresee(all.map(|all| RowKey::NamesOf(*ino, all, usize::MAX)));
        }
        read
    }

    /// Names of the database that a file has within some subtrees; without a question where the batch knows
    /// all that it has.
    fn names_before(&self, node: &NodeRow, met: BTreeSet<Key>, places: &Within) -> Result<Vec<Key>> {
        if met.len() as u64 == node.nlink {
            return Ok(met.into_iter().collect());
        }
        let untouched = node.nlink == 1 && self.delta.subtrees.is_empty();
        match self.addressed.get(&node.ino) {
            Some(key) if untouched && !self.delta.names.contains_key(key) => Ok(vec![key.clone()]),
            _ => self.rows.names_of(node.ino, places, usize::MAX),
        }
    }

    /// Records the end of what has expired below the paths of quotas that the batch would exceed, in the
    /// order of expiry, until it does not: below the inner ones first, since that counts for those above.
    fn meet_due(&mut self, counting: &mut Counting) -> Result<()> {
        let quotas = Arc::clone(&counting.quotas);
        let changed: Vec<String> = counting.changes.keys().rev().cloned().collect();
        for quota in changed.iter().filter_map(|key| quotas.get(key)) {
            let within = match self.delta.subtrees.is_empty() {
                true => Within::new([quota.path.clone()]),
                false => Within::everything(),
            };
            let mut behind = (i64::MIN, 0);
            let mut limit = FIRST_DUE;
            while !counting.fits(quota) {
                let page = self.rows.due(self.time, &within, behind, limit)?;
                let last = page.last().copied().filter(|_| page.len() == limit);
                self.foresee_nodes(page.iter().map(|(_, ino)| *ino))?;
                for (_, ino) in self.with_own(page, behind, last) {
                    if counting.fits(quota) {
                        break;
                    }
                    self.meet(ino, quota.path.key(), counting)?;
                }
                let Some(last) = last else { break };
                (behind, limit) = (last, limit * 2);
            }
        }
        Ok(())
    }

    /// A page of what is due with what is by this batch itself, which the database does not know as yet.
    fn with_own(
        &self,
        page: Vec<(i64, u64)>,
        behind: (i64, u64),
        last: Option<(i64, u64)>,
    ) -> BTreeSet<(i64, u64)> {
        let mut due: BTreeSet<_> = page.into_iter().collect();
        due.retain(|(_, ino)| !self.delta.expiry.contains_key(ino));
        let own = self.delta.expiry.iter().filter_map(|(ino, at)| Some(((*at)?, *ino)));
        let own = own.filter(|(at, ino)| {
            *at <= self.time && (*at, *ino) > behind && last.is_none_or(|last| (*at, *ino) <= last)
        });
        due.extend(own);
        due
    }

    /// Records the end of a node that is due, if it has a name below a path.
    fn meet(&mut self, ino: u64, top: &str, counting: &mut Counting) -> Result<()> {
        let node = self.node(ino)?;
        if node.nlink == 0 || !node.expired(self.time) {
            return Ok(());
        }
        let names = self.names_within(ino, &Within::everything())?;
        if !names.iter().any(|(dir, _)| is_in(dir, top)) || !self.expire_if_due(&node)? {
            return Ok(());
        }
        let quotas = Arc::clone(&counting.quotas);
        for key in names.iter().flat_map(|(dir, _)| quotas.over(dir)) {
            counting.change(key).entries -= 1;
        }
        if node.kind == Kind::File {
            for key in places(&quotas, node.nlink, &names) {
                counting.change(key).bytes -= i128::from(node.size);
            }
        }
        Ok(())
    }
}

impl Counting {
    fn change(&mut self, key: &str) -> &mut Count {
        self.changes.entry(key.to_owned()).or_default()
    }

    /// Notes that a file has a name, or had it in the database, that counts for some quota.
    fn look_at(&mut self, row: &NameRow, kept: Option<&Key>) {
        if row.kind == Kind::File {
            self.files.entry(row.ino).or_default().extend(kept.cloned());
        }
    }

    /// Leaves a file out of the directories that were counted as a whole.
    fn leave_out(&mut self, names: &[Key], size: u64) {
        let Some((dir, _)) = names.first() else { return };
        let has = |ranges: &Ranges| ranges.iter().any(|(from, to)| from <= dir && dir < to);
        for (key, (lost, got)) in &self.moved {
            let by = i128::from(has(lost)) - i128::from(has(got));
            if by != 0 {
                self.changes.entry(key.clone()).or_default().bytes += by * i128::from(size);
            }
        }
    }

    fn fits(&self, quota: &Quota) -> bool {
        let change = self.changes.get(quota.path.key()).copied().unwrap_or_default();
        quota::allows(quota, added(quota.used.into(), change))
    }
}

fn added(used: Count, change: Count) -> Count {
    Count { bytes: used.bytes + change.bytes, entries: used.entries + change.entries }
}

/// The quotas that count the bytes of a file with these names, each once. All names that are not below the
/// root's alone are among them.
fn places<'a>(quotas: &'a Quotas, nlink: u64, names: &'a [Key]) -> BTreeSet<&'a str> {
    let root = quotas.get("").filter(|_| nlink > 0).map(|_| "");
    names.iter().flat_map(|(dir, _)| quotas.over(dir)).chain(root).collect()
}

/// The directories of the database below a path whose names all end where they are.
fn left_in(left: &BTreeMap<String, Region>, top: &str) -> Ranges {
    let mut ranges = Vec::new();
    let above = up(top).skip(1).find_map(|above| left.get(above));
    if let Some(region) = above.filter(|region| !left.contains_key(top) && region.contains(top, "")) {
        let without = region.without.iter().filter(|dir| is_in(dir, top)).cloned().collect();
        ranges = Region { dir: top.to_owned(), without, ..Region::default() }.ranges();
    }
    let below = left.range(format!("{top}/")..format!("{top}0")).map(|(_, region)| region);
    ranges.extend(left.get(top).into_iter().chain(below).flat_map(Region::ranges));
    ranges
}

/// What some ranges hold that others do not.
fn minus(these: &[(String, String)], others: &[(String, String)]) -> Ranges {
    let mut others: Vec<&(String, String)> = others.iter().collect();
    others.sort_unstable();
    let mut rest = Vec::new();
    for (from, to) in these {
        let mut from = from;
        for (start, end) in others.iter().skip(others.partition_point(|(_, end)| end <= from)) {
            if start >= to {
                break;
            }
            if from < start {
                rest.push((from.clone(), start.clone()));
            }
            from = from.max(end);
        }
        if from < to {
            rest.push((from.clone(), to.clone()));
        }
    }
    rest.sort_unstable();
    rest
}
