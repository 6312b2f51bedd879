//! Judgement of a commit by the state that it would leave, and by its changes to the state before.

mod judged_paths;
mod judged_state;

use std::collections::BTreeSet;
use std::ops::Range;

pub use self::judged_paths::{MAX_JUDGED, MAX_LOOKED};
pub use self::judged_state::{Caller, Entries, File, JudgedState};

use self::judged_paths::{JudgedPaths, When, too_much};
use super::constraint::{APPEND_ONLY_REFUSED, Constraint, NOT_IN_SESSIONS, SYMLINK_REFUSED};
use super::content_check::ContentCheck;
use super::effects::CommitEffects;
use super::json_check::JsonCheck;
use super::lines::Place;
use super::lines_check::LinesCheck;
use super::schema::{Budget, MAX_STEPS};
use super::unread::{self, FileChange};
use super::{Digest, Rule, Rules};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Ino, Kind, Within};
use crate::path::TreePath;

/// Limit on the bytes that rules read in one commit, 256 MiB: about a second of work.
pub const MAX_JUDGED_BYTES: u64 = 256 << 20;

/// Largest file of which only garth changes some fields, 1 MiB: it is read completely in each commit that
/// changes it.
const MAX_OWN: u64 = 1 << 20;

/// Bytes of a file that are read at a time.
const PIECE: u64 = 1 << 20;

/// Refuses a commit that violates a rule. Of several paths the smallest is named. A path that is not `within`
/// the caller's reach is not named.
///
/// # Errors
/// `RuleViolation`; `AccessDenied` where the answer would tell an author who only writes about stored
/// content; `TooLarge` for a commit with too much to judge; errors of `left`.
pub fn judge<L: JudgedState>(
    rules: &Rules,
    caller: Caller<'_>,
    within: &Within,
    touched: &CommitEffects,
    left: &mut L,
) -> Result<()> {
    let kept = caller.read_only.map_or(Ok(()), |read_only| judge_read_only(read_only, touched, left));
    // A prefetch continues with the rules, to ask for everything at once.
    if !L::PREFETCHES || caller.overrides || rules.is_empty() {
        kept.clone()?;
    }
    if caller.overrides || rules.is_empty() {
        return Ok(());
    }
    let mut found = JudgedPaths::new(rules, caller);
    for (path, ino, kind) in &touched.named {
        found.add(path, Some((*ino, *kind)))?;
    }
    for path in &touched.lost {
        found.add(path, None)?;
    }
    // Under all names that rules may apply to, including those that the commit did not touch.
    for ino in touched.written.keys() {
        for path in found.told::<_, L>(left.paths(*ino, rules.places()))?.unwrap_or_default() {
            found.add(&path, Some((*ino, Kind::File)))?;
        }
    }
    // Only constraints on changes look at more than content.
    let attributes = touched.attributes.iter().filter(|_| rules.are_about_change());
    for ino in attributes {
        for path in found.told::<_, L>(left.paths(*ino, rules.places()))?.unwrap_or_default() {
            found.add(&path, None)?;
        }
    }
    found.search_moved(touched, left)?;
    // A map by path: of several violations, the smallest path is named.
    let JudgedPaths { paths, mut untold, .. } = found;
    let mut judging = Judging::new(rules, within, left);
    (judging.caller, judging.touched) = (caller, Some(touched));
    for (path, now) in paths {
        let judged = judging.path(&path, now);
        if !L::PREFETCHES {
            judged?;
        } else if untold.is_ok() {
            untold = judged;
        }
    }
    kept.and(untold)
}

