//! Layers of a crate: the permitted dependencies of its modules.

use super::arrows::{Arrow, Crate};
use crate::tidy::finding::Finding;

/// Vocabulary of each crate with layers: the modules that all its layers may use.
const VOCABULARY: [(&str, &str); 2] = [
    (
        "crates/garth-agent",
        "count free_name identity ids json_objects nearest one_word retry settings small_file time_zone",
    ),
    ("crates/garth-engine", "path error env model stats text compute threads"),
];

/// Layers: directory of the crate, module, and the layers that it may use in addition to the [`VOCABULARY`],
/// as ARCHITECTURE.md draws them. A file belongs to the longest matching module. A module may always use its
/// children and its parents. A module of the vocabulary uses only the vocabulary of its crate. A crate
/// without vocabulary is not checked.
const LAYERS: [(&str, &str, &str); 31] = [
    ("crates/garth-agent", "registry", ""),
    ("crates/garth-agent", "chat", ""),
    ("crates/garth-agent", "files", ""),
    ("crates/garth-agent", "kv", "registry"),
    ("crates/garth-agent", "media", "registry"),
    ("crates/garth-agent", "models", ""),
    ("crates/garth-agent", "memory", "registry"),
    ("crates/garth-agent", "memory_tool", "files"),
    ("crates/garth-agent", "outbox", "memory registry"),
    ("crates/garth-agent", "account_paths", "memory"),
    ("crates/garth-agent", "recall", "account_paths memory models registry session workspace"),
    ("crates/garth-agent", "search", "account_paths kv memory recall registry session"),
    ("crates/garth-agent", "eval", "memory recall session"),
    ("crates/garth-agent", "tree", "chat memory"),
    ("crates/garth-agent", "session", "media models memory registry"),
    ("crates/garth-agent", "workspace", "files media models memory registry session"),
    ("crates/garth-agent", "access", "chat kv media memory recall registry search session tree workspace"),
    ("crates/garth-engine", "rule", ""),
    ("crates/garth-engine", "runtime", ""),
    ("crates/garth-engine", "fs", "rule"),
    ("crates/garth-engine", "sqlite", "runtime"),
    ("crates/garth-engine", "engine", "fs"),
    ("crates/garth-engine", "engine::planner", "fs rule engine::search"),
    ("crates/garth-engine", "engine::relational", "fs rule engine::planner"),
    ("crates/garth-engine", "engine::search", "fs rule"),
    ("crates/garth-engine", "engine::host", "fs runtime"),
    ("crates/garth-engine", "engine::memory", "fs rule engine::search"),
    (
        "crates/garth-engine",
        "engine::sqlite",
        "fs rule runtime sqlite engine::planner engine::relational engine::search",
    ),
    ("crates/garth-engine", "view", "fs"),
    ("crates/garth-engine", "home", "fs"),
    ("crates/garth-engine", "datadir", "fs home engine runtime sqlite rule"),
];

/// Finds dependencies of the crate in `root` that its layers do not permit.
pub(super) fn check(root: &str, files: &Crate<'_>, arrows: &[Arrow]) -> Vec<Finding> {
    let Some((_, vocabulary)) = VOCABULARY.into_iter().find(|(name, _)| *name == root) else {
        return Vec::new();
    };
    let own = LAYERS.into_iter().filter(|(name, ..)| *name == root).map(|(_, layer, uses)| (layer, uses));
    let layers: Vec<_> = own.chain(vocabulary.split(' ').map(|layer| (layer, ""))).collect();
    arrows.iter().filter_map(|arrow| forbidden(vocabulary, &layers, files, arrow)).collect()
}

fn forbidden(vocabulary: &str, layers: &[(&str, &str)], files: &Crate<'_>, arrow: &Arrow) -> Option<Finding> {
    if arrow.is_kinship() {
        return None;
    }
    let layer_of = |module: &[String]| {
        let name = module.join("::");
        let inside = |layer: &str| {
            name.strip_prefix(layer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        layers.iter().copied().filter(|(layer, _)| inside(layer)).max_by_key(|(layer, _)| layer.len())
    };
    let path = files.path(&arrow.from);
    let Some((from, may_use)) = layer_of(&arrow.from) else {
        let message =
            "is in no layer: add it to LAYERS in xtask/src/tidy/modules/layers.rs and to ARCHITECTURE.md";
        return Some(Finding::new(path, 1, message));
    };
    let (to, _) = layer_of(&arrow.to)?;
    let is_or_holds =
        |allowed: &str| to == allowed || to.strip_prefix(allowed).is_some_and(|rest| rest.starts_with("::"));
    if to == from || vocabulary.split(' ').chain(may_use.split(' ')).any(is_or_holds) {
        return None;
    }
    let may_use = if may_use.is_empty() { "nothing" } else { may_use };
    let message = format!(
        "`{from}` uses `{to}`, but may use {may_use} besides {vocabulary}: move what is shared down, or turn \
         the call round"
    );
    Some(arrow.finding(path, &message))
}
