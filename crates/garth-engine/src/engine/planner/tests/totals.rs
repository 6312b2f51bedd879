//! Limits on what the operations of a batch do together.

use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::model::{MAX_NEW_NAMES, MAX_OPS};
use crate::path::Name;

/// Returns the error of operations that are refused, and the queries and rows that it took to refuse them.
fn refused(store: &Store, ops: impl IntoIterator<Item = Op>) -> (Error, usize) {
    store.asked.store(0, Relaxed);
    match plan(store, store.head, Timestamp(1000), &Batch::new(ops)) {
        Err(error) => (error, store.asked.load(Relaxed)),
        Ok(_) => panic!("the operations are not refused"),
    }
}

/// Returns a path of more than 3,700 bytes.
fn long_path() -> TreePath {
    at(&format!("/{}", vec!["n".repeat(250); 15].join("/")))
}

#[track_caller]
fn assert_too_large(error: &Error, path: &str, limit: &str) {
    let about = error.path().map(TreePath::as_str);
    assert!(error.is(ErrorKind::TooLarge) && error.message().contains(limit), "{error}");
    assert_eq!(about, Some(path), "{error}");
}

#[test]
fn names_of_a_batch_are_limited() {
    // Each operation gives two names. The last one gives the first name that is too many.
    let ops = (0..=MAX_OPS).map(|number| Op::mkdir_all(at(&format!("/{number}/d"))));
    assert_eq!(2 * MAX_OPS, MAX_NEW_NAMES);
    let (error, _) = refused(&Store::new(), ops);
    assert_too_large(&error, &format!("/{MAX_OPS}"), "200000 names");
}

#[test]
fn missing_parents_are_limited_by_bytes_of_paths() {
    let deep = |number: usize| at(&format!("/{number}{}", "/x".repeat(1990)));
    let kinds: [fn(TreePath) -> Op; 4] = [
        Op::mkdir_all,
        |path| Op::write(path, "x").with_parents(),
        |path| Op::link(at("/f"), path).with_parents(),
        |path| Op::copy(at("/f"), path).with_parents(),
    ];
    let store = tree([Op::write(at("/f"), "x")]);
    for op in kinds {
        // The work stops at the limit, however long the batch is.
        let [few, many] = [9, 90].map(|count| refused(&store, (0..count).map(|number| op(deep(number)))));
        assert!(few.0.is(ErrorKind::TooLarge) && few.0.message().contains("33554432 bytes"), "{}", few.0);
        assert!(few.0.path().unwrap().is_within(&at("/8")), "eight of them fit");
        assert_eq!((few.0.path(), few.1), (many.0.path(), many.1));
    }
}

#[test]
fn new_names_count_again_where_their_directory_moves() {
    let long = long_path();
    let writes = (0..5000).map(|number| Op::write(at(&format!("/d/{number}")), "").with_parents());
    let there = Op::rename(at("/d"), long.clone()).with_parents();
    let moves = [there.clone(), Op::rename(long.clone(), at("/d")), there];
    let (error, _) = refused(&Store::new(), writes.chain(moves));
    assert_too_large(&error, long.as_str(), "33554432 bytes");
}

#[test]
fn addresses_by_directory_count_with_their_path() {
    let long = long_path();
    let mut store = tree([Op::mkdir_all(long.clone())]);
    let dir = Ino(store.node_of(long.as_str()).ino);
    let child = |number: usize| At::Child(dir, Name::parse(&number.to_string()).unwrap());
    store.run((0..10).map(|number| Op::write(child(number), "")));
    let kinds: [fn(At) -> Op; 2] = [|at| Op::append(at, "x"), |at| Op::remove(at).if_exists()];
    // As they are sent, they are much shorter than the limit.
    for op in kinds {
        let (error, _) = refused(&store, (0..9000).map(|number| op(child(number % 10))));
        assert!(error.is(ErrorKind::TooLarge) && error.message().contains("33554432 bytes"), "{error}");
    }
}

#[test]
fn expired_names_of_a_commit_are_limited() {
    let expired = |path: &str| Op::write(at(path), "").with_attrs(expires(50));
    let mut store = tree([expired("/a"), expired("/b"), Op::mkdir(at("/d"))]);
    let [a, b] = ["/a", "/b"].map(|path| store.node_of(path).ino);
    store.name_often(a, "/d", 0..1000);
    store.name_often(b, "/d", 1000..1001);
    let gone = |path: &str| Op::check(at(path), Precondition::Absent);
    let (error, _) = refused(&store, [gone("/a"), gone("/b")]);
    assert!(error.is(ErrorKind::TooLarge) && error.message().contains("garth gc"), "{error}");
    // One that exceeds the limit alone ends nonetheless.
    assert!(plan(&store, store.head, Timestamp(1000), &Batch::new([gone("/a")])).is_ok());
}

/// Returns the number of names that operations go through.
fn examined(store: &Store, ops: &[Op]) -> usize {
    let batch = Batch { within: Some(Within::new([at("/t")])), ..Batch::new(ops.to_vec()) };
    let reaches = batch.reaches();
    let mut planner = Planner::on(store, store.head, Timestamp(1000), &reaches.own);
    planner.ops(&batch.ops, &reaches).unwrap();
    planner.totals.examined()
}

#[test]
fn names_that_operations_go_through_are_counted() {
    let (names, times) = (50, 20);
    let mut store = tree([Op::mkdir_all(at("/t/full")), Op::write(at("/t/f"), "")]);
    let file = Ino(store.node_of("/t/f").ino);
    store.name_often(file.0, "/t/full", 0..names);
    let given = || (0..names).map(|number| Op::mkdir_all(at(&format!("/t/d/{number}"))));
    let there_and_back = [Op::rename(at("/t/d"), at("/t/e")), Op::rename(at("/t/e"), at("/t/d"))];
    let longer = |number: usize| at(&format!("/t/full{}", "l".repeat(number)));
    let batches: [(&str, Vec<Op>); 4] = [
        ("moves of given names", given().chain(there_and_back.into_iter().cycle().take(times)).collect()),
        (
            "removals of a directory that had names",
            given()
                .chain([Op::remove_tree(at("/t/d"))])
                .chain((0..times).flat_map(|_| [Op::mkdir(at("/t/d")), Op::remove_dir(at("/t/d"))]))
                .collect(),
        ),
        (
            "moves to longer paths",
            (0..times).map(|number| Op::rename(longer(number), longer(number + 1))).collect(),
        ),
        (
            "changes of a node with many names",
            // Where something has moved, all of its names are looked at.
            [Op::mkdir(at("/t/d")), Op::rename(at("/t/d"), at("/t/e"))]
                .into_iter()
                .chain((0..times).map(|_| Op::set_attrs(file, SetAttrs::new().mode(0o600))))
                .collect(),
        ),
    ];
    for (what, ops) in batches {
        let counted = examined(&store, &ops);
        assert!((names * times..10 * names * times).contains(&counted), "{what}: {counted}");
    }
}

#[test]
fn operations_after_a_million_names_are_refused() {
    let names = 60_000;
    let mut store = tree([Op::mkdir(at("/d")), Op::write(at("/f"), "")]);
    let file = store.node_of("/f").ino;
    store.name_often(file, "/d", 0..names);
    let longer = |number: usize| at(&format!("/d{}", "l".repeat(number)));
    let moves = (0..30).map(|number| Op::rename(longer(number), longer(number + 1)));
    let (error, _) = refused(&store, moves);
    assert!(error.is(ErrorKind::TooLarge) && error.message().contains("1000000 names"), "{error}");
}
