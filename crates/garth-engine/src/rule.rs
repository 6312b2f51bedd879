//! Rules: glob patterns of paths, and constraints on the files that match. Pure: engines report what a commit
//! touched and show the state that it would leave. A commit that violates a rule is refused completely, so
//! that no interface, race or link gets around it. The reasons for judging inside the commit:
//! `docs/decisions/rules-in-the-commit.md`.

mod check;
mod constraint;
mod content_check;
mod effects;
mod foresee;
pub mod json;
mod json_check;
mod judge;
pub mod lines;
mod lines_check;
mod path_pattern;
pub mod projection;
pub mod quota;
pub mod registry;
pub mod retention;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod sample;
pub mod schema;
mod secrets;
mod unread;

pub use check::{Check, FileViolation};
pub use constraint::{Constraint, MAX_WHOLE, Policy};
pub use effects::CommitEffects;
pub use foresee::foresee;
pub use json_check::JsonCheck;
pub use judge::{
    Caller, Entries, File, JudgedState, MAX_JUDGED, MAX_JUDGED_BYTES, MAX_LOOKED, judge, judge_state,
};
pub use lines::Place;
pub use path_pattern::PathPattern;
pub use registry::{DecidingKey, Naming, Registry, Searchable, WithheldLines};
pub use schema::SchemaText;

use crate::error::{Error, ErrorKind, Result};
use crate::model::Within;
use crate::path::TreePath;

/// Limit on the rules that an account sets: each commit looks at all of them.
pub const MAX_RULES: usize = 100;

/// Version of the meaning of constraints. Increase it when a constraint of the same terms means something
/// else: files that satisfied it before are then checked again.
const JUDGES: u32 = 1;

/// Identity of a constraint: the first bytes of the BLAKE3 hash of its name and terms.
pub type Digest = [u8; 16];

/// Glob pattern of paths, and a constraint on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pattern: PathPattern,
    constraint: Constraint,
    digest: Digest,
    built_in: bool,
}

impl Rule {
    /// Returns the rule that puts a constraint on the paths of a pattern.
    pub fn new(pattern: PathPattern, constraint: Constraint) -> Self {
        let text = format!("{JUDGES} {}\0{}", constraint.name(), constraint.terms());
        let mut digest = Digest::default();
        digest.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
        // Without the pattern: a file that satisfies a constraint does so for every rule with that
        // constraint.
        Self { pattern, constraint, digest, built_in: false }
    }

    /// Returns a rule of the [`Registry`], which no operator can remove.
    ///
    /// # Panics
    /// If `pattern` is malformed, which is a bug of the program that registers it.
    pub fn built_in(pattern: &'static str, constraint: Constraint) -> Self {
        Self { built_in: true, ..Self::new(PathPattern::built_in(pattern), constraint) }
    }

    /// Returns the pattern of the paths.
    pub fn pattern(&self) -> &PathPattern {
        &self.pattern
    }

    /// Returns the constraint on files that match the pattern.
    pub fn constraint(&self) -> &Constraint {
        &self.constraint
    }

    /// Returns true if every tree has the rule, which cannot be removed.
    pub fn is_built_in(&self) -> bool {
        self.built_in
    }

    /// Returns the identity of the constraint.
    #[doc(hidden)]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

/// Rules in force in a tree, in the order in which they are judged.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    /// Subtrees that the patterns can match paths in.
    places: Within,
}

impl Rules {
    fn new(mut rules: Vec<Rule>) -> Self {
        // Sizes first: they are judged without reading the file.
        rules.sort_by_key(|rule| !matches!(rule.constraint, Constraint::MaxSize(_)));
        let places = Within::new(rules.iter().map(|rule| rule.pattern.place()));
        Self { rules, places }
    }

    /// Returns an empty set.
    pub fn none() -> Self {
        Self::new(Vec::new())
    }

    /// Returns a set of one rule, to find the files that violate it.
    pub fn only(rule: Rule) -> Self {
        Self::new(vec![rule])
    }

