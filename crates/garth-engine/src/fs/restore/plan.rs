//! Plan of a restore: the batch that turns the current state into the past one.
//!
//! Past names are restored from the top down, so that the directory of each is in place when its turn comes.
//! A node in the way is removed, or waits under a temporary name. Then the remaining names are removed, nodes
//! get their content and attributes, and directories their times. Names are addressed by the inode of their
//! directory, which stays valid while directories move.

mod gone;
mod single;
mod staying;

use std::collections::{BTreeSet, HashMap, HashSet};

use self::staying::Staying;
use super::changes::{MAX_GONE_PATHS, Restoration, RestoreAction, RestorePlan};
use super::diff::{CurrentNode, Diff, Dir, Item, Key, changing, diff, order, too_much};
use super::state::{self, Difference, is_uncreated_root};
use crate::error::{Error, ErrorKind, OptionalExt as _, Result};
use crate::fs::FileSystem;
use crate::model::entry::is_own;
use crate::model::{
    At, Entry, Ino, Kind, MAX_OPS, Op, Precondition, Remove, RenameMode, Seq, SetAttrs, Timestamp, VersionId,
};
use crate::path::{Name, TreePath};

/// Plans the restore of `path` to what it was in `past`.
pub(super) async fn plan<F, P>(fs: &F, past: &P, path: &TreePath, now: Timestamp) -> Result<RestorePlan>
where
    F: FileSystem + ?Sized,
    P: FileSystem + ?Sized,
{
    let at = past.head().await?.seq;
    // A commit is later than the one before it, whatever the clock says.
    let now = now.max(Timestamp(fs.head().await?.time.0.saturating_add(1)));
    let Some(then) = created(past, path).await.optional()?.flatten() else {
        return Err(Error::at(ErrorKind::NotFound, path, format!("did not exist at sequence number {at}")));
    };
    // Nothing outside the path changes, so a file above it stays, and the error names it.
    let there = created(fs, path).await?;
    let mut planner = Planner::new(fs, past, path, at, now);
    let planned = match there {
        Some(there) if then.kind == Kind::Directory && there.kind == Kind::Directory => {
            planner.directory(&then, &there).await
        }
        there => planner.single(&then, there).await,
    };
    match planned {
        // The past does not change, so something was removed from the current state.
        Err(error) if error.is_absent() => Err(changing(path)),
        planned => planned.and_then(|()| planner.finish()),
    }
}

/// Returns the node at a path; `None` if nobody has created it.
async fn created<F: FileSystem + ?Sized>(fs: &F, path: &TreePath) -> Result<Option<Entry>> {
    let there = match fs.stat(&path.into()).await {
        Err(error) if error.is(ErrorKind::NotFound) => return Ok(None),
        there => there?,
    };
    // Otherwise a restore of a chat to a time before its first write would remove all files.
    Ok((!is_uncreated_root(fs, path, &there).await).then_some(there))
}

/// Current counterpart of a past node.
#[derive(Clone, Debug)]
enum Holder {
    /// Node that exists.
    Node(Ino),
    /// Node that the batch creates, first at this path.
    New(TreePath),
}

struct Planner<'a, F: ?Sized, P: ?Sized> {
    fs: &'a F,
    past: &'a P,
    top: &'a TreePath,
    now: Timestamp,
    /// Inode of the directory that is restored.
    top_ino: Ino,
    /// Current nodes that the plan may touch.
    entries: HashMap<Ino, CurrentNode>,
    /// All current directories.
    dirs: HashMap<Ino, Dir>,
    /// Current names that are wrong, with their nodes and their first paths.
    names: HashMap<Key, (Ino, TreePath)>,
    /// Keys of `names` by node.
    names_of: HashMap<Ino, BTreeSet<Key>>,
    /// Names in `names` by directory.
    names_in: HashMap<Ino, BTreeSet<Name>>,
    /// Past nodes that have, or will get, a past name: they must not be removed.
    wanted: HashSet<Ino>,
    /// Nodes with a name that is right.
    held: HashSet<Ino>,
    /// Current counterparts of past nodes, as far as they are decided.
    holders: HashMap<Ino, Holder>,
    /// Number of names that each past node has in the diff.
    past_names: HashMap<Ino, u64>,
    /// Nodes whose content or attributes differ from the past.
    differing: HashSet<Ino>,
    /// Past files whose content is no longer stored.
    gone: HashSet<Ino>,
    /// Current names that take their places.
    staying: Staying,
    /// Names that the plan has freed.
    freed: HashSet<Key>,
    /// Past directories that one copy brings back, with everything below them.
    copied: HashSet<Ino>,
    /// Directories whose names change, and so their times.
    touched: HashSet<Ino>,
    temporary: u64,
    node_ops: Vec<Op>,
    directory_ops: Vec<Op>,
    /// Versions that must still be there at the commit, by path: a node that has left the path does not
    /// matter.
    versions: HashMap<TreePath, VersionId>,
    /// True if attributes named `garth.*` are restored on nodes that still exist: in an account's own tree,
    /// not in the tree of a chat.
    sets_own: bool,
    plan: RestorePlan,
}

