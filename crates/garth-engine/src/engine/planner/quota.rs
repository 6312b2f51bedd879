//! Effect of a batch on the usage of quotas. It is worked out from the changes of the batch once they are
//! all known, in proportion to what changed. A moved directory costs queries about its content only if it
//! crosses the border of a quota. Why counters: `docs/decisions/quotas-are-counted-in-the-commit.md`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::rows::{NameRow, NodeRow, RowKey, Rows};
use super::state::Planner;
use super::subtrees::{Key, Region, is_in, minus, up};
use crate::error::Result;
use crate::model::quota::Quota;
use crate::model::{Kind, Within};
use crate::rule::quota::{self, Count, Quotas};

/// Due entries to ask for at first. The number doubles each time, so that a distant database is asked only
/// a few times, however many are due.
const FIRST_DUE: usize = 64;

/// Ranges of directories, each without its end; none overlap.
type Ranges = Vec<(String, String)>;

/// Changes to the usage of quotas.
struct QuotaChanges {
    quotas: Arc<Quotas>,
    /// Changes, by the key of the path of the quota.
    changes: BTreeMap<String, Count>,
    /// Files whose bytes are counted one by one, with those of their names in the database that the batch
    /// has met.
    files: BTreeMap<u64, BTreeSet<Key>>,
    /// Ranges of directories of the database that a quota lost and got as a whole, by its key.
    moved: HashMap<String, (Ranges, Ranges)>,
}

