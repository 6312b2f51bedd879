//! What may lie where: classes of paths, and what is demanded of the files in them. Pure: engines say what
//! a commit touched and show the state that it would leave, and a commit that breaks a rule is refused whole,
//! so that no interface, no race and no link gets past. Why inside the commit:
//! `docs/decisions/rules-in-the-commit.md`.

mod class;
pub mod fragments;
pub mod json;
mod judge;
pub mod lines;
pub mod schema;

pub use class::Class;
pub use judge::{Caller, Entries, File, Left, MAX_JUDGED, MAX_JUDGED_BYTES, Touched, judge};

use crate::error::Result;
use crate::model::Within;
use crate::path::TreePath;

/// Largest value of the key-value interface, in bytes of its text: the largest request of the HTTP interface.
pub const MAX_VALUE: usize = 1 << 20;

/// What is demanded of the files of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// At most this many bytes.
    MaxSize(u64),
    /// The whole content is one JSON value.
    Json,
}

/// A class of paths, and what is demanded of the files that have a name in it.
#[derive(Clone, Debug)]
pub struct Rule {
    class: Class,
    demand: Demand,
}

/// The rules that are in force in a tree, in the order in which they are judged.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    /// Where the paths of their classes are.
    places: Within,
}

impl Rules {
    fn new(rules: Vec<Rule>) -> Self {
        let places = Within::new(rules.iter().map(|rule| rule.class.place()));
        Self { rules, places }
    }

    /// No rules.
    pub fn none() -> Self {
        Self::new(Vec::new())
    }

    /// Those that every tree has: what is kept for the key-value interface are values of it.
    pub fn built_in() -> &'static Self {
        static RULES: std::sync::LazyLock<Rules> = std::sync::LazyLock::new(|| {
            let values = Class::built_in("agents/*/kv/**");
            let rule = |demand| Rule { class: values.clone(), demand };
            // the size first: then no more is read than a value may have
            Rules::new(vec![rule(Demand::MaxSize(MAX_VALUE as u64)), rule(Demand::Json)])
        });
        &RULES
    }

    /// The subtrees that they are for: what a file is called elsewhere does not matter.
    pub fn places(&self) -> &Within {
        &self.places
    }

    /// Whether there are rules for what is in a directory or below.
    pub fn may_have(&self, dir: &TreePath) -> bool {
        self.rules.iter().any(|rule| rule.class.below(dir).is_some())
    }
}

impl Demand {
    /// What is wrong about a file's content, in words; `read` gives it.
    fn broken_by(&self, size: u64, read: &mut dyn FnMut() -> Result<Vec<u8>>) -> Result<Option<String>> {
        match self {
            Self::MaxSize(most) if size > *most => Ok(Some(format!(
                "has to be of at most {most} bytes, as all files there; it would have {size}"
            ))),
            Self::MaxSize(_) => Ok(None),
            Self::Json => Ok(json::what_is_no_json(&read()?)),
        }
    }
}