    /// Returns the rules with one more, which replaces the rule with the same pattern and kind of constraint.
    ///
    /// # Errors
    /// `TooLarge` for more than [`MAX_RULES`]; `AlreadyExists` if every tree has such a rule.
    pub fn with(&self, rule: Rule) -> Result<Self> {
        let mut rules = self.without(rule.pattern(), rule.constraint.name())?.rules;
        if rules.iter().filter(|rule| !rule.built_in).count() >= MAX_RULES {
            return Err(Error::new(ErrorKind::TooLarge, format!("a tree has at most {MAX_RULES} rules")));
        }
        // The one that it replaces was removed above, and does not count towards the limit.
        rules.push(rule);
        Ok(Self::new(rules))
    }

    /// Returns the rules without the one of this pattern with a constraint of this name.
    ///
    /// # Errors
    /// `AlreadyExists` for a rule that every tree has.
    pub fn without(&self, pattern: &PathPattern, constraint: &str) -> Result<Self> {
        let is_it = |rule: &&Rule| rule.pattern == *pattern && rule.constraint.name() == constraint;
        if self.rules.iter().find(is_it).is_some_and(Rule::is_built_in) {
            let message =
                format!("the rule `{constraint}` for {} is built in and cannot be changed", pattern.as_str());
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        Ok(Self::new(self.rules.iter().filter(|rule| !is_it(rule)).cloned().collect()))
    }

    /// Returns all rules.
    pub fn all(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns true if some rules are about the changes of a commit, and not only about the state that it
    /// leaves.
    pub(crate) fn are_about_change(&self) -> bool {
        self.rules.iter().any(|rule| rule.constraint.is_about_change())
    }

    /// Returns the rules for a path.
    pub fn of<'a>(&'a self, path: &'a TreePath) -> impl Iterator<Item = &'a Rule> {
        self.rules.iter().filter(|rule| rule.pattern.has(path))
    }

    /// Returns the subtrees that the patterns can match paths in. Names of a file outside of them do not
    /// matter.
    pub fn places(&self) -> &Within {
        &self.places
    }

    /// Returns true if there are rules for paths in a directory or below.
    pub fn may_have(&self, dir: &TreePath) -> bool {
        self.rules.iter().any(|rule| rule.pattern.below(dir).is_some())
    }

    /// Returns the subtrees in which search may not see everything; `None` if it sees everything.
    pub fn unsearchable(&self) -> Option<Within> {
        let hidden = self.rules.iter().filter(|rule| rule.constraint == Constraint::NotSearchable);
        let mut places = hidden.map(|rule| rule.pattern.place()).peekable();
        places.peek().is_some().then(|| Within::new(places))
    }

    /// Returns true if hits at a path show text that looks like a secret.
    pub fn shows_secrets(&self, path: &TreePath) -> bool {
        self.of(path).any(|rule| rule.constraint == Constraint::Secrets(Policy::Allow))
    }

    /// Returns true if search may see a path.
    pub fn is_searchable(&self, path: &TreePath) -> bool {
        !self.of(path).any(|rule| rule.constraint == Constraint::NotSearchable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_bounded_unique_and_keep_built_ins() {
        let rule = |pattern: &str, bytes| {
            Rule::new(PathPattern::parse(pattern).unwrap(), Constraint::MaxSize(bytes))
        };
        let mut rules = super::sample::registry().rules().clone();
        let own = |rules: &Rules| rules.all().filter(|rule| !rule.is_built_in()).count();
        for n in 0..MAX_RULES {
            rules = rules.with(rule(&format!("/{n}"), 1)).unwrap();
        }
        assert!(rules.with(rule("/more", 1)).unwrap_err().is(ErrorKind::TooLarge));
        let replaced = rules.with(rule("/7", 2)).unwrap();
        assert_eq!(own(&replaced), MAX_RULES);
        assert!(
            replaced.all().any(|known| *known == rule("/7", 2))
                && !replaced.all().any(|it| *it == rule("/7", 1))
        );
        let built_in = rules.with(rule("/agents/*/kv/**", 1)).unwrap_err();
        assert!(built_in.is(ErrorKind::AlreadyExists), "{built_in}");
    }
}
