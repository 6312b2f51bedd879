//! Restoring a path: equal to its past state, with changes only where it differs, and none outside.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use std::sync::Arc;
use std::time::Duration;

use garth_engine::ErrorKind::{NotADirectory, NotFound};
use garth_engine::FileSystem;
use garth_engine::fs::restore::{RestoreAction, RestoreResult, plan, restore as restore_path};
use garth_engine::model::{
    Batch, ChangesQuery, Create, Entry, Idempotency, Moment, Op, Remove, RenameMode, Seq, SetAttrs, Timestamp,
};

use super::suite::checks;
use crate::fs::interfering::{Call, Interfering};
use crate::reference::tree_shape::shape;
use crate::subject::{START, Subject};
use crate::tools::*;

checks! {
    restore_touches_only_changed_entries [history nodes]
    restore_in_place_keeps_inode [history nodes attributes]
    restore_removes_additions_and_recovers_removals [history nodes links]
    restore_moves_entries_back [history nodes]
    restore_recovers_hard_links_inside [history nodes links]
    restore_leaves_outside_names_unchanged [history nodes links]
    restore_replaces_any_kind [history nodes]
    restore_recovers_missing_or_replaced_path [history nodes]
    restore_drops_passed_expiry [history nodes expiry]
    restore_judges_expiry_by_commit_time [history nodes expiry]
    overtaken_restore_is_planned_again [history nodes]
    name_moved_during_restore_is_kept [history nodes]
    directory_moved_during_restore_shows_once [history nodes links]
    nodes_leaving_during_restore_stay_unchanged [history nodes attributes]
    removal_during_restore_is_undone [history nodes attributes]
    change_during_restore_is_restored [history nodes]
    restore_stores_its_idempotency_record_once [history nodes]
    restore_rejects_path_below_a_file [history nodes]
    restore_tolerates_its_temporary_names [history nodes]
    restore_plan_reports_without_changing [history nodes]
}

/// Later than the clock of any test here.
const NOW: Timestamp = Timestamp(START.0 + 3_600_000_000_000);

/// Returns the last commit, to be restored later.
async fn then(fs: &Fs) -> Seq {
    fs.head().await.unwrap().seq
}

/// Restores, and checks that the path equals its past state and that a second restore finds nothing to do.
async fn restored(fs: &Fs, path: &str, seq: Seq) -> RestoreResult {
    let moment = Moment::Seq(seq);
    let past = fs.as_of(&moment).await.unwrap();
    let due = shape(&*past, &p(path), NOW).await.unwrap();
    let restored = restore_path(fs, &p(path), &moment, NOW, &Batch::default()).await.unwrap();
    assert_eq!(shape(fs, &p(path), NOW).await.unwrap(), due);
    let head = fs.head().await.unwrap();
    // A repeated restore must not commit, or retries would grow the history.
    let again = restore_path(fs, &p(path), &moment, NOW, &Batch::default()).await.unwrap();
    assert_eq!((again.commit, again.plan.changes), (None, Vec::new()));
    assert_eq!(fs.head().await.unwrap(), head);
    restored
}

fn actions(restored: &RestoreResult) -> Vec<(&str, RestoreAction)> {
    restored.plan.changes.iter().map(|change| (change.path.as_str(), change.action.clone())).collect()
}

fn counts(restored: &RestoreResult) -> (u64, u64, u64) {
    (restored.plan.restored, restored.plan.removed, restored.plan.unchanged)
}

fn moved(from: &str) -> RestoreAction {
    RestoreAction::Moved { from: p(from) }
}

