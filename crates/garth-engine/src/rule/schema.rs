//! JSON Schema, as rules use it: a closed part of draft 2020-12 in which every keyword is judged, nothing
//! outside of the schema is looked up, and each step is counted, so that judging ends soon whatever the
//! schema and the value are. The dialect: `docs/specs/schemas.md`. The reasons for an implementation of our
//! own: `docs/decisions/schemas-with-a-budget.md`.

mod budget;
mod check;
mod compile;
mod format;
mod json_position;
mod keyword;
mod pattern;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use self::budget::{Budget, MAX_STEPS};
pub use self::check::Wrong;
pub use self::format::is_date_time;

use self::keyword::Keyword;
use super::json::{self, Value};
use crate::error::{Error, Result};

/// Largest text of a schema, in bytes.
pub const MAX_SCHEMA: usize = 64 << 10;

/// Compiled schema.
#[derive(Clone, Debug)]
pub struct Schema {
    /// All schemas in it; the first is the schema itself.
    nodes: Vec<Vec<Keyword>>,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// `InvalidArgument` for a schema that is too large or not JSON, has keywords that are not judged here,
    /// refers to something outside of it or endlessly to itself, or has patterns that are malformed or too
    /// large.
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
    /// The flaw of the value, or that the budget is used up: then none of it is left.
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

/// JSON Schema, as text and compiled.
#[derive(Clone, Debug)]
pub struct SchemaText {
    text: Arc<str>,
    schema: Arc<Schema>,
}

impl SchemaText {
    /// Compiles a schema. `docs/specs/schemas.md` lists the keywords that it may have.
    ///
    /// # Errors
    /// `InvalidArgument` as [`Schema::compile`].
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Self { text: text.into(), schema: Arc::new(Schema::compile(text)?) })
    }

    /// Returns the text as it was given.
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
