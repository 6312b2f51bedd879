//! Groups of batches, which are planned before the first of them is written.

use std::sync::Arc;

use garth_testkit::data::random::Random;

use super::rounds::Operations;
use super::store::described;
use super::*;
use crate::model::quota::{Limits, Quota, Usage};
use crate::model::{Body, CommitId, Idempotency, StagedBody};
use crate::rule::quota::Quotas;

/// Batches that were planned together, and the rounds that they took.
type Run = (usize, usize);

/// Commits a group of batches, of which some may be refused. Checks that each has the same result as if it
/// were planned once those before it are written.
fn commit_group(store: &mut Store, batches: &[Batch]) -> Vec<Run> {
    let all: Vec<&Batch> = batches.iter().collect();
    let (mut rest, mut runs) = (&all[..], Vec::new());
    while !rest.is_empty() {
        let now = store.now();
        let (planned, rounds) = store.plan_group(rest);
        let (together, behind) = rest.split_at(planned.len());
        assert!(!together.is_empty(), "each run plans a batch: {batches:?}");
        runs.push((together.len(), rounds));
        for (batch, ahead) in together.iter().zip(planned) {
            let alone = plan(&*store, store.head, now, batch);
            assert_eq!(described(&ahead), described(&alone), "{batch:?} of {batches:?}");
            if let Ok(Planned::Apply { delta, head, commit }) = ahead {
                store.write(batch, (&delta, head, &commit));
            }
        }
        rest = behind;
    }
    runs
}

/// Returns how many batches were planned together.
fn lengths(runs: &[Run]) -> Vec<usize> {
    runs.iter().map(|(length, _)| *length).collect()
}

/// Commits each operation in a batch of its own, all of them as a group.
fn run_group(store: &mut Store, ops: impl IntoIterator<Item = Op>) -> Vec<Run> {
    let batches: Vec<Batch> = ops.into_iter().map(|op| Batch::new([op])).collect();
    commit_group(store, &batches)
}

/// Sets a limit on the names below a directory, in which nothing is yet.
fn limit_names(store: &mut Store, path: &str, most: u64) {
    let quota = Quota { path: at(path), limits: Limits::default().entries(most), used: Usage::default() };
    store.quotas = Arc::new(Quotas::new(store.quotas.iter().cloned().chain([quota])));
    store.head.control = 1;
}

#[test]
fn group_takes_the_rounds_of_one_batch() {
    let mut store = tree([Op::mkdir(at("/d")), Op::mkdir(at("/e"))]);
    let ops: [fn(TreePath) -> Op; 7] = [
        |path| Op::write(path, "new"),
        |path| Op::write(path, vec![7; DEDUP_FROM]),
        |path| Op::append(path, "more"),
        |path| Op::set_attrs(path, SetAttrs::new().tags(["t"])),
        |path| Op::link(&path, at(&format!("/e/{}", path.name().unwrap()))),
        |path| Op::rename(&path, at(&format!("/e/moved-{}", path.name().unwrap()))),
        |path| Op::write(path, "again").with_parents(),
    ];
    for (number, op) in ops.into_iter().enumerate() {
        let batches: Vec<Batch> = (0..64).map(|n| Batch::new([op(at(&format!("/d/{n}")))])).collect();
        let one = store.plan_in_rounds(&batches[0]).1;
        assert!(one <= 2, "operation {number}");
        assert_eq!(commit_group(&mut store, &batches), [(64, one)], "operation {number}");
    }
    let inos: Vec<u64> = (0..64).map(|n| store.node_of(&format!("/d/{n}")).ino).collect();
    let appends = inos.into_iter().map(|ino| Op::append(Ino(ino), "x"));
    assert_eq!(run_group(&mut store, appends), [(64, 1)]);
    assert_eq!(run_group(&mut store, (0..64).map(|n| Op::remove(at(&format!("/d/{n}"))))), [(64, 2)]);
    assert!(!store.paths().iter().any(|path| path.starts_with("/d/")));
}

