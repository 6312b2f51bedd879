//! Judges what a commit would leave behind.

use std::collections::{BTreeMap, BTreeSet};

use super::{Rule, Rules};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Batch, Ino, Kind, Within};
use crate::path::{Name, TreePath};

/// Most files that rules are asked about in one commit, and most names that are looked at to find them.
pub const MAX_JUDGED: usize = 100_000;

/// Most bytes that rules read in one commit, 256 MiB: about a second's work.
pub const MAX_JUDGED_BYTES: u64 = 256 << 20;

/// Whose commit it is. Interfaces say so, from the credential; no request does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller<'a> {
    /// The key that it came with.
    pub key: Option<&'a str>,
    /// Whether an administrator asked to override rules.
    pub overrides: bool,
}

impl<'a> Caller<'a> {
    /// Whose batch it is.
    pub(crate) fn of(batch: &'a Batch) -> Self {
        Self { key: batch.author.key.as_deref(), overrides: batch.overrides_rules }
    }
}

/// What a commit did that rules may be broken by.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// Files whose content it changed: judged under all of their names.
    pub written: BTreeSet<Ino>,
    /// Names that it gave to files: those that they had were judged before.
    pub named: Vec<(TreePath, Ino)>,
    /// Directories that were there before and that it gave another path: the one before, and the one now.
    pub moved: Vec<(TreePath, TreePath)>,
}

/// A file that a commit would leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Bytes of its content.
    pub size: u64,
}

/// Names in a directory, with their nodes and kinds.
pub type Entries = Vec<(Name, Ino, Kind)>;

/// The state that a commit would leave, as far as rules look at it.
pub trait Left {
    /// Whether to go on once something could not be told, only to ask for more at once: whatever comes of it
    /// is dropped then.
    const FORESEES: bool = false;
    /// A file; `None` for what is none, or is absent.
    fn file(&mut self, ino: Ino) -> Result<Option<File>>;
    /// Names of a node within some subtrees, also those that the commit does not reach; others may be among
    /// them.
    fn paths(&mut self, ino: Ino, within: &Within) -> Result<Vec<TreePath>>;
    /// What a directory has under a name.
    fn entry(&mut self, dir: &TreePath, name: &Name) -> Result<Option<(Ino, Kind)>>;
    /// What a directory has, up to about `limit`.
    fn entries(&mut self, dir: &TreePath, limit: usize) -> Result<Entries>;
    /// The content of a file of this size.
    fn content(&mut self, ino: Ino, size: u64) -> Result<Vec<u8>>;
}

/// Refuses a commit that breaks a rule: of several files the one with the smallest path is named. A path that
/// is not `within` what the caller reaches is not told.
///
/// # Errors
/// `RuleViolation`; `TooLarge` for a commit that has too much to judge; those of `left`.
pub fn judge<L: Left>(
    rules: &Rules,
    caller: Caller<'_>,
    within: &Within,
    touched: &Touched,
    left: &mut L,
) -> Result<()> {
    if caller.overrides {
        return Ok(());
    }
    let mut found = Found { rules, looked_at: 0, files: BTreeMap::new(), untold: Ok(()) };
    for (path, ino) in &touched.named {
        found.add(path, *ino)?;
    }
    for ino in &touched.written {
        for path in found.told::<_, L>(left.paths(*ino, rules.places()))?.unwrap_or_default() {
            found.add(&path, *ino)?;
        }
    }
    for (before, now) in &touched.moved {
        // what lay in the same class before is as good there as it was
        let new = |rule: &&Rule| rule.class.below(now) != rule.class.below(before);
        let new: Vec<&Rule> = rules.rules.iter().filter(new).collect();
        found.search(&new, now, left)?;
    }
    let (mut bytes, mut untold) = (0, found.untold);
    for (path, ino) in found.files {
        let judged = judge_file(rules, within, (&path, ino), &mut bytes, left);
        if !L::FORESEES {
            judged?;
        } else if untold.is_ok() {
            untold = judged;
        }
    }
    untold
}

fn judge_file(
    rules: &Rules,
    within: &Within,
    (path, ino): (&TreePath, Ino),
    bytes: &mut u64,
    left: &mut impl Left,
) -> Result<()> {
    let Some(file) = left.file(ino)? else { return Ok(()) };
    for rule in rules.rules.iter().filter(|rule| rule.class.has(path)) {
        let mut read = || {
            *bytes += file.size;
            if *bytes > MAX_JUDGED_BYTES {
                return Err(too_much(&format!("{MAX_JUDGED_BYTES} bytes")));
            }
            left.content(ino, file.size)
        };
        if let Some(reason) = rule.demand.broken_by(file.size, &mut read)? {
            return Err(refusal(path, within, &reason));
        }
    }
    Ok(())
}

