//! Content that ends and what holds it, in an account on a manual clock.

use futures::executor::block_on;

use super::*;
use crate::engine::sqlite::maintain::sample_account::{
    GRACE, SampleAccount, at, keeping_content, renew_leases,
};
use crate::engine::sqlite::schema;
use crate::error::ErrorKind;
use crate::fs::{AccountStore as _, FileSystem as _};
use crate::model::{At, ByteRange, Moment, Op, Seq};
use crate::rule::retention::MAX_JUDGED_NAMES;
use crate::runtime::failpoint::Failure;
use crate::sqlite::steps;

/// Returns an account whose file `/off/a`, which keeps no old content, was written in 10 commits, and
/// `/off/b` removed in the last.
fn account() -> SampleAccount {
    let account = SampleAccount::new();
    account.retain(keeping_content(&[("/off/**", 0)]));
    for n in 0..10 {
        let mut ops = vec![Op::write(at("/off/a"), format!("a{n}")).with_parents()];
        ops.extend((n == 0).then(|| Op::write(at("/off/d/b"), "b").with_parents()));
        ops.extend((n == 9).then(|| Op::remove_tree(at("/off/d"))));
        account.clock.advance(Duration::from_secs(1));
        account.commit(ops);
    }
    account
}

/// Returns the number of extents.
fn extents(account: &SampleAccount) -> u64 {
    account.count("SELECT count(*) FROM extent")
}

/// Returns true if the content of `/off/a` after a commit can be read, by a new view.
fn reads(account: &SampleAccount, seq: u64) -> bool {
    let then = block_on(account.fs.as_of(&Moment::Seq(Seq(seq)))).unwrap();
    match block_on(then.read(&at("/off/a"), ByteRange::ALL)) {
        Ok(bytes) => {
            assert_eq!(bytes, format!("a{}", seq - 1));
            true
        }
        Err(error) => {
            assert!(error.is(ErrorKind::Gone), "{error}");
            false
        }
    }
}

#[test]
fn old_content_leaves_no_extents() {
    let account = account();
    let marked = account.collect_and_wait();
    assert_eq!((marked.contents, marked.waiting_contents, extents(&account)), (10, 2, 11));
    assert!((1..10).all(|seq| !reads(&account, seq)) && reads(&account, 10));
    // The removed file waits until nobody can have it open.
    assert_eq!((account.collect_and_wait().waiting_contents, extents(&account)), (1, 2));
    account.collect_and_wait();
    assert_eq!(extents(&account), 1);
    assert_eq!(account.count("SELECT count(*) FROM content_gone"), 2, "one for each file");
    assert!((1..10).all(|seq| !reads(&account, seq)) && reads(&account, 10));
    assert_eq!(account.collect_and_wait(), Collected::default(), "nothing is left to do");
}

#[test]
fn content_from_before_an_upgrade_is_found() {
    let account = account();
    account
        .fs
        .step(|conn, _| {
            conn.execute("UPDATE head SET queued = 10", [])?;
            Ok(conn.execute("DELETE FROM replaced", [])?)
        })
        .unwrap();
    assert_eq!(account.collect_and_wait().contents, 10);
    account.collect_and_wait();
    account.collect_and_wait();
    assert_eq!(extents(&account), 1);
}

#[test]
fn snapshot_during_a_collection_keeps_its_content() {
    let account = account();
    let basis = account.fs.search_basis().unwrap().unwrap();
    for op in [Op::snapshot("then"), Op::write(at("/off/a"), "a10")] {
        account.clock.advance(Duration::from_secs(1));
        account.commit([op]);
    }
    let (now, mut collected) = (account.now(), Collected::default());
    account.fs.mark_by(&basis, now, &mut collected).unwrap();
    assert!(reads(&account, 10), "the snapshot shows it");
    assert_eq!(collected.contents, 10, "what was replaced before is gone");
    account.collect_and_wait();
    assert!(reads(&account, 10));
}