impl<'a, F: FileSystem + ?Sized, P: FileSystem + ?Sized> Planner<'a, F, P> {
    fn new(fs: &'a F, past: &'a P, top: &'a TreePath, at: Seq, now: Timestamp) -> Self {
        let plan = RestorePlan {
            at,
            changes: Vec::new(),
            restored: 0,
            removed: 0,
            unchanged: 0,
            gone: 0,
            gone_paths: Vec::new(),
            created: false,
            ops: Vec::new(),
            preconditions: Vec::new(),
        };
        Self {
            fs,
            past,
            top,
            now,
            top_ino: Ino::NONE,
            entries: HashMap::new(),
            dirs: HashMap::new(),
            names: HashMap::new(),
            names_of: HashMap::new(),
            names_in: HashMap::new(),
            wanted: HashSet::new(),
            held: HashSet::new(),
            holders: HashMap::new(),
            past_names: HashMap::new(),
            differing: HashSet::new(),
            gone: HashSet::new(),
            staying: Staying::default(),
            freed: HashSet::new(),
            copied: HashSet::new(),
            touched: HashSet::new(),
            temporary: 0,
            node_ops: Vec::new(),
            directory_ops: Vec::new(),
            versions: HashMap::new(),
            sets_own: fs.view_base().keeps_path(&TreePath::root()),
            plan,
        }
    }

    /// Plans the restore of a directory that still is one.
    async fn directory(&mut self, then: &Entry, there: &Entry) -> Result<()> {
        let mut diff = diff(self.past, self.fs, self.top, then.ino, Some(there.ino)).await?;
        self.top_ino = there.ino;
        // The path may lead to another directory now, which takes the place of the past one.
        self.holders.insert(then.ino, Holder::Node(there.ino));
        let entry = Box::new(there.clone());
        self.entries.insert(there.ino, CurrentNode { path: self.top.clone(), entry });
        diff.dirs.insert(there.ino, Dir::of(self.top, there));
        self.dirs = std::mem::take(&mut diff.dirs);
        self.plan.unchanged = diff.unchanged;
        let current = |item: &Item| CurrentNode { path: item.path.clone(), entry: item.entry.clone() };
        let nodes = diff.now.values().chain(diff.changed.iter().map(|(_, now)| now));
        self.entries.extend(nodes.map(|item| (item.ino(), current(item))));
        self.entries.extend(diff.linked.iter().map(|(ino, there)| (*ino, there.clone())));
        let differences = self.compare(&diff).await?;
        self.find_gone(&diff.past).await?;
        self.find_staying(&diff);
        let (shared, changed) = self.judge(&mut diff, differences);
        self.index(&diff, &shared);
        // `judge` adds names at the end.
        diff.past.sort_by(|a, b| order(&a.path).cmp(&order(&b.path)));
        self.restore_names(&diff.past).await?;
        self.remove_rest();
        for (path, ino, difference) in changed {
            self.change(&path, ino, difference);
        }
        self.directory_states(then, Some(there.ino), &diff)
    }

    /// Plans the past names, which are in the order of a walk: directories before their entries, see the
    /// module.
    async fn restore_names(&mut self, past: &[Item]) -> Result<()> {
        let below = children(past);
        for item in past {
            self.restore_name(item, past, &below).await?;
            if self.plan.ops.len() > MAX_OPS {
                return Err(too_much(self.top));
            }
        }
        Ok(())
    }

