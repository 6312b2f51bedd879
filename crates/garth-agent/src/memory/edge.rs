//! `.relations.json` of a memory: the edges that lead from it.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::uri::Uri;
use crate::small_file::pretty;
use garth_engine::error::{Error, ErrorKind, Result};

/// Most edges that lead from one memory.
pub const MAX_EDGES: usize = 1000;

/// Most bytes of a relation's type, and of its reason.
const MAX_TYPE: usize = 128;
const MAX_REASON: usize = 4096;

/// An edge. There is at most one of a type between two memories.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// The memory that it leads from.
    pub from_uri: String,
    /// The memory that it leads to.
    pub to_uri: String,
    /// What it says, such as `related_to`.
    pub relation_type: String,
    /// How strong it is, 0 to 1.
    #[serde(default = "full")]
    pub weight: f64,
    /// Why it is there.
    #[serde(default)]
    pub reason: String,
    /// Fields that others have put there.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Weight of an edge that says none.
const fn full() -> f64 {
    1.0
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

/// Returns the edges of a memory that an index is told of: those that garth would take. Others may lie in a
/// file that was edited by hand, and stay there.
pub fn told(uri: &Uri, edges: &[Edge]) -> Vec<Edge> {
    let own = uri.to_string();
    let leads = |edge: &Edge| {
        edge.to_uri.parse::<Uri>().is_ok_and(|to| to.account() == uri.account()) && edge.from_uri == own
    };
    edges.iter().filter(|edge| edge.check().is_ok() && leads(edge)).cloned().collect()
}

/// Reads `.relations.json`.
///
/// # Errors
/// `InvalidArgument` for what is none.
pub fn parse(text: &[u8]) -> Result<Vec<Edge>> {
    serde_json::from_slice(text).map_err(|error| Error::invalid(format!(".relations.json: {error}")))
}

/// What stands in `.relations.json`: an edge, or what others have written there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Entry {
    /// An edge.
    Edge(Edge),
    /// Anything else.
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

    /// Whether it leads to a memory.
    pub fn leads_to(&self, uri: &str) -> bool {
        self.field("to_uri") == Some(uri)
    }

    fn lead_to(&mut self, uri: &str) {
        match self {
            Self::Edge(edge) => uri.clone_into(&mut edge.to_uri),
            Self::Other(value) => value["to_uri"] = uri.into(),
        }
    }
}

/// Entries without those that lead to a URI, or with them leading to another; of several of a type to one
/// memory the first stays. `None` if none leads there.
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
        let is_first = to.is_none() || seen.insert((to, kind));
        is_first.then_some(entry)
    });
    Some(kept.collect())
}

/// Returns the text of `.relations.json`.
///
/// # Errors
/// `InvalidArgument` for what has no JSON form.
pub fn to_json<T: Serialize>(edges: &[T]) -> Result<String> {
    pretty(edges)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn edges_to_what_is_gone_go_and_those_to_what_moved_follow_it_once() {
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
