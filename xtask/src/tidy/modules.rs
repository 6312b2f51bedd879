//! Rules for the modules of a crate: which may use which, and no circle between files. What a file uses is
//! read from its `use` items, its qualified paths and its macro calls, and followed through re-exports to the
//! file that has it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::{Files, Finding};

/// Vocabulary: may be used by everything and uses nothing else.
const BASE: &str = "error path env model";

/// What each layer of `crates/garth/src` may use besides [`BASE`], as ARCHITECTURE.md draws it. A file
/// belongs to the longest prefix that it has. A module may always use what is inside it, and what it is
/// inside of.
const LAYERS: [(&str, &str); 17] = [
    ("error", ""),
    ("path", ""),
    ("env", ""),
    ("model", ""),
    ("text", ""),
    ("rule", "text"),
    ("runtime", ""),
    ("fs", "rule"),
    ("sqlite", "runtime"),
    ("engine", "fs"),
    ("engine::planner", "fs text rule"),
    ("engine::host", "fs runtime"),
    ("engine::memory", "fs text rule"),
    ("engine::sqlite", "fs text rule runtime sqlite engine::planner"),
    ("view", "fs"),
    ("agent", "fs view rule text"),
    ("datadir", "fs engine runtime sqlite"),
];

/// The crate that [`LAYERS`] is about.
const LAYERED: &str = "crates/garth";

/// How many re-exports are followed from one name.
const MAX_EXPORTS: usize = 8;

/// A module's path from the root of its crate.
type Module = Vec<String>;

/// Finds arrows that are not allowed and circles.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let roots = files
        .keys()
        .filter_map(|path| path.strip_suffix("/src/lib.rs").or_else(|| path.strip_suffix("/src/main.rs")));
    let roots: BTreeSet<&str> = roots.collect();
    let mut findings = Vec::new();
    for root in roots {
        let found = Crate::read(root, files);
        let edges = found.edges();
        if root == LAYERED {
            findings.extend(edges.iter().filter_map(|edge| found.forbidden(edge)));
        }
        findings.extend(found.circles(&edges));
    }
    findings
}

/// The files of a crate by module.
struct Crate<'a> {
    sources: BTreeMap<Module, Source<'a>>,
}

/// One file.
struct Source<'a> {
    path: &'a str,
    names: Names,
}

/// A file uses another.
struct Edge {
    from: Module,
    to: Module,
    line: usize,
}

impl<'a> Crate<'a> {
    fn read(root: &str, files: &'a Files) -> Self {
        let folder = format!("{root}/src/");
        let has_lib = files.contains_key(&format!("{folder}lib.rs"));
        let mut sources = BTreeMap::new();
        for (path, content) in files {
            let Some(inside) = path.strip_prefix(&folder).and_then(|path| path.strip_suffix(".rs")) else {
                continue;
            };
            let module: Module = match inside {
                "lib" => Vec::new(),
                "main" if has_lib => continue,
                "main" => Vec::new(),
                _ => inside.split('/').map(str::to_owned).collect(),
            };
            let is_test = module.last().is_some_and(|name| name == "tests");
            let is_binary = module.first().is_some_and(|name| name == "bin");
            // what does not parse is a finding of another rule
            let Ok(file) = syn::parse_file(content) else { continue };
            if !is_test && !is_binary {
                sources.insert(module.clone(), Source { path, names: Names::of(module, &file) });
            }
        }
        Self { sources }
    }

    /// What uses what, once for each pair of files.
    fn edges(&self) -> Vec<Edge> {
        let mut edges = BTreeMap::new();
        for (from, source) in &self.sources {
            for (path, line) in &source.names.used {
                let target = self.file_of(path, MAX_EXPORTS);
                if let Some(to) = target.filter(|to| to != from) {
                    edges.entry((from.clone(), to)).or_insert(*line);
                }
            }
        }
        edges.into_iter().map(|((from, to), line)| Edge { from, to, line }).collect()
    }

    /// The file that has what a path names; `None` for what is not of this crate.
    fn file_of(&self, path: &Named, follow: usize) -> Option<Module> {
        let length = (0..=path.segments.len())
            .rev()
            .find(|length| self.sources.contains_key(&path.segments[..*length]))?;
        if length < path.least {
            return None;
        }
        let (module, rest) = path.segments.split_at(length);
        let exported = rest
            .first()
            .filter(|_| follow > 0)
            .and_then(|name| self.exported(module, name, &rest[1..], follow - 1));
        Some(exported.unwrap_or_else(|| module.to_vec()))
    }

