//! Rules that operators set: every way to write is tried, through both engines, with content that each rule
//! rejects.

use std::sync::Arc;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::fs::restore::restore;
use garth_engine::model::{At, Author, Batch, Ino, Moment, Op, Seq, SetAttrs, Timestamp};
use garth_engine::rule::{Constraint, PathPattern, Rule};
use garth_engine::view::Scope;
use garth_engine::{AccountStore, Env, Error, ErrorKind, FileSystem, FileSystemExt, TreePath};

use super::homes::{Kept, account};

fn path(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

pub(super) fn at(text: &str) -> At {
    path(text).into()
}

pub(super) fn rule(pattern: &str, constraint: &str, terms: &str) -> Rule {
    Rule::new(PathPattern::parse(pattern).unwrap(), Constraint::parse(constraint, terms).unwrap())
}

/// Tree of one of the engines.
pub(super) enum Tree {
    Memory(Box<MemoryFs>),
    Stored(Arc<dyn AccountStore>, #[expect(dead_code, reason = "removed once it is dropped")] Kept),
}

impl Tree {
    pub(super) async fn all() -> [Self; 2] {
        let (account, kept) = account().await;
        [
            Self::Memory(Box::new(MemoryFs::new(Env::system(), garth_agent::registry()))),
            Self::Stored(account, kept),
        ]
    }

    pub(super) fn fs(&self) -> &dyn FileSystem {
        match self {
            Self::Memory(fs) => &**fs,
            Self::Stored(fs, _) => &**fs,
        }
    }

    pub(super) async fn set(&self, rule: Rule) {
        match self {
            Self::Memory(fs) => fs.set_rules(fs.rules().with(rule).unwrap()),
            Self::Stored(fs, _) => assert!(fs.set_rule(rule, true).await.unwrap().set),
        }
    }

    pub(super) async fn given(&self, ops: impl IntoIterator<Item = Op>) {
        self.fs().commit(Batch::new(ops)).await.unwrap();
    }

    /// Returns the error of a batch, which must have changed nothing.
    pub(super) async fn refusal(&self, ops: Vec<Op>) -> Error {
        let before = self.fs().head().await.unwrap().seq;
        let asked = format!("{ops:?}");
        let error = self.fs().commit(Batch::new(ops)).await.expect_err(&asked);
        assert_eq!(error.kind(), ErrorKind::RuleViolation, "{asked}: {error}");
        assert_eq!(self.fs().head().await.unwrap().seq, before, "{asked}");
        error
    }

    async fn ino(&self, path: &str) -> Ino {
        self.fs().stat(&at(path)).await.unwrap().ino
    }
}

const SOON: Timestamp = Timestamp(4_000_000_000_000_000_000);

#[tokio::test]
async fn append_only_files_only_grow() {
    for tree in Tree::all().await {
        let log = "/logs/a/day.log";
        tree.given([
            Op::write(at(log), "one\n").with_parents(),
            Op::write(at("/other"), "other"),
            Op::mkdir(at("/logs/b")),
            Op::write(at("/spare/day.log"), "spare").with_parents(),
        ])
        .await;
        let past = tree.fs().head().await.unwrap().seq;
        tree.given([Op::append(at(log), "two\n"), Op::link(at(log), at("/linked"))]).await;
        tree.set(rule("/logs/*/*.log", "append-only", "{}")).await;
        let ino = tree.ino(log).await;
        let expiring = SetAttrs::new().expires_at(SOON);
        let ways = [
            vec![Op::write(at(log), "one\ntwo\nthree\n")],
            vec![Op::write(at(log), "")],
            vec![Op::patch(at(log), 3, "x")],
            vec![Op::truncate(at(log), 3)],
            vec![Op::truncate(at(log), 0), Op::append(at(log), "one\ntwo\n")],
            vec![Op::punch(at(log), 0, 1)],
            vec![Op::copy_range(at("/other"), 0, 3, at(log), 7)],
            vec![Op::copy(at("/other"), at(log)).replace()],
            vec![Op::copy(at(log), at("/x")).as_of(past), Op::rename(at("/x"), at(log))],
            vec![Op::copy(at(log), at(log)).as_of(past).replace()],
            vec![Op::rename(at("/other"), at(log))],
            vec![Op::rename(at(log), at("/logs/a/b.log"))],
            vec![Op::rename(at(log), at("/logs/a/day.txt"))],
            vec![Op::exchange(at(log), at("/other"))],
            vec![Op::remove(at(log))],
            vec![Op::remove(at(log)), Op::write(at(log), "one\ntwo\n")],
            vec![Op::remove_tree(at("/logs/a"))],
            vec![Op::remove_tree(at("/logs"))],
            vec![Op::rename(at("/logs/a"), at("/logs/c"))],
            vec![Op::rename(at("/logs"), at("/elsewhere"))],
            vec![Op::exchange(at("/logs/a"), at("/logs/b"))],
            vec![Op::exchange(at("/logs/a"), at("/spare"))],
            vec![Op::rename(at("/logs/a"), at("/x")), Op::mkdir(at("/logs/a")), Op::remove_tree(at("/x"))],
            vec![Op::set_attrs(at(log), expiring.clone())],
            vec![Op::set_attrs(At::Node(ino), expiring.clone())],
            vec![Op::write(at("/logs/b/new.log"), "").with_attrs(expiring.clone())],
            vec![Op::append(at("/linked"), "three\n"), Op::patch(at("/linked"), 0, "O")],
            vec![Op::truncate(at("/linked"), 1)],
            vec![Op::set_attrs(at("/linked"), expiring.clone())],
        ];
        for ops in ways {
            let asked = format!("{ops:?}");
            let error = tree.refusal(ops).await;
            let told = error.path().map(TreePath::as_str);
            assert!(matches!(told, Some("/logs/a/day.log" | "/logs/b/new.log")), "{asked}: {error}");
        }
        assert_eq!(tree.fs().read_to_string(log).await.unwrap(), "one\ntwo\n");
        // Growing files, new files, and paths that lead there.
        for ops in [
            vec![Op::append(at(log), "three\n")],
            vec![Op::append(at("/linked"), "four\n"), Op::append(At::Node(ino), "five\n")],
            vec![Op::append(at(log), "wrong"), Op::truncate(at(log), 24)],
            vec![Op::patch(at(log), 24, "six\n")],
            vec![Op::link(at(log), at("/logs/b/same.log")), Op::remove(at("/linked"))],
            vec![Op::set_attrs(at(log), SetAttrs::new().tags(["t"]))],
            vec![Op::rename(at(log), at("/moved")), Op::rename(at("/moved"), at(log))],
            vec![Op::rename(at("/logs"), at("/l")), Op::rename(at("/l"), at("/logs"))],
            vec![Op::write(at("/logs/b/text"), "x"), Op::remove(at("/logs/b/text"))],
            vec![Op::rename(at("/spare"), at("/logs/c"))],
            vec![Op::mkdir(at("/logs/b/dir.log")), Op::remove(at("/logs/b/dir.log"))],
        ] {
            tree.given(ops).await;
        }
        assert_eq!(tree.fs().read_to_string(log).await.unwrap(), "one\ntwo\nthree\nfour\nfive\nsix\n");
        tree.refusal(vec![Op::append(at("/logs/c/day.log"), "x"), Op::remove_tree(at("/logs/c"))]).await;
    }
}

#[tokio::test]
async fn read_only_paths_keep_names_and_targets() {
    for tree in Tree::all().await {
        tree.given([
            Op::write(at("/skills/pdf/SKILL.md"), "how").with_parents(),
            Op::mkdir(at("/skills/empty")),
            Op::symlink(at("/skills/link"), "pdf"),
            Op::write(at("/other"), "other"),
            Op::mkdir(at("/dir")),
            Op::link(at("/skills/pdf/SKILL.md"), at("/mine")),
        ])
        .await;
        tree.set(rule("/skills/**", "read-only", r#"{"except": ["0123"]}"#)).await;
        let file = "/skills/pdf/SKILL.md";
        let ways = [
            vec![Op::write(at(file), "bad")],
            vec![Op::append(at(file), "bad")],
            vec![Op::append(at("/mine"), "bad")],
            vec![Op::set_attrs(at("/mine"), SetAttrs::new().mode(0o600))],
            vec![Op::set_attrs(at("/skills/empty"), SetAttrs::new().mode(0o700))],
            vec![Op::write(at("/skills/new"), "bad")],
            vec![Op::mkdir(at("/skills/new"))],
            vec![Op::symlink(at("/skills/new"), "x")],
            vec![Op::link(at("/other"), at("/skills/new"))],
            vec![Op::copy(at("/other"), at("/skills/new"))],
            vec![Op::copy_tree(at("/dir"), at("/skills/new"))],
            vec![Op::rename(at("/other"), at("/skills/new"))],
            vec![Op::rename(at("/dir"), at("/skills/new"))],
            vec![Op::rename(at("/skills/link"), at("/link"))],
            vec![Op::remove(at("/skills/link"))],
            vec![Op::remove(at("/skills/empty"))],
            vec![Op::remove_tree(at("/skills"))],
            vec![Op::rename(at("/skills"), at("/gone"))],
            vec![Op::rename(at("/skills/pdf"), at("/skills/word"))],
            vec![Op::exchange(at("/skills"), at("/dir"))],
            vec![Op::exchange(at("/skills/link"), at("/other"))],
        ];
        for ops in &ways {
            let error = tree.refusal(ops.clone()).await;
            assert!(error.path().unwrap().as_str().starts_with("/skills/"), "{ops:?}: {error}");
        }
        for ops in ways {
            let as_other = Batch::new(ops).author(Author::key("4567"));
            assert!(tree.fs().commit(as_other).await.unwrap_err().is(ErrorKind::RuleViolation));
        }
        tree.given([Op::link(at(file), at("/another")), Op::copy_tree(at("/skills"), at("/copy"))]).await;
        let by_key = Batch::new([Op::append(at(file), " to"), Op::mkdir(at("/skills/new"))]);
        tree.fs().commit(by_key.author(Author::key("0123"))).await.unwrap();
        // A caller who does not reach the name learns nothing about it.
        tree.given([Op::mkdir(at("/home")), Op::link(at(file), at("/home/x"))]).await;
        let scope = Scope::open(tree.fs(), &path("/home")).await.unwrap();
        let error = scope.commit(Op::append(at("/x"), "bad").into()).await.unwrap_err();
        assert!(error.is(ErrorKind::RuleViolation) && error.path().is_none(), "{error}");
        assert!(!error.to_string().contains("skills"), "{error}");
    }
}

#[tokio::test]
async fn rule_override_is_logged() {
    for tree in Tree::all().await {
        tree.given([Op::write(at("/log"), "a")]).await;
        tree.set(rule("/log", "append-only", "{}")).await;
        tree.refusal(vec![Op::remove(at("/log"))]).await;
        let batch = Batch::new([Op::remove(at("/log"))]).overriding_rules();
        let seq = tree.fs().commit(batch).await.unwrap().seq;
        let changes = tree.fs().changes(&garth_engine::model::ChangesQuery::default()).await.unwrap();
        let overrode: Vec<_> = changes.commits.iter().map(|it| it.commit.overrides_rules).collect();
        assert_eq!(overrode, [false, true]);
        assert_eq!(seq.0, 2);
    }
}

#[tokio::test]
async fn restore_cannot_shorten_append_only_files() {
    for tree in Tree::all().await {
        tree.given([Op::write(at("/log"), "one\n"), Op::write(at("/text"), "one\n")]).await;
        tree.given([Op::append(at("/log"), "two\n"), Op::append(at("/text"), "two\n")]).await;
        tree.set(rule("/log", "append-only", "{}")).await;
        for (name, allowed) in [("/log", false), ("/text", true)] {
            let (now, then) = (Env::system().now(), Moment::Seq(Seq(1)));
            let outcome = restore(tree.fs(), &path(name), &then, now, &Batch::default()).await;
            match outcome {
                Ok(_) => assert!(allowed, "{name}"),
                Err(error) => assert!(!allowed && error.is(ErrorKind::RuleViolation), "{name}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn append_only_rule_lists_expiring_files() {
    let [_, tree] = Tree::all().await;
    let expiring = SetAttrs::new().expires_at(SOON);
    let write = |n| Op::write(at(&format!("/logs/{n:03}")), "").with_parents().with_attrs(expiring.clone());
    tree.given((0..101).map(write)).await;
    let Tree::Stored(fs, _) = &tree else { panic!("the second is stored") };
    let refused = fs.set_rule(rule("/logs/*", "append-only", "{}"), false).await.unwrap();
    assert!(!refused.set && refused.more);
    assert_eq!(refused.violations.len(), 100);
    assert!(refused.violations[0].reason.contains("expire"), "{refused:?}");
}