/// Refuses a commit that changes a path which its view may only read.
fn judge_read_only<L: JudgedState>(read_only: &Within, touched: &CommitEffects, left: &mut L) -> Result<()> {
    let refuse = |path: &TreePath| match read_only.contains(path) {
        true => Err(Error::at(ErrorKind::AccessDenied, path, "is read-only here")),
        false => Ok(()),
    };
    let named = touched.named.iter().map(|(path, ..)| path);
    named.chain(&touched.lost).try_for_each(refuse)?;
    let changed: BTreeSet<&Ino> = touched.written.keys().chain(&touched.attributes).collect();
    for ino in changed {
        // Under every name that is read-only, whichever name the commit used.
        left.paths(*ino, read_only)?.iter().try_for_each(refuse)?;
    }
    Ok(())
}

/// Refuses a state that violates a rule which is to be set: in these files, and at these paths and below.
///
/// # Errors
/// As [`judge`]; `TooLarge` if more than `bytes` would have to be read.
pub fn judge_state<L: JudgedState>(
    rules: &Rules,
    files: &BTreeSet<Ino>,
    places: &[TreePath],
    bytes: u64,
    left: &mut L,
) -> Result<()> {
    let (mut found, every) = (JudgedPaths::new(rules, Caller::default()), rules.all().collect::<Vec<_>>());
    for ino in files {
        for path in left.paths(*ino, rules.places())? {
            found.add(&path, Some((*ino, Kind::File)))?;
        }
    }
    for path in places {
        let Some((ino, kind)) = left.entry(path)? else { continue };
        found.add(path, Some((ino, kind)))?;
        if kind == Kind::Directory {
            found.search(&every, path, When::Now, left)?;
        }
    }
    let everything = Within::everything();
    let mut judging = Judging::new(rules, &everything, left);
    judging.bytes = bytes;
    found.paths.into_iter().try_for_each(|(path, now)| judging.path(&path, now))
}

/// Entry of a path before and after the commit.
struct Fate {
    before: Option<(Ino, Kind)>,
    now: Option<(Ino, Kind)>,
}

struct Judging<'a, L> {
    rules: &'a Rules,
    caller: Caller<'a>,
    within: &'a Within,
    /// `None` if a state is judged, and no change.
    touched: Option<&'a CommitEffects>,
    left: &'a mut L,
    /// Bytes that may still be read.
    bytes: u64,
    budget: Budget,
    /// Files that satisfy a constraint: a file may have many names.
    good: BTreeSet<(Ino, Digest)>,
}

impl<'a, L: JudgedState> Judging<'a, L> {
    fn new(rules: &'a Rules, within: &'a Within, left: &'a mut L) -> Self {
        let (caller, budget) = (Caller::default(), Budget::new(MAX_STEPS));
        let good = BTreeSet::new();
        Self { rules, caller, within, touched: None, left, bytes: MAX_JUDGED_BYTES, budget, good }
    }

    /// Judges a path by its rules. `now` is its entry, if its content may be new there.
    fn path(&mut self, path: &TreePath, now: Option<(Ino, Kind)>) -> Result<()> {
        // `fate` is looked up once, and only if a rule needs it.
        let (rules, caller, mut fate) = (self.rules, self.caller, None);
        let change = self.unread_change(path, now)?;
        for rule in rules.of(path).filter(|rule| caller.is_bound(rule)) {
            if change.is_some_and(|change| change.asks(&rule.constraint)) {
                return Err(unread::refusal(self.within, path));
            }
            let reason = match (self.touched, now) {
                (Some(touched), _) if rule.constraint.is_about_change() => {
                    let fate = match &fate {
                        Some(fate) => fate,
                        None => fate.insert(self.fate(path)?),
                    };
                    match &rule.constraint {
                        Constraint::OwnLines(check, _) => self.own_lines(*check, path, (touched, fate))?,
                        _ => self.change(rule, touched, fate)?,
                    }
                }
                (_, Some((ino, Kind::File))) => self.content(rule, path, ino)?,
                // Readers of the path read the target of the link, to which no rule of the path applies.
                (_, Some((_, Kind::Symlink))) if rule.constraint.is_about_content() => {
                    Some(SYMLINK_REFUSED.to_owned())
                }
                _ => None,
            };
            if let Some(reason) = reason {
                return Err(self.refusal(path, rule, &reason));
            }
        }
        Ok(())
    }

