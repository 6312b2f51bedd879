//! Entries of a gated directory that may be visible in the newest state, by the index of keys. A listing or
//! walk goes from one of them to the next, however many hidden entries are between.

use std::collections::BTreeSet;

use crate::engine::relational::reads::tree_rows::{Read, TreeRows};
use crate::model::Gate;
use crate::model::find::kept;
use crate::path::MAX_NAME;

/// Limit on the entries. In a directory with more, a listing judges each hidden entry that it passes.
const MAX_OPEN: usize = if cfg!(test) { 50 } else { 1000 };

/// See the module. All visible entries are among these, and perhaps others: whether one is visible is judged
/// by its file.
#[derive(Debug)]
pub struct OpenEntries {
    /// Key of the gated directory.
    dir: String,
    /// Names of the entries, sorted.
    names: Vec<String>,
    /// Ranges of the keys of the directories in the entries, each without its end, sorted.
    ranges: Vec<(String, String)>,
}

impl OpenEntries {
    /// Returns the entries of a gated directory; `None` if there are too many, or if the index does not have
    /// the keys of all of them.
    pub(crate) fn of<R: TreeRows>(rows: R, gate: &Gate) -> Read<R, Option<Self>> {
        let file = gate.file.as_str();
        let of_content = rows.registry().projection(gate.projection);
        // The index has no keys of files outside of the patterns of the projection.
        if !of_content.is_some_and(|one| one.has_in_each_entry(&gate.dir, file)) {
            return Ok(None);
        }
        let mut names = BTreeSet::new();
        for key in &gate.keys {
            let found = rows.entries_with(gate, &kept(key), MAX_OPEN)?;
            let Some(found) = found else { return Ok(None) };
            names.extend(found);
        }
        Ok((names.len() <= MAX_OPEN).then(|| Self::new(gate.dir.key(), names)))
    }

    fn new(dir: &str, names: BTreeSet<String>) -> Self {
        let of_entry = |name: &String| {
            let entry = format!("{dir}/{name}");
            // Keys such as `entry-b` come between the entry and what is in the directories below it.
            [(entry.clone(), format!("{entry}\0")), (format!("{entry}/"), format!("{entry}0"))]
        };
        let mut ranges: Vec<_> = names.iter().flat_map(of_entry).collect();
        ranges.sort_unstable();
        Self { dir: dir.to_owned(), names: names.into_iter().collect(), ranges }
    }

    /// Returns the place from which a listing or walk goes on after a hidden name: after this directory and
    /// name comes the next name that may be visible, or else one outside of the gated directory.
    pub(crate) fn place_after(&self, (dir, name): (&str, &str)) -> (String, String) {
        if dir == self.dir {
            let at = self.names.partition_point(|open| open.as_str() <= name);
            return match self.names.get(at) {
                Some(open) => (self.dir.clone(), just_before(open)),
                None => (format!("{dir}\0"), String::new()),
            };
        }
        let at = self.ranges.partition_point(|(from, _)| from.as_str() <= dir);
        let next = self.ranges.get(at).map(|(from, _)| from.clone());
        (next.unwrap_or_else(|| format!("{}0", self.dir)), String::new())
    }
}

/// Returns a text between a name and all names before it.
fn just_before(name: &str) -> String {
    let mut chars = name.chars();
    let last = chars.next_back().map_or(0, u32::from);
    let mut text = chars.as_str().to_owned();
    // A name that begins with all but its last character, and goes on with one before that, follows all
    // others.
    let Some(before) = (0..last).rev().find_map(char::from_u32) else { return text };
    text.push(before);
    while text.len() <= MAX_NAME {
        text.push(char::MAX);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_before_name_follows_all_earlier_names() {
        let longest = |text: &str| text.repeat(MAX_NAME / text.len());
        let mut names =
            ["a", "a!", "a\u{1}", "a-b", "a0", "ab", "aé", "a\u{e000}", "b", "é", "\u{1}", "\u{10ffff}"]
                .map(str::to_owned)
                .to_vec();
        names.extend(["a", "é", "\u{10ffff}", "\u{1}"].map(longest));
        names.sort_unstable();
        for pair in names.windows(2) {
            let place = just_before(&pair[1]);
            assert!(*pair[0] <= *place && *place < *pair[1], "{:?} before {:?}", pair[0], pair[1]);
        }
    }

    #[test]
    fn place_after_hidden_name_skips_no_open_entry() {
        let names = ["a", "a-b", "a0", "b", "c", "c.d", "d", "d-e"];
        let is_open = |name: &str| ["a-b", "c", "d-e"].contains(&name);
        let open = names.into_iter().filter(|name| is_open(name)).map(str::to_owned).collect();
        let open = OpenEntries::new("/s", open);
        // Each name with its directory, and true if it may be visible.
        let mut rows: Vec<(String, String, bool)> = vec![("/s-t".into(), "x".into(), true)];
        rows.push(("/s0".into(), "x".into(), true));
        for name in names {
            rows.push(("/s".into(), name.into(), is_open(name)));
            for dir in ["", "/sub", "/sub-b", "/sub/deep"] {
                rows.push((format!("/s/{name}{dir}"), "x".into(), is_open(name)));
            }
        }
        rows.sort_unstable();
        for (at, (dir, name, _)) in rows.iter().enumerate().filter(|(_, (.., is_open))| !is_open) {
            let place = open.place_after((dir, name));
            assert!(place >= (dir.clone(), name.clone()), "{dir} {name}");
            let next =
                rows.iter().find(|(dir, name, _)| (dir.as_str(), name.as_str()) > (&*place.0, &*place.1));
            let due = rows[at + 1..].iter().find(|(.., is_open)| *is_open);
            assert_eq!(next, due, "after {dir} {name}");
        }
    }
}
