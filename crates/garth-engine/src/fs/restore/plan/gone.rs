//! Files whose past content is no longer stored, because the retention of their path class keeps less. They
//! stay as they are, and do not make the restore of a directory fail.

use std::collections::{HashMap, HashSet};

use super::Planner;
use crate::compute::go_on;
use crate::error::{ErrorKind, Result};
use crate::fs::FileSystem;
use crate::fs::restore::diff::{Diff, Item, Key};
use crate::fs::restore::state::NO_BYTES;
use crate::model::{At, Ino, Kind, MAX_PAGE, Op, RenameMode};
use crate::path::TreePath;

/// Current names that differ from the past.
struct CurrentNames<'a> {
    by_path: HashMap<&'a TreePath, &'a Item>,
    /// Names of each node without a name that is right.
    of_node: HashMap<Ino, Vec<&'a Item>>,
    /// Names in each directory.
    below: HashMap<Ino, Vec<&'a Item>>,
}

impl<'a> CurrentNames<'a> {
    fn of(diff: &'a Diff) -> Self {
        let by_path = diff.now.values().map(|item| (&item.path, item)).collect();
        let mut names = Self { by_path, of_node: HashMap::new(), below: HashMap::new() };
        for item in diff.now.values() {
            names.below.entry(item.key.0).or_default().push(item);
            if !diff.linked.contains_key(&item.ino()) {
                names.of_node.entry(item.ino()).or_default().push(item);
            }
        }
        names
    }

    /// Returns the names of a node without a name that is right.
    fn own(&self, ino: Ino) -> &[&'a Item] {
        self.of_node.get(&ino).map_or(&[], Vec::as_slice)
    }

    /// Returns the paths of gone files that return to them, because they cannot stay where they are now: in
    /// the way of another past name, or in a directory that moves or is removed.
    fn returning<'p>(&self, gone: &[&'p Item], stored: &[&'p Item]) -> HashSet<&'p TreePath> {
        let paths: HashSet<&TreePath> = stored.iter().map(|item| &item.path).collect();
        let keys: HashSet<&Key> = stored.iter().map(|item| &item.key).collect();
        let must_leave = |name: &&Item| {
            let is_in_way = paths.contains(&name.path) || keys.contains(&name.key);
            is_in_way || self.of_node.contains_key(&name.key.0)
        };
        let mut rest: Vec<&Item> = gone.to_vec();
        rest.retain(|item| self.own(item.ino()).iter().any(must_leave));
        let mut past: HashMap<Ino, Vec<&Item>> = HashMap::new();
        for item in gone {
            past.entry(item.ino()).or_default().push(item);
        }
        let mut returning = HashSet::new();
        while let Some(item) = rest.pop() {
            if !returning.insert(&item.path) {
                continue;
            }
            // A gone file that has the name now returns as well.
            let there = self.by_path.get(&item.path).filter(|there| !self.own(there.ino()).is_empty());
            rest.extend(there.and_then(|there| past.get(&there.ino())).into_iter().flatten().copied());
        }
        returning
    }
}

impl<F: FileSystem + ?Sized, P: FileSystem + ?Sized> Planner<'_, F, P> {
    /// Finds the past files that do not exist below the path now, and whose content is no longer stored.
    /// `judge` finds those that exist.
    pub(super) async fn find_gone(&mut self, past: &[Item]) -> Result<()> {
        let is_missing =
            |item: &&Item| item.entry.kind == Kind::File && !self.entries.contains_key(&item.ino());
        let missing: Vec<&Item> = past.iter().filter(is_missing).collect();
        let mut rest = &missing[..];
        while !rest.is_empty() {
            go_on()?;
            let some = &rest[..rest.len().min(MAX_PAGE)];
            let asked: Vec<_> = some.iter().map(|item| (At::from(&item.path), NO_BYTES)).collect();
            let answers = self.past.fetch_many(&asked).await?.items;
            // Attributes may fill an answer before all files are in it.
            rest = &rest[answers.len()..];
            for (item, answer) in some.iter().zip(answers) {
                match answer {
                    Err(error) if error.is(ErrorKind::Gone) => {
                        self.gone.insert(item.ino());
                    }
                    answer => drop(answer?),
                }
            }
        }
        Ok(())
    }

    /// Finds the current names that stay: those at the paths of gone files, or else in their directories,
    /// which may have moved, with everything below. Directories that existed then return to their earlier
    /// names.
    pub(super) fn find_staying(&mut self, diff: &Diff) {
        if self.gone.is_empty() {
            return;
        }
        let (gone, stored): (Vec<&Item>, Vec<&Item>) =
            diff.past.iter().partition(|item| self.gone.contains(&item.ino()));
        let past: HashSet<Ino> = diff.past.iter().map(Item::ino).collect();
        let stays = |item: &&Item| !item.is_dir() || !past.contains(&item.ino());
        let names = CurrentNames::of(diff);
        let returning = names.returning(&gone, &stored);
        let mut staying: HashMap<&TreePath, &Item> = HashMap::new();
        for item in gone.into_iter().filter(|item| !returning.contains(&item.path)) {
            let is_other = |there: &&Item| there.ino() != item.ino() && stays(there);
            let at_path = names.by_path.get(&item.path).copied().filter(is_other);
            let there = at_path.or_else(|| diff.now.get(&item.key).filter(is_other));
            if let Some(there) = there {
                // The file itself stays where it is now, because its place is taken.
                let own = names.own(item.ino()).iter().copied();
                staying.extend(own.chain([there]).map(|item| (&item.path, item)));
            }
        }
        let place = |item: &&Item| (item.path.clone(), item.key.clone());
        self.staying.places = staying.values().map(place).collect();
        let mut rest: Vec<&Item> = staying.into_values().collect();
        while let Some(item) = rest.pop() {
            // It is not put in the place of a past node.
            self.held.insert(item.ino());
            if item.is_dir() {
                self.staying.dirs.insert(item.ino());
                rest.extend(names.below.get(&item.ino()).into_iter().flatten().copied().filter(stays));
            } else {
                *self.staying.names.entry(item.ino()).or_default() += 1;
            }
        }
    }

    /// Returns true if a current name is one of those that stay.
    pub(super) fn is_staying(&self, key: &Key) -> bool {
        self.names.get(key).is_some_and(|(_, path)| self.staying.places.contains_key(path))
    }

    /// Leaves a past name without its file. What stays at its path stays there, also if the directory is
    /// another one now. `there` is the node that has the name `key` in the directory of the past.
    pub(super) async fn leave(&mut self, item: &Item, key: Option<Key>, there: Option<Ino>) -> Result<()> {
        let Some(from) = self.staying.places.get(&item.path).cloned() else { return Ok(()) };
        if key.as_ref() == Some(&from) {
            return Ok(());
        }
        if let Some(key) = &key {
            self.free(key, there).await?;
        }
        // A name that had to be freed may have been this one.
        let from = self.staying.places.get(&item.path).cloned().unwrap_or(from);
        if let Some(ino) = self.names.get(&from).map(|(ino, _)| *ino) {
            self.hold_node(ino);
        }
        self.drop_name(&from);
        self.touched.insert(from.0);
        let to = At::Path(item.path.clone());
        let (from, mode) = (At::Child(from.0, from.1), RenameMode::NoReplace);
        self.plan.ops.push(Op::Rename { from, to, mode, parents: false });
        Ok(())
    }

    /// Adds a name to the report of those whose files had content that is no longer stored.
    pub(super) fn note_gone(&mut self, path: &TreePath) {
        self.plan.gone_paths.push(path.clone());
    }
}
