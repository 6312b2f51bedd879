//! Rules for Rust sources: sizes, layout and the opening `//!`. Lengths are counted on the parsed source, so
//! that strings and comments are not mistaken for code. (`unwrap` outside tests is clippy's `unwrap_used`.)

use std::collections::BTreeSet;

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::finding::Finding;

/// Limit on the lines of code of a file.
const MAX_FILE: usize = 600;
/// Limit on the lines of code of a function. CONTRIBUTING.md asks for about 70, and this is the tolerance.
const MAX_FUNCTION: usize = 100;

/// Finds violations in one source file.
pub(super) fn check(path: &str, content: &str) -> Vec<Finding> {
    let found = |line, message: String| Finding::new(path, line, message);
    let mut findings = layout(path);
    if !content.starts_with("//!") {
        findings
            .push(found(1, "does not open with `//!`: state in its first line why the file exists".into()));
    }
    let (tokens, file) = match (content.parse::<TokenStream>(), syn::parse_file(content)) {
        (Ok(tokens), Ok(file)) => (tokens, file),
        (_, Err(e)) => return vec![found(e.span().start().line, format!("does not parse: {e}"))],
        (Err(e), _) => return vec![found(e.span().start().line, format!("does not parse: {e}"))],
    };
    let mut code = BTreeSet::new();
    // Both forms are needed: tokens have the lines of code, also in macro calls, and the syntax tree has the
    // functions.
    lines_of_code(tokens, &content.lines().collect::<Vec<_>>(), &mut code);
    if code.len() > MAX_FILE {
        let message =
            format!("has {} lines of code, {MAX_FILE} at most: split it by what it does", code.len());
        findings.push(found(1, message));
    }
    let mut functions = Functions::default();
    functions.visit_file(&file);
    for (name, signature, body) in functions.bodies {
        let (start, end) = (signature.start().line, body.end().line);
        let length = code.range(start..=end).count();
        if length > MAX_FUNCTION {
            let message = format!("fn {name} has {length} lines of code, {MAX_FUNCTION} at most: split it");
            findings.push(found(start, message));
        }
    }
    let ignored = functions.ignored.into_iter();
    findings.extend(ignored.map(|line| found(line, "skips a test: make it run or remove it".into())));
    findings
}

fn layout(path: &str) -> Vec<Finding> {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    if name == "mod.rs" {
        return vec![Finding::new(path, 1, format!("is a mod.rs: move it to {dir}.rs"))];
    }
    // `shipped.rs` is also built for release, which would take minutes for all tests of the crate.
    let known = name == "it.rs" || path == "crates/garth-cli/tests/shipped.rs";
    let binary_of_its_own = dir.rsplit('/').next() == Some("tests") && !dir.contains("src/") && !known;
    if binary_of_its_own {
        let message = "is a test binary of its own: make it a module in tests/it/, named in tests/it.rs";
        return vec![Finding::new(path, 1, message)];
    }
    Vec::new()
}

/// Collects the numbers of the lines that contain a token other than a comment.
fn lines_of_code(tokens: TokenStream, source: &[&str], into: &mut BTreeSet<usize>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                if !is_comment(group.span_open(), source) {
                    // The span of a whole group would include its blank lines and comments.
                    into.extend([group.span_open().start().line, group.span_close().end().line]);
                    lines_of_code(group.stream(), source, into);
                }
            }
            other => {
                let span = other.span();
                if !is_comment(span, source) {
                    into.extend(span.start().line..=span.end().line);
                }
            }
        }
    }
}

/// Returns true if a token is part of a doc comment. The parser turns it into an attribute, whose tokens all
/// have the span of the comment.
fn is_comment(span: Span, source: &[&str]) -> bool {
    let start = span.start();
    let line = source.get(start.line - 1).copied().unwrap_or_default();
    let rest: String = line.chars().skip(start.column).take(3).collect();
    ["///", "//!", "/**", "/*!"].contains(&rest.as_str())
}

#[derive(Default)]
struct Functions {
    /// Name, signature and body.
    bodies: Vec<(String, Span, Span)>,
    /// Lines of `#[ignore]`.
    ignored: Vec<usize>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, body: &syn::Block) {
        self.bodies.push((signature.ident.to_string(), signature.span(), body.span()));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, &item.block);
        // Functions inside the body have limits of their own.
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("ignore") {
            self.ignored.push(attribute.span().start().line);
        }
    }
}