#[test]
fn limits_set_during_a_collection_count() {
    let account = account();
    let (fs, now) = (&account.fs, account.now());
    let mark = |basis: &SearchBasis| {
        let mut collected = Collected::default();
        fs.mark_by(basis, now, &mut collected).unwrap();
        collected.contents
    };
    let basis = fs.search_basis().unwrap().unwrap();
    account.retain(keeping_content(&[]));
    assert_eq!(mark(&basis), 0);
    assert!((1..=10).all(|seq| reads(&account, seq)), "its limit was removed");
    account.retain(keeping_content(&[("/other", 0)]));
    let basis = fs.search_basis().unwrap().unwrap();
    account.retain(keeping_content(&[("/other", 0), ("/off/**", 0)]));
    mark(&basis);
    assert_eq!(account.collect_and_wait().contents, 10, "the log is searched for the new limit");
}

#[test]
fn place_of_a_search_is_noted_by_one_collection() {
    let account = account();
    let basis = account.fs.search_basis().unwrap().unwrap();
    let now = account.now();
    let search = Search::new(basis, vec![AgeSpan { age: Duration::ZERO, from: 0, to: 10 }], now);
    let note = |from: u64, to| account.fs.set_searched(&search, &mut [from], to, &Files::default()).unwrap();
    assert!(note(0, 7));
    assert!(!note(5, 10), "a snapshot was dropped meanwhile, or another collection has gone on");
    assert!(note(7, 10));
}

#[test]
fn log_is_searched_once_for_all_ages() {
    let age = |seconds, from, to| AgeSpan { age: Duration::from_secs(seconds), from, to };
    let ages = [age(0, 90, 100), age(60, 4, 8), age(90, 2, 6), age(99, 50, 50)];
    assert_eq!(next_span(&ages, 0), Some((2, 6)));
    assert_eq!(next_span(&ages, 5), Some((5, 8)));
    assert_eq!(next_span(&ages, 8), Some((90, 100)), "commits that were searched are not read");
    assert_eq!(next_span(&ages, 100), None);
}

#[test]
fn each_age_keeps_the_place_of_its_search() {
    let account = account();
    account.retain(keeping_content(&[("/off/**", 0), ("/hour/**", 3600), ("/five/**", 5)]));
    let places = || {
        let place =
            |age| retention::searched(&schema::database(account.folder.path()).connect().unwrap(), age);
        [0, 5, 3600].map(|seconds| place(Duration::from_secs(seconds)).unwrap())
    };
    account.collect();
    assert_eq!(places(), [10, 5, 0]);
    account.clock.advance(Duration::from_secs(2));
    account.commit([Op::write(at("/off/a"), "a10")]);
    account.collect();
    assert_eq!(places(), [11, 7, 0]);
    assert!(!reads(&account, 10) && reads(&account, 11));
}

#[test]
fn search_goes_on_where_another_collection_ended() {
    let account = account();
    let basis = account.fs.search_basis().unwrap().unwrap();
    let (now, mut collected) = (account.now(), Collected::default());
    let search = Search::new(basis, vec![AgeSpan { age: Duration::ZERO, from: 0, to: 10 }], now);
    account.fs.step(|conn, _| retention::set_searched(conn, Duration::ZERO, 2)).unwrap();
    assert!(!SqliteFs::search(&account.fs, &search, vec![0], &mut collected).unwrap());
    assert_eq!(collected.contents, 2, "what it has marked counts");
    account.fs.mark_contents(now, &mut collected).unwrap();
    assert_eq!(collected.contents, 10);
}

#[test]
fn collections_at_once_end_all_content() {
    let account = account();
    let other = account.other();
    let contents = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| other.collect(GRACE).unwrap().contents);
        let ours = account.collect().contents;
        assert!((1..10).all(|seq| !reads(&account, seq)), "its own run has ended what was due");
        ours + theirs.join().unwrap()
    });
    assert_eq!(contents, 10);
    account.assert_sound();
}

