//! Rules for the modules of a crate: their permitted dependencies, and no cycles. The dependencies of a file
//! are read from its `use` items, its qualified paths and its macro calls, and followed through re-exports to
//! the file that defines the name.
//!
//! # Cycles
//!
//! The *room* of a module is the module with everything inside it. The *level* of a module consists of its
//! own file and the rooms of its children. A dependency of one file on another counts at the level where
//! their paths diverge, between the nodes that contain them. No level may have a cycle. So, in a module `p`
//! with children `a`, `b`:
//!
//! - `p/a.rs → p/b.rs → p/a.rs` is a cycle, and so is `p/a/x.rs → p/b/y.rs` with `p/b/z.rs → p/a/w.rs`:
//!   neither room can be read or moved without the other.
//! - `p.rs` may use its children, or a child what `p.rs` defines, but not both: `p.rs → p/a.rs → p.rs` is a
//!   cycle, as is `p.rs → p/a.rs → p/b.rs → p.rs`.
//! - `mod a;` and `pub use a::A;` in `p.rs` are not dependencies, unless `p.rs` uses the name `A` itself. A
//!   child that uses `super::A` depends on `p/a.rs`, not on `p.rs`.
//!
//! Method calls are not visible: `p.rs` may call a method that `p/a.rs` implements for a type of `p.rs`.

mod arrows;
mod circles;
mod layers;
mod names;

use std::collections::BTreeSet;

use self::arrows::Crate;
use super::finding::{Files, Finding};

