//! Subtrees that a batch moves or removes, without their names: a million names are one range. The planner
//! finds the content of such a directory where the database had it before the batch; the database rewrites
//! it range by range once the batch has passed. Why: `docs/decisions/subtrees-as-ranges.md`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::path::TreePath;

/// Key of a name: directory and name.
pub type Key = (String, String);

/// Returns the key of the name at `path`; `None` for the root, which has no name.
pub(super) fn key_of(path: &TreePath) -> Option<Key> {
    let (dir, name) = path.key().rsplit_once('/')?;
    Some((dir.to_owned(), name.to_owned()))
}

/// Map from directories to where their content is in the database. Directories are keys of paths.
#[derive(Debug, Default)]
pub struct Subtrees {
    /// Directories whose names are in another directory of the database, or in none. An entry applies to
    /// everything below it, up to the next entry. A directory may be mapped to itself if one above it is
    /// not.
    places: BTreeMap<String, Option<String>>,
    /// Reverse of `places`: from the directory of the database.
    seen: HashMap<String, String>,
    /// Removed parts of the database.
    lost: Vec<Region>,
    /// First region of each operation that removed some.
    removals: Vec<usize>,
    /// Index into `lost`, by the directory at which the region begins. No directory is removed twice.
    lost_at: HashMap<String, usize>,
}

/// Names in and below a directory of the database, with exceptions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Region {
    /// Top directory.
    pub dir: String,
    /// Directories in it that are left out, with everything below them.
    pub without: BTreeSet<String>,
    /// Names in it that are left out.
    pub names: BTreeSet<Key>,
}

impl Region {
    /// Returns the ranges of the keys of its directories, each without its end.
    pub fn ranges(&self) -> Vec<(String, String)> {
        // The directory itself and what is below it are two ranges: keys such as `dir-` are between them.
        let both = |dir: &str| [(dir.to_owned(), format!("{dir}\0")), (format!("{dir}/"), format!("{dir}0"))];
        let mut cuts: Vec<(String, String)> = self.without.iter().flat_map(|dir| both(dir)).collect();
        cuts.sort_unstable();
        let mut ranges = Vec::new();
        let mut cuts = cuts.into_iter().peekable();
        for (mut from, to) in both(&self.dir) {
            // Two cuts that overlap are one within the other.
            while let Some((start, end)) = cuts.next_if(|(start, _)| *start < to) {
                if from < start {
                    ranges.push((from.clone(), start));
                }
                from = from.max(end);
            }
            if from < to {
                ranges.push((from, to));
            }
        }
        ranges
    }

    /// Returns true if the region contains a name.
    pub fn contains(&self, dir: &str, name: &str) -> bool {
        let left = || up(dir).take_while(|above| above.len() > self.dir.len());
        is_in(dir, &self.dir)
            && (self.without.is_empty() || !left().any(|above| self.without.contains(above)))
            && (self.names.is_empty() || !self.names.contains(&(dir.to_owned(), name.to_owned())))
    }
}

/// Range of directories of the database whose names end where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// First directory, and the end of the range.
    pub range: (String, String),
    /// Directory of the database that the range is in or below, and where it is now; `None` if the names are
    /// in no directory any more.
    pub moved: Option<(String, String)>,
}

/// Content of a directory that is being moved.
#[derive(Debug)]
pub(super) struct Content {
    /// Directory of the database that holds it.
    base: Option<String>,
    /// Directories below it that are elsewhere in the database, by the rest of their path.
    below: Vec<(String, Option<String>)>,
}

impl Subtrees {
    /// Returns true if no directory was moved or removed.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the directory of the database that holds the names of `dir`.
    pub fn source(&self, dir: &str) -> Option<String> {
        if self.places.is_empty() {
            return Some(dir.to_owned());
        }
        // The nearest entry decides; below it, the rest of the path is the same on both sides.
        match up(dir).find_map(|above| Some((above, self.places.get(above)?))) {
            Some((above, place)) => place.as_ref().map(|place| format!("{place}{}", &dir[above.len()..])),
            None => Some(dir.to_owned()),
        }
    }

    /// Returns true if the names that the database has in a directory are no longer there.
    pub fn has_moved_away(&self, dir: &str) -> bool {
        !self.places.is_empty() && self.source(dir).as_deref() != Some(dir)
    }

