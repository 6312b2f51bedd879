//! Entries that expire.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use std::time::Duration;

use garth_engine::ErrorKind::{Conflict, NotFound};
use garth_engine::FileSystemExt;
use garth_engine::fs::restore::restore as restore_path;
use garth_engine::model::{
    At, Batch, ByteRange, Change, ChangeKind, Moment, Op, Precondition, Remove, SetAttrs,
};

use super::suite::checks;
use crate::subject::{START, Subject};
use crate::tools::*;

checks! {
    expired_entry_is_absent_everywhere [expiry nodes links]
    expired_name_can_be_reused [expiry]
    commit_records_expiry_first [expiry links]
    directory_of_expired_entries_is_empty [expiry]
    past_judges_expiry_by_commit_time [expiry history]
    as_of_time_judges_expiry_by_that_time [expiry history nodes links]
    expiry_can_be_changed_and_cleared [expiry]
    version_expired_by_its_commit_is_nameless [expiry history]
    preconditions_see_expired_entries_as_absent [expiry]
    entry_may_expire_within_its_batch [expiry]
    check_of_expired_entry_records_its_end [expiry nodes history]
    removed_tree_ends_all_expired_names [expiry links]
}

/// Returns attributes that expire this many seconds after the start of the subject.
fn after(seconds: i64) -> SetAttrs {
    SetAttrs::new().expires_at(START.plus_seconds(seconds))
}

async fn expired_entry_is_absent_everywhere(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write_with("/d/f", "x", after(10)), link("/d/f", "/g"), write("/d/h", "y")])
        .await;
    let ino = stat(fs, "/g").await.ino;
    subject.clock.advance(Duration::from_nanos(9_999_999_999));
    assert!(exists(fs, "/d/f").await, "one nanosecond before it is there");
    subject.clock.advance(Duration::from_nanos(1));
    for place in [at("/d/f"), at("/g"), At::Child(stat(fs, "/d").await.ino, name("f"))] {
        assert!(fs.stat(&place).await.unwrap_err().is(NotFound));
        assert!(fs.read(&place, ByteRange::ALL).await.unwrap_err().is(NotFound));
        assert!(fs.open(&place).await.unwrap_err().is(NotFound));
    }
    assert_error(fs.stat(&At::Node(ino)).await, NotFound, None);
    assert_error(fs.stat(&at("/d/f/x")).await, NotFound, Some("/d/f/x"));
    assert_eq!(names_in(fs, "/d").await, ["h"]);
    assert_eq!(paths_below(fs, "/").await, ["/d", "/d/h"]);
    refused(fs, patch("/d/f", 0, "z"), NotFound, "/d/f").await;
    refused(fs, rename("/g", "/z"), NotFound, "/g").await;
    refused(fs, link("/g", "/z"), NotFound, "/g").await;
    refused(fs, copy("/g", "/z"), NotFound, "/g").await;
    refused_outright(fs, write_at(At::Node(ino), "z"), NotFound).await;
}

async fn expired_name_can_be_reused(subject: &Subject) {
    let fs = &*subject.fs;
    given(
        fs,
        [
            write_with("/a", "x", after(10)),
            write_with("/b", "x", after(10)),
            write_with("/c", "x", after(10)),
        ],
    )
    .await;
    given(fs, [write_with("/d", "x", after(10)), write("/f", "y")]).await;
    let old = stat(fs, "/a").await.ino;
    subject.clock.advance(Duration::from_secs(10));
    given(
        fs,
        [write("/a", "new"), mkdir("/b"), rename_as("/f", "/c", garth_engine::model::RenameMode::NoReplace)],
    )
    .await;
    given(fs, [mkdir_all("/d/e")]).await;
    assert_ne!(stat(fs, "/a").await.ino, old);
    assert_eq!(stat(fs, "/a").await.expires_at, None, "the new file inherits nothing");
    assert_eq!(paths_below(fs, "/").await, ["/a", "/b", "/c", "/d", "/d/e"]);
}

async fn commit_records_expiry_first(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write_with("/f", "x", after(10)), link("/f", "/g"), mkdir("/d")]).await;
    let old = stat(fs, "/f").await.ino;
    subject.clock.advance(Duration::from_secs(10));
    // Nothing has recorded the end of the entry before.
    let (commit, outcome) = apply(fs, write("/f", "new")).await;
    assert!(outcome.created);
    if !can(fs).history {
        return;
    }
    let ends = |path| Change::new(ChangeKind::Expired, old, [p(path)]);
    let created = Change::new(ChangeKind::Created, outcome.ino, [p("/f")]);
    assert_eq!(fs.changes_of(commit.seq).await.unwrap().changes, [ends("/f"), ends("/g"), created]);
    let versions = history(fs, "/g").await;
    assert_eq!((versions[0].id.seq, versions[0].entry.is_none()), (commit.seq, true), "all its names ended");
    assert_eq!(history(fs, "/f").await[0].entry.as_ref().unwrap().ino, outcome.ino);
}

