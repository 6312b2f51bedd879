//! JSON Schema, as rules use it: a closed part of draft 2020-12 in which every keyword is judged, nothing
//! outside the schema is looked up, and each step is counted, so that whatever schema meets whatever value
//! ends soon. The dialect: `docs/specs/schemas.md`. Why it is made here:
//! `docs/decisions/schemas-with-a-budget.md`.

mod budget;
mod check;
mod compile;
mod format;
mod keyword;
mod pattern;
#[cfg(test)]
mod tests;
mod way;

use std::sync::Arc;

pub use self::budget::{Budget, MAX_STEPS};
pub use self::check::Wrong;
pub use self::format::is_date_time;

use self::keyword::Keyword;
use super::json::{self, Value};
use crate::error::{Error, Result};

/// Largest text of a schema, in bytes.
pub const MAX_SCHEMA: usize = 64 << 10;

/// A schema, ready to judge values.
#[derive(Clone, Debug)]
pub struct Schema {
    /// All schemas in it; the first is the whole.
    nodes: Vec<Vec<Keyword>>,
}

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