    /// Returns the directory where the names are now that the database has in `dir`.
    pub fn now(&self, dir: &str) -> Option<String> {
        if !self.has_moved_away(dir) {
            return Some(dir.to_owned());
        }
        let lies = |above: &str| {
            // `dir` may have been moved on from there, or removed.
            let now = format!("{}{}", self.seen.get(above)?, &dir[above.len()..]);
            (self.source(&now).as_deref() == Some(dir)).then_some(now)
        };
        up(dir).find_map(lies)
    }

    /// Returns the parts of a subtree, each with the directory where it is seen. Does not account for
    /// changes of the batch to single names.
    pub fn parts(&self, dir: &str) -> Vec<(String, Region)> {
        let mut parts = Vec::new();
        let roots = std::iter::once((dir.to_owned(), self.source(dir)));
        for (at, place) in roots.chain(self.below(dir)) {
            let Some(place) = place else { continue };
            let within = self.below(&at).map(|(other, _)| format!("{place}{}", &other[at.len()..]));
            let without = within.collect();
            parts.push((at, Region { dir: place, without, names: BTreeSet::new() }));
        }
        parts
    }

    /// Returns the ranges of the database whose names all end where they are. They do not overlap.
    pub fn left(&self) -> Vec<Region> {
        let left = self.places.keys().filter(|dir| self.has_moved_away(dir));
        left.map(|dir| Region {
            dir: dir.clone(),
            without: self.below(dir).map(|(other, _)| other).collect(),
            names: BTreeSet::new(),
        })
        .collect()
    }

    /// Returns the ranges of [`left`](Self::left), cut so that the directories of each have moved together.
    pub fn leaving(&self) -> Vec<Leaving> {
        let parts = self.parts("").into_iter().filter(|(at, region)| *at != region.dir);
        let mut leaving: Vec<Leaving> = parts
            .flat_map(|(at, region)| {
                let moved = Some((region.dir.clone(), at));
                region.ranges().into_iter().map(move |range| Leaving { range, moved: moved.clone() })
            })
            .collect();
        let moved: Vec<_> = leaving.iter().map(|part| part.range.clone()).collect();
        let left: Vec<_> = self.left().iter().flat_map(Region::ranges).collect();
        leaving.extend(minus(&left, &moved).into_iter().map(|range| Leaving { range, moved: None }));
        leaving
    }

    /// Returns the removed parts of the database, each with the number of the operation that removed it.
    pub fn removals(&self) -> impl Iterator<Item = (usize, &Region)> {
        let operation = |place: usize| self.removals.partition_point(|first| *first <= place);
        self.lost.iter().enumerate().map(move |(place, region)| (operation(place), region))
    }

    /// Returns the removed parts of the database. They do not overlap.
    pub fn lost(&self) -> &[Region] {
        &self.lost
    }

    /// Returns how many of a node's names in the database were removed with regions, from region `from` on:
    /// one number for each operation that removed some, in their order.
    pub fn losses(&self, names: &[Key], from: usize) -> Vec<u64> {
        let mut losses: BTreeMap<usize, u64> = BTreeMap::new();
        for (dir, name) in names {
            let regions =
                up(dir).filter_map(|above| self.lost_at.get(above)).filter(|region| **region >= from);
            if let Some(region) = regions.copied().find(|region| self.lost[*region].contains(dir, name)) {
                *losses.entry(self.removals.partition_point(|first| *first <= region)).or_default() += 1;
            }
        }
        losses.into_values().collect()
    }

    /// Takes out the content of a directory.
    pub(super) fn take(&mut self, dir: &str) -> Content {
        let base = self.source(dir);
        let below: Vec<_> = self.below(dir).map(|(at, place)| (at[dir.len()..].to_owned(), place)).collect();
        for (rest, _) in &below {
            self.unset(&format!("{dir}{rest}"));
        }
        // Nothing is there any more, until `give` says otherwise.
        self.set(dir, None);
        Content { base, below }
    }

    /// Puts content into a directory that is empty.
    pub(super) fn give(&mut self, dir: &str, content: Content) {
        // Entries below may be left from content that was there before.
        let gone: Vec<String> = self.below(dir).map(|(at, _)| at).collect();
        for at in gone {
            self.unset(&at);
        }
        self.set(dir, content.base);
        for (rest, place) in content.below {
            self.set(&format!("{dir}{rest}"), place);
        }
    }