#[test]
fn leased_view_reads_until_it_is_closed() {
    let account = account();
    let other = account.other();
    // Opened before the mark, in another process, which takes a lease at its next tick.
    let view = block_on(other.as_of(&Moment::Seq(Seq(5)))).unwrap();
    let read = || block_on(view.read(&at("/off/a"), ByteRange::ALL));
    account.clock.advance(Duration::from_secs(1));
    assert_eq!(account.collect().contents, 10);
    assert!(!reads(&account, 5));
    assert_eq!(read().unwrap(), "a4");
    renew_leases(&other);
    let times = Times::new(account.now(), Duration::ZERO);
    let collected = &mut Collected::default();
    account.fs.remove_contents(times, collected).unwrap();
    assert_eq!(read().unwrap(), "a4", "its state is leased");
    account.clock.advance(Duration::from_secs(86_400));
    let times = Times::new(account.now(), GRACE);
    account.fs.remove_contents(times, collected).unwrap();
    assert!(read().unwrap_err().is(ErrorKind::Gone), "never read as a hole");
}

#[test]
fn view_opened_during_a_collection_reads_on() {
    let account = account();
    let other = account.other();
    let basis = account.fs.search_basis().unwrap().unwrap();
    let begun = account.now();
    account.clock.advance(Duration::from_secs(300));
    let view = block_on(other.as_of(&Moment::Seq(Seq(5)))).unwrap();
    account.clock.advance(Duration::from_secs(1));
    account.fs.mark_by(&basis, begun, &mut Collected::default()).unwrap();
    assert!(!reads(&account, 5));
    assert_eq!(block_on(view.read(&at("/off/a"), ByteRange::ALL)).unwrap(), "a4");
    account.clock.advance(GRACE - Duration::from_secs(1));
    account.fs.remove_contents(Times::new(account.now(), GRACE), &mut Collected::default()).unwrap();
    assert_eq!(block_on(view.read(&at("/off/a"), ByteRange::ALL)).unwrap(), "a4", "its grace period");
}

#[test]
fn removed_content_of_an_open_file_is_no_hole() {
    let account = account();
    let other = account.other();
    let held = block_on(account.fs.open(&at("/off/a"))).unwrap();
    account.commit([Op::remove_file(at("/off/a"))]);
    assert_eq!(block_on(held.read_at(0, 10)).unwrap(), "a9");
    // The process that has it open is stopped, and takes no lease.
    for _ in 0..4 {
        other.collect(GRACE).unwrap();
        account.clock.advance(GRACE);
    }
    assert_eq!(extents(&account), 0);
    assert!(block_on(held.read_at(0, 10)).unwrap_err().is(ErrorKind::Gone));
    assert!(block_on(held.next_data(0)).unwrap_err().is(ErrorKind::Gone));
    let by_node = At::Node(held.ino());
    assert!(block_on(account.fs.read(&by_node, ByteRange::ALL)).unwrap_err().is(ErrorKind::Gone));
}

#[test]
fn clock_that_was_ahead_keeps_no_content() {
    let account = account();
    account.collect_and_wait();
    let ahead = "UPDATE content_gone SET marked = marked + 2000000000000000000";
    account.fs.step(|conn, _| Ok(conn.execute(ahead, [])?)).unwrap();
    assert!(reads(&account, 5), "its mark is yet to come");
    account.collect_and_wait();
    assert!(!reads(&account, 5));
    account.collect_and_wait();
    account.collect_and_wait();
    assert_eq!(extents(&account), 1);
}

#[test]
fn file_with_too_many_names_keeps_its_content() {
    let account = account();
    let links = (0..MAX_JUDGED_NAMES).map(|n| Op::link(at("/off/a"), at(&format!("/off/{n}"))));
    account.commit(links);
    assert_eq!(account.collect_and_wait().contents, 1, "that of the removed file");
    assert!((1..=10).all(|seq| reads(&account, seq)));
}

