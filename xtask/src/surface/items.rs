//! Public items of the library, each with the path by which a program names it.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::crates::{Crates, Item};
use super::signature::{Generics, function, generics, shown};

/// Traits that every type has, or that rustdoc alone sees.
const NOT_SAID: [&str; 12] = [
    "Freeze",
    "RefUnwindSafe",
    "Send",
    "Sync",
    "Unpin",
    "UnsafeUnpin",
    "UnwindSafe",
    "Any",
    "StructuralPartialEq",
    "CloneToUninit",
    "ToOwned",
    "ToString",
];

/// Returns the surface, one line an item.
pub(super) fn listed(crates: &Crates) -> Vec<String> {
    let mut surface = Surface { lines: BTreeSet::new(), seen: HashSet::new() };
    let Some(root) = crates.root() else { return Vec::new() };
    surface.module(root, root.name());
    surface.lines.into_iter().collect()
}

struct Surface {
    lines: BTreeSet<String>,
    seen: HashSet<(usize, u64)>,
}

impl Surface {
    /// Adds the items of a module, those of the modules in it last: an item that is exported twice is
    /// described where its path is shorter, and named at the other place.
    fn module(&mut self, module: Item<'_>, path: &str) {
        if !self.seen.insert(module.key()) {
            return;
        }
        if path.contains("::") {
            self.lines.insert(format!("mod {path}"));
        }
        let Some((_, inner)) = module.inner() else { return };
        let mut modules = Vec::new();
        for item in module.each(&inner["items"]) {
            let (name, item) = match item.inner() {
                Some(("use", used)) => {
                    let target = used["id"].as_u64().and_then(|id| item.target(id));
                    let Some(target) = target else { continue };
                    (used["name"].as_str().unwrap_or_default(), target)
                }
                _ => (item.name(), item),
            };
            let path = format!("{path}::{name}");
            match item.inner() {
                Some(("module", _)) => modules.push((item, path)),
                _ => self.item(item, &path),
            }
        }
        for (item, path) in modules {
            self.module(item, &path);
        }
    }

    fn item(&mut self, item: Item<'_>, path: &str) {
        if !self.seen.insert(item.key()) {
            self.lines.insert(format!("use {path}"));
            return;
        }
        let Some((kind, inner)) = item.inner() else { return };
        let Generics { named, wheres } = generics(&inner["generics"]);
        match kind {
            "struct" => {
                self.lines.insert(format!(
                    "struct {path}{named}{wheres}{}{}",
                    exhaustive(item),
                    traits(item, inner)
                ));
                let (plain, tuple) = (&inner["kind"]["plain"]["fields"], &inner["kind"]["tuple"]);
                self.fields(item, plain, path);
                self.fields(item, tuple, path);
                self.methods(item, inner, path);
            }
            "enum" => {
                self.lines.insert(format!(
                    "enum {path}{named}{wheres}{}{}",
                    exhaustive(item),
                    traits(item, inner)
                ));
                for variant in item.each(&inner["variants"]) {
                    self.variant(variant, path);
                }
                self.methods(item, inner, path);
            }
            "trait" => {
                let bounds = shown_bounds(&inner["bounds"]);
                self.lines.insert(format!("trait {path}{named}{bounds}{wheres}"));
                item.each(&inner["items"]).for_each(|member| self.member(member, path));
            }
            "function" => {
                self.lines.insert(function(path, inner));
            }
            "type_alias" => {
                self.lines.insert(format!("type {path}{named} = {}", shown(&inner["type"])));
            }
            "constant" => {
                self.lines.insert(format!("const {path}: {}", shown(&inner["type"])));
            }
            _ => {
                self.lines.insert(format!("{kind} {path}"));
            }
        }
    }

    fn variant(&mut self, variant: Item<'_>, path: &str) {
        let path = format!("{path}::{}", variant.name());
        let Some((_, inner)) = variant.inner() else { return };
        let (kind, types) = (&inner["kind"], |fields: &Value| {
            let each = variant.each(fields).filter_map(Item::inner);
            each.map(|(_, of)| shown(of)).collect::<Vec<_>>().join(", ")
        });
        if kind["tuple"].is_array() {
            self.lines.insert(format!("variant {path}({})", types(&kind["tuple"])));
            return;
        }
        self.lines.insert(format!("variant {path}"));
        self.fields(variant, &kind["struct"]["fields"], &path);
    }

    fn fields(&mut self, of: Item<'_>, fields: &Value, path: &str) {
        for field in of.each(fields) {
            let Some(("struct_field", inner)) = field.inner() else { continue };
            self.lines.insert(format!("field {path}::{}: {}", field.name(), shown(inner)));
        }
    }

    /// Adds the methods and constants of a type, but for those of traits: [`traits`] names these.
    fn methods(&mut self, item: Item<'_>, inner: &Value, path: &str) {
        for block in item.each(&inner["impls"]) {
            let Some((_, block_inner)) = block.inner().filter(|(_, block)| block["trait"].is_null()) else {
                continue;
            };
            for member in block.each(&block_inner["items"]) {
                if member.json["visibility"] == "public" {
                    self.member(member, path);
                }
            }
        }
    }

    fn member(&mut self, member: Item<'_>, path: &str) {
        let path = format!("{path}::{}", member.name());
        let line = match member.inner() {
            Some(("function", inner)) => function(&path, inner),
            Some(("assoc_const", inner)) => format!("const {path}: {}", shown(&inner["type"])),
            Some((_, _)) => format!("type {path}"),
            None => return,
        };
        self.lines.insert(line);
    }
}

fn exhaustive(item: Item<'_>) -> &'static str {
    let attributes = item.json["attrs"].as_array().into_iter().flatten();
    if attributes.into_iter().any(|attribute| attribute == "non_exhaustive") { ", .." } else { "" }
}

/// Returns the traits of a type, in the order of their names.
fn traits(item: Item<'_>, inner: &Value) -> String {
    let blocks = item.each(&inner["impls"]).filter_map(Item::inner).map(|(_, block)| block);
    let own = blocks.filter(|block| {
        block["blanket_impl"].is_null() && block["is_synthetic"] == false && !block["trait"].is_null()
    });
    let named: BTreeSet<String> = own.map(|block| shown_trait(&block["trait"])).collect();
    let said: Vec<String> = named.into_iter().filter(|name| !NOT_SAID.contains(&name.as_str())).collect();
    if said.is_empty() { String::new() } else { format!(": {}", said.join(" + ")) }
}

fn shown_trait(of: &Value) -> String {
    shown(&serde_json::json!({ "resolved_path": of }))
}

fn shown_bounds(bounds: &Value) -> String {
    let bounds = super::signature::bounds(bounds);
    if bounds.is_empty() { bounds } else { format!(": {bounds}") }
}
