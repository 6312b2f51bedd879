//! Capabilities: an implementation does what it declares, and rejects everything else without a change.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use garth_engine::ErrorKind::{ReadOnly, Unsupported};
use garth_engine::model::{
    At, Batch, ByteRange, ChangesQuery, CommitId, Confinement, HistoryPage, Moment, Op, Owner, Seq, SetAttrs,
    SnapshotsPage, Special, Within,
};

use super::retries::record;
use super::suite::checks;
use crate::subject::{START, Subject};
use crate::tools::*;

checks! {
    unsupported_operations_fail_without_change
    missing_read_capabilities_fail_as_unsupported
    past_view_lacks_only_writing [history]
}

async fn unsupported_operations_fail_without_change(subject: &Subject) {
    let fs = &*subject.fs;
    let has = can(fs);
    let version = put(fs, "/f", "x").await;
    let expires = SetAttrs::new().expires_at(START.plus_seconds(1000));
    if !has.log {
        let known = [
            Batch::new([write("/f", "y")]).id(CommitId(1)),
            Batch::new([write("/f", "y")]).idempotency(record("k", 1, 1000)),
        ];
        for batch in known {
            batch_refused(fs, batch, Unsupported, None).await;
        }
        assert_eq!(text(fs, "/f").await, "x");
    }
    let cases = [
        (has.nodes, write_at(At::Node(version.ino), "y")),
        (has.links, link("/f", "/g")),
        (has.special, mknod("/p", Special::Fifo)),
        (has.attributes, set("/f", SetAttrs::new().tags(["t"]))),
        (has.expiry, write_with("/f", "y", expires)),
        (has.holes, Op::punch(at("/f"), 0, 1)),
        (has.history, restore("/f", version.seq, "/back")),
        (has.snapshots, Op::snapshot("s")),
    ];
    for (has, op) in cases {
        let (what, before) = (format!("{op:?}"), (stat(fs, "/f").await, paths_below(fs, "/").await));
        match (has, fs.commit(Batch::new([op])).await) {
            // Also an ability that is declared must work.
            (true, committed) => drop(committed.unwrap_or_else(|error| panic!("{what}: {error}"))),
            (false, committed) => {
                assert_eq!(committed.unwrap_err().kind(), Unsupported, "{what}");
                assert_eq!((stat(fs, "/f").await, paths_below(fs, "/").await), before, "{what}");
            }
        }
    }
}

async fn missing_read_capabilities_fail_as_unsupported(subject: &Subject) {
    let fs = &*subject.fs;
    let has = can(fs);
    let version = put(fs, "/f", "x").await;
    let node = At::Node(version.ino);
    let now = Moment::Seq(version.seq);
    let file = fs.open(&at("/f")).await.unwrap();
    let here = Confinement::new(Within::everything(), Owner::new("view").unwrap());
    let reads = [
        ("stat by number", has.nodes, fs.stat(&node).await.map(drop)),
        ("committed", has.log, fs.committed(CommitId(1)).await.map(drop)),
        ("recorded", has.log, fs.recorded("k").await.map(drop)),
        ("hold", has.nodes, fs.hold(&at("/f")).await.map(drop)),
        ("next_hole", has.holes, file.next_hole(0).await.map(drop)),
        ("history", has.history, fs.history(&at("/f"), &HistoryPage::default()).await.map(drop)),
        ("blame", has.history, fs.blame(&at("/f"), ByteRange::ALL, 1).await.map(drop)),
        ("changes", has.history, fs.changes(&ChangesQuery::default()).await.map(drop)),
        ("wait", has.history, fs.wait(Seq(0)).await.map(drop)),
        ("fetch_many", has.nodes, fs.fetch_many(&[(node, ByteRange::ALL)]).await.map(drop)),
        ("as_of", has.history, fs.as_of(&now).await.map(drop)),
        ("open_version", has.history, fs.open_version(version).await.map(drop)),
        ("snapshots", has.snapshots, fs.snapshots(&SnapshotsPage::default()).await.map(drop)),
        ("confined", has.confinement, fs.confined(&here).await.map(drop)),
        ("find", has.find, fs.find(&garth_engine::model::FindQuery::tag("x")).await.map(drop)),
        ("search", has.search, fs.search(&garth_engine::model::SearchQuery::new("x")).await.map(drop)),
    ];
    for (what, has, read) in reads {
        match has {
            true => read.unwrap_or_else(|error| panic!("{what}: {error}")),
            false => assert_eq!(read.unwrap_err().kind(), Unsupported, "{what}"),
        }
    }
}

async fn past_view_lacks_only_writing(subject: &Subject) {
    let fs = &*subject.fs;
    put(fs, "/f", "x").await;
    let then = fs.as_of(&Moment::Seq(subject.seq(1))).await.unwrap();
    let (now, past) = (can(fs), can(&*then));
    assert!(now.write && !past.write);
    // Only `write` may differ, as callers choose their reads by the capabilities.
    assert_eq!((past.nodes, past.history, past.snapshots), (now.nodes, now.history, now.snapshots));
    assert_error(then.commit(Batch::new([write("/f", "y")])).await, ReadOnly, None);
}