    /// Removes the content of a directory. `ended` are names of the database in it whose end was recorded
    /// one by one before.
    pub(super) fn remove(&mut self, dir: &str, ended: &BTreeSet<Key>) {
        let first = self.lost.len();
        self.removals.push(first);
        for (_, region) in self.parts(dir) {
            self.lost_at.insert(region.dir.clone(), self.lost.len());
            self.lost.push(region);
        }
        // Only removals of this operation: `ended` holds names that were still there.
        for key in ended {
            let removals = up(&key.0).filter_map(|above| self.lost_at.get(above));
            let mut own = removals.filter(|removal| **removal >= first);
            if let Some(removal) = own.find(|removal| self.lost[**removal].contains(&key.0, &key.1)) {
                self.lost[*removal].names.insert(key.clone());
            }
        }
        // The content is dropped: `take` leaves the directory mapped to nothing.
        self.take(dir);
    }

    /// Returns the directories below `dir` that are elsewhere in the database. A directory follows the one
    /// above it.
    fn below(&self, dir: &str) -> impl Iterator<Item = (String, Option<String>)> {
        let range = format!("{dir}/")..format!("{dir}0");
        self.places.range(range).map(|(at, place)| (at.clone(), place.clone()))
    }

    /// Returns the number of directories below `dir` that are elsewhere in the database.
    pub(super) fn places_below(&self, dir: &str) -> usize {
        if self.places.is_empty() { 0 } else { self.below(dir).count() }
    }

    /// Sets a place, unless the entry above implies it.
    fn set(&mut self, dir: &str, place: Option<String>) {
        self.unset(dir);
        if self.source(dir) != place {
            self.seen.extend(place.iter().map(|place| (place.clone(), dir.to_owned())));
            self.places.insert(dir.to_owned(), place);
        }
    }

    fn unset(&mut self, dir: &str) {
        if let Some(Some(place)) = self.places.remove(dir)
            // The reverse entry may belong to another directory by now.
            && self.seen.get(&place).is_some_and(|at| at == dir)
        {
            self.seen.remove(&place);
        }
    }
}

/// Returns a directory and those above it, by their keys.
pub(super) fn up(dir: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(dir), |dir| dir.rsplit_once('/').map(|(above, _)| above))
}