    /// Plans attributes and times of directories: last, because each operation before sets the times of the
    /// directories that it changes names in. `there` is the directory that is restored, if it exists now.
    fn directory_states(&mut self, then: &Entry, there: Option<Ino>, diff: &Diff) -> Result<()> {
        let (mut directories, mut new) = (Vec::new(), Vec::new());
        match there {
            Some(ino) => directories.push((self.top.clone(), then, ino)),
            None => new.push((self.top.clone(), then.mtime)),
        }
        directories.extend(
            diff.changed
                .iter()
                .filter(|(past, _)| past.is_dir())
                .map(|(past, now)| (past.path.clone(), &*past.entry, now.ino())),
        );
        for item in diff.past.iter().filter(|item| item.is_dir() && !self.copied.contains(&item.ino())) {
            match self.holders.get(&item.ino()) {
                Some(Holder::Node(ino)) => directories.push((item.path.clone(), &*item.entry, *ino)),
                Some(Holder::New(_)) => new.push((item.path.clone(), item.entry.mtime)),
                None => {}
            }
        }
        for (path, then, ino) in directories {
            self.directory_state(&path, then, ino);
        }
        // Directories that did not differ, until a name in them had to get a node of its own.
        let mut same: Vec<Ino> =
            self.touched.iter().copied().filter(|ino| !self.entries.contains_key(ino)).collect();
        same.sort_unstable();
        for ino in same {
            let Some(dir) = self.dirs.get(&ino) else { return Err(changing(self.top)) };
            let attrs = SetAttrs { mtime: Some(dir.mtime), ..SetAttrs::default() };
            self.hold_node(ino);
            self.directory_ops.push(Op::SetAttrs { at: At::Node(ino), attrs });
        }
        for (path, mtime) in new {
            let attrs = SetAttrs { mtime: Some(mtime), ..SetAttrs::default() };
            self.directory_ops.push(Op::SetAttrs { at: At::Path(path), attrs });
        }
        Ok(())
    }

    /// Compares the nodes that were inside and still are. Returns the differences that the restore undoes.
    async fn compare(&mut self, diff: &Diff) -> Result<Vec<(TreePath, Ino, Difference)>> {
        let (mut compared, mut differences) = (HashSet::new(), Vec::new());
        let past = diff.changed.iter().map(|(past, _)| past).chain(&diff.past);
        for item in past.filter(|item| !item.is_dir()) {
            let Some(CurrentNode { entry: now, .. }) = self.entries.get(&item.ino()) else { continue };
            // A node with several names is compared once.
            if !compared.insert(item.ino()) {
                continue;
            }
            let found = state::compare(self.past, self.fs, &item.path, &item.entry, now, self.now).await?;
            match self.to_restore(found) {
                Difference::None => {}
                // It keeps its content and attributes, but not a wrong name.
                Difference::Gone => {
                    self.gone.insert(item.ino());
                }
                difference => differences.push((item.path.clone(), item.ino(), difference)),
            }
        }
        Ok(differences)
    }

    /// Selects the nodes that must not be changed or moved because they have names outside, or names that
    /// stay. Returns them, and the changes of the others. The names of the former count as different
    /// afterwards.
    #[allow(clippy::type_complexity, reason = "the two halves of one answer")]
    fn judge(
        &mut self,
        diff: &mut Diff,
        differences: Vec<(TreePath, Ino, Difference)>,
    ) -> (HashSet<Ino>, Vec<(TreePath, Ino, Difference)>) {
        let stays = |ino: &Ino| self.staying.names_of(*ino) > 0 && !diff.linked.contains_key(ino);
        let mut shared: HashSet<Ino> = diff.past.iter().map(Item::ino).filter(stays).collect();
        let mut changed = Vec::new();
        for (path, ino, difference) in differences {
            let inside = diff.inside.get(&ino).map_or(1, |(count, _)| *count);
            let inside = inside.saturating_sub(self.staying.names_of(ino));
            if self.entries.get(&ino).is_some_and(|now| now.entry.nlink > inside) {
                shared.insert(ino);
            } else {
                self.differing.insert(ino);
                changed.push((path, ino, difference));
            }
        }
        let pairs = std::mem::take(&mut diff.changed);
        for (past, now) in pairs {
            if shared.contains(&past.ino()) {
                diff.now.insert(now.key.clone(), now);
                diff.past.push(past);
                continue;
            }
            let (differs, gone) = (self.differing.contains(&past.ino()), self.gone.contains(&past.ino()));
            self.plan.restored += u64::from(differs);
            self.plan.unchanged += u64::from(!differs && !gone);
            if gone {
                self.note_gone(&past.path);
            }
            diff.changed.push((past, now));
        }
        (shared, changed)
    }

