//! Part of a tree: the paths that a view, a batch or a query may reach.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::path::TreePath;

/// Subtrees of a tree: the paths that are their tops, and everything below these, without what is left out of
/// them. Compared by segment, so that `/chat-ab` is not within `/chat-a`.
///
/// ```
/// # use garth_engine as garth;
/// use garth::TreePath;
/// use garth::model::Within;
///
/// let path = |text| TreePath::parse(text).unwrap();
/// let [chats, one, other] = ["/chats", "/chats/one", "/chats-old"].map(path);
/// let within = Within::new([one.clone(), chats.clone()]);
/// assert_eq!(within.tops(), [chats.clone()], "what lies inside another is left out");
/// assert!(within.contains(&one) && !within.contains(&other));
/// assert!(!Within::nothing().contains(&one) && Within::everything().contains(&other));
/// ```
///
/// A part that is left out may have islands: the longest path that was named decides.
///
/// ```
/// # use garth_engine as garth;
/// # use garth::TreePath;
/// # use garth::model::Within;
/// # let path = |text| TreePath::parse(text).unwrap();
/// let [agent, sessions, own] = ["/agent", "/agent/sessions", "/agent/sessions/own"].map(path);
/// let within = Within::new([agent.clone()]).without([sessions.clone()]).with([own.clone()]);
/// assert!(within.contains(&agent) && !within.contains(&sessions) && within.contains(&own));
/// assert!(within.is_excluded(&path("/agent/sessions/other")) && !within.is_excluded(&path("/else")));
/// assert_eq!(within.tops(), [agent, own], "an island has a top, too");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Within {
    /// Tops in the order of segments. A top is inside another one only if an exclusion is in between.
    tops: Arc<[TreePath]>,
    /// Exclusions in the same order: each inside a top, no two without a top in between.
    exclusions: Arc<[TreePath]>,
}

impl Within {
    /// Returns these paths and everything below them.
    pub fn new(tops: impl IntoIterator<Item = TreePath>) -> Self {
        let mut tops: Vec<TreePath> = tops.into_iter().collect();
        // Everything below a path follows it directly.
        tops.sort_by(by_segment);
        tops.dedup_by(|path, before| path.is_within(before));
        Self { tops: tops.into(), exclusions: Arc::default() }
    }

    /// Returns the complete tree.
    pub fn everything() -> Self {
        Self { tops: Arc::new([TreePath::root()]), exclusions: Arc::default() }
    }

    /// Returns no path at all, not even `/`.
    pub fn nothing() -> Self {
        Self { tops: Arc::default(), exclusions: Arc::default() }
    }

    /// Leaves out these paths and everything below them, including islands.
    #[must_use]
    pub fn without(&self, paths: impl IntoIterator<Item = TreePath>) -> Self {
        self.combined(&Self::new(paths), |here, out| here && !out)
    }

    /// Adds these paths and everything below them. Inside what is left out, they are islands.
    #[must_use]
    pub fn with(&self, paths: impl IntoIterator<Item = TreePath>) -> Self {
        self.union(&Self::new(paths))
    }

    /// Returns the tops of the subtrees, and of the islands in what is left out of them, in the order of
    /// segments.
    pub fn tops(&self) -> &[TreePath] {
        &self.tops
    }

    /// Returns the paths that are left out of the subtrees, each with everything below it but islands, in the
    /// order of segments.
    pub fn exclusions(&self) -> &[TreePath] {
        &self.exclusions
    }

    /// Returns true for the complete tree.
    pub fn is_everything(&self) -> bool {
        self.exclusions.is_empty() && self.tops.first().is_some_and(TreePath::is_root)
    }

    /// Returns true for no path at all.
    pub fn is_nothing(&self) -> bool {
        self.tops.is_empty()
    }

    /// Returns true if it contains a path.
    pub fn contains(&self, path: &TreePath) -> bool {
        self.top_of(path).is_some()
    }

    /// Returns true if a path is left out of a subtree: it is missing, and cannot be created.
    pub fn is_excluded(&self, path: &TreePath) -> bool {
        let top = || longest(&self.tops, path).map_or(0, |top| top.key().len());
        longest(&self.exclusions, path).is_some_and(|out| out.key().len() > top())
    }

