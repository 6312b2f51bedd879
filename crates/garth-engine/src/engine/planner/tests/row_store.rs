//! Keys that fetched values answer, and keys that are still to be fetched.

use std::collections::HashSet;
use std::sync::Arc;

use super::*;
use crate::model::Attributes;
use crate::rule::Rules;

const ALL: usize = usize::MAX;

fn no_rows() -> RowStore {
    RowStore::new(Arc::new(Rules::none()))
}

fn row(ino: u64) -> NameRow {
    NameRow { ino, since: 1, kind: Kind::File }
}

fn key(dir: &str, name: &str) -> Key {
    (dir.to_owned(), name.to_owned())
}

fn below(dir: &str) -> Region {
    Region { dir: dir.to_owned(), ..Region::default() }
}

/// Returns names of inodes 1, 2 and so on.
fn names(keys: &[(&str, &str)]) -> Result<RowValue> {
    let named = |((dir, name), ino): (&(&str, &str), u64)| ((*dir).to_owned(), (*name).to_owned(), row(ino));
    Ok(RowValue::Names(keys.iter().zip(1..).map(named).collect()))
}

fn extent(off: u64, len: u64) -> ExtentRow {
    ExtentRow { off, len, since: 1, chunk: 1, skip: 0, written: 1 }
}

fn extents_of(rows: &[ExtentRow]) -> Result<RowValue> {
    Ok(RowValue::Extents(rows.to_vec()))
}

/// Checks that a read misses its key.
#[track_caller]
fn assert_missed<T>(rows: &mut RowStore, key: RowKey, read: impl FnOnce(&RowStore) -> Result<T>) {
    assert!(!rows.missed());
    assert!(read(rows).is_err_and(|error| !error.is_absent()), "{key:?}");
    assert!(rows.missed(), "{key:?}");
    assert_eq!(rows.take_wanted(), [key]);
}

#[test]
fn names_below_a_directory_answer_each_name_in_it() {
    let mut rows = no_rows();
    rows.put(RowKey::NamesBelow(below("/d"), 9), names(&[("/d/s", "b"), ("/d", "s"), ("/d", "a")]));
    let cases = [
        ("/d", "a", Some(3)),
        ("/d", "s", Some(2)),
        ("/d/s", "b", Some(1)),
        ("/d", "none", None),
        ("/d/s/none", "b", None),
    ];
    for (dir, name, ino) in cases {
        assert_eq!(rows.name(dir, name).unwrap(), ino.map(row), "{dir}/{name}");
    }
    assert_eq!(rows.names_in("/d", ALL).unwrap(), [("a".to_owned(), row(3)), ("s".to_owned(), row(2))]);
    assert_eq!(rows.names_in("/d", 1).unwrap(), [("a".to_owned(), row(3))]);
    assert_eq!(rows.names_in("/d/none", 1).unwrap(), []);

    let paths = |region: &Region, limit| {
        let names = rows.names_below(region, limit).unwrap();
        names.iter().map(|(dir, name, _)| format!("{dir}/{name}")).collect::<Vec<_>>()
    };
    assert_eq!(paths(&below("/d"), ALL), ["/d/a", "/d/s", "/d/s/b"]);
    assert_eq!(paths(&below("/d"), 2), ["/d/a", "/d/s"]);
    assert_eq!(paths(&below("/d/s"), 1), ["/d/s/b"]);
    let without = Region { without: ["/d/s".to_owned()].into(), ..below("/d") };
    assert_eq!(paths(&without, ALL), ["/d/a", "/d/s"]);
    let all_but_a = Region { names: [key("/d", "a")].into(), ..below("/d") };
    assert_eq!(paths(&all_but_a, ALL), ["/d/s", "/d/s/b"]);

    assert_missed(&mut rows, RowKey::Name("/d-".into(), "a".into()), |rows| rows.name("/d-", "a"));
    assert_missed(&mut rows, RowKey::Name(String::new(), "d".into()), |rows| rows.name("", "d"));
    assert_missed(&mut rows, RowKey::NamesBelow(below(""), 9), |rows| rows.names_below(&below(""), 9));
}

