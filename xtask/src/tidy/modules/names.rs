//! Names in the source of one file that it uses, imports, exports and defines. Tests are not read.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Path of a module from the root of its crate.
pub(super) type Module = Vec<String>;

/// Path of a name from the root of its crate. A path that begins with a plain name may be of another crate,
/// unless at least its first `least` segments name a module of this one.
#[derive(Clone)]
pub(super) struct Named {
    pub(super) segments: Vec<String>,
    pub(super) least: usize,
}

/// Occurrence of a name in a file.
pub(super) struct Use {
    pub(super) path: Named,
    pub(super) line: usize,
    /// For a re-export (`pub use`): the name under which the file exports it.
    pub(super) exported: Option<Export>,
}

/// Name of a re-export.
pub(super) enum Export {
    Name(String),
    Glob,
}

/// Names of one file.
#[derive(Default)]
pub(super) struct Names {
    /// Module that is being read: that of the file, or an inline module in it.
    module: Module,
    /// True inside a `use` item with a visibility.
    in_export: bool,
    pub(super) used: Vec<Use>,
    pub(super) imported: Vec<(String, Named)>,
    pub(super) globs: Vec<Named>,
    pub(super) defined: BTreeSet<String>,
    /// First segments of all paths outside `use` items.
    pub(super) mentioned: BTreeSet<String>,
}

impl Named {
    /// Returns the absolute path of `segments` in `module`, or `None` above the root of the crate.
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
            // A plain name is a child of this module, or another crate.
            _ => least = module.len() + 1,
        }
        while rest.first().is_some_and(|segment| segment == "super") {
            base.pop()?;
            rest = &rest[1..];
        }
        base.extend_from_slice(rest);
        Some(Self { segments: base, least })
    }

    pub(super) fn with(&self, rest: &[String]) -> Self {
        let segments = self.segments.iter().chain(rest).cloned().collect();
        Self { segments, least: self.least }
    }
}

impl Names {
    pub(super) fn of(module: Module, file: &syn::File) -> Self {
        let mut names = Self { module, ..Self::default() };
        names.visit_file(file);
        names
    }

    fn add(&mut self, segments: &[String], line: usize, exported: Option<Export>) {
        self.used.extend(Named::inside(&self.module, segments).map(|path| Use { path, line, exported }));
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
                self.add(&to, line, self.in_export.then_some(Export::Glob));
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
        self.add(&to, line, self.in_export.then(|| Export::Name(known_as.clone())));
        self.imported.extend(Named::inside(&self.module, &to).map(|path| (known_as, path)));
    }

    /// Reads the paths in the tokens of a macro call, which the parser does not interpret.
    fn scan(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut colons, mut line, mut is_field) = (0, 0, false);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if path.is_empty() || colons == 2 => {
                    if path.is_empty() {
                        line = ident.span().start().line;
                    }
                    // The name of a field or method is not a path.
                    if !is_field {
                        path.push(ident.to_string());
                    }
                    (colons, is_field) = (0, false);
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
                TokenTree::Punct(punct) => is_field = punct.as_char() == '.',
                TokenTree::Literal(_) => {}
            }
            self.end_of_path(&mut path, line);
            colons = 0;
        }
        self.end_of_path(&mut path, line);
    }

    fn end_of_path(&mut self, path: &mut Vec<String>, line: usize) {
        self.mentioned.extend(path.first().cloned());
        if path.len() > 1 {
            self.add(path, line, None);
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
        // Tests may use everything.
        if item.ident == "tests" {
            return;
        }
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.in_export = !matches!(item.vis, syn::Visibility::Inherited);
        self.import(&item.tree, Vec::new(), item.span().start().line);
        self.in_export = false;
    }

    // `pub(in path)` restricts visibility and uses no name of the module.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if path.leading_colon.is_none() {
            self.mentioned.extend(segments.first().cloned());
            if segments.len() > 1 {
                self.add(&segments, path.span().start().line, None);
            }
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.scan(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}