    fn index(&mut self, diff: &Diff, shared: &HashSet<Ino>) {
        for (key, item) in &diff.now {
            self.add_name(key.clone(), item.ino(), item.path.clone());
        }
        self.held.extend(diff.linked.keys().filter(|ino| !shared.contains(ino)));
        for item in &diff.past {
            *self.past_names.entry(item.ino()).or_default() += 1;
        }
        let inside = |ino: &Ino| self.names_of.contains_key(ino) || self.held.contains(ino);
        let wanted = diff.past_nodes().into_iter().filter(|ino| !shared.contains(ino) && inside(ino));
        self.wanted = wanted.collect();
        // The directory itself cannot move below itself, whatever it was then.
        self.wanted.remove(&self.top_ino);
    }

    /// Puts the right node under a past name.
    async fn restore_name(
        &mut self,
        item: &Item,
        all: &[Item],
        below: &HashMap<Ino, Vec<usize>>,
    ) -> Result<()> {
        // The copy of a directory above brings the name back.
        if self.copied.contains(&item.key.0) {
            if item.is_dir() {
                self.copied.insert(item.ino());
            }
            self.plan.restored += 1;
            return Ok(());
        }
        // The directory may be another node now. If the batch creates it, no name in it can be in the way.
        let dir = match self.holders.get(&item.key.0) {
            Some(Holder::New(_)) => None,
            Some(Holder::Node(ino)) => Some(*ino),
            None => Some(item.key.0),
        };
        let key = dir.map(|dir| (dir, item.key.1.clone()));
        let there = key.as_ref().and_then(|key| self.names.get(key)).map(|(ino, _)| *ino);
        if self.gone.contains(&item.ino()) {
            self.note_gone(&item.path);
            if !self.wanted.contains(&item.ino()) {
                return self.leave(item, key, there).await;
            }
        }
        let known = self.holders.get(&item.ino()).cloned();
        let holder = match (&known, there) {
            (Some(holder), _) => holder.clone(),
            (None, _) if self.wanted.contains(&item.ino()) => Holder::Node(item.ino()),
            (None, Some(there)) if self.may_become(&item.entry, there) => {
                self.reuse_node(item, there).await?;
                Holder::Node(there)
            }
            (None, _) => Holder::New(item.path.clone()),
        };
        self.holders.insert(item.ino(), holder.clone());
        // The name is right already.
        if let (Holder::Node(ino), Some(key)) = (&holder, &key)
            && there == Some(*ino)
        {
            self.drop_name(key);
            self.held.insert(*ino);
            let differs = self.differing.contains(ino);
            self.plan.restored += u64::from(differs);
            self.plan.unchanged += u64::from(!differs && !self.gone.contains(ino));
            return Ok(());
        }
        if let Some(key) = &key {
            self.free(key, there).await?;
        }
        self.plan.restored += 1;
        match holder {
            Holder::Node(ino) => self.give_name(item, ino),
            // The batch has created the node under another name.
            Holder::New(first) if known.is_some() => {
                let (from, to) = (At::Path(first), At::Path(item.path.clone()));
                self.plan.ops.push(Op::Link { from, to, parents: false });
                self.note(&item.path, RestoreAction::Linked);
            }
            Holder::New(_) => {
                // One copy restores a directory if nothing below it exists any more.
                if !item.is_dir() || self.is_removed(item, all, below) {
                    self.plan.ops.push(self.copy(&item.path, false));
                    if item.is_dir() {
                        self.copied.insert(item.ino());
                    }
                } else {
                    let attrs = state::attributes(&item.entry);
                    self.plan.ops.push(Op::Mkdir { at: At::Path(item.path.clone()), parents: false, attrs });
                }
                self.note(&item.path, RestoreAction::Created);
            }
        }
        Ok(())
    }

