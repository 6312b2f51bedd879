//! Finds the paths that a commit is judged at: those it names, all other names of files that it changes, and
//! those below directories that it moves.

use std::collections::BTreeMap;

use super::judged_state::{Caller, Entries, JudgedState};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Ino, Kind};
use crate::path::TreePath;
use crate::rule::effects::CommitEffects;
use crate::rule::{Rule, Rules};

/// Limit on the paths that rules judge in one commit.
pub const MAX_JUDGED: usize = 100_000;

/// Limit on the names that are read in one commit to find these: names in directories that are moved or
/// removed.
pub const MAX_LOOKED: usize = 1_000_000;

/// Paths that rules apply to.
pub(super) struct JudgedPaths<'a> {
    rules: &'a Rules,
    caller: Caller<'a>,
    looked_at: usize,
    /// Each with its current entry, if its content is to be judged.
    pub(super) paths: BTreeMap<TreePath, Option<(Ino, Kind)>>,
    /// First error of an answer that is not known yet.
    pub(super) untold: Result<()>,
}

impl<'a> JudgedPaths<'a> {
    pub(super) fn new(rules: &'a Rules, caller: Caller<'a>) -> Self {
        Self { rules, caller, looked_at: 0, paths: BTreeMap::new(), untold: Ok(()) }
    }

    /// Adds a path if there are rules for it.
    pub(super) fn add(&mut self, path: &TreePath, now: Option<(Ino, Kind)>) -> Result<()> {
        if !self.rules.of(path).any(|rule| self.caller.is_bound(rule)) {
            return Ok(());
        }
        if let Some(known) = self.paths.get_mut(path) {
            // Several changes may touch a path. Its content is judged if one of them may have changed it.
            *known = known.or(now);
            return Ok(());
        }
        if self.paths.len() == MAX_JUDGED {
            return Err(too_much(&format!("{MAX_JUDGED} paths"), "to judge"));
        }
        self.paths.insert(path.clone(), now);
        Ok(())
    }

    /// Returns an answer. In a prefetch, stores an error and returns `None`, so that the rest is asked for as
    /// well.
    pub(super) fn told<T, L: JudgedState>(&mut self, answer: Result<T>) -> Result<Option<T>> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if L::PREFETCHES => {
                if self.untold.is_ok() {
                    self.untold = Err(error);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Finds the paths that moved directories brought along, and those that have left with them.
    pub(super) fn search_moved<L: JudgedState>(
        &mut self,
        touched: &CommitEffects,
        left: &mut L,
    ) -> Result<()> {
        let (rules, caller) = (self.rules, self.caller);
        let bound = || rules.all().filter(move |rule| caller.is_bound(rule));
        // A directory that is back at its old path has brought nothing.
        for (before, now) in touched.moved.iter().filter(|(before, now)| before != now) {
            // Files from where the same part of the pattern applied still satisfy it, unless a new name alone
            // is a change.
            let comes = |rule: &&Rule| {
                rule.constraint.keeps_names() || rule.pattern.below(now) != rule.pattern.below(before)
            };
            self.search(&bound().filter(comes).collect::<Vec<_>>(), now, When::Now, left)?;
        }
        let keeping: Vec<&Rule> = bound().filter(|rule| rule.constraint.is_about_change()).collect();
        let mut searched = touched.left.iter();
        searched.try_for_each(|dir| self.search(&keeping, dir, When::Before, left))
    }

    /// Finds the paths below a directory that some rules apply to. Reads only directories that can hold such
    /// paths.
    pub(super) fn search<L: JudgedState>(
        &mut self,
        rules: &[&Rule],
        top: &TreePath,
        when: When,
        left: &mut L,
    ) -> Result<()> {
        let mut dirs = vec![top.clone()];
        while let Some(dir) = dirs.pop() {
            let below: Vec<_> = rules.iter().filter_map(|rule| rule.pattern.below(&dir)).collect();
            let Some(first) = below.first() else { continue };
            // Where all patterns continue with one name, that is looked up and the directory, which may be
            // large, not read.
            let only = first.only().filter(|only| below.iter().all(|below| below.only() == Some(only)));
            let entries = match only.map(|name| TreePath::from_row(dir.key(), name)) {
                Some(path) => {
                    let entry = match when {
                        When::Before => left.entry_before(&path),
                        When::Now => left.entry(&path),
                    };
                    named_entry(&path, self.told::<_, L>(entry)?.flatten())
                }
                None => {
                    let entries = match when {
                        // One more than is allowed, so that the limit below notices it.
                        When::Before => left.entries_before(&dir, MAX_LOOKED + 1),
                        When::Now => left.entries(&dir, MAX_LOOKED + 1),
                    };
                    self.told::<_, L>(entries)?.unwrap_or_default()
                }
            };
            self.looked_at += entries.len();
            if self.looked_at > MAX_LOOKED {
                return Err(too_much(&format!("{MAX_LOOKED} names"), "to look at"));
            }
            for (name, ino, kind) in entries {
                let path = TreePath::from_row(dir.key(), name.as_str());
                // Of the state before, there is no content to judge.
                self.add(&path, (when == When::Now).then_some((ino, kind)))?;
                if kind == Kind::Directory {
                    dirs.push(path);
                }
            }
        }
        Ok(())
    }
}

/// One of the two states.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum When {
    Before,
    Now,
}

/// Returns the entry of a path as the only one of its directory.
fn named_entry(path: &TreePath, entry: Option<(Ino, Kind)>) -> Entries {
    let named = entry.and_then(|(ino, kind)| Some((path.split()?.1, ino, kind)));
    named.into_iter().collect()
}

pub(super) fn too_much(most: &str, what: &str) -> Error {
    let message = format!("rules would have more than {most} {what} in this commit; split it");
    Error::new(ErrorKind::TooLarge, message)
}