async fn restore_touches_only_changed_entries(subject: &Subject) {
    let fs = &*subject.fs;
    for dir in 0..50 {
        let files = (1..100).map(|file| write(&format!("/t/{dir}/{file}"), format!("{dir} {file}")));
        let mkdir = mkdir_all(&format!("/t/{dir}"));
        fs.commit(Batch::new(std::iter::once(mkdir).chain(files))).await.unwrap();
    }
    let seq = then(fs).await;
    let kept = restored(fs, "/t", seq).await;
    assert_eq!((counts(&kept), kept.commit), ((0, 0, 5000), None));
    given(fs, [write("/t/7/7", "changed")]).await;
    let before = stat(fs, "/t/7/8").await;
    let restored = restored(fs, "/t", seq).await;
    assert_eq!((counts(&restored), restored.commit.as_ref().unwrap().outcomes.len()), ((1, 0, 4999), 1));
    assert_eq!(actions(&restored), [("/t/7/7", RestoreAction::Changed)]);
    // A restore that copied the tree would give every file a new version.
    assert_eq!(stat(fs, "/t/7/8").await, before);
}

async fn restore_in_place_keeps_inode(subject: &Subject) {
    let fs = &*subject.fs;
    let attrs = SetAttrs::new().mode(0o600).tags(["a"]);
    given(
        fs,
        [mkdir_all("/t/d"), write_with("/t/f", "one", attrs), write("/t/g", "two"), symlink("/t/l", "x")],
    )
    .await;
    let seq = then(fs).await;
    let before = stat(fs, "/t/f").await;
    let attrs = SetAttrs { mode: Some(0o644), tags: Some(Vec::new()), uid: Some(5), ..SetAttrs::default() };
    given(
        fs,
        [append("/t/f", " more"), set("/t/g", attrs.clone()), set("/t/d", attrs.clone()), set("/t/l", attrs)],
    )
    .await;
    let restored = restored(fs, "/t", seq).await;
    assert_eq!(counts(&restored), (3, 0, 1));
    let after = stat(fs, "/t/f").await;
    assert_eq!((after.ino, after.birthtime, after.mode), (before.ino, before.birthtime, 0o600));
    assert!(!restored.plan.created);
}

async fn restore_removes_additions_and_recovers_removals(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/t/a/b"), write("/t/a/f", "f"), write("/t/a/b/g", "g"), write("/t/h", "h")]).await;
    given(fs, [link("/t/a/f", "/t/a/b/f2"), symlink("/t/a/l", "f"), mkdir("/t/keep")]).await;
    let seq = then(fs).await;
    given(fs, [remove("/t/a", Remove::Tree), remove("/t/h", Remove::File), mkdir_all("/t/new/er")]).await;
    given(fs, [write("/t/new/er/x", "x"), write("/t/keep/y", "y")]).await;
    let restored = restored(fs, "/t", seq).await;
    assert_eq!(counts(&restored), (7, 4, 1));
    assert_eq!(
        actions(&restored),
        [
            ("/t/a", RestoreAction::Created),
            ("/t/h", RestoreAction::Created),
            ("/t/keep/y", RestoreAction::Removed),
            ("/t/new", RestoreAction::Removed),
        ],
        "a directory that is gone comes back by one copy, its links with it"
    );
}

async fn restore_moves_entries_back(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/t/a/deep"), mkdir("/t/b"), write("/t/a/f", "f"), write("/t/a/deep/g", "g")]).await;
    given(fs, [write("/t/one", "1"), write("/t/two", "2")]).await;
    let seq = then(fs).await;
    let (dir, deep, one) = (stat(fs, "/t/a").await, stat(fs, "/t/a/deep/g").await, stat(fs, "/t/one").await);
    given(fs, [rename("/t/a", "/t/b/moved"), rename_as("/t/one", "/t/two", RenameMode::Exchange)]).await;
    let back = restored(fs, "/t", seq).await;
    assert_eq!(counts(&back), (3, 0, 4));
    assert!(actions(&back).contains(&("/t/a", moved("/t/b/moved"))), "{:?}", actions(&back));
    assert_eq!((stat(fs, "/t/a").await.ino, stat(fs, "/t/one").await.ino), (dir.ino, one.ino));
    assert_eq!(stat(fs, "/t/a/deep/g").await, deep, "what is below a moved directory is not touched");
    // A directory that is now inside a directory that was inside it.
    given(fs, [rename("/t/a/deep", "/t/deep"), rename("/t/a", "/t/deep/a")]).await;
    let inside_out = restored(fs, "/t", seq).await;
    assert_eq!(counts(&inside_out), (2, 0, 5));
    assert_eq!(stat(fs, "/t/a").await.ino, dir.ino);
    // A directory inside another one that took its name.
    given(fs, [rename("/t/a", "/t/c"), mkdir("/t/a"), rename("/t/c", "/t/a/c"), write("/t/a/new", "n")])
        .await;
    let out = restored(fs, "/t", seq).await;
    assert_eq!((stat(fs, "/t/a").await.ino, out.plan.removed), (dir.ino, 2));
    assert!(names_in(fs, "/t").await.iter().all(|name| !name.starts_with('.')), "nothing is left waiting");
}