    /// Moves an existing node to a past name, or links it.
    fn give_name(&mut self, item: &Item, ino: Ino) {
        self.hold_node(ino);
        // A node that has, or will get, other past names is linked. Its wrong names are removed at the end.
        let only =
            item.is_dir() || (self.past_names.get(&item.ino()) == Some(&1) && !self.held.contains(&ino));
        let from = self.names_of.get(&ino).and_then(|keys| keys.first()).cloned();
        let to = At::Path(item.path.clone());
        match from {
            Some(key) if only => {
                let from = self.drop_name(&key).unwrap_or_else(|| item.path.clone());
                self.touched.insert(key.0);
                // The name was freed before, so anything that is there now belongs to another client.
                let (at, mode) = (At::Child(key.0, key.1), RenameMode::NoReplace);
                self.plan.ops.push(Op::Rename { from: at, to, mode, parents: false });
                self.note(&item.path, RestoreAction::Moved { from });
            }
            _ => {
                self.plan.ops.push(Op::Link { from: At::Node(ino), to, parents: false });
                self.note(&item.path, RestoreAction::Linked);
            }
        }
        self.held.insert(ino);
    }

    /// Returns true if a node that did not exist then may take the place of one that was removed.
    fn may_become(&self, then: &Entry, there: Ino) -> bool {
        let Some(CurrentNode { entry: now, .. }) = self.entries.get(&there) else { return false };
        let names = self.names_of.get(&there).map_or(0, |keys| keys.len() as u64);
        // A name that stays must not show the change.
        let inside = now.kind == Kind::Directory || now.nlink == names;
        inside && !self.wanted.contains(&there) && !self.held.contains(&there) && fits(then, now)
    }

    async fn reuse_node(&mut self, item: &Item, there: Ino) -> Result<()> {
        self.wanted.insert(there);
        let Some(CurrentNode { entry: now, .. }) = self.entries.get(&there).cloned() else {
            return Err(changing(self.top));
        };
        if item.is_dir() {
            return Ok(());
        }
        let found = state::compare(self.past, self.fs, &item.path, &item.entry, &now, self.now).await?;
        let difference = self.to_restore(found);
        if difference != Difference::None {
            self.differing.insert(there);
            self.change(&item.path, there, difference);
        }
        Ok(())
    }

    /// Frees a name for a node. `there` has it now.
    async fn free(&mut self, key: &Key, there: Option<Ino>) -> Result<()> {
        self.touched.insert(key.0);
        match there {
            Some(there) => self.clear(key, there).await?,
            None if self.freed.contains(key) => {}
            // No other client may create the name before the commit.
            None => self.plan.preconditions.push((At::Child(key.0, key.1.clone()), Precondition::Absent)),
        }
        Ok(())
    }

    /// Takes a name from the node that has it.
    async fn clear(&mut self, key: &Key, there: Ino) -> Result<()> {
        self.hold_node(there);
        self.touched.insert(key.0);
        let directory = self.entries.get(&there).is_some_and(|there| there.entry.kind == Kind::Directory);
        let last = !self.held.contains(&there) && self.names_of.get(&there).is_none_or(|keys| keys.len() < 2);
        // A node that is still needed elsewhere waits under a temporary name.
        let keep = match directory {
            _ if self.is_staying(key) => true,
            true => self.leads_to_wanted(there),
            false => last && self.wanted.contains(&there),
        };
        let at = At::Child(key.0, key.1.clone());
        if !keep {
            self.remove_name(key, there);
            return Ok(());
        }
        let name = self.free_name().await?;
        let from = self.drop_name(key).unwrap_or_else(|| self.top.clone());
        let (mode, to) = (RenameMode::NoReplace, At::Child(self.top_ino, name.clone()));
        self.plan.preconditions.push((to.clone(), Precondition::Absent));
        self.plan.ops.push(Op::Rename { from: at, to, mode, parents: false });
        self.touched.insert(self.top_ino);
        self.staying.moved(&from, (self.top_ino, name.clone()));
        self.add_name((self.top_ino, name), there, from);
        Ok(())
    }

    /// Returns true if a node, or one below it, still has to be moved to a past name, or stays.
    fn leads_to_wanted(&self, ino: Ino) -> bool {
        if self.wanted.contains(&ino) {
            return true;
        }
        let names = self.names_in.get(&ino).into_iter().flatten();
        let mut keys = names.map(|name| (ino, name.clone()));
        keys.any(|key| {
            let below = self.names.get(&key).is_some_and(|(ino, _)| self.leads_to_wanted(*ino));
            below || self.is_staying(&key)
        })
    }

