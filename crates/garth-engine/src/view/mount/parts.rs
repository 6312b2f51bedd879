//! All parts of a mounted tree, and the directories that lead to them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::part::{Part, Source};
use crate::error::{Error, Result};
use crate::model::Ino;
use crate::path::{Name, TreePath};
use crate::view::inode_map::InodeMap;

/// Limit on the parts of one tree.
pub const MAX_PARTS: usize = 1000;

/// All parts of a tree.
#[derive(Debug)]
pub(super) struct Parts {
    /// Parts in the order of their paths. The first is the root.
    parts: Vec<Part>,
    places: HashMap<String, usize>,
    /// Every path above a part, including `/`.
    above: BTreeSet<TreePath>,
    /// Names in each directory that lead to parts.
    leading: BTreeMap<TreePath, BTreeSet<Name>>,
    segments: HashSet<String>,
    /// Path under which another part shows the files of an alias, by the index of the alias.
    originals: HashMap<usize, TreePath>,
    numbers: InodeMap,
}

impl Parts {
    pub(super) fn new(mut parts: Vec<Part>) -> Result<Self> {
        parts.sort_by(|one, other| one.at.cmp(&other.at));
        if parts.len() > MAX_PARTS {
            return Err(Error::invalid(format!("a tree is made of at most {MAX_PARTS} parts")));
        }
        if let Some(twice) = parts.windows(2).find(|pair| pair[0].at == pair[1].at) {
            return Err(Error::invalid(format!("two parts are mounted at {}", twice[0].at)));
        }
        let mut shown: Vec<TreePath> = Vec::new();
        let (mut places, mut above, mut segments) = (HashMap::new(), BTreeSet::new(), HashSet::new());
        let mut leading: BTreeMap<TreePath, BTreeSet<Name>> = BTreeMap::new();
        for (index, part) in parts.iter_mut().enumerate() {
            part.index = index;
            if let Source::Base(root) = &part.source {
                // Inside a directory that is shown elsewhere, a node would have one inode under two paths.
                let twice = shown.iter().any(|other| root.is_within(other) || other.is_within(root));
                // The base's root has inode 1, which the root of this tree has as well.
                part.tagged = twice || (root.is_root() && !part.at.is_root());
                shown.extend((!part.tagged).then(|| root.clone()));
            }
            places.insert(part.at.key().to_owned(), index);
            above.extend(part.at.ancestors());
            segments.extend(part.at.segments().map(str::to_owned));
        }
        let points = parts.iter().map(|part| &part.at).chain(&above);
        for (dir, name) in points.filter_map(TreePath::split) {
            leading.entry(dir).or_default().insert(name);
        }
        let names = |(dir, names): (&TreePath, &BTreeSet<Name>)| {
            names.iter().filter_map(|name| dir.join(name).ok()).collect::<Vec<_>>()
        };
        let tagged = parts.iter().filter(|part| part.tagged);
        let numbers = InodeMap::new(
            leading.iter().flat_map(names),
            tagged.map(|part| (part.index, part.at.clone())).collect::<Vec<_>>(),
        );
        let originals = HashMap::new();
        let mut parts = Self { parts, places, above, leading, segments, originals, numbers };
        let found = parts.all().iter().filter_map(|part| Some((part.index, parts.find_original(part)?)));
        parts.originals = found.collect();
        Ok(parts)
    }

    /// Returns the path under which another part shows all files of an alias. Returns `None` if there is
    /// none, or if a part below either of the two makes their files differ.
    fn find_original(&self, alias: &Part) -> Option<TreePath> {
        let Source::Base(root) = &alias.source else { return None };
        if !alias.is_alias || self.has_below(&alias.at) {
            return None;
        }
        let others = self.parts.iter().filter(|part| part.is_base() && !part.is_alias);
        others.filter_map(|part| self.shown_by(part, root)).find(|path| !self.has_below(path))
    }

    /// Returns the alias that a path is in, with the path under which another part shows its files.
    pub(super) fn alias(&self, path: &TreePath) -> Option<(&Part, &TreePath)> {
        let part = self.of(path);
        Some((part, self.originals.get(&part.index)?))
    }

