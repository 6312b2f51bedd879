//! History, changes, views of the past, snapshots.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use std::time::Duration;

use garth_engine::ErrorKind::{AlreadyExists, InvalidArgument, NotFound, ReadOnly, Unsupported};
use garth_engine::FileSystemExt;
use garth_engine::model::{
    At, Batch, Change, ChangeKind, ChangesQuery, HistoryPage, Ino, MAX_LABEL, Moment, Op, Remove, RenameMode,
    Seq, SetAttrs, Timestamp, Version,
};

use super::suite::checks;
use crate::subject::{START, Subject};
use crate::tools::*;

checks! {
    history_shows_every_version_newest_first [history nodes]
    path_history_spans_removal_and_recreation [history nodes]
    history_follows_moved_file [history]
    history_follows_directories_that_move [history nodes]
    moved_directory_history_omits_former_entries [history]
    nodes_created_and_removed_at_once_leave_nothing [history]
    changes_report_each_operation [history links snapshots]
    every_past_sequence_is_readable [history nodes]
    past_view_is_read_only [history snapshots]
    as_of_accepts_a_time [history]
    snapshot_names_a_sequence [snapshots history]
    snapshot_name_is_validated [snapshots]
    snapshot_name_cannot_be_a_time [snapshots]
    unlinked_writes_create_versions_of_node [history nodes]
    path_below_a_file_has_no_past [history]
}

/// Returns commit, node and presence of an entry for each version.
fn shape(subject: &Subject, versions: &[Version]) -> Vec<(u64, u64, bool)> {
    let seq = |seq: Seq| seq.0 - subject.head.0;
    // Counted like `Subject::ino`.
    let ino = |ino: Ino| if ino == Ino::ROOT { 1 } else { ino.0 + 2 - subject.next.0 };
    let shape = |version: &Version| (seq(version.id.seq), ino(version.id.ino), version.entry.is_some());
    versions.iter().map(shape).collect()
}

fn snapshot(name: &str) -> Op {
    Op::snapshot(name)
}

async fn seq(fs: &Fs, op: Op) -> Seq {
    apply(fs, op).await.0.seq
}

async fn changes_of(fs: &Fs, seq: Seq) -> Vec<Change> {
    fs.changes_of(seq).await.unwrap().changes
}

async fn history_shows_every_version_newest_first(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "1"), write("/other", "x"), append("/f", "2"), set("/f", SetAttrs::default())])
        .await;
    let versions = history(fs, "/f").await;
    assert_eq!(shape(subject, &versions), [(4, 2, true), (3, 2, true), (1, 2, true)]);
    for version in &versions {
        let entry = version.entry.as_ref().unwrap();
        let then = fs.as_of(&Moment::Seq(version.id.seq)).await.unwrap();
        assert_eq!(**entry, stat(&*then, "/f").await);
        assert_eq!((entry.version, version.commit.seq), (version.id, version.id.seq));
    }
    assert_eq!(fs.history(&At::Node(subject.ino(2)), &HistoryPage::default()).await.unwrap().items, versions);
    let child = At::Child(Ino::ROOT, name("f"));
    assert_eq!(fs.history(&child, &HistoryPage::default()).await.unwrap().items, versions);
    // The commit itself is not part of the page.
    let page = HistoryPage::default().before_commit(subject.seq(4)).limit(1);
    assert_eq!(fs.history(&at("/f"), &page).await.unwrap().items, versions[1..2]);
    let page = HistoryPage::default().before_commit(subject.seq(1)).limit(1);
    assert!(fs.history(&at("/f"), &page).await.unwrap().items.is_empty());
}