#[test]
fn list_up_to_its_limit_answers_only_names_that_it_has() {
    let mut rows = no_rows();
    let two = || names(&[("/d", "a"), ("/d/s", "b")]);
    rows.put(RowKey::NamesBelow(below("/d"), 2), two());
    assert_eq!(rows.name("/d/s", "b").unwrap(), Some(row(2)));
    assert_eq!(rows.names_below(&below("/d"), 1).unwrap().len(), 1);
    assert_missed(&mut rows, RowKey::Name("/d".into(), "z".into()), |rows| rows.name("/d", "z"));
    assert_missed(&mut rows, RowKey::NamesIn("/d".into(), 1), |rows| rows.names_in("/d", 1));
    for (dir, limit) in [("/d", 3), ("/d/s", 1)] {
        let key = RowKey::NamesBelow(below(dir), limit);
        assert_missed(&mut rows, key, |rows| rows.names_below(&below(dir), limit));
    }
    rows.put(RowKey::NamesBelow(below("/d"), 3), two());
    assert_eq!(rows.name("/d", "z").unwrap(), None, "there are no more");
    rows.put(RowKey::NamesBelow(below("/d"), 1), names(&[("/d", "a")]));
    assert_eq!(rows.name("/d", "z").unwrap(), None, "a shorter list replaces nothing");
}

#[test]
fn names_in_a_directory_answer_each_of_them() {
    let mut rows = no_rows();
    let two = || names(&[("/d", "a"), ("/d", "b")]);
    rows.put(RowKey::NamesIn("/d".into(), 2), two());
    assert_eq!(rows.names_in("/d", 1).unwrap(), [("a".to_owned(), row(1))]);
    assert_eq!(rows.name("/d", "b").unwrap(), Some(row(2)));
    assert_missed(&mut rows, RowKey::NamesIn("/d".into(), 3), |rows| rows.names_in("/d", 3));
    assert_missed(&mut rows, RowKey::Name("/d".into(), "c".into()), |rows| rows.name("/d", "c"));
    rows.put(RowKey::NamesIn("/d".into(), 3), two());
    assert_eq!(rows.names_in("/d", ALL).unwrap().len(), 2);
    assert_eq!(rows.name("/d", "c").unwrap(), None);
    assert_missed(&mut rows, RowKey::Name("/d/a".into(), "x".into()), |rows| rows.name("/d/a", "x"));
}

#[test]
fn names_of_a_node_answer_other_limits() {
    let mut rows = no_rows();
    let everything = Within::everything();
    let [one, all] = [1, ALL].map(|limit| RowKey::NamesOf(7, everything.clone(), limit));
    rows.put(one, Ok(RowValue::Keys(vec![key("/d", "a")])));
    assert_eq!(rows.names_of(7, &everything, 1).unwrap(), [key("/d", "a")]);
    assert_missed(&mut rows, all.clone(), |rows| rows.names_of(7, &everything, ALL));
    rows.put(all, Ok(RowValue::Keys(vec![key("/d", "a"), key("/e", "b")])));
    for (limit, count) in [(1, 1), (2, 2), (5, 2), (ALL, 2)] {
        assert_eq!(rows.names_of(7, &everything, limit).unwrap().len(), count, "{limit}");
    }
    let within = Within::new([at("/d")]);
    let key = RowKey::NamesOf(7, within.clone(), 1);
    assert_missed(&mut rows, key, |rows| rows.names_of(7, &within, 1));
}

#[test]
fn names_of_the_past_answer_for_their_commit() {
    let mut rows = no_rows();
    rows.put(RowKey::NamesBelowAt("/d".into(), 3, 9), names(&[("/d", "a"), ("/d/s", "b")]));
    assert_eq!(rows.name_at("/d/s", "b", 3).unwrap(), Some(row(2)));
    assert_eq!(rows.name_at("/d/s", "none", 3).unwrap(), None);
    let names = rows.names_below_at("/d/s", 3, 5).unwrap();
    assert_eq!(names, [("/d/s".to_owned(), "b".to_owned(), row(2))]);
    let key = RowKey::NameAt("/d".into(), "a".into(), 4);
    assert_missed(&mut rows, key, |rows| rows.name_at("/d", "a", 4));
    assert_missed(&mut rows, RowKey::Name("/d".into(), "a".into()), |rows| rows.name("/d", "a"));
}

#[test]
fn newest_attributes_answer_for_the_commit_that_set_them() {
    let mut rows = no_rows();
    let attributes = Attributes { tags: vec!["t".to_owned()], ..Attributes::default() };
    let newest = RowKey::Attributes(7, u64::MAX);
    rows.put(newest.clone(), Ok(RowValue::Attributes { seq: 5, attributes: attributes.clone() }));
    assert_eq!(rows.attributes(7, 5).unwrap(), attributes);
    rows.prefetch(vec![newest, RowKey::Attributes(7, 5)]);
    assert_eq!(rows.take_wanted(), []);
    assert_missed(&mut rows, RowKey::Attributes(7, 4), |rows| rows.attributes(7, 4));
}