    /// Returns the same paths over other sources, one for each part.
    pub(super) fn over(&self, sources: Vec<Source>) -> Self {
        let over = |(part, source): (&Part, Source)| Part { at: part.at.clone(), source, ..*part };
        Self {
            parts: self.parts.iter().zip(sources).map(over).collect(),
            places: self.places.clone(),
            above: self.above.clone(),
            leading: self.leading.clone(),
            segments: self.segments.clone(),
            originals: self.originals.clone(),
            numbers: self.numbers.clone(),
        }
    }

    pub(super) fn all(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the part that a path belongs to.
    pub(super) fn of(&self, path: &TreePath) -> &Part {
        let mut key = path.key();
        loop {
            // From the path up, so that the longest path of a part is met first.
            if let Some(index) = self.places.get(key) {
                return &self.parts[*index];
            }
            match key.rfind('/') {
                Some(end) => key = &key[..end],
                None => return &self.parts[0],
            }
        }
    }

    /// Returns true if a part other than the root is shown at a path.
    pub(super) fn is_point(&self, path: &TreePath) -> bool {
        !path.is_root() && self.places.contains_key(path.key())
    }

    /// Returns true if a part is shown below a path.
    pub(super) fn has_below(&self, path: &TreePath) -> bool {
        self.above.contains(path)
    }

    /// Returns true if a part is shown at or below a path other than the root.
    pub(super) fn leads(&self, path: &TreePath) -> bool {
        !path.is_root() && (self.has_below(path) || self.is_point(path))
    }

    /// Returns true if the path of a part has this segment.
    pub(super) fn has_segment(&self, name: &str) -> bool {
        self.segments.contains(name)
    }

    /// Returns the names in a directory that are, or lead to, parts.
    pub(super) fn leading_in(&self, dir: &TreePath) -> impl Iterator<Item = &Name> {
        self.leading.get(dir).into_iter().flatten()
    }

    /// Returns the paths below a directory that are, or lead to, parts, in the order of a walk.
    pub(super) fn leading_below(&self, dir: &TreePath) -> impl Iterator<Item = TreePath> {
        let below = self.leading.iter().filter(move |(above, _)| above.is_within(dir));
        below.flat_map(|(above, names)| names.iter().filter_map(move |name| above.join(name).ok()))
    }

    /// Returns the tree's path of a path of a part's source; `None` if another part hides it.
    pub(super) fn shown_by(&self, part: &Part, path: &TreePath) -> Option<TreePath> {
        part.up(path).filter(|up| self.of(up).index == part.index)
    }

    /// Returns the paths of the tree for a path of the base, beginning with parts whose inodes are not
    /// marked.
    pub(super) fn up_from_base(&self, path: &TreePath) -> impl Iterator<Item = TreePath> {
        let of_base = self.parts.iter().filter(|part| part.is_base());
        let (tagged, own): (Vec<_>, Vec<_>) = of_base.partition(|part| part.tagged);
        own.into_iter().chain(tagged).filter_map(move |part| self.shown_by(part, path))
    }

    /// Returns the inode that the tree shows for an inode of a part.
    pub(super) fn shown(&self, part: &Part, ino: Ino) -> Ino {
        self.numbers.shown(part.index, ino)
    }

    /// Returns the mark that the tree adds to inodes of a part's store.
    pub(super) fn tag(&self, part: &Part, below: u64) -> u64 {
        if below == 0 && !part.tagged { 0 } else { self.numbers.shown(part.index, Ino(below)).0 }
    }

    /// Returns the part that an inode of the tree belongs to, and the inode there.
    pub(super) fn node(&self, ino: Ino) -> Option<(&Part, Ino)> {
        let (part, ino) = self.numbers.node(ino)?;
        Some((&self.parts[part], ino))
    }

    /// Returns the path whose inode is the tree's own: the root, or a directory that leads to a part.
    pub(super) fn own_path(&self, ino: Ino) -> Option<&TreePath> {
        self.numbers.own_path(ino)
    }

    /// Returns the tree's own inode for a directory that leads to a part.
    pub(super) fn own_number(&self, path: &TreePath) -> Ino {
        self.numbers.own_number(path)
    }
}
