//! Finding nodes by key. Looks at every node each time.

use std::collections::BTreeSet;
use std::convert::Infallible;

use super::content::Content;
use super::fill;
use super::state::Node;
use super::tree::{Tree, View};
use crate::error::Result;
use crate::model::{FindAnswer, FindCursor, FindItem, FindLine, FindQuery, Ino, Kind, Projection, Within};
use crate::path::TreePath;
use crate::rule::projection::{
    ContentProjection, Keys, Line, LineKeys, Lines, MAX_FILE, kept_keys, of_attributes,
};

impl View<'_> {
    pub(super) fn find_keys(&mut self, query: &FindQuery) -> Result<FindAnswer> {
        self.state.registry.check(query.projection)?;
        let after = query.after.as_ref().map(FindCursor::place).transpose()?.flatten();
        let mut found = Vec::new();
        for ino in self.state.nodes.keys().copied().collect::<Vec<_>>() {
            // Also leaves out expired nodes.
            if !self.is_named(ino) {
                continue;
            }
            let paths = self.asked_for(query, self.paths(ino));
            let keys = self.keys(ino, query.projection, query.is_of_ends());
            let asked = |(key, line): &(String, Option<FindLine>)| {
                query.has(key) && line.as_ref().is_none_or(|line| line.number >= query.lines_from)
            };
            for (key, line) in keys.into_iter().filter(asked) {
                let item = |path: &TreePath| {
                    let (key, path, line) = (key.clone(), path.clone(), line.clone());
                    FindItem { key, path, ino, line }
                };
                found.extend(paths.iter().map(item));
            }
        }
        found.sort_by_key(FindItem::place);
        // After sorting: a page begins after a place in the order of keys, not of nodes.
        found.retain(|item| after.is_none_or(|after| item.place() > *after));
        let page = fill(query.limit, found);
        let next = page.items.last().filter(|_| page.more).map(|item| FindCursor::behind(item.place()));
        Ok(FindAnswer { items: page.items, next })
    }

    /// Returns the keys of a node, without their lines.
    pub(super) fn keys_of(&self, ino: Ino, projection: Projection) -> BTreeSet<String> {
        self.keys(ino, projection, false).into_iter().map(|(key, _)| key).collect()
    }

    /// Returns the keys of a node, for any caller, or the end of its lines.
    fn keys(&self, ino: Ino, projection: Projection, ends: bool) -> Vec<(String, Option<FindLine>)> {
        let of_content = self.state.registry.projection(projection);
        keys((projection, ends), of_content, self.get(ino), &self.every_path(ino))
    }

    fn asked_for(&self, query: &FindQuery, mut paths: Vec<TreePath>) -> Vec<TreePath> {
        let within = Within::new(query.within.iter().cloned());
        let of_content = self.state.registry.projection(query.projection);
        let of_class = |path: &TreePath| of_content.is_none_or(|one| one.has(path));
        paths.retain(|path| of_class(path) && (query.within.is_empty() || within.contains(path)));
        paths
    }
}

/// Returns the keys of a node in a projection, or the end of its lines.
fn keys(
    (projection, ends): (Projection, bool),
    of_content: Option<&ContentProjection>,
    node: &Node,
    paths: &[TreePath],
) -> Vec<(String, Option<FindLine>)> {
    let Some(of_content) = of_content else {
        let keys = of_attributes(&node.attributes).into_iter();
        return keys.filter(|(of, _)| *of == projection).map(|(_, key)| (key, None)).collect();
    };
    // One name that matches the pattern is enough, whether the caller reaches it or not.
    if node.kind != Kind::File || !paths.iter().any(|path| of_content.has(path)) {
        return Vec::new();
    }
    let content = &node.content;
    match of_content.keys() {
        Keys::OfLines(keys) => {
            let (keys, end) = of_lines(content, keys);
            if ends { vec![(String::new(), Some(end))] } else { keys }
        }
        Keys::OfFile(_) if content.size() > MAX_FILE => Vec::new(),
        Keys::OfFile(keys) => {
            let length = usize::try_from(content.size()).unwrap_or(usize::MAX);
            kept_keys(keys(&content.read(0, length))).into_iter().map(|key| (key, None)).collect()
        }
    }
}

/// Returns the keys of the lines of a file, and the line at its end that is incomplete, or has yet to
/// begin.
fn of_lines(content: &Content, of: LineKeys) -> (Vec<(String, Option<FindLine>)>, FindLine) {
    let (mut lines, mut keys, mut at) = (Lines::at(1, 0), Vec::new(), 0);
    let mut keyed = |line: &Line, text: &[u8]| {
        let Line { number, bytes } = line;
        let own = kept_keys(of(*number, text)).into_iter();
        keys.extend(own.map(|key| (key, Some(FindLine { number: *number, bytes: bytes.clone() }))));
        Ok::<(), Infallible>(())
    };
    while at < content.size() {
        // Holes are skipped: a sparse file may be longer than memory.
        let data = content.next_data(at).unwrap_or(content.size());
        lines.hole(data - at);
        at = content.next_hole(data);
        let length = usize::try_from(at - data).unwrap_or(usize::MAX);
        let Ok(()) = lines.push(&content.read(data, length), &mut keyed);
    }
    let Ok(()) = lines.end(&mut keyed);
    let Line { number, bytes } = lines.now();
    (keys, FindLine { number: *number, bytes: bytes.start..bytes.start })
}