#[test]
fn extents_answer_parts_of_fetched_ranges() {
    let mut rows = no_rows();
    let last = extent(60, 60);
    rows.put(RowKey::Extents(7, 0, 100), extents_of(&[extent(0, 40), last]));
    assert_eq!(rows.extents(7, 50, 70).unwrap(), [last]);
    assert_eq!(rows.extents(7, 40, 60).unwrap(), []);
    assert_eq!(rows.extents(7, 0, 0).unwrap(), []);
    assert_eq!(rows.extents(7, 0, 100).unwrap(), [extent(0, 40), last]);
    assert_missed(&mut rows, RowKey::Extents(7, 90, 110), |rows| rows.extents(7, 90, 110));
    assert_missed(&mut rows, RowKey::Extents(8, 0, 1), |rows| rows.extents(8, 0, 1));
    assert_missed(&mut rows, RowKey::ExtentsAt(7, 3, 0, 1), |rows| rows.extents_at(7, 3, 0, 1));

    rows.put(RowKey::Extents(7, 100, 200), extents_of(&[last]));
    assert_eq!(rows.extents(7, 90, 150).unwrap(), [last], "of two ranges that touch");

    rows.put(RowKey::ExtentsAt(7, 3, 0, u64::MAX), extents_of(&[extent(0, 5)]));
    assert_eq!(rows.extents_at(7, 3, 0, 9).unwrap(), [extent(0, 5)]);
    assert_missed(&mut rows, RowKey::ExtentsAt(7, 4, 0, 9), |rows| rows.extents_at(7, 4, 0, 9));
}

#[test]
fn empty_range_tells_nothing_about_its_bytes() {
    let mut rows = no_rows();
    rows.put(RowKey::Extents(7, 0, 10), extents_of(&[]));
    assert_missed(&mut rows, RowKey::Extents(7, 30, 30), |rows| rows.extents(7, 30, 30));
    rows.put(RowKey::Extents(7, 30, 30), extents_of(&[]));
    assert_eq!(rows.extents(7, 30, 30).unwrap(), []);
    assert_missed(&mut rows, RowKey::Extents(7, 30, 31), |rows| rows.extents(7, 30, 31));
}

#[test]
fn errors_of_rows_are_returned_by_their_reads() {
    let mut rows = no_rows();
    let all = RowKey::ExtentsAt(7, 3, 0, u64::MAX);
    rows.put(all.clone(), Err(Error::content_gone(3)));
    rows.put(RowKey::TimeOf(3), Err(Error::new(ErrorKind::NotFound, "there is no such commit")));
    for (from, to) in [(0, u64::MAX), (5, 9), (0, 0)] {
        assert!(rows.extents_at(7, 3, from, to).is_err_and(|error| error.is(ErrorKind::Gone)));
    }
    assert!(rows.time_of(3).is_err_and(|error| error.is(ErrorKind::NotFound)));
    assert!(!rows.missed());
    rows.prefetch(vec![all, RowKey::TimeOf(3)]);
    assert_eq!(rows.take_wanted(), []);
}

#[test]
fn value_of_another_key_is_an_error() {
    let mut rows = no_rows();
    for key in [RowKey::Node(1), RowKey::NamesIn("/d".into(), 9), RowKey::Extents(1, 0, 9)] {
        rows.put(key, Ok(RowValue::Flag(true)));
    }
    assert!(rows.node(1).is_err() && rows.names_in("/d", 9).is_err() && rows.extents(1, 0, 9).is_err());
    assert!(!rows.missed(), "fetching them again would not help");
}

#[test]
fn unfetched_rows_are_wanted_once() {
    let mut rows = no_rows();
    rows.put(RowKey::Node(1), Ok(RowValue::NewestNode(None)));
    rows.prefetch([1, 2, 3, 2].map(RowKey::Node).into());
    assert_eq!(rows.node(1).unwrap(), None);
    assert!(!rows.missed(), "a row that is only prefetched is not missed");
    assert!(rows.node(2).is_err() && rows.node(2).is_err());
    assert!(rows.missed());
    let wanted = rows.take_wanted();
    assert_eq!(wanted.len(), 2);
    assert_eq!(HashSet::from_iter(wanted), HashSet::from([2, 3].map(RowKey::Node)));
    assert!(!rows.missed() && rows.take_wanted().is_empty());
}
