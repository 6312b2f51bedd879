//! JSON Schema, as rules use it: a closed part of draft 2020-12 in which every keyword is judged, nothing
//! outside the schema is looked up, and each step is counted, so that whatever schema meets whatever value
//! ends soon. The dialect: `docs/specs/schemas.md`. Why it is made here:
//! `docs/decisions/schemas-with-a-budget.md`.

mod check;
mod compile;
mod format;
mod pattern;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use super::json::{self, Number, Value, cut};
use crate::error::{Error, Result};
use format::Format;
use pattern::Pattern;

/// Largest text of a schema, in bytes.
pub const MAX_SCHEMA: usize = 64 << 10;

/// Steps that judging the content of one commit may take: a second's work, two where it is dear.
pub const MAX_STEPS: u64 = 25_000_000;

/// Schemas that are applied within each other at most: what lies deeper would use up a thread's stack.
const MAX_NESTED: usize = 400;

/// A schema, ready to judge values.
#[derive(Clone, Debug)]
pub struct Schema {
    /// All schemas in it; the first is the whole.
    nodes: Vec<Vec<Keyword>>,
}

/// The place of a schema in its list.
type Id = usize;

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// `InvalidArgument` for one that is too large, is no JSON, has keywords that are not judged here, refers
    /// to what is not in it or to itself without an end, or has patterns that are none or are too large.
    pub fn compile(text: &str) -> Result<Self> {
        if text.len() > MAX_SCHEMA {
            let size = text.len();
            return Err(Error::invalid(format!(
                "a schema has at most {MAX_SCHEMA} bytes, and this one has {size}; make it smaller"
            )));
        }
        let value = json::read(text.as_bytes())
            .map_err(|flaw| Error::invalid(format!("a schema has to be JSON: {flaw}")))?;
        let nodes = compile::nodes(&value)?;
        Ok(Self { nodes })
    }

    /// Judges a value.
    ///
    /// # Errors
    /// What is wrong about it, or that the budget is used up: then nothing is left of it.
    pub fn check(&self, value: &Value, budget: &mut Budget) -> Result<(), Wrong> {
        check::check(&self.nodes, value, budget)
    }

    /// Judges a text.
    ///
    /// # Errors
    /// As [`json::read`] and [`check`](Self::check).
    pub fn check_text(&self, text: &[u8], budget: &mut Budget) -> Result<(), Wrong> {
        let value = json::read(text)
            .map_err(|flaw| Wrong { at: String::new(), what: format!("has to be JSON: {flaw}") })?;
        self.check(&value, budget)
    }
}

/// A JSON Schema, as it was given and ready to judge.
#[derive(Clone, Debug)]
pub struct SchemaText {
    text: Arc<str>,
    schema: Arc<Schema>,
}

impl SchemaText {
    /// Reads a schema: `docs/specs/schemas.md` says which keywords it may have.
    ///
    /// # Errors
    /// `InvalidArgument` for one that is none, or is too large.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Self { text: text.into(), schema: Arc::new(Schema::compile(text)?) })
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }
}

impl PartialEq for SchemaText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for SchemaText {}

/// Steps that may still be taken. One is about what it takes to look at a small value: 5 to 75 ns.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// A budget of so many steps.
    pub fn new(steps: u64) -> Self {
        Self { left: steps }
    }

    /// How many are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Takes some; `None`, now and from then on, if there are not as many.
    fn take(&mut self, steps: u64) -> Option<()> {
        let left = self.left.checked_sub(steps);
        self.left = left.unwrap_or(0);
        left.map(|_| ())
    }
}

/// What is wrong about a value, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The place as a JSON pointer, cut after 200 bytes; empty for the whole value.
    pub at: String,
    /// In words, with at most about 100 bytes of what is there.
    pub what: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.as_str() {
            "" => f.write_str(&self.what),
            at => write!(f, "{at}: {}", self.what),
        }
    }
}

