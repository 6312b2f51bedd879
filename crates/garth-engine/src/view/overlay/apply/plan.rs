//! Plan of an apply: the operations that give a lower tree what an overlay shows, and the preconditions on
//! both layers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::entry::is_own;
use crate::model::{
    At, Entry, Ino, Kind, MAX_OPS, NamesPage, Op, Precondition, Seq, SetAttrs, Timestamp, WalkPage,
};
use crate::path::TreePath;
use crate::view::overlay::Overlay;
use crate::view::overlay::base::digest;
use crate::view::overlay::copy::{carried, content, special};
use crate::view::overlay::cursor::{Base, Cursor, Place, there};
use crate::view::overlay::diff::{Change, attributes};
use crate::view::overlay::pair::Pair;

/// The layer that decides about a path which both the overlay and, since then, the lower layer have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Nothing is applied: fails with `Conflict`, naming the first such path.
    #[default]
    Neither,
    /// The overlay: the lower layer gets what it shows.
    Ours,
    /// The lower layer: the change of the overlay is dropped.
    Theirs,
}

/// Operations and preconditions of an apply.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Operations on the lower tree or, in one store, on the pair of both layers.
    pub(super) ops: Vec<Op>,
    /// Preconditions on the lower tree, addressed as `ops` are.
    pub(super) preconditions: Vec<(At, Precondition)>,
    /// Preconditions on the upper layer, by its own paths.
    pub(super) above: Vec<(TreePath, Precondition)>,
    pub(super) changed: u64,
    pub(super) conflicts: Vec<TreePath>,
}

