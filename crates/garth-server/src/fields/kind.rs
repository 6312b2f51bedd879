//! Types of fields, with their bounds.

use std::fmt;

/// Largest integer that every JSON parser keeps exactly: 2⁵³ - 1.
pub(crate) const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Type and bounds of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// String of `min` to `max` characters. `of` says what it holds, such as `path`.
    Text { of: &'static str, min: usize, max: usize },
    /// Time or state of the tree, as a string. A sequence may also be an integer, as answers show it.
    Moment,
    /// One of these words.
    Words(&'static [&'static str]),
    /// RFC 3339 time. As an end, any time after the last one that can be stored is that one.
    Time { is_end: bool },
    /// Integer within bounds, both included.
    Integer { min: u64, max: u64 },
    /// Integer within bounds, both included, that may be negative.
    Signed { min: i64, max: i64 },
    /// Array of two integers within bounds, both included.
    Pair { min: i64, max: i64 },
    /// Finite number within bounds, both included.
    Number { min: f64, max: f64 },
    /// `true` or `false`.
    Flag,
    /// Array of at most `max` strings. `of` says what they hold.
    Texts { of: &'static str, max: usize },
    /// Array of at most `max` objects. `of` says what they are.
    Array { of: &'static str, max: usize },
    /// Object of at most `max` names, if it holds texts. `of` says what is in it.
    Object { of: &'static str, max: usize },
    /// Any JSON, `null` included.
    Json,
}

/// Type of JSON that a field takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    String,
    Time,
    Integer,
    Pair,
    Number,
    Boolean,
    Strings,
    Array,
    Object,
    Any,
}

/// Returns a string.
pub(crate) const fn string() -> Kind {
    string_of("")
}

/// Returns a string that holds something with a syntax of its own, such as a path.
pub(crate) const fn string_of(of: &'static str) -> Kind {
    Kind::Text { of, min: 0, max: usize::MAX }
}

/// Returns a time or state of the tree: a string, or a sequence as an integer.
pub(crate) const fn moment() -> Kind {
    Kind::Moment
}

/// Returns one of some words.
pub(crate) const fn words(words: &'static [&'static str]) -> Kind {
    Kind::Words(words)
}

/// Returns a time.
pub(crate) const fn time() -> Kind {
    Kind::Time { is_end: false }
}

/// Returns a time at which a range ends.
pub(crate) const fn end_time() -> Kind {
    Kind::Time { is_end: true }
}

/// Returns an integer from `min` to `max`.
pub(crate) const fn integer(min: u64, max: u64) -> Kind {
    Kind::Integer { min, max }
}

/// Returns an integer from `min` to `max`, of which `min` may be negative.
pub(crate) const fn signed(min: i64, max: i64) -> Kind {
    Kind::Signed { min, max }
}

/// Returns two integers from `min` to `max`, of which `min` may be negative.
pub(crate) const fn pair(min: i64, max: i64) -> Kind {
    Kind::Pair { min, max }
}

/// Returns a finite number from `min` to `max`.
pub(crate) const fn number_in(min: f64, max: f64) -> Kind {
    Kind::Number { min, max }
}

/// Returns `true` or `false`.
pub(crate) const fn flag() -> Kind {
    Kind::Flag
}

/// Returns an array of strings.
pub(crate) const fn strings() -> Kind {
    Kind::Texts { of: "", max: usize::MAX }
}

/// Returns an array of objects.
pub(crate) const fn array(of: &'static str) -> Kind {
    Kind::Array { of, max: usize::MAX }
}

/// Returns an object.
pub(crate) const fn object(of: &'static str) -> Kind {
    Kind::Object { of, max: usize::MAX }
}

/// Returns any JSON.
pub(crate) const fn json() -> Kind {
    Kind::Json
}

impl Kind {
    /// Limits a string to `min` to `max` characters.
    pub(crate) const fn chars(self, min: usize, max: usize) -> Self {
        match self {
            Self::Text { of, .. } => Self::Text { of, min, max },
            _ => panic!("only a string has a number of characters"),
        }
    }

    /// Rejects the empty string.
    pub(crate) const fn not_empty(self) -> Self {
        self.chars(1, usize::MAX)
    }

    /// Says what the strings of an array hold.
    pub(crate) const fn of(self, of: &'static str) -> Self {
        match self {
            Self::Texts { max, .. } => Self::Texts { of, max },
            _ => panic!("only an array of strings says what they hold"),
        }
    }

    /// Limits an array to `max` items, or an object of texts to `max` names.
    pub(crate) const fn at_most(self, max: usize) -> Self {
        match self {
            Self::Texts { of, .. } => Self::Texts { of, max },
            Self::Array { of, .. } => Self::Array { of, max },
            Self::Object { of, .. } => Self::Object { of, max },
            _ => panic!("only an array or an object has a number of items"),
        }
    }

    /// Returns the kind for a refusal that is not about its bounds.
    pub(super) fn without_bounds(self) -> String {
        match self.shape() {
            Shape::Integer => "an integer".to_owned(),
            Shape::Number => "a number".to_owned(),
            _ => self.to_string(),
        }
    }

    /// Returns the type of JSON.
    pub(crate) const fn shape(self) -> Shape {
        match self {
            Self::Text { .. } | Self::Moment | Self::Words(_) => Shape::String,
            Self::Time { .. } => Shape::Time,
            Self::Integer { .. } | Self::Signed { .. } => Shape::Integer,
            Self::Pair { .. } => Shape::Pair,
            Self::Number { .. } => Shape::Number,
            Self::Flag => Shape::Boolean,
            Self::Texts { .. } => Shape::Strings,
            Self::Array { .. } => Shape::Array,
            Self::Object { .. } => Shape::Object,
            Self::Json => Shape::Any,
        }
    }
}

/// Description of a valid value for a refusal: `an integer from 1 to 100`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Text { min: 1, max: usize::MAX, .. } => f.write_str("a string that is not empty"),
            Self::Text { max: usize::MAX, .. } => f.write_str("a string"),
            Self::Text { min, max, .. } => write!(f, "a string of {min} to {max} characters"),
            Self::Moment => f.write_str("a time, a sequence or the name of a snapshot"),
            Self::Words([word]) => write!(f, "\"{word}\" or missing"),
            Self::Words(words) => write!(f, "one of \"{}\"", words.join("\", \"")),
            Self::Time { .. } => f.write_str("a time such as 2026-01-31T12:00:00Z"),
            Self::Integer { min, max } => write!(f, "an integer from {min} to {max}"),
            Self::Signed { min, max } => write!(f, "an integer from {min} to {max}"),
            Self::Pair { min, max } => write!(f, "an array of two integers from {min} to {max}"),
            Self::Number { min, max } if min > f64::MIN || max < f64::MAX => {
                write!(f, "a number from {min} to {max}")
            }
            Self::Number { .. } => f.write_str("a number"),
            Self::Flag => f.write_str("true or false"),
            Self::Texts { max: usize::MAX, .. } => f.write_str("an array of strings"),
            Self::Texts { max, .. } => write!(f, "an array of at most {max} strings"),
            Self::Array { max: usize::MAX, .. } => f.write_str("an array of objects"),
            Self::Array { max, .. } => write!(f, "an array of at most {max} objects"),
            Self::Object { max: usize::MAX, .. } => f.write_str("an object"),
            Self::Object { max, .. } => write!(f, "an object of at most {max} names"),
            Self::Json => f.write_str("JSON"),
        }
    }
}