    /// Returns the change of a file for an author who may not read it; `None` for any other author.
    fn unread_change(&mut self, path: &TreePath, now: Option<(Ino, Kind)>) -> Result<Option<FileChange>> {
        match (self.touched, now) {
            (Some(touched), Some((ino, Kind::File))) if self.caller.writes_only => {
                Ok(Some(FileChange::of(touched, ino, self.left.entry_before(path)?)))
            }
            _ => Ok(None),
        }
    }

    fn fate(&mut self, path: &TreePath) -> Result<Fate> {
        Ok(Fate { before: self.left.entry_before(path)?, now: self.left.entry(path)? })
    }

    /// Returns the violation by the change of a path.
    fn change(&mut self, rule: &Rule, touched: &CommitEffects, fate: &Fate) -> Result<Option<String>> {
        // By node: a name that was taken away and given to another node has been replaced.
        let same = fate.now.map(|(ino, _)| ino) == fate.before.map(|(ino, _)| ino);
        if rule.constraint.keeps_names() {
            let changed = |ino: &Ino| touched.written.contains_key(ino) || touched.attributes.contains(ino);
            let breaks = !same || fate.now.is_some_and(|(ino, _)| changed(&ino));
            let why = match rule.constraint {
                Constraint::NotInSessions => NOT_IN_SESSIONS,
                _ => "is read-only by a rule",
            };
            return Ok(breaks.then(|| why.to_owned()));
        }
        if let Constraint::OwnFields(fields) = &rule.constraint {
            let Some((ino, Kind::File)) = fate.before.filter(|_| same) else {
                return Ok((!same)
                    .then(|| "is reserved for garth, which alone creates, moves and removes it".to_owned()));
            };
            let expires = self.left.file(ino)?.is_some_and(|file| file.expires);
            return match (touched.written.contains_key(&ino), rule.constraint.expiry_refused(expires)) {
                (_, Some(reason)) => Ok(Some(reason)),
                (true, None) => self.own_fields(fields, ino),
                (false, None) => Ok(None),
            };
        }
        if let Some((ino, Kind::File)) = fate.before {
            if !same {
                let now =
                    if fate.now.is_some() { "would be replaced" } else { "would be removed or renamed" };
                return Ok(Some(format!("{APPEND_ONLY_REFUSED}; it {now}")));
            }
            let size = self.left.size_before(ino)?;
            if let Some(first) = touched.written.get(&ino).filter(|first| **first < size) {
                return Ok(Some(format!(
                    "{APPEND_ONLY_REFUSED}; it would change from byte {first} on, of {size}"
                )));
            }
        }
        match fate.now {
            Some((ino, Kind::File)) => {
                let expires = self.left.file(ino)?.is_some_and(|file| file.expires);
                Ok(rule.constraint.expiry_refused(expires))
            }
            // Bytes appended there would go to a file that no rule protects.
            Some((_, Kind::Symlink)) if !same => Ok(Some(SYMLINK_REFUSED.to_owned())),
            _ => Ok(None),
        }
    }

    /// Returns the violation by lines that only garth appends.
    fn own_lines(
        &mut self,
        check: JsonCheck,
        path: &TreePath,
        (touched, fate): (&CommitEffects, &Fate),
    ) -> Result<Option<String>> {
        let Some((ino, Kind::File)) = fate.now else { return Ok(None) };
        let same = fate.before.map(|(ino, _)| ino) == Some(ino);
        if same && !touched.written.contains_key(&ino) {
            return Ok(None);
        }
        let size = self.left.file(ino)?.map_or(0, |file| file.size);
        // Earlier lines may be garth's. A last line without an end is a JSON value already, as `json-lines`
        // requires there, so that an append only adds lines to it.
        let from = if same { self.left.size_before(ino)?.min(size) } else { 0 };
        if size - from > self.bytes {
            return Err(self.too_long(path, size - from));
        }
        self.bytes -= size - from;
        let checking = ContentCheck::EachLine(LinesCheck::new(check));
        Ok(self.checked(checking, ino, from..size)?.err())
    }

