//! History: versions of a node, and of all nodes that a path has led to.

use std::collections::BTreeMap;

use super::fill;
use super::state::{Node, State};
use super::tree::{Tree, View};
use crate::error::{Error, Result};
use crate::model::{At, HistoryPage, Ino, Listing, Seq, Version, VersionId};
use crate::path::TreePath;

/// Period in which a path led to a node: from commit `since` on, up to but without commit `till`.
#[derive(Clone, Copy, Debug)]
struct Occupancy {
    ino: Ino,
    since: Seq,
    till: Seq,
}

/// End of a period that has not ended.
const NEVER: Seq = Seq(u64::MAX);

impl View<'_> {
    pub(super) fn history(&mut self, at: &At, page: &HistoryPage) -> Result<Listing<Version>> {
        let path = match at {
            At::Path(path) => Some(path.clone()),
            At::Child(dir, name) => Some(self.child_path(*dir, name)?),
            At::Node(_) => None,
        };
        if let Some(path) = path.as_ref().filter(|path| !self.within.contains(path)) {
            return Err(Error::not_found(path));
        }
        self.check_history()?;
        let mut versions = match (path, at) {
            (Some(path), _) => self.path_history(&path)?,
            (None, At::Node(ino)) => {
                let versions = self.node_history(*ino, NEVER);
                let never_changed = *ino == Ino::ROOT && self.within.contains(&TreePath::root());
                if versions.is_empty() && !never_changed {
                    return Err(Error::no_node());
                }
                versions
            }
            (None, _) => return Err(Error::no_node()),
        };
        // The versions before the oldest state are not kept. Only after one that this state shows, the page
        // continues with those of other nodes.
        if let Some(before) = page.before
            && before.seq <= self.state.oldest
            && self.state.oldest > Seq(0)
            && !versions.contains_key(&(before.seq, before.ino))
        {
            return Err(Error::gone(self.state.oldest.0));
        }
        versions
            .retain(|(seq, ino), _| page.before.is_none_or(|before| (*seq, *ino) < (before.seq, before.ino)));
        let newest_first = versions.into_iter().rev().filter_map(|((seq, ino), node)| {
            let commit = self.own_id(&self.state.commit_info(seq)?);
            // The author of a version outside of the view is not disclosed.
            let outside = node.is_some_and(Node::has_name) && !self.was_within(ino, seq);
            let commit = if outside { commit.unsigned() } else { commit };
            let entry = node.map(|node| Box::new(node.entry()));
            Some(Version { id: VersionId { seq, ino }, commit, entry })
        });
        Ok(fill(page.limit, newest_first))
    }

    /// Returns the versions of a node before commit `till` that are kept. The root's version 0 is left out:
    /// no commit created it.
    fn node_history(&self, ino: Ino, till: Seq) -> BTreeMap<(Seq, Ino), Option<&Node>> {
        let versions = self.state.nodes.get(&ino).into_iter().flat_map(|versions| versions.iter());
        versions
            .filter(|(seq, _)| *seq > Seq(0) && *seq <= self.seq && *seq < till)
            .filter(|(seq, _)| self.state.is_kept(ino, *seq) && self.is_shown(ino, *seq))
            .map(|(seq, node)| ((*seq, ino), (!node.end).then_some(node)))
            .collect()
    }

    fn path_history(&self, path: &TreePath) -> Result<BTreeMap<(Seq, Ino), Option<&Node>>> {
        let mut stays = self.stays(path);
        stays.retain(|stay| stay.till > self.state.oldest);
        if stays.is_empty() {
            return Err(Error::not_found(path));
        }
        let mut left: BTreeMap<Ino, Seq> = BTreeMap::new();
        // A node that came back to the path is shown up to the end of its last stay.
        for stay in &stays {
            left.insert(stay.ino, stay.till);
        }
        let mut versions = BTreeMap::new();
        for (ino, till) in left {
            versions.append(&mut self.node_history(ino, till));
        }
        for (index, stay) in stays.iter().enumerate() {
            let replaced = stays.get(index + 1).is_some_and(|next| next.since == stay.till);
            if stay.till <= self.seq && !replaced {
                // This holds even if the node has a version in this commit, because it came back to the
                // path later: at this commit the path led nowhere.
                versions.insert((stay.till, stay.ino), None);
            }
        }
        Ok(versions)
    }

    /// Returns the periods of a path, oldest first. A name on the way counts only while its directory was
    /// at its place.
    fn stays(&self, path: &TreePath) -> Vec<Occupancy> {
        let mut stays = vec![Occupancy { ino: Ino::ROOT, since: Seq(0), till: NEVER }];
        for segment in path.segments() {
            let mut next = Vec::new();
            for dir in stays {
                name_occupancies(self.state, dir.ino, segment, self.seq)
                    .into_iter()
                    .map(|stay| Occupancy {
                        since: stay.since.max(dir.since),
                        till: stay.till.min(dir.till),
                        ..stay
                    })
                    // The name and its directory were never there together.
                    .filter(|stay| stay.since < stay.till)
                    .for_each(|stay| next.push(stay));
            }
            stays = next;
        }
        stays
    }
}

/// Returns the periods of a name in a directory, up to commit `head`.
fn name_occupancies(state: &State, dir: Ino, name: &str, head: Seq) -> Vec<Occupancy> {
    let mut stays: Vec<Occupancy> = Vec::new();
    let nodes = state.names.get(&dir).and_then(|names| names.get(name));
    for (seq, node) in nodes.into_iter().flat_map(|nodes| nodes.iter()).filter(|(seq, _)| *seq <= head) {
        if let Some(stay) = stays.last_mut().filter(|stay| stay.till == NEVER) {
            stay.till = *seq;
        }
        if let Some(ino) = node {
            stays.push(Occupancy { ino: *ino, since: *seq, till: NEVER });
        }
    }
    stays
}