    /// Returns the top of the subtree or island that contains a path: everything between the top and the path
    /// is inside.
    pub fn top_of(&self, path: &TreePath) -> Option<&TreePath> {
        let top = longest(&self.tops, path)?;
        let out = longest(&self.exclusions, path);
        out.is_none_or(|out| out.key().len() < top.key().len()).then_some(top)
    }

    /// Returns true if a path is the top of a subtree. Its name is out of reach of a caller that sees only
    /// the subtree: the top can be read and changed, but not created, removed or moved.
    pub fn is_top(&self, path: &TreePath) -> bool {
        self.tops.binary_search_by(|top| by_segment(top, path)).is_ok()
    }

    /// Returns the tops below a path, without itself.
    pub fn tops_below(&self, path: &TreePath) -> impl Iterator<Item = &TreePath> {
        below(&self.tops, path)
    }

    /// Returns the exclusions below a path, without itself: a directory that has one cannot be moved.
    pub fn exclusions_below(&self, path: &TreePath) -> impl Iterator<Item = &TreePath> {
        below(&self.exclusions, path)
    }

    /// Returns the paths that both contain.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        // The usual case: a view takes a few of many subtrees.
        let holds = |top: &TreePath| self.contains(top) && self.exclusions_below(top).next().is_none();
        if other.tops.len() < self.tops.len() && other.tops.iter().all(holds) {
            return other.clone();
        }
        self.combined(other, |here, there| here && there)
    }

    /// Returns the paths that either contains.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if self == other {
            return self.clone();
        }
        self.combined(other, |here, there| here || there)
    }

    /// Returns the paths for which `holds` is true, given whether each of the two contains them. It must be
    /// false for paths that neither contains.
    fn combined(&self, other: &Self, holds: impl Fn(bool, bool) -> bool) -> Self {
        // Nothing changes between the paths that are named in either.
        let both = [&self.tops, &self.exclusions, &other.tops, &other.exclusions];
        let mut named: Vec<&TreePath> = both.into_iter().flat_map(|paths| paths.iter()).collect();
        named.sort_by(|one, other| by_segment(one, other));
        named.dedup();
        let holds = |path: &TreePath| holds(self.contains(path), other.contains(path));
        Self::of(named.into_iter().map(|path| (path.clone(), holds(path))))
    }

    /// Returns the tops (`true`) and the exclusions (`false`), in the order of segments.
    pub(crate) fn named(&self) -> Vec<(&TreePath, bool)> {
        let tops = self.tops.iter().map(|path| (path, true));
        let mut named: Vec<_> = tops.chain(self.exclusions.iter().map(|path| (path, false))).collect();
        named.sort_by(|(one, _), (other, _)| by_segment(one, other));
        named
    }

    /// Returns the paths for which the longest prefix among `named` is `true`. `named` must be in the order
    /// of segments.
    pub(crate) fn of(named: impl IntoIterator<Item = (TreePath, bool)>) -> Self {
        let (mut tops, mut exclusions) = (Vec::new(), Vec::new());
        let mut above: Vec<(TreePath, bool)> = Vec::new();
        for (path, inside) in named {
            // Leaves the subtrees that the path is not in.
            while above.pop_if(|(top, _)| !path.is_within(top)).is_some() {}
            // A path that is held as the one above it says nothing new.
            if inside != above.last().is_some_and(|(_, inside)| *inside) {
                let list = if inside { &mut tops } else { &mut exclusions };
                list.push(path.clone());
                above.push((path, inside));
            }
        }
        Self { tops: tops.into(), exclusions: exclusions.into() }
    }
}

/// Returns the longest of some paths, in the order of segments, that a path begins with.
fn longest<'a>(paths: &'a [TreePath], path: &TreePath) -> Option<&'a TreePath> {
    let mut upto = paths.partition_point(|top| by_segment(top, path) != Ordering::Greater);
    loop {
        let last = paths[..upto].last()?;
        if path.is_within(last) {
            return Some(last);
        }
        // A path that contains `path` and sorts before the last one contains that as well.
        let shared = last.segments().zip(path.segments()).take_while(|(one, other)| one == other).count();
        upto = paths[..upto].partition_point(|top| by_first(top, path, shared) != Ordering::Greater);
    }
}

/// Returns those of some paths, in the order of segments, that are below a path, without itself.
fn below<'a>(paths: &'a [TreePath], path: &TreePath) -> impl Iterator<Item = &'a TreePath> + use<'a> {
    let after = paths.partition_point(|top| by_segment(top, path) != Ordering::Greater);
    let inside = paths[after..].partition_point(|top| top.is_within(path));
    paths[after..after + inside].iter()
}