    /// Where a name comes from that a module imports, and so may give on.
    fn exported(&self, module: &[String], name: &str, rest: &[String], follow: usize) -> Option<Module> {
        let names = &self.sources.get(module)?.names;
        if names.defined.contains(name) {
            return None;
        }
        let by_name = names.imported.iter().filter(|(imported, _)| imported == name);
        let by_name = by_name.map(|(_, path)| path.with(rest)).collect::<Vec<_>>();
        if let Some(found) = by_name.iter().find_map(|path| self.file_of(path, follow)) {
            return Some(found);
        }
        let globs = names.globs.iter().filter_map(|path| self.file_of(path, follow));
        globs
            .into_iter()
            .find(|glob| self.sources.get(glob).is_some_and(|source| source.names.defined.contains(name)))
    }

    fn path(&self, module: &[String]) -> &'a str {
        self.sources.get(module).map_or("", |source| source.path)
    }

    fn forbidden(&self, edge: &Edge) -> Option<Finding> {
        if edge.is_kinship() {
            return None;
        }
        let layer_of = |module: &[String]| {
            let name = module.join("::");
            let inside = |layer: &str| {
                name.strip_prefix(layer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
            };
            LAYERS.into_iter().filter(|(layer, _)| inside(layer)).max_by_key(|(layer, _)| layer.len())
        };
        let path = self.path(&edge.from);
        let Some((from, may_use)) = layer_of(&edge.from) else {
            let message =
                "is in no layer: add it to LAYERS in xtask/src/tidy/modules.rs and to ARCHITECTURE.md";
            return Some(Finding::new(path, 1, message));
        };
        let (to, _) = layer_of(&edge.to)?;
        let is_or_holds = |allowed: &str| {
            to == allowed || to.strip_prefix(allowed).is_some_and(|rest| rest.starts_with("::"))
        };
        if to == from || BASE.split(' ').chain(may_use.split(' ')).any(is_or_holds) {
            return None;
        }
        let may_use = if may_use.is_empty() { "nothing" } else { may_use };
        let message = format!(
            "`{from}` uses `{to}`, but may use {may_use} besides {BASE}: move what is shared down, or \
             turn the call round"
        );
        Some(edge.finding(path, &message))
    }

    /// One finding for each set of files that use each other in a circle: the shortest such circle.
    fn circles(&self, edges: &[Edge]) -> Vec<Finding> {
        let mut uses = BTreeMap::<&Module, Vec<&Edge>>::new();
        for edge in edges.iter().filter(|edge| !edge.is_kinship()) {
            uses.entry(&edge.from).or_default().push(edge);
        }
        let mut seen = BTreeSet::new();
        let mut findings = Vec::new();
        for start in uses.keys() {
            if seen.contains(start) {
                continue;
            }
            if let Some(circle) = circle(start, &uses) {
                let paths = circle.iter().map(|edge| self.path(&edge.from)).chain([self.path(start)]);
                let message = format!(
                    "uses itself: {}; move what both need into a file of its own",
                    paths.collect::<Vec<_>>().join(" → ")
                );
                findings.push(circle[0].finding(self.path(start), &message));
                seen.extend(circle.into_iter().map(|edge| &edge.from));
            }
        }
        findings
    }
}

/// The shortest way from a file back to itself.
fn circle<'a>(start: &Module, uses: &BTreeMap<&'a Module, Vec<&'a Edge>>) -> Option<Vec<&'a Edge>> {
    let mut came_by = BTreeMap::<&Module, &Edge>::new();
    let mut waiting = VecDeque::from([start]);
    while let Some(module) = waiting.pop_front() {
        for edge in uses.get(module).into_iter().flatten() {
            if edge.to == *start {
                let mut way = vec![*edge];
                while way.last().is_some_and(|edge| edge.from != *start) {
                    way.push(came_by[&way[way.len() - 1].from]);
                }
                way.reverse();
                return Some(way);
            }
            if !came_by.contains_key(&edge.to) {
                came_by.insert(&edge.to, edge);
                waiting.push_back(&edge.to);
            }
        }
    }
    None
}

impl Edge {
    /// Whether one of the two is a module inside the other: a module composes its children, and they see what
    /// is in it.
    fn is_kinship(&self) -> bool {
        self.from.starts_with(&self.to) || self.to.starts_with(&self.from)
    }