/// A keyword that is judged, with what it says.
#[derive(Clone, Debug)]
enum Keyword {
    /// The schema `false`.
    Never,
    Type(Types),
    /// `enum` and `const`.
    Values(Values),
    Required(Vec<Box<str>>),
    DependentRequired(Vec<(Box<str>, Vec<Box<str>>)>),
    Number(Bound, Number),
    MultipleOf(i128),
    /// A bound of something that is counted.
    Count(Counted, Bound, u64),
    Pattern(Pattern),
    Format(Format),
    UniqueItems,
    PropertyNames(Id),
    /// `properties`, `patternProperties` and `additionalProperties`.
    Properties(Properties),
    /// `prefixItems` and `items`.
    Items(Vec<Id>, Option<Id>),
    Contains {
        schema: Id,
        least: u64,
        most: u64,
    },
    DependentSchemas(Vec<(Box<str>, Id)>),
    AllOf(Vec<Id>),
    AnyOf(Vec<Id>),
    OneOf(Vec<Id>),
    Not(Id),
    If {
        schema: Id,
        then: Option<Id>,
        otherwise: Option<Id>,
    },
    Ref(Id),
}

/// Which side of a bound is refused.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Least,
    Most,
    Above,
    Below,
}

/// What is counted of a string, an array or an object.
#[derive(Clone, Copy, Debug)]
enum Counted {
    Bytes,
    Characters,
    Items,
    Properties,
}

#[derive(Clone, Debug)]
struct Values {
    sorted: Vec<Value>,
    /// The first of them, in words.
    said: String,
    /// Steps that looking for a value takes.
    steps: u64,
}

#[derive(Clone, Debug)]
struct Properties {
    named: Vec<(Box<str>, Id)>,
    matching: Vec<(Pattern, Id)>,
    others: Option<Id>,
}

/// The types of values, as a set.
#[derive(Clone, Copy, Debug, Default)]
struct Types(u8);

impl Types {
    const NAMES: [&'static str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

    fn with(self, name: &str) -> Option<Self> {
        let bit = Self::NAMES.iter().position(|other| *other == name)?;
        Some(Self(self.0 | 1 << bit))
    }

    fn has(self, value: &Value) -> bool {
        let bits = match value {
            Value::Null => 1,
            Value::Bool(_) => 1 << 1,
            Value::Number(number) if number.is_whole() => 1 << 2 | 1 << 3,
            Value::Number(_) => 1 << 3,
            Value::String(_) => 1 << 4,
            Value::Array(_) => 1 << 5,
            Value::Object(_) => 1 << 6,
        };
        self.0 & bits != 0
    }

    /// The name of a value's type.
    fn name(value: &Value) -> &'static str {
        match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(number) if number.is_whole() => "an integer",
            Value::Number(_) => "a number with a fraction",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        }
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = (0..7).filter(|bit| self.0 & 1 << bit != 0).map(|bit| Self::NAMES[bit]).collect();
        f.write_str(&names.join(" or "))
    }
}

/// The way to a value, or to a schema.
#[derive(Clone, Debug, Default)]
struct Way<'a>(Vec<Part<'a>>);

#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Key(&'a str),
    Index(usize),
}

impl fmt::Display for Way<'_> {
    /// As a JSON pointer, cut after 200 bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 200;
        let mut text = String::new();
        for part in &self.0 {
            text.push('/');
            match part {
                Part::Index(index) => text.push_str(&index.to_string()),
                Part::Key(key) => {
                    let key = &key[..key.floor_char_boundary(MOST)];
                    text.push_str(&key.replace('~', "~0").replace('/', "~1").replace(char::is_control, "?"));
                }
            }
            if text.len() > MOST {
                break;
            }
        }
        f.write_str(&cut(text, MOST))
    }
}

/// Steps that going through a value takes.
fn weight(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(string) => 1 + of_bytes(string),
        Value::Array(items) => 1 + items.iter().map(weight).sum::<u64>(),
        Value::Object(entries) => {
            1 + entries.iter().map(|(key, value)| of_bytes(key) + weight(value)).sum::<u64>()
        }
    }
}

/// Steps that comparing or counting the bytes of a string takes.
fn of_bytes(string: &str) -> u64 {
    string.len() as u64 / 64
}