/// Finds dependencies that the layers do not permit, and cycles.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let roots = files
        .keys()
        .filter_map(|path| path.strip_suffix("/src/lib.rs").or_else(|| path.strip_suffix("/src/main.rs")));
    let roots: BTreeSet<&str> = roots.collect();
    let mut findings = Vec::new();
    for root in roots {
        let files = Crate::read(root, files);
        let arrows = files.arrows();
        findings.extend(layers::check(root, &files, &arrows));
        findings.extend(circles::check(&files, &arrows));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the findings in a crate that has these files below its `src/`.
    fn found<const N: usize>(root: &str, sources: [(&str, &str); N]) -> Vec<String> {
        let file = |(path, source): (&str, &str)| (format!("{root}/src/{path}"), source.to_owned());
        let files = sources.into_iter().map(file).collect();
        let line = |finding: Finding| format!("{}:{}: {}", finding.path, finding.line, finding.message);
        check(&files).into_iter().map(line).collect()
    }

    #[test]
    fn finds_cycle_of_two_files() {
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
    fn counts_paths_in_macros_and_reexports() {
        let lib = ("main.rs", "mod a;\nmod b;\npub(crate) use b::{c::C, d as e};\n");
        let a = ("a.rs", "pub struct A;\nfn f() { println!(\"{}\", crate::C::new()); }\n");
        let b = ("b.rs", "pub mod c;\npub mod d;\n");
        let c = ("b/c.rs", "pub struct C;\nuse crate::a::{self};\n");
        assert_eq!(found("x", [lib, a, b, c]).len(), 1);
        assert_eq!(found("x", [lib, a, b, ("b/c.rs", "pub struct C;\n")]), [""; 0]);
    }

    #[test]
    fn finds_cycle_through_parent_names() {
        let parent = ("p.rs", "mod c;\nmod d;\npub use self::c::*;\n");
        let sibling = ("p/d.rs", "use super::g;\npub fn h() {}\n");
        let child = ("p/c.rs", "use super::d::h;\npub fn g() {}\n");
        assert_eq!(circles([("lib.rs", "mod p;\n"), parent, child, sibling]), ["p/c.rs → p/d.rs → p/c.rs"]);
    }

    /// Returns the cycles of a crate, each as its path from file to file.
    fn circles<const N: usize>(sources: [(&str, &str); N]) -> Vec<String> {
        let way = |finding: String| {
            let (_, way) = finding.split_once("uses itself: ").unwrap();
            way.split_once(';').unwrap().0.replace("crates/garth-cli/src/", "")
        };
        found("crates/garth-cli", sources).into_iter().map(way).collect()
    }

    #[test]
    fn rejects_cycle_between_rooms() {
        let lib = ("lib.rs", "mod p;\n");
        let p = ("p.rs", "mod a;\nmod b;\nmod c;\n");
        let [x, w] = [("p/a/x.rs", "use crate::p::b::y::Y;\n"), ("p/a/w.rs", "pub struct W;\n")];
        let [y, z] = [("p/b/y.rs", "pub struct Y;\n"), ("p/b/z.rs", "use crate::p::a::w::W;\n")];
        let rooms = [lib, p, ("p/a.rs", "mod x;\nmod w;\n"), ("p/b.rs", "mod y;\nmod z;\n"), x, w, y, z];
        assert_eq!(circles(rooms), ["p/a/x.rs → p/b/y.rs, p/b/z.rs → p/a/w.rs"]);
        let z = ("p/b/z.rs", "use crate::p::c::C;\n");
        let c = ("p/c.rs", "pub struct C;\n");
        assert_eq!(circles([lib, p, ("p/a.rs", ""), ("p/b.rs", ""), x, w, y, z, c]), [""; 0]);
        let c = ("p/c.rs", "pub struct C;\nuse super::a::w::W;\n");
        assert_eq!(
            circles([lib, p, ("p/a.rs", ""), ("p/b.rs", ""), x, w, y, z, c]),
            ["p/a/x.rs → p/b/y.rs, p/b/z.rs → p/c.rs → p/a/w.rs"]
        );
    }

    #[test]
    fn rejects_cycle_of_parent_and_child() {
        let lib = ("lib.rs", "mod p;\n");
        let [uses, defines] = ["use super::P;\npub fn g(_: P) {}\n", "pub fn g() {}\n"];
        let p = "mod a;\npub struct P;\n";
        let calls = format!("{p}fn f() {{ a::g(P); }}\n");
        assert_eq!(circles([lib, ("p.rs", &calls), ("p/a.rs", uses)]), ["p.rs → p/a.rs → p.rs"]);
        assert_eq!(circles([lib, ("p.rs", &calls), ("p/a.rs", defines)]), [""; 0]);
        assert_eq!(circles([lib, ("p.rs", p), ("p/a.rs", uses)]), [""; 0]);
        // At any depth, and at the root of the crate.
        let deep = "use super::super::P;\npub fn g(_: P) {}\n";
        let calls = format!("{p}fn f() {{ a::b::g(P); }}\n");
        assert_eq!(
            circles([lib, ("p.rs", &calls), ("p/a.rs", "pub mod b;\n"), ("p/a/b.rs", deep)]),
            ["p.rs → p/a/b.rs → p.rs"]
        );
        assert_eq!(
            circles([("lib.rs", "mod p;\npub struct L;\nfn f() { p::g(); }\n"), ("p.rs", "use crate::L;\n")]),
            ["lib.rs → p.rs → lib.rs"]
        );
    }

    #[test]
    fn rejects_cycle_through_a_parent() {
        let lib = ("lib.rs", "mod p;\n");
        let p = ("p.rs", "mod a;\nmod b;\npub struct P;\nfn f() { a::g(); }\n");
        let [a, b] = [("p/a.rs", "use super::b::B;\n"), ("p/b.rs", "use super::P;\npub struct B(P);\n")];
        assert_eq!(circles([lib, p, a, b]), ["p.rs → p/a.rs → p/b.rs → p.rs"]);
        assert_eq!(circles([lib, p, a, ("p/b.rs", "pub struct B;\n")]), [""; 0]);
        assert_eq!(circles([lib, p, ("p/a.rs", "pub fn g() {}\n"), b]), [""; 0]);
    }

    #[test]
    fn reexport_counts_for_its_user() {
        let lib = ("lib.rs", "mod p;\n");
        let [a, b] = [("p/a.rs", "pub struct A;\n"), ("p/b.rs", "use super::A;\npub fn g() {}\n")];
        // `b` uses `a`, not the parent that exports `A`.
        let calls = ("p.rs", "mod a;\nmod b;\npub use a::A;\nfn f() { b::g(); }\n");
        assert_eq!(circles([lib, calls, a, b]), [""; 0]);
        let a = ("p/a.rs", "use super::g;\npub struct A;\n");
        let exports = ("p.rs", "mod a;\nmod b;\npub use self::{a::A, b::g};\n");
        assert_eq!(circles([lib, exports, a, b]), ["p/a.rs → p/b.rs → p/a.rs"]);
    }

    #[test]
    fn parent_uses_exports_only_by_name() {
        let lib = ("lib.rs", "mod p;\n");
        let a = ("p/a.rs", "use super::P;\npub struct A(P);\n");
        for export in ["pub use self::a::A;", "pub(crate) use a::A as B;", "pub use self::a::*;"] {
            let p = format!("mod a;\n{export}\npub struct P;\nfn f(p: &P) {{ dbg!(p.A); }}\n");
            assert_eq!(circles([lib, ("p.rs", &p), a]), [""; 0], "{export}");
            for uses in ["fn f(_: A) {}", "fn f(_: Vec<B>) {}", "fn f() { dbg!(A); }"] {
                let p = format!("mod a;\n{export}\npub struct P;\n{uses}\n");
                let is_used = export.contains(" B") == uses.contains('B');
                assert_eq!(circles([lib, ("p.rs", &p), a]).len(), usize::from(is_used), "{export} {uses}");
            }
        }
        let imports = ("p.rs", "mod a;\nuse self::a::A;\npub struct P;\n");
        assert_eq!(circles([lib, imports, a]).len(), 1);
    }

    #[test]
    fn tests_may_use_any_module() {
        let a = ("a.rs", "use crate::b::B;\n");
        let b = ("b.rs", "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n");
        assert_eq!(found("x", [("lib.rs", ""), a, b]), [""; 0]);
    }

    #[test]
    fn layers_use_only_lower_layers() {
        let lib = ("lib.rs", "pub use engine::E;\n");
        let engine = ("engine.rs", "use crate::fs::Fs;\npub struct E;\n");
        let fs = ("fs.rs", "use crate::model::M;\npub struct Fs;\n");
        let model = ("model.rs", "pub struct M;\n");
        assert_eq!(found("crates/garth-engine", [lib, engine, fs, model]), [""; 0]);
        let view = ("view/scope.rs", "//! why\nuse crate::E;\n");
        let wrong = found("crates/garth-engine", [lib, engine, fs, model, view]);
        assert_eq!(wrong.len(), 1);
        assert!(
            wrong[0].starts_with(
                "crates/garth-engine/src/view/scope.rs:2: `view` uses `engine`, but may use fs besides"
            ),
            "{wrong:?}"
        );
    }

    #[test]
    fn crates_have_their_own_layers() {
        let ids = ("ids.rs", "pub fn id() {}\n");
        let media = ("media.rs", "use crate::ids::id;\npub fn get() {}\n");
        assert_eq!(found("crates/garth-agent", [("lib.rs", ""), ids, media]), [""; 0]);
        // The vocabulary uses nothing else.
        let ids = ("ids.rs", "use crate::media::get;\n");
        let media = ("media.rs", "pub fn get() {}\n");
        assert!(found("crates/garth-agent", [("lib.rs", ""), ids, media])[0].contains("`ids` uses `media`"));
        assert!(found("crates/garth-engine", [("lib.rs", ""), ids, media])[0].contains("is in no layer"));
    }

    #[test]
    fn rejects_module_without_layer() {
        let base = [("lib.rs", ""), ("engine/planner.rs", "pub fn plan() {}\n")];
        let [lib, planner] = base;
        let uses_planner = "use crate::engine::planner::plan;\n";
        assert_eq!(found("crates/garth-engine", [lib, planner, ("engine/sqlite.rs", uses_planner)]), [""; 0]);
        assert_eq!(found("crates/garth-engine", [lib, planner, ("engine/memory.rs", uses_planner)]).len(), 1);
        assert!(
            found("crates/garth-engine", [lib, planner, ("new.rs", uses_planner)])[0]
                .contains("is in no layer")
        );
    }
}