async fn directory_of_expired_entries_is_empty(subject: &Subject) {
    let fs = &*subject.fs;
    for dir in ["/a", "/b", "/c", "/d"] {
        given(fs, [mkdir(dir), write_with(&format!("{dir}/f"), "x", after(10))]).await;
    }
    given(fs, [write("/d/stays", "y")]).await;
    subject.clock.advance(Duration::from_secs(10));
    given(fs, [remove("/a", Remove::Directory), rename("/c", "/b"), copy("/d", "/e")]).await;
    assert_eq!(paths_below(fs, "/").await, ["/b", "/d", "/e", "/d/stays", "/e/stays"]);
    assert_eq!(stat(fs, "/").await.nlink, 5);
    given(fs, [remove("/b", Remove::Any), remove("/d", Remove::Tree)]).await;
    assert_eq!(names_in(fs, "/").await, ["e"]);
}

async fn past_judges_expiry_by_commit_time(subject: &Subject) {
    let fs = &*subject.fs;
    let version = apply(fs, write_with("/f", "x", after(10))).await.0.version(0);
    subject.clock.advance(Duration::from_secs(10));
    // The first commit after the expiry.
    let later = put(fs, "/g", "y").await;
    let before = fs.as_of(&Moment::Seq(version.seq)).await.unwrap();
    assert_eq!(text(&*before, "/f").await, "x");
    let after_it = fs.as_of(&Moment::Seq(later.seq)).await.unwrap();
    assert!(!exists(&*after_it, "/f").await);
    assert_eq!(names_in(&*after_it, "/").await, ["g"]);
    given(fs, [restore("/f", version.seq, "/back"), set_never("/g")]).await;
    assert_eq!(stat(fs, "/back").await.expires_at, None, "an expiry that has passed is not copied");
    assert_eq!(fs.open_version(version).await.unwrap().read_at(0, 10).await.unwrap(), "x");
    assert_eq!(history(fs, "/f").await.last().unwrap().id, version);
}

async fn as_of_time_judges_expiry_by_that_time(subject: &Subject) {
    let fs = &*subject.fs;
    let version = apply(fs, write_with("/f", "x", after(10))).await.0.version(0);
    given(fs, [mkdir("/d"), link("/f", "/d/g")]).await;
    subject.clock.advance(Duration::from_secs(20));
    let time = |seconds| Moment::Time(START.plus_seconds(seconds));
    for (seconds, is_there) in [(9, true), (10, false), (20, false), (1000, false)] {
        let then = fs.as_of(&time(seconds)).await.unwrap();
        assert_eq!(exists(&*then, "/f").await, is_there, "{seconds} seconds in");
        assert_eq!(names_in(&*then, "/d").await.len(), usize::from(is_there), "{seconds} seconds in");
        assert_eq!(paths_below(&*then, "/").await.contains(&"/d/g".to_owned()), is_there);
        assert_eq!(then.stat(&At::Node(version.ino)).await.is_ok(), is_there);
        let head = fs.head().await.unwrap();
        assert_eq!(then.head().await.unwrap(), head, "the head is the last commit, whatever the time");
    }
    // A view of the past has its own time, which its views cannot exceed.
    let early = fs.as_of(&time(9)).await.unwrap();
    let later = early.as_of(&time(1000)).await.unwrap();
    assert!(exists(&*later, "/f").await, "no time is later than the view that is asked");
    let sooner = fs.as_of(&time(20)).await.unwrap().as_of(&time(9)).await.unwrap();
    assert_eq!(text(&*sooner, "/f").await, "x");
    // A restore brings back the state of a commit.
    let now = START.plus_seconds(20);
    let restored = restore_path(fs, &p("/d"), &time(20), now, &Batch::default()).await.unwrap();
    assert_eq!((restored.plan.restored, names_in(fs, "/d").await), (1, vec!["g".to_owned()]));
    given(fs, [write_with("/h", "y", after(30))]).await;
    let ahead = fs.as_of(&time(1000)).await.unwrap();
    assert_eq!(text(&*ahead, "/h").await, "y", "a time that has not come yet means now");
}

fn set_never(path: &str) -> Op {
    set(path, SetAttrs::new().never_expires())
}