/// Returns true if a directory is `top` or below it, by their keys.
pub(super) fn is_in(dir: &str, top: &str) -> bool {
    dir.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the parts of some ranges that are not in others.
pub(super) fn minus(these: &[(String, String)], others: &[(String, String)]) -> Vec<(String, String)> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Step of a test, on indexes into `DIRS`.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Move(usize, usize),
        Exchange(usize, usize),
        Remove(usize),
    }

    /// Plain model: each directory has one name, labelled by where the database has it.
    type Naive = BTreeMap<String, Option<String>>;

    const DIRS: [&str; 12] =
        ["/a", "/a/a", "/a/a/a", "/a/b", "/a-", "/b", "/b/a", "/b/a/a", "/b/b", "/c", "/c/a", "/d"];

    fn taken(tree: &mut Naive, dir: &str) -> Naive {
        let (inside, outside) = std::mem::take(tree).into_iter().partition(|(at, _)| is_in(at, dir));
        *tree = outside;
        let inside: Naive = inside;
        inside.into_iter().map(|(at, name)| (at[dir.len()..].to_owned(), name)).collect()
    }

    fn put(tree: &mut Naive, dir: &str, content: Naive) {
        tree.extend(content.into_iter().map(|(rest, name)| (format!("{dir}{rest}"), name)));
    }

    fn check(subtrees: &Subtrees, tree: &Naive, lost: &BTreeSet<String>) {
        for dir in DIRS {
            let at = tree.iter().find(|(_, from)| from.as_deref() == Some(dir)).map(|(at, _)| at.clone());
            assert_eq!(subtrees.now(dir), at, "where {dir} is");
            if let Some(at) = &at {
                assert_eq!(subtrees.source(at).as_deref(), Some(dir), "what is at {at}");
            }
            let left: Vec<_> = subtrees.left().into_iter().filter(|it| it.contains(dir, "n")).collect();
            assert_eq!(left.len(), usize::from(at.as_deref() != Some(dir)), "{dir} in {left:?}");
            let leaving = subtrees.leaving().into_iter();
            let leaving: Vec<_> =
                leaving.filter(|it| it.range.0.as_str() <= dir && dir < it.range.1.as_str()).collect();
            assert_eq!(leaving.len(), left.len(), "{dir} in {leaving:?}");
            for Leaving { moved, .. } in leaving {
                let now = moved.map(|(from, to)| format!("{to}{}", &dir[from.len()..]));
                assert_eq!(now, at, "where {dir} has moved");
            }
            let gone = subtrees.lost().iter().filter(|region| region.contains(dir, "n")).count();
            assert_eq!(gone, usize::from(lost.contains(dir)), "{dir} is lost once");
            for from in 0..=subtrees.lost().len() {
                let gone = subtrees.lost()[from..].iter().any(|region| region.contains(dir, "n"));
                let losses = subtrees.losses(&[(dir.to_owned(), "n".to_owned())], from);
                assert_eq!(losses, vec![1; usize::from(gone)], "{dir} by {from}");
            }
            let parts = subtrees.parts(dir);
            for from in DIRS {
                let found = parts.iter().filter(|(_, region)| region.contains(from, "n")).count();
                let inside = tree.iter().any(|(at, name)| is_in(at, dir) && name.as_deref() == Some(from));
                assert_eq!(found, usize::from(inside), "{from} below {dir}: {parts:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn moved_and_removed_subtrees_match_a_plain_map(
            steps in prop::collection::vec((0..3u8, 0..DIRS.len(), 0..DIRS.len()), 1..12)
        ) {
            let mut subtrees = Subtrees::default();
            let mut tree: Naive = DIRS.iter().map(|dir| ((*dir).to_owned(), Some((*dir).to_owned()))).collect();
            let mut lost = BTreeSet::new();
            for (kind, one, two) in steps {
                let step = [Step::Move(one, two), Step::Exchange(one, two), Step::Remove(one)][usize::from(kind)];
                match step {
                    Step::Move(from, to) | Step::Exchange(from, to)
                        if is_in(DIRS[from], DIRS[to]) || is_in(DIRS[to], DIRS[from]) => {}
                    Step::Move(from, to) => {
                        // The planner puts content only into an empty directory.
                        if !tree.contains_key(DIRS[from]) || tree.keys().any(|at| is_in(at, DIRS[to])) {
                            continue;
                        }
                        let content = subtrees.take(DIRS[from]);
                        subtrees.give(DIRS[to], content);
                        let content = taken(&mut tree, DIRS[from]);
                        put(&mut tree, DIRS[to], content);
                    }
                    Step::Exchange(one, two) => {
                        if !tree.contains_key(DIRS[one]) || !tree.contains_key(DIRS[two]) {
                            continue;
                        }
                        let (first, second) = (subtrees.take(DIRS[one]), subtrees.take(DIRS[two]));
                        subtrees.give(DIRS[two], first);
                        subtrees.give(DIRS[one], second);
                        let (first, second) = (taken(&mut tree, DIRS[one]), taken(&mut tree, DIRS[two]));
                        put(&mut tree, DIRS[two], first);
                        put(&mut tree, DIRS[one], second);
                    }
                    Step::Remove(dir) => {
                        subtrees.remove(DIRS[dir], &BTreeSet::new());
                        lost.extend(taken(&mut tree, DIRS[dir]).into_values().flatten());
                    }
                }
                check(&subtrees, &tree, &lost);
            }
        }
    }

    #[test]
    fn region_ranges_cover_exactly_its_directories() {
        let without = ["/a/b", "/a/b/c", "/a/b-", "/a/d"].map(str::to_owned).into();
        let region = Region { dir: "/a".to_owned(), without, names: BTreeSet::new() };
        let ranges = region.ranges();
        for dir in [
            "", "/a", "/a-", "/a/", "/a/a", "/a/a/b", "/a/b", "/a/b-", "/a/b/c", "/a/b/x", "/a/d", "/a/e",
            "/a0", "/b",
        ] {
            let held = ranges.iter().filter(|(from, to)| from.as_str() <= dir && dir < to.as_str()).count();
            assert_eq!(held, usize::from(region.contains(dir, "n")), "{dir:?} in {ranges:?}");
        }
    }

    #[test]
    fn names_ended_before_are_not_lost_again() {
        let mut subtrees = Subtrees::default();
        let ended = BTreeSet::from([("/a".to_owned(), "gone".to_owned()), ("/b".to_owned(), "x".to_owned())]);
        subtrees.remove("/a", &ended);
        assert!(!subtrees.lost()[0].contains("/a", "gone"));
        assert!(subtrees.lost()[0].contains("/a", "there"));
        assert_eq!(subtrees.lost()[0].names.len(), 1);
    }
}