#[test]
fn batches_read_what_those_before_them_wrote() {
    let mut store = tree([Op::write(at("/old"), "old")]);
    let hash = Precondition::Sha256(Sha256::digest("abXd").into());
    let ops = [
        Op::mkdir(at("/new")),
        Op::write(at("/new/f"), "a"),
        Op::append(at("/new/f"), "bcd"),
        Op::patch(at("/new/f"), 2, "X"),
        Op::check(at("/new/f"), hash.clone()),
        Op::check(at("/new/f"), hash.negated()),
        Op::link(at("/new/f"), at("/new/g")),
        Op::set_attrs(at("/new/g"), SetAttrs::new().tags(["t"])),
        Op::copy(at("/new/g"), at("/new/copy")),
        Op::rename(at("/new/f"), at("/new/h")),
        Op::remove_dir(at("/new")),
        Op::remove(at("/new/g")),
        Op::write(at("/new/g"), "other"),
        Op::copy_range(at("/new/h"), 0, 2, at("/old"), 1),
        Op::truncate(at("/new/h"), 3),
        Op::snapshot("s"),
        Op::snapshot("s"),
        Op::drop_snapshot("s"),
        Op::remove(at("/old")),
        Op::write(at("/old"), "").create_new(),
    ];
    let count = ops.len();
    let runs = run_group(&mut store, ops);
    assert_eq!(lengths(&runs), [count]);
    assert!(runs[0].1 <= 4, "{runs:?}");
    assert_eq!(store.paths(), ["/new", "/old", "/new/copy", "/new/g", "/new/h"]);
    assert_eq!(store.content("/new/h"), b"abX");
    assert_eq!(store.content("/new/copy"), b"abXd");
    assert_eq!(store.node_of("/new/h").nlink, 1);
}

#[test]
fn staged_body_is_used_once_in_a_group() {
    let mut store = tree([Op::write(at("/f"), "12345")]);
    store.stage(7, Staged(vec![(1, 5)]));
    let staged = |path: &str| Op::write(at(path), Body::Staged(StagedBody { id: 7, size: 5 }));
    assert_eq!(lengths(&run_group(&mut store, [staged("/g"), staged("/h")])), [2]);
    assert_eq!(store.paths(), ["/f", "/g"]);
}

#[test]
fn content_of_a_group_is_stored_once() {
    let mut store = Store::new();
    let body = vec![7; DEDUP_FROM];
    let writes = (0..3).map(|n| Op::write(at(&format!("/{n}")), body.clone()));
    assert_eq!(lengths(&run_group(&mut store, writes)), [3]);
    assert_eq!(store.chunks.len(), 1);
}

#[test]
fn refused_batch_leaves_nothing_to_those_behind_it() {
    let mut store = Store::new();
    let batches = [
        Batch::new([Op::write(at("/a"), "a")]),
        Batch::new([Op::write(at("/b"), "b"), Op::mkdir(at("/a"))]),
        Batch::new([Op::append(at("/a"), "a"), Op::check(at("/b"), Precondition::Exists)]),
        Batch::new([Op::append(at("/a"), "b")]),
        Batch::new([Op::check(at("/b"), Precondition::Absent), Op::write(at("/c"), "c")]),
    ];
    assert_eq!(lengths(&commit_group(&mut store, &batches)), [5]);
    assert_eq!(store.paths(), ["/a", "/c"]);
    assert_eq!(store.content("/a"), b"ab");
}

#[test]
fn batch_of_too_many_rounds_fails_alone() {
    let levels = 2 * MAX_ROUNDS;
    let store = tree([Op::mkdir_all(at(&"/d".repeat(levels)))]);
    let first = Op::rename(at("/d"), at("/0"));
    let each = (1..levels).map(|n| Op::rename(at(&format!("/{}/d", n - 1)), at(&format!("/{n}"))));
    let batches = [
        Batch::new([Op::write(at("/x"), "x")]),
        Batch::new([first].into_iter().chain(each)),
        Batch::new([Op::write(at("/y"), "y"), Op::check(at("/d/d"), Precondition::Exists)]),
    ];
    let all: Vec<&Batch> = batches.iter().collect();
    let (mut rest, mut kinds) = (&all[..], Vec::new());
    while !rest.is_empty() {
        let (planned, rounds) = store.plan_group(rest);
        assert!(rounds <= MAX_ROUNDS, "{rounds}");
        kinds.push(planned.iter().map(|planned| planned.as_ref().err().map(Error::kind)).collect::<Vec<_>>());
        rest = &rest[planned.len()..];
    }
    assert_eq!(kinds, [vec![None], vec![Some(ErrorKind::TooLarge)], vec![None]]);
}

#[test]
fn moved_subtree_ends_the_run() {
    let filled = || tree([Op::write(at("/d/a"), "a").with_parents(), Op::write(at("/d/b"), "b")]);
    let ends_after: [fn() -> Op; 2] = [|| Op::rename(at("/d"), at("/m")), || Op::remove_tree(at("/d"))];
    for op in ends_after {
        let mut store = filled();
        let behind = [Op::write(at("/m/x"), "x").with_parents(), Op::append(at("/m/x"), "y")];
        assert_eq!(lengths(&run_group(&mut store, [op()].into_iter().chain(behind))), [1, 2]);
        assert_eq!(store.content("/m/x"), b"xy");
    }
}