    fn finding(&self, path: &str, message: &str) -> Finding {
        Finding::new(path, self.line, message)
    }
}

/// A path from the root of the crate, perhaps: one that begins with a plain name may be of another crate,
/// unless at least its first `least` segments name a module here.
#[derive(Clone)]
struct Named {
    segments: Vec<String>,
    least: usize,
}

impl Named {
    /// What `segments` means inside `module`.
    fn inside(module: &[String], segments: &[String]) -> Option<Self> {
        let mut base = module.to_vec();
        let mut rest = segments;
        let mut least = 0;
        match rest.first()?.as_str() {
            "crate" => {
                base.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {}
            _ => least = module.len() + 1,
        }
        while rest.first().is_some_and(|segment| segment == "super") {
            base.pop()?;
            rest = &rest[1..];
        }
        base.extend_from_slice(rest);
        Some(Self { segments: base, least })
    }

    fn with(&self, rest: &[String]) -> Self {
        let segments = self.segments.iter().chain(rest).cloned().collect();
        Self { segments, least: self.least }
    }
}

/// The names that a file uses, imports and defines; those of its tests left out.
#[derive(Default)]
struct Names {
    /// The module that is being read: the file's, or an inline one in it.
    module: Module,
    used: Vec<(Named, usize)>,
    imported: Vec<(String, Named)>,
    globs: Vec<Named>,
    defined: BTreeSet<String>,
}

impl Names {
    fn of(module: Module, file: &syn::File) -> Self {
        let mut names = Self { module, ..Self::default() };
        names.visit_file(file);
        names
    }

    fn add(&mut self, segments: &[String], line: usize) {
        self.used.extend(Named::inside(&self.module, segments).map(|path| (path, line)));
    }