async fn restore_recovers_hard_links_inside(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/t/d"), write("/t/a", "x"), link("/t/a", "/t/b"), link("/t/a", "/t/d/c")]).await;
    given(fs, [write("/t/e", "y"), link("/t/e", "/t/f")]).await;
    let seq = then(fs).await;
    let (a, e) = (stat(fs, "/t/a").await, stat(fs, "/t/e").await);
    // One name is removed, one now belongs to a node of its own, one is added, and one node is removed
    // completely.
    given(fs, [remove("/t/b", Remove::File), remove("/t/d/c", Remove::File), write("/t/d/c", "own")]).await;
    given(
        fs,
        [
            link("/t/a", "/t/z"),
            append("/t/a", "!"),
            remove("/t/e", Remove::File),
            remove("/t/f", Remove::File),
        ],
    )
    .await;
    restored(fs, "/t", seq).await;
    let after = stat(fs, "/t/a").await;
    assert_eq!((after.ino, after.nlink, stat(fs, "/t/d/c").await.ino), (a.ino, 3, a.ino));
    assert_ne!(stat(fs, "/t/e").await.ino, e.ino);
    assert_eq!(stat(fs, "/t/f").await.nlink, 2);
}

/// Returns the part of an entry that must not change for a node outside: everything but the effects of its
/// names inside.
fn outside(entry: Entry) -> Entry {
    // Link count, version and ctime change with the names inside.
    let (version, ctime) = (entry.etag, entry.mtime);
    Entry { nlink: 0, version, ctime, ..entry }
}

async fn restore_leaves_outside_names_unchanged(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/t"), write("/t/both", "old"), write("/t/out", "old"), write("/t/same", "s")]).await;
    let seq = then(fs).await;
    given(
        fs,
        // The write through the name outside also changes the node inside.
        [link("/t/both", "/both"), write("/both", "new"), rename("/t/out", "/out"), link("/t/same", "/same")],
    )
    .await;
    given(fs, [write("/strange", "other"), link("/strange", "/t/strange")]).await;
    let mut before = Vec::new();
    for path in ["/both", "/out", "/same", "/strange"] {
        before.push(outside(stat(fs, path).await));
    }
    let same = stat(fs, "/t/same").await;
    restored(fs, "/t", seq).await;
    let mut after = Vec::new();
    for path in ["/both", "/out", "/same", "/strange"] {
        after.push(outside(stat(fs, path).await));
    }
    assert_eq!(after, before);
    assert_eq!((text(fs, "/both").await.as_str(), text(fs, "/t/both").await.as_str()), ("new", "old"));
    assert_ne!(stat(fs, "/t/both").await.ino, stat(fs, "/both").await.ino, "it differs: a node of its own");
    assert_ne!(stat(fs, "/t/out").await.ino, stat(fs, "/out").await.ino);
    assert_eq!(stat(fs, "/t/same").await, same, "what does not differ is not touched");
}

async fn restore_replaces_any_kind(subject: &Subject) {
    let fs = &*subject.fs;
    given(
        fs,
        [mkdir_all("/t/dir"), write("/t/dir/f", "f"), write("/t/file", "x"), symlink("/t/link", "file")],
    )
    .await;
    let seq = then(fs).await;
    given(fs, [remove("/t/dir", Remove::Tree), write("/t/dir", "now a file")]).await;
    given(fs, [remove("/t/file", Remove::Any), mkdir("/t/file"), write("/t/file/in", "y")]).await;
    given(fs, [remove("/t/link", Remove::Any), symlink("/t/link", "elsewhere")]).await;
    let restored = restored(fs, "/t", seq).await;
    assert_eq!(counts(&restored), (4, 4, 0));
    assert_eq!(stat(fs, "/t/link").await.target.as_deref(), Some("file"));
}