    /// Returns the violation by the new content of a file of which only garth changes some fields.
    fn own_fields(&mut self, fields: &[String], ino: Ino) -> Result<Option<String>> {
        let size = self.left.file(ino)?.map_or(0, |file| file.size);
        let before = self.left.size_before(ino)?;
        if size.max(before) > MAX_OWN {
            return Ok(Some(format!("has at most {MAX_OWN} bytes")));
        }
        let text = self.left.read(ino, 0, size)?;
        // With a key twice, readers differ in which value counts.
        if let Err(flaw) = super::json::read(&text)
            && serde_json::from_slice::<serde_json::Map<_, _>>(&text).is_ok()
        {
            return Ok(Some(format!("must be unambiguous JSON: {flaw}")));
        }
        // A text that is no object has none of the fields, as if they had been removed.
        let now = own_fields(&text, fields);
        let known = own_fields(&self.left.read_before(ino, before)?, fields);
        let changed = now.iter().zip(&known).zip(fields).find(|((now, known), _)| now != known);
        Ok(changed.map(|(_, field)| format!("has the field `{field}`, which garth alone changes")))
    }

    /// Returns the violation by the content of a file.
    fn content(&mut self, rule: &Rule, path: &TreePath, ino: Ino) -> Result<Option<String>> {
        let key = (ino, *rule.digest());
        if self.good.contains(&key) {
            return Ok(None);
        }
        // Not a file, or expired: there is nothing to judge.
        let Some(file) = self.left.file(ino)? else { return Ok(None) };
        if let Some(reason) = rule.constraint.expiry_refused(file.expires) {
            return Ok(Some(reason));
        }
        let start = match rule.constraint.resumes_after_append() {
            true => self.left.known(ino, rule.digest())?,
            false => Place::START,
        };
        let checking = match rule.constraint.begin(file.size, start) {
            Ok(Some(checking)) => checking,
            Ok(None) => return Ok(None),
            Err(reason) => return Ok(Some(reason)),
        };
        // Only the part after the known place is read, and as many bytes before it as the check needs.
        let from = start.offset.saturating_sub(rule.constraint.looks_back());
        let length = file.size.saturating_sub(from);
        if length > self.bytes {
            return Err(self.too_long(path, length));
        }
        self.bytes -= length;
        // One budget for all files of the commit.
        let steps = self.budget.left();
        match self.checked(checking, ino, from..file.size)? {
            Ok(place) => {
                if let Some(place) = place.filter(|_| rule.constraint.resumes_after_append()) {
                    self.left.remember(ino, rule.digest(), place);
                }
                self.good.insert(key);
                Ok(None)
            }
            // The other files of the commit have used up the steps, which is no flaw of this one.
            Err(_) if self.budget.left() == 0 && steps < MAX_STEPS => {
                let what = format!("{MAX_STEPS} steps");
                Err(too_much(&what, "by schemas"))
            }
            Err(reason) => Ok(Some(reason)),
        }
    }

    /// Feeds a range of a file to a check.
    fn checked(
        &mut self,
        mut checking: ContentCheck<'_>,
        ino: Ino,
        range: Range<u64>,
    ) -> Result<Result<Option<Place>, String>> {
        let mut from = range.start;
        while from < range.end {
            let length = PIECE.min(range.end - from);
            let piece = self.left.read(ino, from, length)?;
            if let Err(reason) = checking.feed(&piece, &mut self.budget) {
                return Ok(Err(reason));
            }
            from += length;
        }
        Ok(checking.finish(&mut self.budget))
    }