#[test]
fn move_to_a_stricter_class_ends_content() {
    let account = account();
    account.retain(keeping_content(&[("/day/**", 6), ("/short/**", 1)]));
    let first = account.commit([Op::write(at("/day/a"), "one").with_parents()]).seq;
    account.commit([Op::write(at("/day/a"), "two")]);
    account.clock.advance(Duration::from_secs(2));
    assert_eq!(account.collect().contents, 0);
    account.commit([Op::rename(at("/day/a"), at("/short/a")).with_parents()]);
    account.clock.advance(Duration::from_secs(3));
    assert_eq!(account.collect().contents, 0, "its search is over");
    account.clock.advance(Duration::from_secs(2));
    assert_eq!(account.collect().contents, 1);
    let then = block_on(account.fs.as_of(&Moment::Seq(first))).unwrap();
    let read = block_on(then.read(&at("/day/a"), ByteRange::ALL));
    assert!(read.unwrap_err().is(ErrorKind::Gone));
}

#[test]
fn removal_skips_content_that_ended_earlier() {
    steps::assert_same([10, 200], |versions| {
        let account = account();
        let ino = block_on(account.fs.stat(&at("/off/a"))).unwrap().ino.0;
        for n in 0..versions {
            account.commit([Op::write(at("/off/a"), format!("{n}"))]);
        }
        let till = account.commit([Op::remove_file(at("/off/a"))]).seq.0;
        let span = Span { ino, since: till - 1, till };
        account.fs.step(move |conn, _| content_gone::mark(conn, span, 0)).unwrap();
        let conn = schema::database(account.folder.path()).connect().unwrap();
        let env = account.fs.inner.runtime.env().clone();
        let (open, read, mut removed) = (&account.fs.inner.open, BTreeSet::new(), RemovedPast::default());
        let (left, steps) = steps::here(|| {
            let turn = &mut Turn::begin(&env);
            remove_content(&conn, open, &read, (span, None), &mut removed, turn).unwrap()
        });
        assert_eq!((left, removed.bytes > 0), (None, true));
        steps
    });
}

#[test]
fn content_that_stays_is_not_due_at_each_tick() {
    let account = account();
    let other = account.other();
    let view = block_on(other.as_of(&Moment::Seq(Seq(5)))).unwrap();
    account.clock.advance(Duration::from_secs(1));
    account.collect_and_wait();
    for _ in 0..3 {
        renew_leases(&other);
        assert!(block_on(account.fs.collect_next()).unwrap().unwrap() <= account.now());
        account.collect();
        assert_eq!(block_on(account.fs.collect_next()).unwrap(), Some(account.now().plus_seconds(600)));
        account.clock.advance(GRACE);
    }
    drop(view);
}

#[test]
fn content_replaced_by_a_clock_ahead_is_due() {
    let account = account();
    for _ in 0..3 {
        account.collect_and_wait();
    }
    let now = account.now();
    account.clock.advance(Duration::from_secs(86_400));
    account.commit([Op::write(at("/off/a"), "a10")]);
    account.clock.set(now);
    assert_eq!(block_on(account.fs.collect_next()).unwrap(), Some(now));
    assert_eq!(account.collect_and_wait().contents, 1);
    assert!(!reads(&account, 10) && reads(&account, 11));
}

#[test]
fn interrupted_collection_goes_on() {
    for (point, after) in [("content-mark", 0), ("content-mark", 2), ("content-remove", 0)] {
        let account = account();
        for _ in 0..4 {
            account.fs.inner.runtime.failpoints().arm(point, Failure::Io, after);
            let failed = account.fs.collect(GRACE).is_err();
            account.fs.inner.runtime.failpoints().disarm();
            account.clock.advance(GRACE);
            assert_eq!(account.fs.check().unwrap().findings, [], "{point}");
            assert!(reads(&account, 10));
            if failed {
                account.collect_and_wait();
            }
        }
        assert_eq!(extents(&account), 1, "{point}");
        assert!((1..10).all(|seq| !reads(&account, seq)), "{point}");
    }
}
