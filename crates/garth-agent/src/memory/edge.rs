//! Edges that lead from a memory, in its `.relations.json`.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::uri::Uri;
use crate::small_file::pretty;
use garth_engine::error::{Error, ErrorKind, Result};

/// Limit on the edges that lead from one memory.
pub const MAX_EDGES: usize = 1000;

/// Limit on the bytes of a relation's type.
const MAX_TYPE: usize = 128;
/// Limit on the bytes of a relation's reason.
const MAX_REASON: usize = 4096;

/// Edge. At most one of each type leads from one memory to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MemoryRelation")]
pub struct Edge {
    /// URI of the memory that it leads from.
    pub from_uri: String,
    /// URI of the memory that it leads to.
    pub to_uri: String,
    /// Type, such as `related_to`.
    pub relation_type: String,
    /// Weight, 0 to 1.
    #[serde(default = "full")]
    pub weight: f64,
    /// Reason.
    #[serde(default)]
    pub reason: String,
    /// Unknown fields, which are preserved.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Returns the default weight.
const fn full() -> f64 {
    1.0
}

impl Edge {
    /// Checks weight, type and reason.
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

/// Returns the edges of a memory that are delivered to an index: those that garth would accept. A file that
/// was edited by hand may contain others, which stay there.
pub fn told(uri: &Uri, edges: &[Edge]) -> Vec<Edge> {
    let own = uri.to_string();
    let leads = |edge: &Edge| {
        edge.to_uri.parse::<Uri>().is_ok_and(|to| to.account() == uri.account()) && edge.from_uri == own
    };
    edges.iter().filter(|edge| edge.check().is_ok() && leads(edge)).cloned().collect()
}

/// Parses `.relations.json`.
///
/// # Errors
/// `InvalidArgument` if the text is not a list of edges.
pub fn parse(text: &[u8]) -> Result<Vec<Edge>> {
    serde_json::from_slice(text).map_err(|error| Error::invalid(format!(".relations.json: {error}")))
}

/// Entry in `.relations.json`: an edge, or a value of another program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Entry {
    /// Edge.
    Edge(Edge),
    /// Any other value.
    Other(Value),
}

impl Entry {
    fn field(&self, name: &str) -> Option<&str> {
        match self {
            Self::Edge(edge) if name == "to_uri" => Some(&edge.to_uri),
            Self::Edge(edge) => Some(&edge.relation_type),
            Self::Other(value) => value.get(name)?.as_str(),
        }
    }

    /// Returns true if it leads to a memory.
    pub fn leads_to(&self, uri: &str) -> bool {
        self.field("to_uri") == Some(uri)
    }

    fn lead_to(&mut self, uri: &str) {
        match self {
            Self::Edge(edge) => uri.clone_into(&mut edge.to_uri),
            // Also an entry that is not a valid edge: it would otherwise lead to a URI without a memory.
            Self::Other(value) => value["to_uri"] = uri.into(),
        }
    }
}

/// Redirects the entries that lead to `old` to `new`, or removes them if `new` is `None`. Of several entries
/// of one type to one memory, keeps the first. Returns `None` if no entry leads to `old`.
pub fn redirected(entries: Vec<Entry>, old: &str, new: Option<&str>) -> Option<Vec<Entry>> {
    if !entries.iter().any(|entry| entry.leads_to(old)) {
        return None;
    }
    let mut seen = HashSet::new();
    let kept = entries.into_iter().filter_map(|mut entry| {
        if entry.leads_to(old) {
            entry.lead_to(new?);
        }
        let to = entry.field("to_uri").map(str::to_owned);
        let kind = entry.field("relation_type").map(str::to_owned);
        // A redirected edge may repeat one that already led to `new`.
        let is_first = to.is_none() || seen.insert((to, kind));
        is_first.then_some(entry)
    });
    Some(kept.collect())
}

/// Returns the text of `.relations.json`.
///
/// # Errors
/// `InvalidArgument` for a value that has no JSON form.
pub fn to_json<T: Serialize>(edges: &[T]) -> Result<String> {
    pretty(edges)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn redirects_and_removes_edges_without_duplicates() {
        let edge = |to: &str, kind: &str| {
            let value = json!({"from_uri": "f", "to_uri": to, "relation_type": kind, "weight": 0.5, "x": 1});
            serde_json::from_value::<Entry>(value).unwrap()
        };
        let half = |to: &str| Entry::Other(json!({"to_uri": to}));
        let other = Entry::Other(json!(7));
        let entries = vec![edge("a", "k"), edge("b", "k"), edge("a", "l"), other.clone(), half("a")];
        assert!(matches!(entries[0], Entry::Edge(_)));
        assert_eq!(redirected(entries.clone(), "c", None), None);
        assert_eq!(redirected(entries.clone(), "a", None), Some(vec![edge("b", "k"), other.clone()]));
        let followed = redirected(entries, "a", Some("b")).unwrap();
        assert_eq!(followed, [edge("b", "k"), edge("b", "l"), other, half("b")]);
        let text = to_json(&followed[..1]).unwrap();
        let order = ["from_uri", "to_uri", "relation_type", "weight", "reason", "\"x\""];
        let places: Vec<_> = order.iter().map(|field| text.find(field).unwrap()).collect();
        assert!(places.is_sorted(), "fields stay in their order: {text}");
    }
}