    fn import(&mut self, tree: &syn::UseTree, mut to: Vec<String>, line: usize) {
        match tree {
            syn::UseTree::Path(path) => {
                to.push(path.ident.to_string());
                self.import(&path.tree, to, line);
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, to.clone(), line));
            }
            syn::UseTree::Glob(_) => {
                self.add(&to, line);
                self.globs.extend(Named::inside(&self.module, &to));
            }
            syn::UseTree::Name(name) => self.import_as(to, &name.ident, &name.ident, line),
            syn::UseTree::Rename(name) => self.import_as(to, &name.ident, &name.rename, line),
        }
    }

    fn import_as(&mut self, mut to: Vec<String>, name: &syn::Ident, known_as: &syn::Ident, line: usize) {
        let mut known_as = known_as.to_string();
        if name == "self" {
            known_as = to.last().cloned().unwrap_or_default();
        } else {
            to.push(name.to_string());
        }
        self.add(&to, line);
        self.imported.extend(Named::inside(&self.module, &to).map(|path| (known_as, path)));
    }

    /// Paths in the tokens of a macro call, which nobody has parsed.
    fn scan(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut colons, mut line) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if path.is_empty() || colons == 2 => {
                    if path.is_empty() {
                        line = ident.span().start().line;
                    }
                    path.push(ident.to_string());
                    colons = 0;
                    continue;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() && colons < 2 => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) => {
                    self.end_of_path(&mut path, line);
                    (path, colons, line) = (vec![ident.to_string()], 0, ident.span().start().line);
                    continue;
                }
                TokenTree::Group(group) => self.scan(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            self.end_of_path(&mut path, line);
            colons = 0;
        }
        self.end_of_path(&mut path, line);
    }

    fn end_of_path(&mut self, path: &mut Vec<String>, line: usize) {
        if path.len() > 1 {
            self.add(path, line);
        }
        path.clear();
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        use syn::Item::{Const, Enum, Fn, Mod, Static, Struct, Trait, Type, Union};
        let name = match item {
            Const(item) => Some(&item.ident),
            Enum(item) => Some(&item.ident),
            Fn(item) => Some(&item.sig.ident),
            Mod(item) => item.content.as_ref().map(|_| &item.ident),
            Static(item) => Some(&item.ident),
            Struct(item) => Some(&item.ident),
            Trait(item) => Some(&item.ident),
            Type(item) => Some(&item.ident),
            Union(item) => Some(&item.ident),
            _ => None,
        };
        self.defined.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident == "tests" {
            return;
        }
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&item.tree, Vec::new(), item.span().start().line);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 && path.leading_colon.is_none() {
            self.add(&segments, path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.scan(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a crate of these files below its `src/`.
    fn found<const N: usize>(root: &str, sources: [(&str, &str); N]) -> Vec<String> {
        let file = |(path, source): (&str, &str)| (format!("{root}/src/{path}"), source.to_owned());
        let files = sources.into_iter().map(file).collect();
        let line = |finding: Finding| format!("{}:{}: {}", finding.path, finding.line, finding.message);
        check(&files).into_iter().map(line).collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        let a = ("a.rs", "use crate::b::B;\npub struct A;\n");
        let lib = ("lib.rs", "mod a;\nmod b;\n");
        assert_eq!(found("x", [lib, a, ("b.rs", "pub struct B;\n")]), [""; 0]);
        let both = found("x", [lib, a, ("b.rs", "pub struct B;\nfn f() -> Option<super::a::A> { None }\n")]);
        assert_eq!(both.len(), 1);
        assert!(
            both[0].starts_with("x/src/a.rs:1: uses itself: x/src/a.rs → x/src/b.rs → x/src/a.rs;"),
            "{both:?}"
        );
    }

    #[test]
    fn a_path_in_a_macro_call_and_one_through_a_reexport_count() {
        let lib = ("main.rs", "mod a;\nmod b;\npub(crate) use b::{c::C, d as e};\n");
        let a = ("a.rs", "pub struct A;\nfn f() { println!(\"{}\", crate::C::new()); }\n");
        let b = ("b.rs", "pub mod c;\npub mod d;\n");
        let c = ("b/c.rs", "pub struct C;\nuse crate::a::{self};\n");
        assert_eq!(found("x", [lib, a, b, c]).len(), 1);
        assert_eq!(found("x", [lib, a, b, ("b/c.rs", "pub struct C;\n")]), [""; 0]);
    }

    #[test]
    fn a_module_composes_its_children_and_they_see_what_is_in_it() {
        let parent = ("p.rs", "mod c;\nmod d;\npub use self::c::*;\nfn f() { c::g(); }\n");
        let child = ("p/c.rs", "use super::f;\npub fn g() {}\n");
        assert_eq!(
            found("x", [("lib.rs", "mod p;\n"), parent, child, ("p/d.rs", "use super::f;\n")]),
            [""; 0]
        );
        // children that use each other through their parent's names do not see their parent
        let sibling = ("p/d.rs", "use super::g;\npub fn h() {}\n");
        let child = ("p/c.rs", "use super::d::h;\npub fn g() {}\n");
        assert_eq!(found("x", [("lib.rs", "mod p;\n"), parent, child, sibling]).len(), 1);
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let a = ("a.rs", "use crate::b::B;\n");
        let b = ("b.rs", "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n");
        assert_eq!(found("x", [("lib.rs", ""), a, b]), [""; 0]);
    }

    #[test]
    fn a_layer_uses_those_below_it_only() {
        let lib = ("lib.rs", "pub use engine::E;\n");
        let engine = ("engine.rs", "use crate::fs::Fs;\npub struct E;\n");
        let fs = ("fs.rs", "use crate::model::M;\npub struct Fs;\n");
        let model = ("model.rs", "pub struct M;\n");
        assert_eq!(found(LAYERED, [lib, engine, fs, model]), [""; 0]);
        let agent = ("agent/kv.rs", "//! why\nuse crate::E;\n");
        let wrong = found(LAYERED, [lib, engine, fs, model, agent]);
        assert_eq!(wrong.len(), 1);
        assert!(
            wrong[0]
                .starts_with("crates/garth/src/agent/kv.rs:2: `agent` uses `engine`, but may use fs view"),
            "{wrong:?}"
        );
    }

    #[test]
    fn engines_share_the_planner_only_and_a_new_module_needs_a_layer() {
        let base = [("lib.rs", ""), ("engine/planner.rs", "pub fn plan() {}\n")];
        let [lib, planner] = base;
        let uses_planner = "use crate::engine::planner::plan;\n";
        assert_eq!(found(LAYERED, [lib, planner, ("engine/sqlite.rs", uses_planner)]), [""; 0]);
        assert_eq!(found(LAYERED, [lib, planner, ("engine/memory.rs", uses_planner)]).len(), 1);
        assert!(found(LAYERED, [lib, planner, ("new.rs", uses_planner)])[0].contains("is in no layer"));
    }
}
