//! Dependencies between the files of a crate: from each file to the files that define the names it uses.

use std::collections::BTreeMap;

use super::names::{Export, Module, Named, Names, Use};
use crate::tidy::finding::{Files, Finding};

/// Limit on the re-exports that are followed from one name, which ends circular ones.
const MAX_EXPORTS: usize = 8;

/// Files of a crate by module.
pub(super) struct Crate<'a> {
    sources: BTreeMap<Module, Source<'a>>,
}

struct Source<'a> {
    path: &'a str,
    names: Names,
}

/// Dependency of a file on another one.
pub(super) struct Arrow {
    pub(super) from: Module,
    pub(super) to: Module,
    /// First line of `from` that uses `to`.
    line: usize,
}

impl<'a> Crate<'a> {
    /// Reads the crate in the directory `root`. Skips files that do not parse, which another rule finds.
    pub(super) fn read(root: &str, files: &'a Files) -> Self {
        let folder = format!("{root}/src/");
        let has_lib = files.contains_key(&format!("{folder}lib.rs"));
        let mut sources = BTreeMap::new();
        for (path, content) in files {
            let Some(inside) = path.strip_prefix(&folder).and_then(|path| path.strip_suffix(".rs")) else {
                continue;
            };
            let module: Module = match inside {
                "lib" => Vec::new(),
                // The binary uses the library from outside, like another crate.
                "main" if has_lib => continue,
                "main" => Vec::new(),
                _ => inside.split('/').map(str::to_owned).collect(),
            };
            let is_test = module.last().is_some_and(|name| name == "tests");
            let is_binary = module.first().is_some_and(|name| name == "bin");
            let Ok(file) = syn::parse_file(content) else { continue };
            if !is_test && !is_binary {
                sources.insert(module.clone(), Source { path, names: Names::of(module, &file) });
            }
        }
        Self { sources }
    }

    /// Returns the dependencies, one for each pair of files. A parent's re-exports of its children do not
    /// count.
    pub(super) fn arrows(&self) -> Vec<Arrow> {
        let mut lines = BTreeMap::new();
        for (from, source) in &self.sources {
            for used in &source.names.used {
                let target = self.file_of(&used.path, MAX_EXPORTS).filter(|to| to != from);
                if let Some(to) = target.filter(|to| !self.only_exports(from, to, used)) {
                    // Uses are in the order of the file, so the first line stays.
                    lines.entry((from.clone(), to)).or_insert(used.line);
                }
            }
        }
        lines.into_iter().map(|((from, to), line)| Arrow { from, to, line }).collect()
    }

    pub(super) fn path(&self, module: &[String]) -> &'a str {
        self.sources.get(module).map_or("", |source| source.path)
    }

    /// Returns true if a parent exports a name of a module inside it and does not use the name itself.
    fn only_exports(&self, from: &Module, to: &Module, used: &Use) -> bool {
        let names = &self.sources[from].names;
        to.starts_with(from)
            && match &used.exported {
                Some(Export::Name(name)) => !names.mentioned.contains(name),
                Some(Export::Glob) => {
                    let by_glob = &self.sources[to].names.defined;
                    by_glob.difference(&names.defined).all(|name| !names.mentioned.contains(name))
                }
                None => false,
            }
    }

    /// Returns the file that defines what a path names, or `None` if the path is of another crate.
    fn file_of(&self, path: &Named, follow: usize) -> Option<Module> {
        let length = (0..=path.segments.len())
            // The longest path that is a file wins; the rest names an item in it.
            .rev()
            .find(|length| self.sources.contains_key(&path.segments[..*length]))?;
        // The first segment is no module here, so the path begins with the name of another crate.
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

    /// Returns the file that defines a name which a module imports and therefore may export.
    fn exported(&self, module: &[String], name: &str, rest: &[String], follow: usize) -> Option<Module> {
        let names = &self.sources.get(module)?.names;
        // A definition hides a name from a glob import.
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
}

impl Arrow {
    /// Returns true if one of the two files is a module inside the other.
    pub(super) fn is_kinship(&self) -> bool {
        self.from.starts_with(&self.to) || self.to.starts_with(&self.from)
    }

    /// Returns a finding about the file at `path`, which has the dependency.
    pub(super) fn finding(&self, path: &str, message: &str) -> Finding {
        Finding::new(path, self.line, message)
    }
}
