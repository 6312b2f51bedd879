//! `.relations.json` of a context node: the edges that lead from it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::files::pretty;
use crate::error::{Error, ErrorKind, Result};

/// Most edges that lead from one node.
pub const MAX_EDGES: usize = 1000;

/// Most bytes of a relation's type, and of its reason.
const MAX_TYPE: usize = 128;
const MAX_REASON: usize = 4096;

/// An edge. There is at most one of a type between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// The node that it leads from.
    pub from_uri: String,
    /// The node that it leads to.
    pub to_uri: String,
    /// What it says, such as `related_to`.
    pub relation_type: String,
    /// How strong it is, 0 to 1.
    pub weight: f64,
    /// Why it is there.
    #[serde(default)]
    pub reason: String,
    /// Fields that others have put there.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Edge {
    /// Refuses what is no edge.
    ///
    /// # Errors
    /// `InvalidArgument`, `TooLarge`.
    pub fn check(&self) -> Result<()> {
        if !(0.0..=1.0).contains(&self.weight) {
            return Err(Error::invalid("the weight of a relation is a number from 0 to 1"));
        }
        if self.relation_type.is_empty() || self.relation_type.chars().any(char::is_control) {
            return Err(Error::invalid(
                "a relation has a type, such as related_to, without control characters",
            ));
        }
        if self.relation_type.len() > MAX_TYPE || self.reason.len() > MAX_REASON {
            let message = format!("a relation's type has at most {MAX_TYPE} bytes, its reason {MAX_REASON}");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(())
    }
}

/// Reads `.relations.json`.
///
/// # Errors
/// `InvalidArgument` for what is none.
pub fn parse(text: &[u8]) -> Result<Vec<Edge>> {
    serde_json::from_slice(text).map_err(|error| Error::invalid(format!(".relations.json: {error}")))
}

/// As `.relations.json` has them.
pub fn to_json(edges: &[Edge]) -> String {
    pretty(edges)
}