    /// Returns the error for a file that is too long to be read in a commit, alone or after others.
    fn too_long(&self, path: &TreePath, length: u64) -> Error {
        // Alone it would fit: other files of the commit have used up the bytes.
        if length <= MAX_JUDGED_BYTES {
            return too_much(&format!("{MAX_JUDGED_BYTES} bytes"), "to read");
        }
        let message = format!(
            "has more bytes that were not checked since its rule was set than a commit checks, \
             {MAX_JUDGED_BYTES}; have an administrator set the rule again, which checks all files while \
             commits continue"
        );
        match self.within.contains(path) {
            true => Error::at(ErrorKind::TooLarge, path, message),
            false => Error::new(ErrorKind::TooLarge, message),
        }
    }

    fn refusal(&self, path: &TreePath, rule: &Rule, reason: &str) -> Error {
        if !self.within.contains(path) {
            // The other name, and the rules there, are not the caller's to know.
            let message = "a rule for another name of a file refuses what it would become";
            return Error::new(ErrorKind::RuleViolation, message);
        }
        // The caller of a view knows other paths than that of the pattern.
        let pattern = self.within.contains(&TreePath::root()).then(|| rule.pattern.as_str());
        let named = pattern.map(|pattern| format!(" (rule `{}` for {pattern})", rule.constraint.name()));
        let message = format!("{reason}{}", named.unwrap_or_default());
        rule.constraint.advised(Error::at(ErrorKind::RuleViolation, path, message))
    }
}

/// Returns the values of some fields of a JSON object; none for any other text.
fn own_fields(text: &[u8], fields: &[String]) -> Vec<Option<serde_json::Value>> {
    let object: serde_json::Map<_, _> = serde_json::from_slice(text).unwrap_or_default();
    fields.iter().map(|field| object.get(field).cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Name;

    /// Directory of `count` files, each a number of `size` digits.
    struct Values {
        count: usize,
        size: u64,
    }

    impl JudgedState for Values {
        fn file(&mut self, _: Ino) -> Result<Option<File>> {
            Ok(Some(File { size: self.size, expires: false }))
        }

        fn paths(&mut self, _: Ino, _: &Within) -> Result<Vec<TreePath>> {
            Ok(Vec::new())
        }

        fn entry(&mut self, _: &TreePath) -> Result<Option<(Ino, Kind)>> {
            Ok(None)
        }

        fn entries(&mut self, _: &TreePath, limit: usize) -> Result<Entries> {
            let numbers = (0..self.count.min(limit) as u64).map(|n| (n.to_string(), Ino(n)));
            numbers.map(|(name, ino)| Ok((Name::parse(&name)?, ino, Kind::File))).collect()
        }

        fn read(&mut self, _: Ino, _: u64, length: u64) -> Result<Vec<u8>> {
            Ok(vec![b'1'; length as usize])
        }

        fn entry_before(&mut self, _: &TreePath) -> Result<Option<(Ino, Kind)>> {
            Ok(None)
        }

        fn entries_before(&mut self, _: &TreePath, _: usize) -> Result<Entries> {
            Ok(Entries::new())
        }

        fn size_before(&mut self, _: Ino) -> Result<u64> {
            Ok(0)
        }

        fn read_before(&mut self, _: Ino, _: u64) -> Result<Vec<u8>> {
            Ok(Vec::new())
        }

        fn known(&mut self, _: Ino, _: &Digest) -> Result<Place> {
            Ok(Place::START)
        }

        fn remember(&mut self, _: Ino, _: &Digest, _: Place) {}
    }

    /// Judges the move of a directory to a place of the key-value store.
    fn moved(count: usize, size: u64) -> Result<()> {
        let path = |path| TreePath::parse(path).unwrap();
        let moved = vec![(path("/t"), path("/agents/a/kv"))];
        let touched = CommitEffects { moved, ..CommitEffects::default() };
        let within = Within::everything();
        judge(
            crate::rule::sample::registry().rules(),
            Caller::default(),
            &within,
            &touched,
            &mut Values { count, size },
        )
    }

    #[test]
    fn judge_limits_names_and_bytes_of_a_commit() {
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
