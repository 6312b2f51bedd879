//! Ranges of names, as statements have them. A text of the database has no NUL, which ends of ranges have,
//! such as that of one directory: `x\0` is behind `x` and before everything else.

use garth_engine::engine::planner::{Key, Region};
use garth_engine::model::Within;
use garth_engine::path::TreePath;
use tokio_postgres::types::Type;

use crate::client::Param;
use crate::values::parameters::{ints, list, texts};

/// Range of directories, without its end.
pub(crate) type Dirs = (String, String);

/// Returns a bound of a range as the database takes it. The texts without NUL that are at or after `x\0…` are
/// those at or after `x\x01`, so the range is the same.
pub(super) fn bound(mut text: String) -> String {
    if let Some(nul) = text.find('\0') {
        text.truncate(nul);
        text.push('\x01');
    }
    text
}

/// Returns ranges of directories as the database takes them.
pub(crate) fn dirs(ranges: impl IntoIterator<Item = Dirs>) -> impl Iterator<Item = Dirs> {
    let sent = ranges.into_iter().map(|(from, to)| (bound(from), bound(to)));
    // Only bounds that no path has can be equal now.
    sent.filter(|(from, to)| from < to)
}

/// Range of names, from one directory and name up to but without another.
pub(super) type Names = (Key, Key);

/// Returns the ranges of the names within some subtrees. The names of excluded entries are among them.
pub(super) fn names_within(within: &Within) -> Vec<Names> {
    let mut ranges = Vec::new();
    for top in within.tops() {
        // The root has no name.
        if let Some((dir, name)) = top.key().rsplit_once('/') {
            let key = |name: String| (dir.to_owned(), name);
            ranges.push((key(name.to_owned()), key(format!("{name}\x01"))));
        }
        let without = within.exclusions_below(top).map(|path: &TreePath| path.key().to_owned()).collect();
        let region = Region { dir: top.key().to_owned(), without, ..Region::default() };
        let start = |dir: String| (dir, String::new());
        ranges.extend(dirs(region.ranges()).map(|(from, to)| (start(from), start(to))));
    }
    ranges
}

/// Ranges that belong to keys, to be sent in one statement: the numbers of their keys, and the ranges.
pub(super) struct Keyed<T> {
    rows: Vec<(usize, T)>,
}

impl<T> Keyed<T> {
    /// Returns the ranges of all keys, in their order.
    pub(super) fn new<K, I: IntoIterator<Item = T>>(keys: &[K], ranges: impl Fn(&K) -> I) -> Self {
        let of = |(place, key)| ranges(key).into_iter().map(move |range| (place, range));
        Self { rows: keys.iter().enumerate().flat_map(of).collect() }
    }

    /// Returns a column with a number of each range's key.
    pub(super) fn column<K>(&self, keys: &[K], take: impl Fn(&K) -> i64) -> Param {
        let values = self.rows.iter().filter_map(|(place, _)| keys.get(*place)).map(take);
        list(values, Type::INT8_ARRAY)
    }

    /// Returns the column of the places of the keys, counted from 1 as `WITH ORDINALITY` does.
    pub(super) fn places(&self) -> Param {
        ints(self.rows.iter().map(|(place, _)| *place as u64 + 1))
    }

    /// Returns a column of texts of the ranges.
    pub(super) fn texts(&self, take: impl Fn(&T) -> &String) -> Param {
        texts(self.rows.iter().map(|(_, range)| take(range).clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_keep_the_directories_of_a_range() {
        let without = ["/a/b", "/a/b-", "/a/d\x01"].map(str::to_owned).into();
        let region = Region { dir: "/a".to_owned(), without, ..Region::default() };
        let sent: Vec<Dirs> = dirs(region.ranges()).collect();
        for dir in [
            "",
            "/",
            "/a",
            "/a\x01",
            "/a\x01/b",
            "/a!",
            "/a-",
            "/a.",
            "/a/",
            "/a/a",
            "/a/a\x01",
            "/a/b",
            "/a/b\x01",
            "/a/b!",
            "/a/b-",
            "/a/b-/c",
            "/a/b.",
            "/a/b/",
            "/a/b/c",
            "/a/b0",
            "/a/d",
            "/a/d\x01",
            "/a/d\x01\x01",
            "/a/d\x01/e",
            "/a/d\x02",
            "/a/e",
            "/a0",
            "/b",
        ] {
            let held = sent.iter().filter(|(from, to)| from.as_str() <= dir && dir < to.as_str()).count();
            assert_eq!(held, usize::from(region.contains(dir, "n")), "{dir:?} in {sent:?}");
        }
    }

    #[test]
    fn ranges_of_subtrees_hold_their_names() {
        let path = |path: &str| TreePath::parse(path).unwrap();
        let within = Within::new([path("/a/b"), path("/c")]).without([path("/c/x")]);
        let ranges = names_within(&within);
        for at in
            ["/a", "/a/b", "/a/b\x01", "/a/b-", "/a/b/c", "/a/b/c/d", "/a/c", "/c", "/c/w", "/c/x/y", "/d"]
        {
            let (dir, name) = at.rsplit_once('/').unwrap();
            let key = (dir.to_owned(), name.to_owned());
            let held = ranges.iter().filter(|(from, to)| *from <= key && key < *to).count();
            assert_eq!(held, usize::from(within.contains(&path(at))), "{at:?} in {ranges:?}");
        }
        assert_eq!(names_within(&Within::everything()).len(), 2);
    }
}
