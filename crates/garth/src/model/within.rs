//! A part of a tree: which paths a view, a batch or a query may reach.

use std::cmp::Ordering;

use crate::path::TreePath;

/// Subtrees of a tree: the paths that are their tops, and all below these. Compared by segment, so that
/// `/chat-ab` is not within `/chat-a`.
///
/// ```
/// use garth::TreePath;
/// use garth::model::Within;
///
/// let path = |text| TreePath::parse(text).unwrap();
/// let [chats, one, other] = ["/chats", "/chats/one", "/chats-old"].map(path);
/// let within = Within::new([one.clone(), chats.clone()]);
/// assert_eq!(within.tops(), [chats], "what lies inside another is left out");
/// assert!(within.contains(&one) && !within.contains(&other));
/// assert!(!Within::nothing().contains(&one) && Within::everything().contains(&other));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Within(Vec<TreePath>);

impl Within {
    /// These paths and all below them.
    pub fn new(tops: impl IntoIterator<Item = TreePath>) -> Self {
        let mut tops: Vec<TreePath> = tops.into_iter().collect();
        // what is below a path follows it directly
        tops.sort_by(by_segment);
        tops.dedup_by(|path, before| path.is_within(before));
        Self(tops)
    }

    /// The whole tree.
    pub fn everything() -> Self {
        Self(vec![TreePath::root()])
    }

    /// No path at all, not even `/`.
    pub const fn nothing() -> Self {
        Self(Vec::new())
    }

    /// The tops of the subtrees, in the order of their segments; none is inside another.
    pub fn tops(&self) -> &[TreePath] {
        &self.0
    }

    /// Whether it is the whole tree.
    pub fn is_everything(&self) -> bool {
        self.0.first().is_some_and(TreePath::is_root)
    }

    /// Whether it is no path at all.
    pub fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it holds this path.
    pub fn contains(&self, path: &TreePath) -> bool {
        self.top_of(path).is_some()
    }

    /// The top of the subtree that holds this path.
    pub fn top_of(&self, path: &TreePath) -> Option<&TreePath> {
        let after = self.0.partition_point(|top| by_segment(top, path) != Ordering::Greater);
        self.0[..after].last().filter(|top| path.is_within(top))
    }

    /// Whether this path is the top of a subtree. To whom sees only that, its name is out of reach: it can be
    /// read and changed, but not made, removed or moved.
    pub fn is_top(&self, path: &TreePath) -> bool {
        self.top_of(path) == Some(path)
    }

    /// The tops that lie below this path, itself left out.
    pub fn tops_below(&self, path: &TreePath) -> impl Iterator<Item = &TreePath> {
        let after = self.0.partition_point(|top| by_segment(top, path) != Ordering::Greater);
        self.0[after..].iter().take_while(move |top| top.is_within(path))
    }

    /// What both hold.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let inside = |one: &Self, other: &Self| {
            one.0.iter().filter(|top| other.contains(top)).cloned().collect::<Vec<_>>()
        };
        Self::new(inside(self, other).into_iter().chain(inside(other, self)))
    }

    /// What either holds.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::new(self.0.iter().chain(&other.0).cloned())
    }
}

/// All that is below a path follows it directly in this order; in the order of bytes `/a-b` is in between.
fn by_segment(one: &TreePath, other: &TreePath) -> Ordering {
    one.segments().cmp(other.segments())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(tops: &[&str]) -> Within {
        Within::new(tops.iter().map(|top| path(top)))
    }

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).expect("a canonical path")
    }

    #[test]
    fn what_lies_inside_another_is_left_out_and_siblings_stay() {
        let found = within(&["/a/b", "/a-b", "/a", "/ab", "/a/b/c", "/a-b"]);
        assert_eq!(found, within(&["/a", "/a-b", "/ab"]));
        assert_eq!(within(&["/x", "/"]), Within::everything());
    }

    #[test]
    fn a_path_is_held_by_segment() {
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
    fn the_tops_below_a_path_are_told() {
        let found = within(&["/a/b", "/a/c/d", "/a-/x", "/a0", "/z"]);
        let below = |top| found.tops_below(&path(top)).map(TreePath::as_str).collect::<Vec<_>>();
        assert_eq!(below("/a"), ["/a/b", "/a/c/d"]);
        assert_eq!(below("/a/c"), ["/a/c/d"]);
        assert_eq!(below("/").len(), 5);
        assert!(below("/z").is_empty() && below("/a/b").is_empty() && below("/b").is_empty());
    }

    #[test]
    fn both_and_either() {
        let (one, other) = (within(&["/a", "/b/c", "/d"]), within(&["/a/x", "/b", "/e"]));
        assert_eq!(one.intersect(&other), within(&["/a/x", "/b/c"]));
        assert_eq!(one.union(&other), within(&["/a", "/b", "/d", "/e"]));
        assert_eq!(one.intersect(&Within::everything()), one);
        assert_eq!(one.intersect(&Within::nothing()), Within::nothing());
        assert_eq!(one.union(&Within::nothing()), one);
    }
}