async fn restore_recovers_missing_or_replaced_path(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/x/t"), write("/x/t/f", "f"), write("/x/file", "1")]).await;
    let seq = then(fs).await;
    // The parent of the path is removed, too, and has to be created.
    given(fs, [remove("/x", Remove::Tree)]).await;
    let back = restored(fs, "/x/t", seq).await;
    assert_eq!((counts(&back), back.plan.created), ((2, 0, 0), true));
    given(fs, [remove("/x/t", Remove::Tree), mkdir("/x/t"), write("/x/t/f", "other"), write("/x/t/g", "g")])
        .await;
    let dir = stat(fs, "/x/t").await.ino;
    let again = restored(fs, "/x/t", seq).await;
    assert_eq!(
        (again.plan.created, stat(fs, "/x/t").await.ino),
        (false, dir),
        "the directory there now is taken"
    );
    restored(fs, "/x/file", seq).await;
    given(fs, [remove("/x/file", Remove::Any), mkdir("/x/file"), write("/x/file/in", "z")]).await;
    restored(fs, "/x/file", seq).await;
    given(fs, [write("/stray", "s")]).await;
    restored(fs, "/", seq).await;
    assert_eq!(names_in(fs, "/").await, ["x"]);
    let never = restore_path(fs, &p("/never"), &Moment::Seq(seq), NOW, &Batch::default()).await;
    assert_error(never, NotFound, Some("/never"));
}

async fn restore_drops_passed_expiry(subject: &Subject) {
    let fs = &*subject.fs;
    let expires = |at: i64| SetAttrs::new().expires_at(START.plus_seconds(at));
    given(
        fs,
        [mkdir("/t"), write_with("/t/gone", "x", expires(10)), write_with("/t/kept", "y", expires(10))],
    )
    .await;
    given(fs, [write_with("/t/later", "z", expires(10_000))]).await;
    let seq = then(fs).await;
    given(fs, [set("/t/kept", SetAttrs::new().never_expires().mode(0o600))]).await;
    given(fs, [remove("/t/later", Remove::File)]).await;
    subject.clock.advance(Duration::from_secs(20));
    restored(fs, "/t", seq).await;
    assert_eq!((stat(fs, "/t/gone").await.expires_at, stat(fs, "/t/kept").await.expires_at), (None, None));
    assert_eq!(stat(fs, "/t/kept").await.mode, 0o644);
    assert_eq!(stat(fs, "/t/later").await.expires_at, Some(START.plus_seconds(10_000)));
}

async fn restore_judges_expiry_by_commit_time(subject: &Subject) {
    let fs = &*subject.fs;
    let expires = SetAttrs::new().expires_at(START.plus_seconds(10));
    given(fs, [mkdir("/d"), write_with("/d/f", "x", expires)]).await;
    let seq = then(fs).await;
    subject.clock.set(START.plus_seconds(20));
    given(fs, [write("/other", "y"), remove("/d", Remove::Tree)]).await;
    // The commit times of an account continue from the last one.
    subject.clock.set(START.plus_seconds(5));
    let now = START.plus_seconds(5);
    restore_path(fs, &p("/d"), &Moment::Seq(seq), now, &Batch::default()).await.unwrap();
    assert_eq!(stat(fs, "/d/f").await.expires_at, None);
    let again = restore_path(fs, &p("/d"), &Moment::Seq(seq), now, &Batch::default()).await.unwrap();
    assert_eq!((again.commit, again.plan.changes), (None, Vec::new()));
}