/// Returns true if the source has a function of that name, also inside a macro call such as `proptest!`.
pub(super) fn has_function(content: &str, name: &str) -> bool {
    // The parser does not interpret macro calls, so the tokens themselves are read.
    fn look(tokens: TokenStream, name: &str) -> bool {
        let mut after_fn = false;
        tokens.into_iter().any(|token| match token {
            TokenTree::Group(group) => {
                after_fn = false;
                look(group.stream(), name)
            }
            TokenTree::Ident(ident) => {
                let found = after_fn && ident == name;
                after_fn = ident == "fn";
                found
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {
                after_fn = false;
                false
            }
        })
    }
    content.parse().is_ok_and(|tokens| look(tokens, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, content: &str) -> Vec<String> {
        check(path, content).into_iter().map(|f| format!("{}: {}", f.line, f.message)).collect()
    }

    fn function(lines: usize) -> String {
        format!("//! why\n\n/// Doc.\nfn f() {{\n{}}}\n", "    g(); // why\n".repeat(lines))
    }

    #[test]
    fn file_starts_with_module_comment() {
        assert_eq!(messages("a.rs", "//! why\n"), [""; 0]);
        assert!(messages("a.rs", "// why\n")[0].contains("does not open with `//!`"));
        assert_eq!(messages("a.rs", "").len(), 1);
    }

    #[test]
    fn rejects_function_beyond_limit() {
        assert_eq!(messages("a.rs", &function(MAX_FUNCTION - 2)), [""; 0]);
        let long = messages("a.rs", &function(MAX_FUNCTION - 1));
        assert_eq!(
            long,
            [format!("4: fn f has {} lines of code, {MAX_FUNCTION} at most: split it", MAX_FUNCTION + 1)]
        );
    }

    #[test]
    fn limits_length_of_methods() {
        let body = "        g();\n".repeat(MAX_FUNCTION);
        let source = format!(
            "//! why\nimpl A {{\n    fn f() {{\n{body}    }}\n}}\ntrait T {{\n    fn d() {{\n{body}    }}\n}}\n"
        );
        assert_eq!(messages("a.rs", &source).len(), 2);
    }

    #[test]
    fn comments_and_blanks_count_as_no_code() {
        let comments = "    // one\n\n    /* two\n    three */\n    /// four\n".repeat(MAX_FILE);
        let source = format!("//! why\nfn f() {{\n{comments}    let s = \"a\n// text\n\n\";\n}}\n");
        assert_eq!(messages("a.rs", &source), [""; 0]);
    }

    #[test]
    fn rejects_file_beyond_limit() {
        let source = |lines| format!("//! why\nconst S: &str = \"{}\";\n", "//\n".repeat(lines));
        assert_eq!(messages("a.rs", &source(MAX_FILE - 1)), [""; 0]);
        assert!(messages("a.rs", &source(MAX_FILE))[0].starts_with("1: has 601 lines of code"));
    }

    #[test]
    fn rejects_mod_rs_and_second_test_binary() {
        assert!(messages("src/a/mod.rs", "//! why\n")[0].contains("move it to src/a.rs"));
        assert_eq!(messages("crates/a/tests/more.rs", "//! why\n").len(), 1);
        assert_eq!(messages("crates/a/tests/it.rs", "//! why\n"), [""; 0]);
        assert_eq!(messages("crates/a/tests/it/more.rs", "//! why\n"), [""; 0]);
        assert_eq!(messages("crates/a/src/tests/more.rs", "//! why\n"), [""; 0]);
    }

    #[test]
    fn finds_skipped_tests() {
        let source = "//! why\nmod tests {\n    #[test]\n    #[ignore = \"slow\"]\n    fn t() {}\n}\n";
        assert_eq!(messages("a.rs", source), ["4: skips a test: make it run or remove it"]);
    }

    #[test]
    fn reports_unparsable_file() {
        assert!(messages("a.rs", "//! why\nfn f( {}\n")[0].contains("does not parse"));
    }

    #[test]
    fn finds_functions_in_macros() {
        let source =
            "//! fn doc\nproptest! { #[test] fn inner(x in 0..9) {} }\nfn outer() { other(\"fn text\"); }\n";
        let found = ["inner", "outer", "other", "text", "doc"].map(|name| has_function(source, name));
        assert_eq!(found, [true, true, false, false, false]);
    }
}