async fn path_history_spans_removal_and_recreation(subject: &Subject) {
    let fs = &*subject.fs;
    given(
        fs,
        [
            write("/f", "1"),
            remove("/f", Remove::File),
            write("/x", ""),
            write("/f", "2"),
            remove("/f", Remove::Any),
        ],
    )
    .await;
    assert_eq!(
        shape(subject, &history(fs, "/f").await),
        [(5, 4, false), (4, 4, true), (2, 2, false), (1, 2, true)]
    );
    let node = fs.history(&At::Node(subject.ino(2)), &HistoryPage::default()).await.unwrap().items;
    assert_eq!(shape(subject, &node), [(2, 2, false), (1, 2, true)], "a node's history ends with it");
    assert_error(fs.history(&at("/never"), &HistoryPage::default()).await, NotFound, Some("/never"));
    assert_error(fs.history(&at("/f/never"), &HistoryPage::default()).await, NotFound, Some("/f/never"));
    assert_error(fs.history(&At::Node(subject.ino(99)), &HistoryPage::default()).await, NotFound, None);
}

async fn history_follows_moved_file(subject: &Subject) {
    let fs = &*subject.fs;
    given(
        fs,
        [write("/a", "1"), write("/b", "old"), append("/a", "2"), rename("/a", "/b"), append("/b", "3")],
    )
    .await;
    let shapes = [(5, 2, true), (4, 2, true), (3, 2, true), (2, 3, true), (1, 2, true)];
    assert_eq!(
        shape(subject, &history(fs, "/b").await),
        shapes,
        "what was replaced is shown, without an end of its own"
    );
    assert_eq!(shape(subject, &history(fs, "/a").await), [(4, 2, false), (3, 2, true), (1, 2, true)]);
    given(fs, [rename("/b", "/a"), append("/a", "4")]).await;
    let back = [(7, 2, true), (6, 2, true), (5, 2, true), (4, 2, false), (3, 2, true), (1, 2, true)];
    assert_eq!(
        shape(subject, &history(fs, "/a").await),
        back,
        "in commit 4 it left, which outweighs that it also changed"
    );
}

async fn history_follows_directories_that_move(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/f", "1"), rename("/d", "/e"), append("/e/f", "2"), mkdir("/d")]).await;
    given(fs, [write("/d/f", "new"), remove("/e", Remove::Tree)]).await;
    assert_eq!(shape(subject, &history(fs, "/e/f").await), [(7, 3, false), (4, 3, true), (2, 3, true)]);
    assert_eq!(shape(subject, &history(fs, "/d/f").await), [(6, 5, true), (3, 3, false), (2, 3, true)]);
    given(fs, [rename_as("/d/f", "/d/f", RenameMode::Replace)]).await;
    // The directory with this inode was removed.
    let removed = fs.history(&At::Child(subject.ino(2), name("f")), &HistoryPage::default()).await;
    assert_error(removed, NotFound, None);
}

async fn moved_directory_history_omits_former_entries(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/d/gone", "1"), remove("/d/gone", Remove::File), write("/d/f", "2")])
        .await;
    // `/e` existed only after `/d/gone` was removed.
    given(fs, [rename("/d", "/e"), rename("/e/f", "/e/g"), rename("/e", "/d")]).await;
    assert_error(fs.history(&at("/e/gone"), &HistoryPage::default()).await, NotFound, Some("/e/gone"));
    assert_eq!(shape(subject, &history(fs, "/d/gone").await), [(3, 3, false), (2, 3, true)]);
    assert_eq!(shape(subject, &history(fs, "/e/f").await), [(6, 4, false), (4, 4, true)]);
    assert_eq!(shape(subject, &history(fs, "/d/f").await), [(5, 4, false), (4, 4, true)]);
    assert_eq!(shape(subject, &history(fs, "/d/g").await), [(6, 4, true), (4, 4, true)]);
}

async fn nodes_created_and_removed_at_once_leave_nothing(subject: &Subject) {
    let fs = &*subject.fs;
    put(fs, "/kept", "x").await;
    let batch = Batch::new([
        write("/f", "1"),
        remove("/f", Remove::File),
        rename("/kept", "/k"),
        rename("/k", "/kept"),
    ]);
    let commit = fs.commit(batch).await.unwrap();
    assert_error(fs.history(&at("/f"), &HistoryPage::default()).await, NotFound, Some("/f"));
    assert_error(fs.history(&at("/k"), &HistoryPage::default()).await, NotFound, Some("/k"));
    assert_eq!(shape(subject, &history(fs, "/kept").await), [(2, 2, true), (1, 2, true)]);
    // The node existed only within the commit, so it has no version.
    assert_error(fs.open_version(commit.version(0)).await, NotFound, None);
    assert_eq!(changes_of(fs, commit.seq).await.len(), 4, "the log still tells");
}

