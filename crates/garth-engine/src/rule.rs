//! What may lie where: classes of paths, and what is demanded of the files in them. Pure: engines say what
//! a commit touched and show the state that it would leave, and a commit that breaks a rule is refused whole,
//! so that no interface, no race and no link gets past. Why inside the commit:
//! `docs/decisions/rules-in-the-commit.md`.

mod check;
mod class;
mod content_check;
mod demand;
pub mod json;
mod json_check;
mod judge;
pub mod lines;
pub mod projection;
pub mod quota;
pub mod registry;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod sample;
pub mod schema;
mod secrets;

pub use check::{Breach, Check};
pub use class::Class;
pub use demand::{Demand, MAX_WHOLE, Policy};
pub use json_check::JsonCheck;
pub use judge::{
    Caller, Entries, File, Left, MAX_JUDGED, MAX_JUDGED_BYTES, MAX_LOOKED, Touched, judge, judge_state,
};
pub use lines::Place;
pub use registry::{Registry, Searchable, WithheldLines};
pub use schema::SchemaText;

use crate::error::{Error, ErrorKind, Result};
use crate::model::Within;
use crate::path::TreePath;

/// Most rules that an account sets: each commit looks at all of them.
pub const MAX_RULES: usize = 100;

/// Changes with what a demand of the same terms means: what was found good before is looked at again then.
const JUDGES: u32 = 1;

/// What tells demands apart: the first bytes of the BLAKE3 of name and terms.
pub type Digest = [u8; 16];

/// A class of paths, and what is demanded of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    class: Class,
    demand: Demand,
    digest: Digest,
    built_in: bool,
}

impl Rule {
    /// A rule.
    pub fn new(class: Class, demand: Demand) -> Self {
        let text = format!("{JUDGES} {}\0{}", demand.name(), demand.terms());
        let mut digest = Digest::default();
        digest.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
        Self { class, demand, digest, built_in: false }
    }

    /// Returns a rule of the [`Registry`], which no operator can remove.
    ///
    /// # Panics
    /// If `class` is not well formed: a fault of the program that registers it.
    pub fn built_in(class: &'static str, demand: Demand) -> Self {
        Self { built_in: true, ..Self::new(Class::built_in(class), demand) }
    }

    /// The paths that it is for.
    pub fn class(&self) -> &Class {
        &self.class
    }

    /// What it demands of them.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Whether every tree has it: it cannot be removed.
    pub fn is_built_in(&self) -> bool {
        self.built_in
    }

    /// Tells its demand from others.
    pub(crate) fn digest(&self) -> &Digest {
        &self.digest
    }
}

/// The rules that are in force in a tree, in the order in which they are judged.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    /// Where the paths of their classes are.
    places: Within,
}

impl Rules {
    fn new(mut rules: Vec<Rule>) -> Self {
        // a size is judged before anything is read
        rules.sort_by_key(|rule| !matches!(rule.demand, Demand::MaxSize(_)));
        let places = Within::new(rules.iter().map(|rule| rule.class.place()));
        Self { rules, places }
    }

    /// No rules.
    pub fn none() -> Self {
        Self::new(Vec::new())
    }

    /// One rule and no others: to look at what would break it.
    pub fn only(rule: Rule) -> Self {
        Self::new(vec![rule])
    }

    /// These rules and one more, which takes the place of one with the same class and kind of demand.
    ///
    /// # Errors
    /// `TooLarge` for too many; `AlreadyExists` where every tree has such a rule.
    pub fn with(&self, rule: Rule) -> Result<Self> {
        let mut rules = self.without(rule.class(), rule.demand.name())?.rules;
        if rules.iter().filter(|rule| !rule.built_in).count() >= MAX_RULES {
            return Err(Error::new(ErrorKind::TooLarge, format!("a tree has at most {MAX_RULES} rules")));
        }
        rules.push(rule);
        Ok(Self::new(rules))
    }

    /// These rules without that of a class with a demand of this name.
    ///
    /// # Errors
    /// `AlreadyExists` for one that every tree has.
    pub fn without(&self, class: &Class, demand: &str) -> Result<Self> {
        let is_it = |rule: &&Rule| rule.class == *class && rule.demand.name() == demand;
        if self.rules.iter().find(is_it).is_some_and(Rule::is_built_in) {
            let message = format!("every tree has the rule `{demand}` for {}, which stays", class.as_str());
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        Ok(Self::new(self.rules.iter().filter(|rule| !is_it(rule)).cloned().collect()))
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether some are about what a commit changes, and not only about what it leaves.
    pub(crate) fn are_about_change(&self) -> bool {
        self.rules.iter().any(|rule| rule.demand.is_about_change())
    }

    /// Those for a path.
    pub fn of<'a>(&'a self, path: &'a TreePath) -> impl Iterator<Item = &'a Rule> {
        self.rules.iter().filter(|rule| rule.class.has(path))
    }

    /// The subtrees that they are for: what a file is called elsewhere does not matter.
    pub fn places(&self) -> &Within {
        &self.places
    }

    /// Whether there are rules for what is in a directory or below.
    pub fn may_have(&self, dir: &TreePath) -> bool {
        self.rules.iter().any(|rule| rule.class.below(dir).is_some())
    }

    /// The subtrees in which search may not see all; `None` if it sees everything.
    pub fn unsearchable(&self) -> Option<Within> {
        let hidden = self.rules.iter().filter(|rule| rule.demand == Demand::NotSearchable);
        let mut places = hidden.map(|rule| rule.class.place()).peekable();
        places.peek().is_some().then(|| Within::new(places))
    }

    /// Whether what looks like a secret is shown in what is found at a path.
    pub fn shows_secrets(&self, path: &TreePath) -> bool {
        self.of(path).any(|rule| rule.demand == Demand::Secrets(Policy::Allow))
    }

    /// Whether search may see what is at a path.
    pub fn is_searchable(&self, path: &TreePath) -> bool {
        !self.of(path).any(|rule| rule.demand == Demand::NotSearchable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_so_many_rules_one_for_a_class_and_a_kind_of_demand_and_keeps_those_of_every_tree() {
        let rule = |class: &str, bytes| Rule::new(Class::parse(class).unwrap(), Demand::MaxSize(bytes));
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