    /// Removes a name with everything below it.
    fn remove_name(&mut self, key: &Key, ino: Ino) {
        self.hold_node(ino);
        self.touched.insert(key.0);
        let at = At::Child(key.0, key.1.clone());
        self.plan.ops.push(Op::Remove { at, what: Remove::Tree, missing_ok: false });
        let mut path = None;
        // The names below are removed with it, and must not be planned again.
        let mut gone = vec![key.clone()];
        while let Some(key) = gone.pop() {
            let Some((ino, _)) = self.names.get(&key).cloned() else { continue };
            let was = self.drop_name(&key);
            path = path.or(was);
            self.plan.removed += 1;
            gone.extend(self.names_in.get(&ino).into_iter().flatten().map(|name| (ino, name.clone())));
        }
        if let Some(path) = path {
            self.note(&path, RestoreAction::Removed);
        }
    }

    /// Removes the names that did not exist then: only the highest, because everything below them goes as
    /// well.
    fn remove_rest(&mut self) {
        let mut rest: Vec<(TreePath, Key, Ino)> = self
            .names
            .iter()
            // Names in a directory that is removed itself go with it.
            .filter(|((dir, _), _)| !self.names_of.contains_key(dir))
            .filter(|(key, _)| !self.is_staying(key) && !self.staying.has_inside(key))
            .map(|(key, (ino, path))| (path.clone(), key.clone(), *ino))
            .collect();
        // In the order of paths, so that a restore is always planned alike.
        rest.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (_, key, ino) in rest {
            self.remove_name(&key, ino);
        }
    }

    /// Returns true if a past directory was removed with everything below it, so that one copy restores it.
    fn is_removed(&self, item: &Item, all: &[Item], below: &HashMap<Ino, Vec<usize>>) -> bool {
        let mut names: HashMap<Ino, u64> = HashMap::new();
        let mut todo = vec![item.ino()];
        while let Some(dir) = todo.pop() {
            for item in below.get(&dir).into_iter().flatten().map(|index| &all[*index]) {
                let ino = item.ino();
                // A copy fails for content that is no longer stored.
                if self.wanted.contains(&ino) || self.holders.contains_key(&ino) || self.gone.contains(&ino) {
                    return false;
                }
                if item.is_dir() {
                    todo.push(item.ino());
                } else {
                    *names.entry(item.ino()).or_default() += 1;
                }
            }
        }
        // A node with a name elsewhere would come back as two nodes.
        names.iter().all(|(ino, count)| self.past_names.get(ino) == Some(count))
    }

    /// Returns the part of a difference that the restore undoes.
    fn to_restore(&self, found: Difference) -> Difference {
        let Difference::Attributes(attrs) = found else { return found };
        let attrs = self.may_set(*attrs);
        match attrs == SetAttrs::default() {
            true => Difference::None,
            false => Difference::Attributes(Box::new(attrs)),
        }
    }

    /// Removes the changes of attributes that only garth may make, such as the owner of a chat.
    fn may_set(&self, mut attrs: SetAttrs) -> SetAttrs {
        if !self.sets_own {
            attrs.metadata.retain(|name, _| !is_own(name));
            attrs.xattrs.retain(|name, _| !is_own(name));
        }
        attrs
    }

    /// Adds the operation that makes a node equal to its past state at `path`.
    fn change(&mut self, path: &TreePath, ino: Ino, difference: Difference) {
        self.hold_node(ino);
        let op = match difference {
            Difference::None | Difference::Gone => return,
            Difference::Attributes(attrs) => Op::SetAttrs { at: At::Node(ino), attrs: *attrs },
            // A copy over the file keeps its node, and takes the content by reference.
            Difference::Content => self.copy(path, false),
        };
        self.node_ops.push(op);
        self.note(path, RestoreAction::Changed);
    }