async fn changes_report_each_operation(subject: &Subject) {
    let fs = &*subject.fs;
    use ChangeKind::{Attributes, Created, Linked, Modified, Removed, Renamed};
    let renamed = |from: &str| Renamed { from: p(from) };
    let change = |kind, ino, path: &str| Change::new(kind, subject.ino(ino), [p(path)]);
    let cases = [
        (mkdir_all("/a/b"), vec![change(Created, 2, "/a"), change(Created, 3, "/a/b")]),
        (write("/a/f", "1"), vec![change(Created, 4, "/a/f")]),
        // A write with attributes is one change.
        (write_with("/a/f", "2", SetAttrs::new().mode(0o600)), vec![change(Modified, 4, "/a/f")]),
        (append("/a/f", ""), vec![]),
        (patch("/a/f", 9, ""), vec![]),
        (truncate("/a/f", 0), vec![change(Modified, 4, "/a/f")]),
        (set("/a/f", SetAttrs::default()), vec![change(Attributes, 4, "/a/f")]),
        (link("/a/f", "/0"), vec![change(Linked, 4, "/0")]),
        (append("/a/f", "x"), vec![Change::new(Modified, subject.ino(4), [p("/0"), p("/a/f")])]),
        (rename("/a", "/c"), vec![change(renamed("/a"), 2, "/c")]),
        (rename("/0", "/0"), vec![]),
        (copy("/c", "/d"), vec![change(Created, 5, "/d")]),
        (rename("/d/f", "/0"), vec![change(Removed, 4, "/0"), change(renamed("/d/f"), 7, "/0")]),
        (
            rename_as("/0", "/c/f", RenameMode::Exchange),
            vec![change(renamed("/0"), 7, "/c/f"), change(renamed("/c/f"), 4, "/0")],
        ),
        (remove("/c", Remove::Tree), vec![change(Removed, 2, "/c")]),
        (snapshot("s"), vec![change(ChangeKind::Snapshot { name: "s".to_owned() }, 1, "/")]),
        (Op::drop_snapshot("s"), vec![change(ChangeKind::SnapshotDropped { name: "s".to_owned() }, 1, "/")]),
        (Op::remove(at("/no")).if_exists(), vec![]),
    ];
    for (op, expected) in cases {
        let what = format!("{op:?}");
        let seq = seq(fs, op).await;
        assert_eq!(changes_of(fs, seq).await, expected, "{what}");
    }
    let batch = Batch::new([
        append("/0", "x"),
        rename("/0", "/1"),
        write("/2", "y"),
        write("/2", "z"),
        remove("/2", Remove::Any),
    ]);
    let seq = fs.commit(batch).await.unwrap().seq;
    let kinds: Vec<_> = changes_of(fs, seq)
        .await
        .into_iter()
        .map(|change| (change.kind.clone(), change.path().cloned()))
        .collect();
    let expected = [
        (Modified, Some("/1")),
        (renamed("/0"), Some("/1")),
        (Created, Some("/2")),
        (Modified, None),
        (Removed, Some("/2")),
    ];
    assert_eq!(
        kinds,
        expected.map(|(kind, path)| (kind, path.map(p))),
        "a node's path is one after the commit"
    );
}