/// Files that rules have something to say about, by path.
struct Found<'a> {
    rules: &'a Rules,
    looked_at: usize,
    files: BTreeMap<TreePath, Ino>,
    /// The first error of what could not be told.
    untold: Result<()>,
}

impl Found<'_> {
    fn add(&mut self, path: &TreePath, ino: Ino) -> Result<()> {
        if self.rules.rules.iter().any(|rule| rule.class.has(path))
            && self.files.insert(path.clone(), ino).is_none()
        {
            self.look(1)?;
        }
        Ok(())
    }

    /// What was told, or nothing where the others are asked about all the same.
    fn told<T, L: Left>(&mut self, answer: Result<T>) -> Result<Option<T>> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if L::FORESEES => {
                if self.untold.is_ok() {
                    self.untold = Err(error);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn look(&mut self, names: usize) -> Result<()> {
        self.looked_at += names;
        match self.looked_at > MAX_JUDGED {
            true => Err(too_much(&format!("{MAX_JUDGED} names"))),
            false => Ok(()),
        }
    }

    /// Finds the files that some rules are for below a directory. Looks only where there can be some.
    fn search<L: Left>(&mut self, rules: &[&Rule], top: &TreePath, left: &mut L) -> Result<()> {
        let mut dirs = vec![top.clone()];
        while let Some(dir) = dirs.pop() {
            let below: Vec<_> = rules.iter().filter_map(|rule| rule.class.below(&dir)).collect();
            let Some(first) = below.first() else { continue };
            let only = first.only().filter(|only| below.iter().all(|below| below.only() == Some(only)));
            let entries = match only.map(Name::parse).transpose()? {
                Some(name) => {
                    let entry = self.told::<_, L>(left.entry(&dir, &name))?.flatten();
                    entry.map(|(ino, kind)| (name, ino, kind)).into_iter().collect()
                }
                None => self.told::<_, L>(left.entries(&dir, MAX_JUDGED + 1))?.unwrap_or_default(),
            };
            self.look(entries.len())?;
            for (name, ino, kind) in entries {
                let path = TreePath::from_row(dir.key(), name.as_str());
                match kind {
                    Kind::Directory => dirs.push(path),
                    Kind::File if rules.iter().any(|rule| rule.class.has(&path)) => {
                        self.files.insert(path, ino);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn refusal(path: &TreePath, within: &Within, reason: &str) -> Error {
    if within.contains(path) {
        return Error::at(ErrorKind::RuleViolation, path, reason);
    }
    // what the file is called elsewhere, and what holds there, is not the caller's to know
    Error::new(ErrorKind::RuleViolation, "a rule for another name of a file refuses what it would become")
}

fn too_much(what: &str) -> Error {
    let message = format!("rules would have more than {what} to judge in this commit; do it in parts");
    Error::new(ErrorKind::TooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of so many files, each a number of so many digits.
    struct Values {
        count: usize,
        size: u64,
    }

    impl Left for Values {
        fn file(&mut self, _: Ino) -> Result<Option<File>> {
            Ok(Some(File { size: self.size }))
        }

        fn paths(&mut self, _: Ino, _: &Within) -> Result<Vec<TreePath>> {
            Ok(Vec::new())
        }

        fn entry(&mut self, _: &TreePath, _: &Name) -> Result<Option<(Ino, Kind)>> {
            Ok(None)
        }

        fn entries(&mut self, _: &TreePath, limit: usize) -> Result<Entries> {
            let numbers = (0..self.count.min(limit) as u64).map(|n| (n.to_string(), Ino(n)));
            numbers.map(|(name, ino)| Ok((Name::parse(&name)?, ino, Kind::File))).collect()
        }

        fn content(&mut self, _: Ino, size: u64) -> Result<Vec<u8>> {
            Ok(vec![b'1'; size as usize])
        }
    }

    /// Judges the move of a directory to where values are.
    fn moved(count: usize, size: u64) -> Result<()> {
        let path = |path| TreePath::parse(path).unwrap();
        let moved = vec![(path("/t"), path("/agents/a/kv"))];
        let touched = Touched { moved, ..Touched::default() };
        let within = Within::everything();
        judge(Rules::built_in(), Caller::default(), &within, &touched, &mut Values { count, size })
    }

    #[test]
    fn a_commit_has_so_many_names_and_bytes_judged() {
        moved(MAX_JUDGED, 1).unwrap();
        let error = moved(MAX_JUDGED + 1, 1).unwrap_err();
        assert!(error.is(ErrorKind::TooLarge), "{error}");
        let mib = 1 << 20;
        let most = (MAX_JUDGED_BYTES / mib) as usize;
        moved(most, mib).unwrap();
        let error = moved(most + 1, mib).unwrap_err();
        assert!(error.is(ErrorKind::TooLarge), "{error}");
    }
}