async fn overtaken_restore_is_planned_again(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/t"), write("/t/f", "old"), write("/t/g", "old")]).await;
    let seq = then(fs).await;
    given(fs, [write("/t/f", "new"), remove("/t/g", Remove::File)]).await;
    let ops = vec![rename("/t/f", "/t/moved"), write_as("/t/g", "back already", Create::New)];
    let busy = interfering(subject, Call::Commit, 0, ops);
    let done = restored(&*busy, "/t", seq).await;
    assert_eq!(text(fs, "/t/f").await, "old");
    assert_eq!(text(fs, "/t/g").await, "old");
    assert_eq!(done.commit.unwrap().seq.0, seq.0 + 4, "of two tries one is a commit");
}

/// Returns a filesystem on which another client commits before one of the calls.
fn interfering(subject: &Subject, before: Call, skip: usize, ops: Vec<Op>) -> Arc<dyn FileSystem> {
    Arc::new(Interfering::new(&subject.fs, before, skip, ops))
}

/// Creates a directory `/t/d` with more names than one page of a walk, and next to it a file that changes
/// afterwards.
async fn large_directory(fs: &Fs) -> Seq {
    let files = (0..1500).map(|n| write(&format!("/t/d/{n:04}"), n.to_string()));
    fs.commit(Batch::new([mkdir_all("/t/d"), write("/t/f", "old")].into_iter().chain(files))).await.unwrap();
    let seq = then(fs).await;
    given(fs, [write("/t/f", "new")]).await;
    seq
}

async fn name_moved_during_restore_is_kept(subject: &Subject) {
    let fs = &*subject.fs;
    let seq = large_directory(fs).await;
    let node = stat(fs, "/t/d/0000").await.ino;
    let busy = interfering(subject, Call::Walk, 1, vec![rename("/t/d/0000", "/t/d/zz")]);
    restored(&*busy, "/t", seq).await;
    assert_eq!(stat(fs, "/t/d/0000").await.ino, node);
}

async fn directory_moved_during_restore_shows_once(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/t/a/b"), write("/t/a/b/f", "old"), link("/t/a/b/f", "/outside")]).await;
    let seq = large_directory(fs).await;
    given(fs, [write("/outside", "new")]).await;
    // Its names were read at the old place and are read again at the new one.
    let busy = interfering(subject, Call::Walk, 1, vec![rename("/t/a/b", "/t/d/zz")]);
    restored(&*busy, "/t", seq).await;
    assert_eq!((text(fs, "/t/a/b/f").await.as_str(), text(fs, "/outside").await.as_str()), ("old", "new"));
}

async fn nodes_leaving_during_restore_stay_unchanged(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/t/sub"), write("/t/sub/f", "old"), write("/t/sub/g", "old")]).await;
    let seq = then(fs).await;
    given(fs, [append("/t/sub/f", "er"), set("/t/sub/g", SetAttrs::new().mode(0o600))]).await;
    let before = [stat(fs, "/t/sub/f").await, stat(fs, "/t/sub/g").await];
    let busy = interfering(subject, Call::Commit, 0, vec![rename("/t/sub", "/x")]);
    restored(&*busy, "/t", seq).await;
    assert_eq!([stat(fs, "/x/f").await, stat(fs, "/x/g").await], before);
    assert_eq!((text(fs, "/x/f").await.as_str(), text(fs, "/t/sub/f").await.as_str()), ("older", "old"));
}

async fn removal_during_restore_is_undone(subject: &Subject) {
    let fs = &*subject.fs;
    let seq = large_directory(fs).await;
    // Of the same size and time, so that its content is compared.
    let mtime = stat(fs, "/t/d/0000").await.mtime;
    given(fs, [write_with("/t/d/0000", "1", SetAttrs { mtime: Some(mtime), ..SetAttrs::default() })]).await;
    let busy = interfering(subject, Call::Walk, 1, vec![remove("/t/d", Remove::Tree)]);
    restored(&*busy, "/t", seq).await;
    assert_eq!(names_in(fs, "/t/d").await.len(), 1500);
}

