//! Layers of a crate: which of its modules may use which.

use super::arrows::{Arrow, Crate};
use crate::tidy::finding::Finding;

/// Layers that every layer of the same crate may use.
const VOCABULARY: &str = "path error env model text";

/// Layers: directory of the crate, module, and the layers that it may use besides [`VOCABULARY`], as
/// ARCHITECTURE.md draws them. A file belongs to the longest module that holds it. A module may always use
/// what is inside it, and what it is inside of. A crate without layers is not checked.
const LAYERS: [(&str, &str, &str); 16] = [
    ("crates/garth-engine", "path", ""),
    ("crates/garth-engine", "error", ""),
    ("crates/garth-engine", "env", ""),
    ("crates/garth-engine", "model", ""),
    ("crates/garth-engine", "text", ""),
    ("crates/garth-engine", "rule", ""),
    ("crates/garth-engine", "runtime", ""),
    ("crates/garth-engine", "fs", "rule"),
    ("crates/garth-engine", "sqlite", "runtime"),
    ("crates/garth-engine", "engine", "fs"),
    ("crates/garth-engine", "engine::planner", "fs rule"),
    ("crates/garth-engine", "engine::host", "fs runtime"),
    ("crates/garth-engine", "engine::memory", "fs rule"),
    ("crates/garth-engine", "engine::sqlite", "fs rule runtime sqlite engine::planner"),
    ("crates/garth-engine", "view", "fs"),
    ("crates/garth-engine", "datadir", "fs engine runtime sqlite rule"),
];

/// Finds the arrows of the crate in `root` that lead where its layers do not allow it.
pub(super) fn check(root: &str, files: &Crate<'_>, arrows: &[Arrow]) -> Vec<Finding> {
    let layers: Vec<_> = LAYERS
        .into_iter()
        .filter(|(name, ..)| *name == root)
        .map(|(_, layer, may_use)| (layer, may_use))
        .collect();
    if layers.is_empty() {
        return Vec::new();
    }
    arrows.iter().filter_map(|arrow| forbidden(&layers, files, arrow)).collect()
}

fn forbidden(layers: &[(&str, &str)], files: &Crate<'_>, arrow: &Arrow) -> Option<Finding> {
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
    if to == from || VOCABULARY.split(' ').chain(may_use.split(' ')).any(is_or_holds) {
        return None;
    }
    let may_use = if may_use.is_empty() { "nothing" } else { may_use };
    let message = format!(
        "`{from}` uses `{to}`, but may use {may_use} besides {VOCABULARY}: move what is shared down, or turn \
         the call round"
    );
    Some(arrow.finding(path, &message))
}
