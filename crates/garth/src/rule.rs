//! What may lie where: classes of paths, and what is demanded of the files in them. Pure: engines say what
//! a commit touched and show the state that it would leave, and a commit that breaks a rule is refused whole,
//! so that no interface, no race and no link gets past. Why inside the commit:
//! `docs/decisions/rules-in-the-commit.md`.

mod class;
mod judge;

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
            Self::Json => Ok(what_is_no_json(&read()?)),
        }
    }
}

/// What keeps a text from being one JSON value, with its line and column.
fn what_is_no_json(text: &[u8]) -> Option<String> {
    // the parser skips strings without a look at their bytes
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            let before = &text[..error.valid_up_to()];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            return Some(format!("has to be JSON, as all files there: line {line} would not be UTF-8"));
        }
    };
    // whole nested values are skipped, not kept: neither depth nor length costs memory
    let parsed = serde_json::from_str::<serde::de::IgnoredAny>(text);
    parsed.err().map(|error| format!("has to be JSON, as all files there: {error}"))
}

#[cfg(test)]
mod tests {
    use super::what_is_no_json;

    #[test]
    fn a_json_text_is_one_value_of_utf8_with_space_around() {
        for text in ["1", " {\"a\" : [1, null, \"\\u00e9\"]}\n", "\"\"", "1e400"] {
            assert_eq!(what_is_no_json(text.as_bytes()), None, "{text}");
        }
        let deep = "[".repeat(500_000) + &"]".repeat(500_000);
        assert_eq!(what_is_no_json(deep.as_bytes()), None);
        for (text, line) in
            [("", "line 1"), ("{\n\"a\":\n}", "line 3"), ("1 2", "line 1"), ("{'a': 1}", "line 1")]
        {
            let said = what_is_no_json(text.as_bytes()).expect(text);
            assert!(said.contains(line), "{said}");
        }
        let said = what_is_no_json(b"[\n\"\xff\"]").expect("no UTF-8");
        assert!(said.contains("line 2"), "{said}");
    }
}