async fn expiry_can_be_changed_and_cleared(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write_with("/a", "x", after(10)), write_with("/b", "x", after(10)), write("/c", "x")]).await;
    // An expiry in the past takes effect with the commit itself.
    given(fs, [set("/a", after(20)), set_never("/b"), set("/c", after(-5))]).await;
    assert!(!exists(fs, "/c").await, "a moment that has passed removes it at once");
    subject.clock.advance(Duration::from_secs(15));
    assert_eq!(names_in(fs, "/").await, ["a", "b"]);
    subject.clock.advance(Duration::from_secs(5));
    assert_eq!(names_in(fs, "/").await, ["b"]);
    refused(fs, set_never("/a"), NotFound, "/a").await;
}

async fn version_expired_by_its_commit_is_nameless(subject: &Subject) {
    let fs = &*subject.fs;
    let named = put(fs, "/c", "x").await;
    let expired = apply(fs, set("/c", after(-5))).await.0.version(0);
    for (version, nlink) in [(named, 1), (expired, 0)] {
        let file = fs.open_version(version).await.unwrap();
        let entry = file.stat().await.unwrap();
        assert_eq!((entry.nlink, entry.version), (nlink, version));
        assert_eq!(file.read_at(0, 10).await.unwrap(), "x");
    }
}

async fn preconditions_see_expired_entries_as_absent(subject: &Subject) {
    let fs = &*subject.fs;
    let version = apply(fs, write_with("/f", "x", after(10))).await.0.version(0);
    subject.clock.advance(Duration::from_secs(10));
    let condition =
        |that| Batch { preconditions: vec![(at("/f"), that)], ..Batch::new([write("/f", "new")]) };
    batch_refused(fs, condition(Precondition::Version(version)), Conflict, Some("/f")).await;
    fs.commit(condition(Precondition::Absent)).await.unwrap();
    assert_eq!(text(fs, "/f").await, "new");
}

async fn entry_may_expire_within_its_batch(subject: &Subject) {
    let fs = &*subject.fs;
    // A commit has one time: an entry that it creates already expired is absent for the operations after it.
    let batch = Batch::new([write_with("/f", "x", after(-1)), write("/f", "y")]);
    let commit = fs.commit(batch).await.unwrap();
    assert!(commit.outcomes[0].created && commit.outcomes[1].created);
    assert_ne!(commit.outcomes[0].ino, commit.outcomes[1].ino);
    assert_eq!(text(fs, "/f").await, "y");
}

async fn check_of_expired_entry_records_its_end(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d")]).await;
    for path in ["/d/a", "/d/b", "/d/c", "/d/e"] {
        given(fs, [write_with(path, "x", after(10))]).await;
    }
    let node = At::Node(stat(fs, "/d/c").await.ino);
    subject.clock.advance(Duration::from_secs(10));
    let by_condition = Batch { preconditions: vec![(at("/d/a"), Precondition::Absent)], ..Batch::default() };
    let by_removal = Batch::new([Op::remove(at("/d/b/x")).if_exists()]);
    let by_number = Batch::new([Op::check(node, Precondition::Absent)]);
    // The copy reads the entry as a child of the directory.
    let as_child = Batch::new([copy("/d", "/copy")]);
    for (batch, path) in
        [(by_condition, "/d/a"), (by_removal, "/d/b"), (by_number, "/d/c"), (as_child, "/d/e")]
    {
        let commit = fs.commit(batch).await.unwrap();
        let changes = fs.changes_of(commit.seq).await.unwrap().changes;
        assert_eq!((&changes[0].kind, changes[0].path()), (&ChangeKind::Expired, Some(&p(path))));
        let end = history(fs, path).await.remove(0);
        assert_eq!((end.id.seq, end.entry), (commit.seq, None));
        let dir = stat(fs, "/d").await;
        assert_eq!((dir.mtime, dir.version.seq), (commit.time, commit.seq), "its directory lost a name");
    }
    let failing = Batch::new([remove("/no", Remove::Any)]);
    batch_refused(fs, failing, NotFound, Some("/no")).await;
}

async fn removed_tree_ends_all_expired_names(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), mkdir("/e")]).await;
    given(fs, [write_with("/e/f", "x", after(10)), link("/e/f", "/d/g")]).await;
    subject.clock.advance(Duration::from_secs(10));
    let (commit, _) = apply(fs, remove("/d", Remove::Tree)).await;
    // `/e` is not part of the removed tree, but had the other name of the entry.
    let beside = stat(fs, "/e").await;
    assert_eq!((beside.mtime, beside.version.seq), (commit.time, commit.seq), "it lost a name, too");
}
