//! Clocks: the database has the only one that counts. Those of servers differ.

use garth_engine::model::Timestamp;
use garth_engine::model::{
    At, Batch, ByteRange, FindQuery, Idempotency, Moment, Op, Page, SearchQuery, SetAttrs,
};
use garth_engine::{ErrorKind, FileSystem as _};

use super::database::{Database, at};

/// Time at which the files of a test are written, in 2001: an age before the clock of this machine.
const START: Timestamp = Timestamp(1_000_000_000_000_000_000);

/// Stops the clock of the database.
fn set_clock(database: &Database, now: Timestamp) {
    let now = now.0;
    let stopped = format!(
        "CREATE OR REPLACE FUNCTION garth.now() RETURNS bigint LANGUAGE sql AS 'SELECT {now}::bigint'"
    );
    database.rows(0, &stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_expire_by_the_clock_of_the_database() {
    let database = Database::new().await;
    let account = database.account("her").await;
    set_clock(&database, START);
    let fs = database.store(account, &database.cluster.socket_url()).await;
    let attrs = SetAttrs::new().tags(["t"]).expires_at(START.plus_seconds(10));
    let op = Op::write(at("/d/a"), "some words").with_parents().with_attrs(attrs);
    let commit = fs.commit(Batch::new([op])).await.unwrap();
    assert_eq!(commit.time, START);
    let (file, dir) = (At::Path(at("/d/a")), At::Path(at("/d")));
    for (after, is_there) in [(0, true), (9, true), (10, false), (60, false)] {
        let now = START.plus_seconds(after);
        set_clock(&database, now);
        assert_eq!(fs.stat(&file).await.is_ok(), is_there, "stat after {after} s");
        assert_eq!(fs.fetch(&file, ByteRange::ALL).await.is_ok(), is_there, "fetch after {after} s");
        for page in [Page::default(), Page::default().with_entries()] {
            let listed = fs.list(&dir, &page).await.unwrap().items.len();
            assert_eq!(listed, usize::from(is_there), "list after {after} s");
        }
        let found = fs.find(&FindQuery::tag("t")).await.unwrap().items.len();
        assert_eq!(found, usize::from(is_there), "find after {after} s");
        let hits = fs.search(&SearchQuery::new("words")).await.unwrap().hits.len();
        assert_eq!(hits, usize::from(is_there), "search after {after} s");
        // A time that the database has not reached shows the state of now.
        let past = fs.as_of(&Moment::Time(START.plus_seconds(1_000_000))).await.unwrap();
        assert_eq!(past.stat(&file).await.is_ok(), is_there, "stat of the future after {after} s");
    }
    // The same node is written again: a commit judges by the same clock.
    let error = fs.commit(Batch::new([Op::append(at("/d/a"), "x").must_exist()])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_records_expire_by_the_clock_of_the_database() {
    let database = Database::new().await;
    let account = database.account("her").await;
    set_clock(&database, START);
    let fs = database.store(account, &database.cluster.socket_url()).await;
    let record = Idempotency::new("key", [7; 32], START.plus_seconds(10));
    fs.commit(Batch::new([Op::write(at("/a"), "x")]).idempotency(record)).await.unwrap();
    for (after, counts) in [(0, true), (9, true), (10, false)] {
        set_clock(&database, START.plus_seconds(after));
        assert_eq!(fs.recorded("key").await.unwrap().is_some(), counts, "after {after} s");
    }
    let past = fs.as_of(&Moment::Time(START)).await.unwrap();
    assert!(past.recorded("key").await.unwrap().is_some(), "it counted then");
}