    fn directory_state(&mut self, path: &TreePath, then: &Entry, ino: Ino) {
        let Some(CurrentNode { entry: now, .. }) = self.entries.get(&ino) else { return };
        let mut attrs = self.may_set(state::difference(then, now, None).unwrap_or_default());
        // A change of the time alone is not listed in the plan.
        let own = SetAttrs { mtime: None, ..attrs.clone() } != SetAttrs::default();
        // The changes of names set the time, even if it was right before.
        if self.touched.contains(&ino) {
            attrs.mtime = Some(then.mtime);
        }
        if attrs == SetAttrs::default() {
            return;
        }
        self.hold_node(ino);
        self.directory_ops.push(Op::SetAttrs { at: At::Node(ino), attrs });
        if own {
            self.note(path, RestoreAction::Changed);
        }
    }

    fn copy(&self, path: &TreePath, parents: bool) -> Op {
        let (from, to) = (At::Path(path.clone()), At::Path(path.clone()));
        let as_of = Some(self.plan.at);
        Op::Copy { from, as_of, to, recursive: true, replace: true, parents }
    }

    fn add_name(&mut self, key: Key, ino: Ino, path: TreePath) {
        self.names_of.entry(ino).or_default().insert(key.clone());
        self.names_in.entry(key.0).or_default().insert(key.1.clone());
        self.names.insert(key, (ino, path));
    }

    /// Forgets a name that is right now, or removed. Returns its first path.
    fn drop_name(&mut self, key: &Key) -> Option<TreePath> {
        let (ino, path) = self.names.remove(key)?;
        self.freed.insert(key.clone());
        if let Some(keys) = self.names_of.get_mut(&ino) {
            keys.remove(key);
            if keys.is_empty() {
                self.names_of.remove(&ino);
            }
        }
        if let Some(names) = self.names_in.get_mut(&key.0) {
            names.remove(&key.1);
        }
        Some(path)
    }

    /// Returns a name for a node that has to wait. The commit requires that the name is still free.
    async fn free_name(&mut self) -> Result<Name> {
        loop {
            self.temporary += 1;
            let name = Name::parse(&format!(".restoring-{}-{}", self.plan.at, self.temporary))?;
            let there = At::Child(self.top_ino, name.clone());
            if !self.names.contains_key(&(self.top_ino, name.clone()))
                && self.fs.stat(&there).await.optional()?.is_none()
            {
                return Ok(name);
            }
        }
    }

    fn note(&mut self, path: &TreePath, action: RestoreAction) {
        self.plan.changes.push(Restoration { path: path.clone(), action });
    }

    /// Holds a node: the commit requires the path and version that were read.
    fn hold_node(&mut self, ino: Ino) {
        let held = match (self.dirs.get(&ino), self.entries.get(&ino)) {
            (Some(dir), _) => (dir.path.clone(), dir.version),
            (None, Some(there)) => (there.path.clone(), there.entry.version),
            (None, None) => return,
        };
        self.versions.insert(held.0, held.1);
    }

    fn finish(mut self) -> Result<RestorePlan> {
        self.plan.ops.append(&mut self.node_ops);
        self.plan.ops.append(&mut self.directory_ops);
        if self.plan.ops.len() > MAX_OPS {
            return Err(too_much(self.top));
        }
        let versions = self.versions.into_iter();
        let held = versions.map(|(path, version)| (At::Path(path), Precondition::Version(version)));
        // Versions first: where a name must be absent, a look at an entry that has expired ends it, which
        // changes the version of its directory.
        let absent = std::mem::take(&mut self.plan.preconditions);
        self.plan.preconditions = held.chain(absent).collect();
        if self.plan.preconditions.len() > MAX_OPS {
            return Err(too_much(self.top));
        }
        self.plan.gone = self.plan.gone_paths.len() as u64;
        self.plan.gone_paths.sort_unstable();
        self.plan.gone_paths.truncate(MAX_GONE_PATHS);
        Ok(self.plan)
    }
}

/// Returns true if changes of content and attributes alone can make one node equal to the other.
fn fits(then: &Entry, now: &Entry) -> bool {
    then.kind == now.kind && (then.kind == Kind::File || (&then.target, then.rdev) == (&now.target, now.rdev))
}

/// Returns the indices of the items in each past directory.
fn children(items: &[Item]) -> HashMap<Ino, Vec<usize>> {
    let mut below: HashMap<Ino, Vec<usize>> = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        below.entry(item.key.0).or_default().push(index);
    }
    below
}