pub(super) struct Planner<'a> {
    overlay: &'a Overlay,
    lower: &'a Arc<dyn FileSystem>,
    pair: &'a Pair,
    side: Side,
    one_store: bool,
    plan: Plan,
    /// Path in the lower tree of each node of the upper layer that has several names.
    nodes: HashMap<Ino, TreePath>,
    /// Nodes of the upper layer whose content is part of the plan.
    written: HashSet<Ino>,
    /// Modification time for each directory that the overlay has, if names change in it.
    times: HashMap<TreePath, Timestamp>,
    /// Directories in which names change, with the time that each of them gets.
    touched: BTreeMap<TreePath, Timestamp>,
    /// Path at and below which the lower tree stays as it is.
    dropped: Option<TreePath>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        overlay: &'a Overlay,
        lower: &'a Arc<dyn FileSystem>,
        pair: &'a Pair,
        side: Side,
    ) -> Self {
        Self {
            overlay,
            lower,
            pair,
            side,
            one_store: pair.is_one_store(),
            plan: Plan::default(),
            nodes: HashMap::new(),
            written: HashSet::new(),
            times: HashMap::new(),
            touched: BTreeMap::new(),
            dropped: None,
        }
    }

    pub(super) async fn plan(mut self) -> Result<Plan> {
        let mut cursor = Cursor::new(self.overlay, self.lower);
        while let Some(place) = cursor.next().await? {
            // Also where the change is dropped: the commit removes the upper layer there as well.
            self.guard(&place)?;
            let is_dropped = self.dropped.as_ref().is_some_and(|top| place.path.is_within(top));
            if !is_dropped {
                self.place(&place).await?;
            }
            if self.plan.ops.len() > MAX_OPS
                || self.plan.above.len() + self.plan.preconditions.len() > MAX_OPS
            {
                return Err(too_much());
            }
        }
        // Last, because each operation before sets the times of the directories that it changes names in.
        for (path, mtime) in std::mem::take(&mut self.touched) {
            let at = self.to(&path)?;
            self.plan.ops.push(Op::set_attrs(at, SetAttrs::new().mtime(mtime)));
        }
        Ok(self.plan)
    }

    /// Adds preconditions that hold the upper layer at a place.
    fn guard(&mut self, place: &Place) -> Result<()> {
        let mut hold = |path: TreePath, entry: Option<&Entry>| match entry {
            Some(entry) => self.plan.above.push((path, Precondition::Version(entry.version))),
            // Only for the root. Anything else that appears changes the version of its directory, which is
            // held.
            None if place.path.is_root() => self.plan.above.push((path, Precondition::Absent)),
            None => {}
        };
        hold(self.overlay.tree(&place.path)?, place.above.as_ref());
        hold(self.overlay.hidden(&place.path)?, place.hidden.as_ref());
        Ok(())
    }

    async fn place(&mut self, place: &Place) -> Result<()> {
        let path = &place.path;
        // The cursor visits a directory before its entries, so the time is known when a name in it changes.
        if let Some(shown) = place.shown.as_ref().filter(|shown| shown.is_dir() && place.above.is_some()) {
            let lower = place.lower.as_ref().filter(|lower| lower.is_dir());
            let time = lower.map_or(shown.mtime, |lower| shown.mtime.max(lower.mtime));
            self.times.insert(path.clone(), time);
        }
        let Some(change) = self.overlay.change(place, &**self.lower).await? else { return Ok(()) };
        let since = match &place.base {
            Base::Hidden(was) => Some(was.seq),
            Base::Since(seq) => Some(*seq),
            Base::Nothing | Base::Directory(_) => None,
        };
        let mut is_conflict = self.is_conflict(place)?;
        let goes = matches!(change, Change::Removed | Change::Replaced);
        // Entry by entry: the version of a directory does not change with what is below its subdirectories.
        if let Some(lower) = place.lower.as_ref().filter(|lower| goes && lower.is_dir()) {
            is_conflict |= self.removal(path, lower, since).await?;
        } else {
            let that = place
                .lower
                .as_ref()
                .map_or(Precondition::Absent, |entry| Precondition::Version(entry.version));
            let at = self.to(path)?;
            self.plan.preconditions.push((at, that));
        }
        if is_conflict {
            let only_time = |attrs: &SetAttrs| *attrs == SetAttrs { mtime: attrs.mtime, ..SetAttrs::new() };
            if matches!(&change, Change::Attributes(attrs) if only_time(attrs)) {
                // Both sides made the same change; a difference in time alone is none.
                return Ok(());
            }
            match self.side {
                Side::Neither => {
                    let message = "was changed in the lower layer as well; apply with one of the sides";
                    return Err(Error::at(ErrorKind::Conflict, path, message));
                }
                Side::Ours => self.plan.conflicts.push(path.clone()),
                Side::Theirs => {
                    self.plan.conflicts.push(path.clone());
                    // Attributes of a directory are dropped alone. What the overlay has changed below it is
                    // still applied.
                    let only_attributes = matches!(place.base, Base::Nothing | Base::Directory(_))
                        && matches!(change, Change::Attributes(_));
                    if !only_attributes {
                        self.dropped = Some(path.clone());
                    }
                    return Ok(());
                }
            }
        }
        self.plan.changed += 1;
        self.change(place, change).await
    }

    /// Returns true if the lower tree has something else at a place than the overlay noted there.
    fn is_conflict(&self, place: &Place) -> Result<bool> {
        let log = self.lower.capabilities(&place.path).log;
        Ok(match (&place.base, &place.lower) {
            (Base::Nothing, lower) => lower.is_some(),
            (Base::Hidden(was), Some(lower)) => lower.version != was.version,
            (Base::Hidden(_) | Base::Directory(_), None) => true,
            // Without a log, sequence numbers of the layer do not order changes.
            (Base::Since(seq), Some(lower)) => log && lower.version.seq > *seq,
            (Base::Since(_), None) => false,
            (Base::Directory(was), Some(lower)) => !lower.is_dir() || digest(lower)? != *was,
        })
    }

    /// Adds preconditions that hold a directory, and everything below it, while it is removed. Returns true
    /// if something there is newer than `since`.
    async fn removal(&mut self, path: &TreePath, entry: &Entry, since: Option<Seq>) -> Result<bool> {
        let is_newer = |entry: &Entry| since.is_some_and(|since| entry.version.seq > since);
        let mut newer = is_newer(entry);
        let at = self.to(path)?;
        self.plan.preconditions.push((at, Precondition::Version(entry.version)));
        let mut page = WalkPage::default().with_entries();
        loop {
            let walk = self.lower.walk(&At::Path(path.clone()), &page).await?;
            for item in &walk.items {
                if let Some(entry) = &item.entry {
                    let at = self.to(&item.path)?;
                    self.plan.preconditions.push((at, Precondition::Version(entry.version)));
                    newer |= is_newer(entry);
                }
            }
            match walk.items.last() {
                Some(_) if self.plan.preconditions.len() > MAX_OPS => return Err(too_much()),
                Some(last) if walk.more => page = page.after(last.path.clone()),
                _ => return Ok(newer && self.lower.capabilities(path).log),
            }
        }
    }

    async fn change(&mut self, place: &Place, change: Change) -> Result<()> {
        let path = &place.path;
        let to = self.to(path)?;
        match change {
            Change::Removed => {
                self.plan.ops.push(Op::remove_tree(to));
                self.touch(path.parent());
            }
            Change::Replaced => {
                self.plan.ops.push(Op::remove_tree(to));
                self.make(place).await?;
            }
            Change::Added => self.make(place).await?,
            Change::Attributes(attrs) => self.plan.ops.push(Op::set_attrs(to, *attrs)),
            Change::Content => {
                if let (Some(above), Some(shown), Some(lower)) = (&place.above, &place.shown, &place.lower)
                    // Once for a node with several names.
                    && self.written.insert(above.ino)
                {
                    self.write(path, above, shown, lower).await?;
                }
            }
        }
        Ok(())
    }

    /// Adds the operations that give a file of the lower tree the content and attributes that the overlay
    /// shows.
    async fn write(&mut self, path: &TreePath, above: &Entry, shown: &Entry, lower: &Entry) -> Result<()> {
        let to = self.to(path)?;
        if self.one_store {
            // A copy over the file keeps its node, and takes the content by reference.
            let from = self.pair.above(&self.overlay.tree(path)?)?;
            self.plan.ops.push(Op::copy(from, to).replace());
            return Ok(());
        }
        let from = At::Path(self.overlay.tree(path)?);
        let body = content(&*self.overlay.whole, &from, above, &**self.lower, path).await?;
        self.plan.ops.push(Op::write(to.clone(), body).must_exist());
        // The write has set the time of the commit.
        let attrs = attributes(shown, lower).map_or_else(SetAttrs::new, |attrs| *attrs).mtime(shown.mtime);
        self.plan.ops.push(Op::set_attrs(to, attrs));
        Ok(())
    }

    /// Adds the operations that create what the overlay shows, at a path that is free by then.
    async fn make(&mut self, place: &Place) -> Result<()> {
        let (Some(above), Some(shown), path) = (&place.above, &place.shown, &place.path) else {
            return Ok(());
        };
        let to = self.to(path)?;
        self.touch(path.parent());
        if shown.is_dir() {
            self.plan.ops.push(Op::mkdir(to).with_attrs(attributes_like(shown)));
            // Names are made in it later in the batch, which sets its time.
            self.touch(Some(path.clone()));
            return Ok(());
        }
        if shown.nlink > 1 {
            if let Some(other) = self.other_name(above).await? {
                let other = self.to(&other)?;
                self.plan.ops.push(Op::link(other, to));
                return Ok(());
            }
            // The first name of the node: the next ones become links to it.
            self.nodes.insert(above.ino, path.clone());
            self.written.insert(above.ino);
        }
        if self.one_store {
            let from = self.pair.above(&self.overlay.tree(path)?)?;
            self.plan.ops.push(Op::copy(from, to));
            return Ok(());
        }
        self.plan.ops.push(match (shown.kind, &shown.target) {
            (Kind::File, _) => {
                let from = At::Path(self.overlay.tree(path)?);
                let body = content(&*self.overlay.whole, &from, above, &**self.lower, path).await?;
                Op::write(to, body).create_new().with_attrs(attributes_like(shown))
            }
            (Kind::Symlink, Some(target)) => {
                Op::symlink(to, target.clone()).with_attrs(attributes_like(shown))
            }
            (kind, _) => Op::mknod(to, special(kind, shown.rdev)?).with_attrs(attributes_like(shown)),
        });
        Ok(())
    }

    /// Returns another path at which the lower tree has a node of the upper layer when the batch gets here.
    async fn other_name(&mut self, above: &Entry) -> Result<Option<TreePath>> {
        if let Some(path) = self.nodes.get(&above.ino) {
            return Ok(Some(path.clone()));
        }
        // The original of a copy may still be there by a name that did not change. It gets the content of the
        // copy.
        let Some(origin) = self.overlay.origin(above) else { return Ok(None) };
        let mut page = NamesPage::default();
        loop {
            let names = self.overlay.whole.names(&At::Node(above.ino), &page).await?;
            for name in names.items.iter().filter_map(|name| self.overlay.in_tree(name)) {
                let below = there(&**self.lower, name.clone()).await?;
                if below.is_some_and(|entry| entry.ino == origin && !entry.is_dir()) {
                    self.nodes.insert(above.ino, name.clone());
                    return Ok(Some(name));
                }
            }
            match names.items.last() {
                Some(last) if names.more => page = page.after(last.clone()),
                _ => return Ok(None),
            }
        }
    }

    /// Notes that names in a directory change. If the overlay has the directory, it gets the time that is
    /// shown.
    fn touch(&mut self, dir: Option<TreePath>) {
        if let Some((dir, time)) = dir.and_then(|dir| self.times.get(&dir).map(|time| (dir, *time))) {
            self.touched.insert(dir, time);
        }
    }

    /// Returns the address of a path of the lower tree.
    fn to(&self, path: &TreePath) -> Result<At> {
        Ok(if self.one_store { self.pair.below(path)?.into() } else { path.into() })
    }
}

/// Returns the attributes of a new node that is to look like `shown`. As any copy, it has none of garth's
/// own.
fn attributes_like(shown: &Entry) -> SetAttrs {
    let mut attrs = carried(shown);
    attrs.xattrs.retain(|name, _| !is_own(name));
    attrs.metadata.retain(|name, _| !is_own(name));
    attrs
}

fn too_much() -> Error {
    let message =
        format!("applying the overlay takes more than {MAX_OPS} operations, the limit of one commit");
    Error::new(ErrorKind::TooLarge, message)
}
