//! Keywords of a compiled schema, as `compile` creates and `check` applies them.

use std::fmt;

use super::format::Format;
use super::pattern::Pattern;
use crate::rule::json::{Number, Value};

/// Index of a schema among all schemas in a schema.
pub(super) type Id = usize;

/// Keyword that is judged, with its value.
#[derive(Clone, Debug)]
pub(super) enum Keyword {
    /// The schema `false`.
    Never,
    Type(Types),
    /// `enum` and `const`.
    Values(Values),
    Required(Vec<Box<str>>),
    DependentRequired(Vec<(Box<str>, Vec<Box<str>>)>),
    Number(Bound, Number),
    MultipleOf(i128),
    /// Bound on a count.
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

/// Side of a bound.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Least,
    Most,
    Above,
    Below,
}

/// Measure of a string, an array or an object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counted {
    Bytes,
    Characters,
    Items,
    Properties,
}

#[derive(Clone, Debug)]
pub(super) struct Values {
    pub(super) sorted: Vec<Value>,
    /// The first values, in words.
    pub(super) said: String,
    /// Steps of a lookup.
    pub(super) steps: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Properties {
    pub(super) named: Vec<(Box<str>, Id)>,
    pub(super) matching: Vec<(Pattern, Id)>,
    pub(super) others: Option<Id>,
}

/// Set of types.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NAMES: [&'static str; 7] =
        ["null", "boolean", "integer", "number", "string", "array", "object"];

    pub(super) fn with(self, name: &str) -> Option<Self> {
        let bit = Self::NAMES.iter().position(|other| *other == name)?;
        Some(Self(self.0 | 1 << bit))
    }

    pub(super) fn has(self, value: &Value) -> bool {
        let bits = match value {
            Value::Null => 1,
            Value::Bool(_) => 1 << 1,
            // An integer is a number as well, and `1.0` is an integer.
            Value::Number(number) if number.is_whole() => 1 << 2 | 1 << 3,
            Value::Number(_) => 1 << 3,
            Value::String(_) => 1 << 4,
            Value::Array(_) => 1 << 5,
            Value::Object(_) => 1 << 6,
        };
        self.0 & bits != 0
    }

    /// Returns the name of a value's type.
    pub(super) fn name(value: &Value) -> &'static str {
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