async fn change_during_restore_is_restored(subject: &Subject) {
    let fs = &*subject.fs;
    let seq = large_directory(fs).await;
    let later = vec![write("/t/d/0001", "changed"), write("/t/d/new", "new")];
    let busy = interfering(subject, Call::Commit, 0, later.clone());
    let done = restored(&*busy, "/t", seq).await;
    assert_eq!((done.plan.restored, done.plan.removed), (2, 1), "of both commits");
    // Also if it had found nothing to do.
    let busy = interfering(subject, Call::Walk, 1, later);
    restored(&*busy, "/t", seq).await;
}

async fn restore_stores_its_idempotency_record_once(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/t"), write("/t/f", "old"), write("/t/g", "old")]).await;
    let seq = then(fs).await;
    given(fs, [write("/t/f", "new")]).await;
    let busy = interfering(subject, Call::Commit, 0, vec![write("/t/g", "new")]);
    let idempotency = Idempotency::new("k", [7; 32], NOW);
    let batch = Batch { idempotency: Some(idempotency), ..Batch::default() };
    let moment = Moment::Seq(seq);
    let done = restore_path(&*busy, &p("/t"), &moment, NOW, &batch).await.unwrap();
    assert!(!done.commit.unwrap().replayed);
    assert_eq!((text(fs, "/t/f").await.as_str(), text(fs, "/t/g").await.as_str()), ("old", "old"));
    // The repeated request, after others have written: it returns the first result and restores nothing.
    given(fs, [write("/t/f", "newest")]).await;
    let again = restore_path(fs, &p("/t"), &moment, NOW, &batch).await.unwrap();
    assert!(again.commit.unwrap().replayed);
    assert_eq!(text(fs, "/t/f").await, "newest");
}

async fn restore_rejects_path_below_a_file(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/a"), write("/a/b", "old"), write("/c", "a file")]).await;
    let seq = then(fs).await;
    given(fs, [remove("/a", Remove::Tree), write("/a", "a file now")]).await;
    let answer = restore_path(fs, &p("/a/b"), &Moment::Seq(seq), NOW, &Batch::default()).await;
    assert_error(answer, NotADirectory, Some("/a"));
    assert_eq!(text(fs, "/a").await, "a file now", "it lies outside the path");
    let never = restore_path(fs, &p("/c/d"), &Moment::Seq(seq), NOW, &Batch::default()).await;
    assert_error(never, NotFound, Some("/c/d"));
}

async fn restore_tolerates_its_temporary_names(subject: &Subject) {
    let fs = &*subject.fs;
    // The first temporary name that any of these commits would choose is taken.
    let taken = (1..40).map(|seq| write(&format!("/t/.restoring-{seq}-1"), "mine"));
    fs.commit(Batch::new([mkdir("/t")].into_iter().chain(taken))).await.unwrap();
    given(fs, [write("/t/one", "1"), write("/t/two", "2")]).await;
    let seq = then(fs).await;
    given(fs, [rename_as("/t/one", "/t/two", RenameMode::Exchange)]).await;
    restored(fs, "/t", seq).await;
    assert_eq!(text(fs, &format!("/t/.restoring-{seq}-1")).await, "mine");
}

async fn restore_plan_reports_without_changing(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/t"), write("/t/f", "old")]).await;
    let seq = then(fs).await;
    given(fs, [write("/t/f", "new"), write("/t/g", "new")]).await;
    let head = fs.head().await.unwrap();
    let plan = plan(fs, &p("/t"), &Moment::Seq(seq), NOW).await.unwrap();
    assert_eq!((plan.restored, plan.removed, plan.unchanged, plan.is_empty()), (1, 1, 0, false));
    assert_eq!(fs.head().await.unwrap(), head);
    let batch = Batch { message: "why".to_owned(), ..Batch::new([Op::snapshot("not done")]) };
    let done = restore_path(fs, &p("/t"), &Moment::Seq(seq), NOW, &batch).await.unwrap();
    let log = fs.changes(&ChangesQuery::since(head.seq)).await.unwrap();
    assert_eq!(
        (log.commits[0].commit.seq, log.commits[0].commit.message.as_str()),
        (done.commit.unwrap().seq, "why")
    );
    assert!(snapshots(fs).await.unwrap().is_empty(), "the operations of the batch are not used");
}