#[test]
fn rows_known_only_after_the_write_begin_a_run() {
    let filled = || tree([Op::write(at("/d/a"), "a").with_parents(), Op::write(at("/d/b"), "b")]);
    let last = filled().head.seq;
    let begin: [(&str, Vec<Op>, Vec<usize>); 4] = [
        ("names below", vec![Op::write(at("/d/c"), "c"), Op::copy_tree(at("/d"), at("/e"))], vec![1, 1]),
        (
            "names elsewhere",
            vec![Op::write(at("/c"), "c"), Op::copy_tree(at("/d"), at("/e")), Op::append(at("/e/a"), "x")],
            vec![3],
        ),
        ("expired below", vec![Op::write(at("/c"), "c"), Op::remove_tree(at("/d"))], vec![1, 1]),
        (
            "the past",
            vec![Op::write(at("/d/a"), "c"), Op::copy(at("/d/a"), at("/e")).as_of(Seq(last + 1))],
            vec![1, 1],
        ),
    ];
    for (what, ops, runs) in begin {
        assert_eq!(lengths(&run_group(&mut filled(), ops)), runs, "{what}");
    }
    // Of these, each has the first one as its answer.
    let write = || Batch::new([Op::append(at("/d/a"), "x")]);
    let record = Idempotency::new("key", [0; 32], Timestamp(i64::MAX));
    for retried in [write().id(CommitId(7)), write().idempotency(record)] {
        let mut store = filled();
        let batches = [retried.clone(), write(), retried.clone(), retried];
        assert_eq!(lengths(&commit_group(&mut store, &batches)), [2, 2]);
        assert_eq!(store.content("/d/a"), b"axx");
    }
}

#[test]
fn group_counts_for_quotas_as_its_batches_do() {
    let mut store = Store::new();
    limit_names(&mut store, "/q", 3);
    let write = |name: &str| Op::write(at(&format!("/q/{name}")), name.to_owned()).with_parents();
    let fit = ["a", "b", "c"].map(write);
    assert_eq!(lengths(&run_group(&mut store, fit)), [3]);
    let more = [Op::write(at("/x"), ""), write("d"), write("e"), Op::remove(at("/q/a")), write("f")];
    // Only what is written tells which entries below the quota have expired.
    assert_eq!(lengths(&run_group(&mut store, more)), [1, 4]);
    assert_eq!(store.paths(), ["/q", "/x", "/q/b", "/q/c", "/q/f"]);
    assert_eq!(store.quotas.get("/q").unwrap().used.entries, 3);
}

/// Returns a random batch, which may be a retry.
fn any_batch(operations: &mut Operations, store: &Store) -> Batch {
    let count = 1 + operations.random.below(3);
    let mut batch = Batch::new((0..count).map(|_| operations.op(store)).collect::<Vec<_>>());
    if operations.random.one_in(6) {
        batch.within = Some(Within::new([operations.path(), operations.path()]));
    }
    if operations.random.one_in(8) {
        batch = batch.require(operations.path(), Precondition::Absent);
    }
    match operations.random.below(12) {
        0 => batch.id(CommitId(operations.random.below(20).into())),
        1 => {
            let key = operations.random.below(20).to_string();
            let keep_until = Timestamp(store.head.time + 200);
            batch.idempotency(Idempotency::new(key, [0; 32], keep_until))
        }
        _ => batch,
    }
}

#[test]
fn random_groups_plan_as_one_after_the_other() {
    let (mut commits, mut together) = (0, 0);
    for seed in 0..40 {
        let mut operations = Operations { random: Random::new(seed) };
        let mut store = Store::new();
        if seed % 4 == 0 {
            limit_names(&mut store, "/a", 4);
            limit_names(&mut store, "/b/c", 2);
        }
        for _ in 0..25 {
            let count = 1 + operations.random.below(8);
            let batches: Vec<Batch> = (0..count).map(|_| any_batch(&mut operations, &store)).collect();
            if operations.random.one_in(6) {
                let open = store.head.next_ino - 1;
                store.open.insert(open);
            }
            together += batches.len() - commit_group(&mut store, &batches).len();
        }
        commits += store.head.seq;
    }
    // Most random operations are refused, and many move directories. Enough of them must pass, and be planned
    // together.
    assert!(commits > 200 && together > 400, "{commits} commits, {together} planned together");
}