async fn every_past_sequence_is_readable(subject: &Subject) {
    let fs = &*subject.fs;
    given(
        fs,
        [
            mkdir("/d"),
            write("/d/f", "1"),
            append("/d/f", "2"),
            rename("/d", "/e"),
            remove("/e/f", Remove::File),
        ],
    )
    .await;
    // After each commit, and before the first.
    let expected: [&[&str]; 6] = [&[], &["/d"], &["/d", "/d/f"], &["/d", "/d/f"], &["/e", "/e/f"], &["/e"]];
    for (seq, paths) in (0..).zip(expected) {
        let then = fs.as_of(&Moment::Seq(subject.seq(seq))).await.unwrap();
        assert_eq!(paths_below(&*then, "/").await, paths, "at {seq}");
        assert_eq!(then.head().await.unwrap().seq, subject.seq(seq));
    }
    let then = fs.as_of(&Moment::Seq(subject.seq(3))).await.unwrap();
    assert_eq!(text(&*then, "/d/f").await, "12");
    assert_eq!(names_in(&*then, "/d").await, ["f"]);
    assert_eq!(names_of(&*then, &At::Node(subject.ino(3))).await.unwrap(), [p("/d/f")]);
    // Opened before the present changes below the same paths.
    let file = then.open(&at("/d/f")).await.unwrap();
    given(fs, [write("/e/f", "new"), write("/d", "file")]).await;
    assert_eq!(file.read_at(0, 10).await.unwrap(), "12");
    assert_eq!(text(&*then, "/d/f").await, "12", "the past does not change");
    assert_error(fs.as_of(&Moment::Seq(subject.seq(8))).await, NotFound, None);
}

async fn past_view_is_read_only(subject: &Subject) {
    let fs = &*subject.fs;
    given(
        fs,
        [write("/f", "1"), write("/f", "2"), snapshot("s"), remove("/f", Remove::Any), snapshot("late")],
    )
    .await;
    let then = fs.as_of(&Moment::Seq(subject.seq(3))).await.unwrap();
    let capabilities = can(&*then);
    assert!(!capabilities.write && capabilities.history);
    assert_error(then.commit(Batch::default()).await, ReadOnly, None);
    assert_error(then.stage(&at("/f")).await, ReadOnly, None);
    assert_error(then.sync().await, ReadOnly, None);
    assert_eq!(shape(subject, &history(&*then, "/f").await), [(2, 2, true), (1, 2, true)]);
    let changes = then.changes(&ChangesQuery::since(subject.seq(1))).await.unwrap();
    assert_eq!((changes.commits.len(), changes.head), (2, subject.seq(3)));
    assert_eq!(snapshots(&*then).await.unwrap().len(), 1);
    // No commit will ever follow in the past, so waiting would never end.
    assert_error(then.wait(subject.seq(3)).await, Unsupported, None);
    assert_error(then.as_of(&Moment::Seq(subject.seq(4))).await, NotFound, None);
    assert_error(then.as_of(&Moment::Snapshot("late".to_owned())).await, NotFound, None);
    // A later time means the end of this view.
    let later = then.as_of(&Moment::Time(Timestamp(i64::MAX))).await.unwrap();
    assert_eq!(later.head().await.unwrap().seq, subject.seq(3));
    let earlier = then.as_of(&Moment::Seq(subject.seq(1))).await.unwrap();
    assert_eq!(text(&*earlier, "/f").await, "1");
    assert_error(earlier.history(&at("/g"), &HistoryPage::default()).await, NotFound, Some("/g"));
    let second = garth_engine::model::VersionId { seq: subject.seq(2), ino: subject.ino(2) };
    // A version that is later than the view does not exist in it.
    assert_error(earlier.open_version(second).await, NotFound, None);
}

async fn as_of_accepts_a_time(subject: &Subject) {
    let fs = &*subject.fs;
    put(fs, "/f", "1").await;
    subject.clock.advance(Duration::from_secs(10));
    put(fs, "/f", "2").await;
    for (time, seq) in [(0, 1), (1, 1), (9, 1), (10, 2), (11, 2)] {
        let then = fs.as_of(&Moment::Time(START.plus_seconds(time))).await.unwrap();
        assert_eq!(then.head().await.unwrap().seq, subject.seq(seq), "{time} seconds in");
    }
    // Times before the first commit.
    for (early, seq) in [(Timestamp(START.0 - 1), subject.seq(0)), (Timestamp(i64::MIN), Seq(0))] {
        let then = fs.as_of(&Moment::Time(early)).await.unwrap();
        assert_eq!(then.head().await.unwrap().seq, seq);
        // A tree that begins inside an older one has no root yet.
        assert!(!exists(&*then, "/").await || names_in(&*then, "/").await.is_empty());
    }
}