/// Compares by segment. Everything below a path follows it directly; in byte order `/a-b` would be in
/// between.
fn by_segment(one: &TreePath, other: &TreePath) -> Ordering {
    one.segments().cmp(other.segments())
}

/// Compares with the first `segments` segments of the other path.
fn by_first(one: &TreePath, other: &TreePath, segments: usize) -> Ordering {
    one.segments().cmp(other.segments().take(segments))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn within(tops: &[&str]) -> Within {
        Within::new(tops.iter().map(|top| path(top)))
    }

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).expect("a canonical path")
    }

    #[test]
    fn within_drops_nested_tops_and_keeps_siblings() {
        let found = within(&["/a/b", "/a-b", "/a", "/ab", "/a/b/c", "/a-b"]);
        assert_eq!(found, within(&["/a", "/a-b", "/ab"]));
        assert_eq!(within(&["/x", "/"]), Within::everything());
    }

    #[test]
    fn within_contains_paths_by_segment() {
        let found = within(&["/a", "/a-b/c", "/b%"]);
        for inside in ["/a", "/a/x", "/a/x/y", "/a-b/c", "/a-b/c/d", "/b%", "/b%/x"] {
            assert!(found.contains(&path(inside)), "{inside}");
        }
        for outside in ["/", "/a-b", "/ab", "/a-", "/a-b/cd", "/a-b/b", "/b", "/bx", "/b%x", "/0"] {
            assert!(!found.contains(&path(outside)), "{outside}");
        }
        assert!(found.is_top(&path("/a")) && !found.is_top(&path("/a/x")) && !found.is_top(&path("/a-b")));
        assert!(Within::everything().is_top(&TreePath::root()));
        assert!(!Within::nothing().contains(&TreePath::root()));
    }

    #[test]
    fn tops_below_returns_nested_tops() {
        let found = within(&["/a/b", "/a/c/d", "/a-/x", "/a0", "/z"]);
        let below = |top| found.tops_below(&path(top)).map(TreePath::as_str).collect::<Vec<_>>();
        assert_eq!(below("/a"), ["/a/b", "/a/c/d"]);
        assert_eq!(below("/a/c"), ["/a/c/d"]);
        assert_eq!(below("/").len(), 5);
        assert!(below("/z").is_empty() && below("/a/b").is_empty() && below("/b").is_empty());
    }

    #[test]
    fn intersect_and_union_combine_subtrees() {
        let (one, other) = (within(&["/a", "/b/c", "/d"]), within(&["/a/x", "/b", "/e"]));
        assert_eq!(one.intersect(&other), within(&["/a/x", "/b/c"]));
        assert_eq!(one.union(&other), within(&["/a", "/b", "/d", "/e"]));
        assert_eq!(one.intersect(&Within::everything()), one);
        assert_eq!(one.intersect(&Within::nothing()), Within::nothing());
        assert_eq!(one.union(&Within::nothing()), one);
    }

    #[test]
    fn longest_named_path_decides_inclusion() {
        let paths = |texts: &[&str]| texts.iter().map(|text| path(text)).collect::<Vec<_>>();
        let found = within(&["/a"]).without(paths(&["/a/s", "/a/m", "/b"])).with(paths(&["/a/s/1", "/a/x"]));
        assert_eq!(
            (found.tops(), found.exclusions()),
            (&*paths(&["/a", "/a/s/1"]), &*paths(&["/a/m", "/a/s"]))
        );
        for inside in ["/a", "/a/x", "/a/mm", "/a/s-", "/a/s/1", "/a/s/1/x"] {
            assert!(found.contains(&path(inside)) && !found.is_excluded(&path(inside)), "{inside}");
        }
        for out in ["/a/s", "/a/s/0", "/a/s/10", "/a/m", "/a/m/x/y"] {
            assert!(!found.contains(&path(out)) && found.is_excluded(&path(out)), "{out}");
        }
        for outside in ["/", "/b", "/aa"] {
            assert!(!found.contains(&path(outside)) && !found.is_excluded(&path(outside)), "{outside}");
        }
        assert_eq!(found.without(paths(&["/a/s/1"])), within(&["/a"]).without(paths(&["/a/m", "/a/s"])));
        assert_eq!(found.with(paths(&["/a"])), within(&["/a"]));
        assert!(found.without(paths(&["/"])).is_nothing());
        let hidden = Within::everything().without(paths(&["/.garth"]));
        assert!(hidden.contains(&TreePath::root()) && !hidden.is_everything());
        assert!(hidden.intersect(&within(&["/.garth/x"])).is_nothing());
        assert_eq!(hidden.intersect(&within(&["/a"])), within(&["/a"]));
        assert_eq!(hidden.union(&within(&["/.garth"])), Within::everything());
    }

    /// Returns every path of up to three of these segments.
    fn small_paths() -> Vec<TreePath> {
        // In byte order `/a-` comes between `/a` and `/a/a`, in that of segments after both.
        let names = ["a", "a-", "b"];
        let mut paths = vec![TreePath::root()];
        for depth in 0..3 {
            let last = paths.iter().filter(|path| path.segments().count() == depth);
            let longer: Vec<_> =
                last.flat_map(|path| names.map(|name| TreePath::from_row(path.key(), name))).collect();
            paths.extend(longer);
        }
        paths
    }

    /// Returns paths that were put in or left out at random, and for each path whether it is contained.
    fn some_within() -> impl Strategy<Value = (Within, Vec<bool>)> {
        let all = small_paths().len();
        prop::collection::vec((0..all, any::<bool>()), 0..7).prop_map(|steps| {
            let paths = small_paths();
            let (mut within, mut held) = (Within::nothing(), vec![false; paths.len()]);
            for (at, inside) in steps {
                let top = [paths[at].clone()];
                within = if inside { within.with(top) } else { within.without(top) };
                for (path, held) in paths.iter().zip(&mut held) {
                    *held = if path.is_within(&paths[at]) { inside } else { *held };
                }
            }
            (within, held)
        })
    }

    /// Returns whether the parent of a path is contained.
    fn above(paths: &[TreePath], held: &[bool], path: &TreePath) -> Option<bool> {
        let parent = path.parent()?;
        paths.iter().position(|path| *path == parent).map(|at| held[at])
    }

    fn check(within: &Within, held: &[bool]) -> Result<(), TestCaseError> {
        let paths = small_paths();
        // Where a path and its parent differ in being contained.
        let turns = |inside: bool| {
            let turn = |(path, now): &(&TreePath, &bool)| {
                **now == inside && above(&paths, held, path).unwrap_or_default() != inside
            };
            let mut turns: Vec<TreePath> =
                paths.iter().zip(held).filter(turn).map(|(path, _)| path.clone()).collect();
            turns.sort_by(by_segment);
            turns
        };
        let (tops, mut exclusions) = (turns(true), turns(false));
        exclusions.retain(|path| above(&paths, held, path) == Some(true));
        prop_assert_eq!((within.tops(), within.exclusions()), (&*tops, &*exclusions));
        prop_assert_eq!(within.is_everything(), held.iter().all(|held| *held));
        prop_assert_eq!(within.is_nothing(), !held.iter().any(|held| *held));
        for (path, held) in paths.iter().zip(held) {
            prop_assert_eq!(within.contains(path), *held, "{}", path);
            let last = tops.iter().rfind(|top| path.is_within(top));
            prop_assert_eq!(within.top_of(path), last.filter(|_| *held), "{}", path);
            prop_assert_eq!(within.is_top(path), tops.contains(path), "{}", path);
            prop_assert_eq!(within.is_excluded(path), last.is_some() && !*held, "{}", path);
            let is_below = |top: &&TreePath| top.is_within(path) && *top != path;
            let below: Vec<_> = tops.iter().filter(is_below).collect();
            prop_assert_eq!(within.tops_below(path).collect::<Vec<_>>(), below);
            let below: Vec<_> = exclusions.iter().filter(is_below).collect();
            prop_assert_eq!(within.exclusions_below(path).collect::<Vec<_>>(), below);
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn within_matches_naive_set_of_paths(
            (one, held) in some_within(), (other, there) in some_within()
        ) {
            check(&one, &held)?;
            let both = |holds: fn(bool, bool) -> bool| {
                held.iter().zip(&there).map(|(one, other)| holds(*one, *other)).collect::<Vec<_>>()
            };
            check(&one.intersect(&other), &both(|one, other| one && other))?;
            check(&one.union(&other), &both(|one, other| one || other))?;
            let again = one.named().into_iter().map(|(path, inside)| (path.clone(), inside));
            prop_assert_eq!(Within::of(again), one);
        }
    }
}