impl<R: Rows> Planner<'_, R> {
    /// Counts what the batch would leave below the paths of quotas, and refuses the batch if a limit is
    /// exceeded. Expired nodes there are ended first, until the rest fits.
    pub(super) fn count(&mut self, control: u64) -> Result<()> {
        // No quota has ever been set. Where rows are fetched, the first run does not know the head row.
        if control == 0 && !R::PREFETCHES {
            return Ok(());
        }
        let quotas = self.rows.quotas()?;
        if quotas.is_empty() {
            return Ok(());
        }
        let (changes, files, moved) = (BTreeMap::new(), BTreeMap::new(), HashMap::new());
        let mut counting = QuotaChanges { quotas, changes, files, moved };
        self.count_names(&mut counting)?;
        self.count_sizes(&mut counting)?;
        self.count_moved(&mut counting)?;
        self.count_files(&mut counting)?;
        self.end_due_nodes(&mut counting)?;
        let QuotaChanges { quotas, changes, .. } = &counting;
        let after = |quota: &Quota| Some(added(quota.used.into(), *changes.get(quota.path.key())?));
        let counted: Vec<_> = quotas.iter().filter_map(|quota| Some((quota, after(quota)?))).collect();
        // Quotas whose use the batch does not change are not checked: a limit may be below the current use.
        quota::refuse(self.within, counted.iter().copied())?;
        for (quota, after) in counted.into_iter().filter(|(quota, after)| *after != quota.used.into()) {
            self.delta.quotas.insert(quota.path.key().to_owned(), after.usage()?);
        }
        Ok(())
    }

    /// Counts the names that the batch gave and ended one by one.
    fn count_names(&self, counting: &mut QuotaChanges) -> Result<()> {
        let subtrees = &self.delta.subtrees;
        if R::PREFETCHES && !subtrees.is_empty() {
            self.prefetch(self.delta.names.keys().filter_map(|(dir, name)| {
                let source = subtrees.source(dir).filter(|source| source != dir)?;
                Some(RowKey::Name(source, name.clone()))
            }));
        }
        let quotas = Arc::clone(&counting.quotas);
        let (mut last, mut over): (Option<&str>, Vec<&str>) = (None, Vec::new());
        for (key, change) in &self.delta.names {
            // Names are ordered by directory, so the quotas of one are looked up once.
            if last != Some(key.0.as_str()) {
                (last, over) = (Some(key.0.as_str()), quotas.over(&key.0).collect());
            }
            if over.is_empty() {
                continue;
            }
            let left = subtrees.has_moved_away(&key.0);
            // A name that came here with its directory, and that the batch has ended or replaced since.
            let source = if left { subtrees.source(&key.0) } else { None };
            let source = source.map(|source| (source, key.1.clone()));
            let hidden = source.as_ref().map(|(dir, name)| self.rows.name(dir, name)).transpose()?.flatten();
            let mut entries = i128::from(change.after.is_some()) - i128::from(hidden.is_some());
            if let Some(before) = &change.before {
                // Names in a directory that has left are counted with its range.
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

    /// Finds the files whose size has changed. Most are known by the one name that they were written to: if
    /// no quota is above it, nothing is read.
    fn count_sizes(&self, counting: &mut QuotaChanges) -> Result<()> {
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
        self.prefetch(written.iter().map(|(ino, _)| RowKey::Node(*ino)));
        for (ino, size) in written {
            if self.rows.node(ino)?.is_some_and(|before| before.size != size) {
                counting.files.entry(ino).or_default();
            }
        }
        Ok(())
    }

    /// Returns the keys of the quotas above and below directories that have left or arrived.
    fn quotas_affected_by_moves(&self, quotas: &Quotas) -> BTreeSet<String> {
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
    fn count_moved(&self, counting: &mut QuotaChanges) -> Result<()> {
        if self.delta.subtrees.is_empty() {
            return Ok(());
        }
        let left =
            self.delta.subtrees.left().into_iter().map(|region| (region.dir.clone(), region)).collect();
        let quotas = Arc::clone(&counting.quotas);
        for key in self.quotas_affected_by_moves(&quotas) {
            let key = key.as_str();
            let before = moved_ranges_below(&left, key);
            let parts = self.delta.subtrees.parts(key).into_iter();
            let after =
                parts.filter(|(at, region)| *at != region.dir).flat_map(|(_, region)| region.ranges());
            let after: Ranges = after.collect();
            // Names that stay below the path of the quota are in both, so no query counts them.
            let (lost, got) = (minus(&before, &after), minus(&after, &before));
            if !lost.is_empty() || !got.is_empty() {
                counting.moved.insert(key.to_owned(), (lost, got));
            }
        }
        let asked = counting.moved.values().flat_map(|(lost, got)| [lost, got]);
        let asked: BTreeSet<Ranges> = asked.filter(|ranges| !ranges.is_empty()).cloned().collect();
        self.prefetch(asked.iter().cloned().map(RowKey::Tally));
        let mut tallies = HashMap::new();
        for ranges in asked {
            let tally = self.rows.tally(&ranges)?;
            // The bytes of a file with several names count once below a path, so a sum over names is wrong
            // for it.
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

    /// Counts the bytes of files that are looked at one by one: takes them off below each path where the
    /// file had a name, and adds them below each where it has one.
    fn count_files(&self, counting: &mut QuotaChanges) -> Result<()> {
        let files = std::mem::take(&mut counting.files);
        let quotas = Arc::clone(&counting.quotas);
        // A file that came with a moved directory may have had its names outside of all quotas.
        let everything = Within::everything();
        let around = if counting.moved.is_empty() { quotas.places() } else { &everything };
        self.prefetch(files.keys().filter(|ino| **ino < self.first_ino).map(|ino| RowKey::Node(*ino)));
        if R::PREFETCHES {
            self.prefetch_names(&files, around)?;
        }
        for (ino, met) in files {
            let after = self.node(ino)?;
            let before = if ino < self.first_ino { self.rows.node(ino)? } else { None };
            if let Some(before) = before {
                let names = self.names_before(&before, met, around)?;
                // `count_moved` has counted its bytes with the range of its directory.
                if before.nlink == 1 {
                    counting.exclude_from_ranges(&names, before.size);
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

    /// Prefetches the names of files of which the batch does not know all names.
    fn prefetch_names(&self, files: &BTreeMap<u64, BTreeSet<Key>>, places: &Within) -> Result<()> {
        let mut read = Ok(());
        for (ino, met) in files.iter().filter(|(ino, _)| **ino < self.first_ino) {
            match self.rows.node(*ino) {
                Ok(Some(node)) if node.nlink != met.len() as u64 => {
                    self.prefetch([RowKey::NamesOf(*ino, places.clone(), usize::MAX)]);
                }
                Ok(_) => {}
                Err(error) => read = read.and(Err(error)),
            }
            // Where directories have moved, `names_after` looks for names everywhere.
            let all = (!self.delta.subtrees.is_empty()).then(Within::everything);
            self.prefetch(all.map(|all| RowKey::NamesOf(*ino, all, usize::MAX)));
        }
        read
    }

    /// Returns the names that a file has in the database within some subtrees. Reads nothing if the batch
    /// knows all of them.
    fn names_before(&self, node: &NodeRow, met: BTreeSet<Key>, places: &Within) -> Result<Vec<Key>> {
        if met.len() as u64 == node.nlink {
            return Ok(met.into_iter().collect());
        }
        // The name by which it was written to is its only one in the database, if the batch has not moved
        // it.
        let untouched = node.nlink == 1 && self.delta.subtrees.is_empty();
        match self.addressed.get(&node.ino) {
            Some(key) if untouched && !self.delta.names.contains_key(key) => Ok(vec![key.clone()]),
            _ => self.rows.names_of(node.ino, places, usize::MAX),
        }
    }

    /// Ends expired nodes below the paths of quotas that the batch would exceed, in the order of expiry,
    /// until it does not. Inner quotas come first, because what ends there counts for the outer ones as
    /// well.
    fn end_due_nodes(&mut self, counting: &mut QuotaChanges) -> Result<()> {
        let quotas = Arc::clone(&counting.quotas);
        // In reverse order, a path comes after all paths below it.
        let changed: Vec<String> = counting.changes.keys().rev().cloned().collect();
        for quota in changed.iter().filter_map(|key| quotas.get(key)) {
            // A node that was moved below the path is elsewhere in the database.
            let within = match self.delta.subtrees.is_empty() {
                true => Within::new([quota.path.clone()]),
                false => Within::everything(),
            };
            let mut behind = (i64::MIN, 0);
            let mut limit = FIRST_DUE;
            while !counting.fits(quota) {
                let page = self.rows.due(self.time, &within, behind, limit)?;
                let last = page.last().copied().filter(|_| page.len() == limit);
                self.prefetch_nodes(page.iter().map(|(_, ino)| *ino))?;
                for (_, ino) in self.merge_own_due(page, behind, last) {
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

    /// Returns a page of due nodes together with those that the batch itself makes due, of which the
    /// database does not know.
    fn merge_own_due(
        &self,
        page: Vec<(i64, u64)>,
        behind: (i64, u64),
        last: Option<(i64, u64)>,
    ) -> BTreeSet<(i64, u64)> {
        let mut due: BTreeSet<_> = page.into_iter().collect();
        // The batch has given these another expiry, or none.
        due.retain(|(_, ino)| !self.delta.expiry.contains_key(ino));
        let own = self.delta.expiry.iter().filter_map(|(ino, at)| Some(((*at)?, *ino)));
        // Within the same bounds as the page, so that each due node comes once and in order.
        let own = own.filter(|(at, ino)| {
            *at <= self.time && (*at, *ino) > behind && last.is_none_or(|last| (*at, *ino) <= last)
        });
        due.extend(own);
        due
    }

    /// Ends a due node if it has a name below a path.
    fn meet(&mut self, ino: u64, top: &str, counting: &mut QuotaChanges) -> Result<()> {
        let node = self.node(ino)?;
        if node.nlink == 0 || !node.expired(self.time) {
            return Ok(());
        }
        let names = self.names_within(ino, &Within::everything())?;
        // With moved subtrees, the page is of the complete tree: nodes elsewhere must not end for this
        // quota.
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

impl QuotaChanges {
    fn change(&mut self, key: &str) -> &mut Count {
        self.changes.entry(key.to_owned()).or_default()
    }

    /// Notes a file that has a name, or had one in the database, below a path that counts for a quota.
    fn look_at(&mut self, row: &NameRow, kept: Option<&Key>) {
        if row.kind == Kind::File {
            self.files.entry(row.ino).or_default().extend(kept.cloned());
        }
    }

    /// Takes a file out of the sums of directories that were counted as a whole.
    fn exclude_from_ranges(&mut self, names: &[Key], size: u64) {
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

/// Returns the quotas that count the bytes of a file with these names, each once. `names` may lack names
/// that only the quota of the root counts.
fn places<'a>(quotas: &'a Quotas, nlink: u64, names: &'a [Key]) -> BTreeSet<&'a str> {
    let root = quotas.get("").filter(|_| nlink > 0).map(|_| "");
    names.iter().flat_map(|(dir, _)| quotas.over(dir)).chain(root).collect()
}

/// Returns the directories of the database below a path whose names all end where they are.
fn moved_ranges_below(left: &BTreeMap<String, Region>, top: &str) -> Ranges {
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