async fn snapshot_names_a_sequence(subject: &Subject) {
    let fs = &*subject.fs;
    put(fs, "/f", "1").await;
    // The order within the batch does not matter: a snapshot names the complete commit.
    let commit = fs.commit(Batch::new([snapshot("z"), write("/f", "2")])).await.unwrap();
    assert_eq!(commit.outcomes[0].ino, Ino::ROOT);
    given(fs, [write("/f", "3"), snapshot("a b/é")]).await;
    let all = snapshots(fs).await.unwrap();
    let shape: Vec<_> = all.iter().map(|it| (it.name.as_str(), it.seq)).collect();
    let expected = vec![("a b/é", subject.seq(4)), ("z", subject.seq(2))];
    assert_eq!((shape, all[1].time), (expected, commit.time));
    let then = fs.as_of(&Moment::Snapshot("z".to_owned())).await.unwrap();
    assert_eq!(text(&*then, "/f").await, "2", "the whole commit is in it");
    refused_outright(fs, snapshot("z"), AlreadyExists).await;
    given(fs, [Op::drop_snapshot("z")]).await;
    refused_outright(fs, Op::drop_snapshot("z"), NotFound).await;
    assert_error(fs.as_of(&Moment::Snapshot("z".to_owned())).await, NotFound, None);
    assert_eq!(text(&*then, "/f").await, "2", "history stays");
    given(fs, [snapshot("z")]).await;
    // Within one batch a name can be moved to the present.
    let batch = Batch::new([Op::drop_snapshot("z"), snapshot("z")]);
    assert_eq!(fs.commit(batch).await.unwrap().seq, snapshots(fs).await.unwrap()[1].seq);
}

async fn snapshot_name_is_validated(subject: &Subject) {
    let fs = &*subject.fs;
    for bad in ["", "a\nb"] {
        refused_outright(fs, snapshot(bad), InvalidArgument).await;
    }
    refused_outright(fs, snapshot(&"s".repeat(MAX_LABEL + 1)), garth_engine::ErrorKind::TooLarge).await;
    // Names that only resemble times and ages are valid.
    given(fs, [snapshot("v1"), snapshot("2026-01"), snapshot("1a")]).await;
}

async fn snapshot_name_cannot_be_a_time(subject: &Subject) {
    let fs = &*subject.fs;
    for moment in [
        "1",
        "0042",
        "99999999999999999999",
        "ver_1-3",
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00",
        "2026-11-17",
        "2026-02-30",
        "1h",
        "3d12h",
        "now",
        "today",
        "yesterday",
        "Yesterday",
        "last week",
    ] {
        refused_outright(fs, snapshot(moment), InvalidArgument).await;
    }
}

async fn unlinked_writes_create_versions_of_node(subject: &Subject) {
    let fs = &*subject.fs;
    put(fs, "/f", "1").await;
    let file = fs.open(&at("/f")).await.unwrap();
    let node = At::Node(file.ino());
    given(fs, [remove("/f", Remove::File), write_at(node.clone(), "2")]).await;
    let versions = fs.history(&node, &HistoryPage::default()).await.unwrap().items;
    assert_eq!(shape(subject, &versions), [(3, 2, true), (2, 2, false), (1, 2, true)]);
    assert_eq!(shape(subject, &history(fs, "/f").await), [(2, 2, false), (1, 2, true)]);
    let changes = changes_of(fs, subject.seq(3)).await;
    assert_eq!(changes, [Change::new(ChangeKind::Modified, file.ino(), None)]);
    assert_eq!(fs.open_version(versions[0].id).await.unwrap().read_at(0, 9).await.unwrap(), "2");
}

async fn path_below_a_file_has_no_past(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/f", "x")]).await;
    assert_error(fs.history(&at("/f/g"), &HistoryPage::default()).await, NotFound, Some("/f/g"));
}
