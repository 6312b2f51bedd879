//! Confined handles and batches: only a part of the tree exists for them, now and in the past.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use std::sync::Arc;

use garth_engine::ErrorKind::{
    AlreadyExists, Busy, Conflict, InvalidArgument, IsADirectory, NotADirectory, NotFound, Stale,
};
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::{
    Answer, At, Batch, Body, ByteRange, CommitId, Confinement, HistoryPage, Ino, Moment, Op, Owner, Page,
    Precondition, Remove, RenameMode, SetAttrs, Version, VersionId, WalkPage, Within,
};
use garth_engine::rule::Registry;
use garth_engine::{Env, FileSystem, FileSystemExt as _};

use super::retries::record;
use super::suite::checks;
use crate::subject::Subject;
use crate::tools::*;

checks! {
    confined_view_hides_outside_nodes [confinement nodes]
    confined_operations_find_nothing_outside [confinement nodes links holes]
    failed_lookup_reveals_nothing_above_top [confinement nodes]
    inode_is_found_only_with_inside_name [confinement nodes links]
    inode_error_names_inside_path [confinement nodes links]
    confinement_top_cannot_be_moved_or_removed [confinement links]
    repeated_confinement_intersects [confinement nodes]
    batch_within_limits_its_reach [confinement]
    past_shows_node_since_inside_name [confinement nodes history]
    directory_moved_inside_brings_its_entries [confinement nodes history]
    unlinked_node_is_reached_through_its_handle [confinement nodes]
    snapshots_keys_and_staged_bodies_have_owners [confinement snapshots history]
    key_space_record_belongs_to_its_owner [confinement log]
    assumptions_are_judged_before_conditions [confinement]
    answer_reports_named_operations [confinement]
}

fn within(tops: &[&str]) -> Within {
    Within::new(tops.iter().map(|top| p(top)))
}

fn confinement(tops: &[&str], owner: &str) -> Confinement {
    Confinement::new(within(tops), Owner::new(owner).unwrap())
}

async fn confined(fs: &Fs, tops: &[&str]) -> Arc<dyn FileSystem> {
    fs.confined(&confinement(tops, "view")).await.unwrap()
}

/// Creates two trees, of which a test sees the first.
async fn two_trees(fs: &Fs) {
    given(
        fs,
        [mkdir_all("/in/d"), write("/in/d/f", "inside"), mkdir_all("/out/d"), write("/out/d/f", "canary")],
    )
    .await;
    // Names that a prefix or a pattern would mistake for `/in`.
    given(fs, [mkdir("/in-b"), write("/in-b/f", "canary"), write("/in%", "canary"), write("/i_", "canary")])
        .await;
}

pub(super) async fn unseen(fs: &Fs, at: &At, path: Option<&str>) {
    assert_error(fs.stat(at).await, NotFound, path);
    assert_error(names_of(fs, at).await, NotFound, path);
    assert_error(fs.list(at, &Page::default()).await, NotFound, path);
    assert_error(fs.walk(at, &WalkPage::default()).await, NotFound, path);
    assert_error(fs.fetch(at, ByteRange::ALL).await, NotFound, path);
    assert_error(fs.read(at, ByteRange::ALL).await, NotFound, path);
    assert_error(fs.open(at).await, NotFound, path);
    assert_error(fs.hold(at).await, NotFound, path);
    if can(fs).history {
        assert_error(fs.blame(at, ByteRange::ALL, 10).await, NotFound, path);
        assert_error(fs.history(at, &HistoryPage::default()).await, NotFound, path);
    }
}

async fn confined_view_hides_outside_nodes(subject: &Subject) {
    let fs = &*subject.fs;
    two_trees(fs).await;
    let view = confined(fs, &["/in"]).await;
    assert_eq!(text(&*view, "/in/d/f").await, "inside");
    assert_eq!(paths_below(&*view, "/in").await, ["/in/d", "/in/d/f"]);
    for path in ["/", "/out", "/out/d/f", "/in-b", "/in-b/f", "/in%", "/i_", "/no", "/in-b/no", "/out/d/f/x"]
    {
        unseen(&*view, &at(path), Some(path)).await;
    }
    // The root has a fixed inode, which anybody can guess.
    for root in [At::Node(Ino::ROOT), At::Child(Ino::ROOT, name("out"))] {
        assert_eq!(view.stat(&root).await.unwrap_err().kind(), NotFound);
        assert_eq!(view.list(&root, &Page::default()).await.unwrap_err().kind(), NotFound);
    }
    for path in ["/out", "/out/d", "/out/d/f", "/in-b"] {
        let ino = stat(fs, path).await.ino;
        unseen(&*view, &At::Node(ino), None).await;
        unseen(&*view, &At::Child(ino, name("f")), None).await;
    }
    let dir = stat(fs, "/in/d").await.ino;
    assert_eq!(view.stat(&At::Child(dir, name("f"))).await.unwrap(), stat(fs, "/in/d/f").await);
    unseen(&*view, &At::Child(dir, name("no")), Some("/in/d/no")).await;
}

async fn confined_operations_find_nothing_outside(subject: &Subject) {
    let fs = &*subject.fs;
    two_trees(fs).await;
    let view = confined(fs, &["/in"]).await;
    let view = &*view;
    for path in ["/out/d/f", "/in-b/f", "/in%", "/out/new", "/new", "/in-new"] {
        for op in [
            write(path, "x"),
            append(path, "x"),
            patch(path, 0, "x"),
            truncate(path, 0),
            Op::punch(at(path), 0, 1),
            mkdir(path),
            mkdir_all(path),
            symlink(path, "t"),
            remove(path, Remove::Tree),
            set(path, SetAttrs::new().mode(0o600)),
            link(path, "/in/x"),
            link("/in/d/f", path),
            rename(path, "/in/x"),
            rename("/in/d/f", path),
            copy(path, "/in/x"),
            copy("/in/d/f", path),
            Op::copy_range(at(path), 0, 9, at("/in/d/f"), 0),
            Op::copy_range(at("/in/d/f"), 0, 9, at(path), 0),
        ] {
            refused(view, op, NotFound, path).await;
        }
        apply(view, Op::Remove { at: at(path), what: Remove::Tree, missing_ok: true }).await;
        // A path outside looks absent, so conditions on it say the same.
        apply(view, Op::check(at(path), Precondition::Absent)).await;
        refused(view, Op::check(at(path), Precondition::Exists), Conflict, path).await;
        let seen = Batch::new([write("/in/x", "x")]).require(at(path), Precondition::Exists);
        batch_refused(view, seen, Conflict, Some(path)).await;
    }
    let file = stat(fs, "/out/d/f").await;
    let dir = stat(fs, "/out/d").await;
    let (node, child) = (At::Node(file.ino), At::Child(dir.ino, name("f")));
    for at in [node, child] {
        for op in [
            Op::write(at.clone(), "x"),
            Op::append(at.clone(), "x"),
            Op::set_attrs(at.clone(), SetAttrs::new().mode(0o600)),
            Op::link(at.clone(), p("/in/x")),
            Op::copy(at.clone(), p("/in/x")),
            Op::copy_range(at.clone(), 0, 9, p("/in/d/f"), 0),
        ] {
            refused_outright(view, op, NotFound).await;
        }
        // The right etag must not confirm that the node exists.
        let same = Op::check(at.clone(), Precondition::Etag(file.etag));
        refused_outright(view, same, Conflict).await;
    }
    assert_eq!(text(fs, "/out/d/f").await, "canary");
    assert_eq!(stat(fs, "/out/d/f").await, file, "nothing was touched");
    assert_eq!(paths_below(fs, "/in").await, ["/in/d", "/in/d/f"]);
}

async fn failed_lookup_reveals_nothing_above_top(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write("/file", "x"), mkdir("/a"), write("/a/f", "x")]).await;
    // Tops below a file and below nothing: both must look alike, as their parents are outside.
    let view = confined(fs, &["/file/top", "/a/no", "/a/f"]).await;
    let view = &*view;
    for path in ["/file/top", "/file/top/x", "/a/no", "/a/no/x/y"] {
        unseen(view, &at(path), Some(path)).await;
        refused(view, write(path, "x"), NotFound, path).await;
        refused(view, mkdir(path), NotFound, path).await;
        refused(view, Op::write(at(path), "x").with_parents(), NotFound, path).await;
        refused(view, mkdir_all(path), NotFound, path).await;
        refused(view, Op::copy(at("/a/f"), at(path)).with_parents(), NotFound, path).await;
        refused(view, rename(path, "/a/no/z"), NotFound, path).await;
        refused(view, remove(path, Remove::Any), NotFound, path).await;
    }
    // `/a/f` itself is inside, so its kind may be told.
    assert_error(view.stat(&at("/a/f/x")).await, NotADirectory, Some("/a/f"));
    refused(view, Op::write(at("/a/f/x"), "x").with_parents(), NotADirectory, "/a/f").await;
    assert!(!exists(fs, "/a/no").await, "no directory was made on the way");
}

async fn inode_is_found_only_with_inside_name(subject: &Subject) {
    let fs = &*subject.fs;
    two_trees(fs).await;
    given(fs, [link("/in/d/f", "/out/also"), mkdir("/in/moved"), write("/in/moved/g", "x")]).await;
    let view = confined(fs, &["/in"]).await;
    let view = &*view;
    let file = At::Node(stat(fs, "/in/d/f").await.ino);
    let moved = At::Node(stat(fs, "/in/moved").await.ino);
    let below = At::Node(stat(fs, "/in/moved/g").await.ino);
    assert_eq!(names_of(view, &file).await.unwrap(), [p("/in/d/f")], "of two names the one inside");
    assert_eq!(names_of(view, &below).await.unwrap(), [p("/in/moved/g")]);
    // The inodes were known before, and must not stay a way in.
    given(fs, [rename("/in/d/f", "/out/f"), rename("/in/moved", "/out/moved")]).await;
    for node in [&file, &moved, &below] {
        assert_error(view.stat(node).await, NotFound, None);
        assert_error(view.fetch(node, ByteRange::ALL).await, NotFound, None);
        refused_outright(view, Op::set_attrs(node.clone(), SetAttrs::new().mode(0o600)), NotFound).await;
    }
    given(fs, [rename("/out/moved", "/in/back")]).await;
    assert_eq!(names_of(view, &below).await.unwrap(), [p("/in/back/g")]);
    let batch = Batch::new([
        rename("/in/back/g", "/in/d/g"),
        Op::append(below.clone(), "y"),
        remove("/in/d/g", Remove::File),
        Op::check(below.clone(), Precondition::Absent),
    ]);
    view.commit(batch).await.unwrap();
}

async fn inode_error_names_inside_path(subject: &Subject) {
    let fs = &*subject.fs;
    given(
        fs,
        [mkdir("/a"), mkdir("/in"), write("/in/f", "x"), link("/in/f", "/a/f"), truncate("/in/f", 1 << 40)],
    )
    .await;
    let view = confined(fs, &["/in"]).await;
    let node = At::Node(stat(fs, "/in/f").await.ino);
    assert_error(view.read(&node, ByteRange::ALL).await, garth_engine::ErrorKind::TooLarge, Some("/in/f"));
    assert_error(view.list(&node, &Page::default()).await, NotADirectory, Some("/in/f"));
    let child = At::Child(stat(fs, "/in/f").await.ino, name("x"));
    assert_error(view.stat(&child).await, NotADirectory, Some("/in/f"));
    refused(&*view, write_at(child, "x"), NotADirectory, "/in/f").await;
    let past_the_end = Op::patch(node, u64::MAX, "x");
    refused(&*view, past_the_end, garth_engine::ErrorKind::TooLarge, "/in/f").await;
}

async fn confinement_top_cannot_be_moved_or_removed(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/a/top"), write("/a/file", "x"), write("/a/top/f", "x")]).await;
    let view = confined(fs, &["/a/top", "/a/file", "/a/no"]).await;
    let view = &*view;
    assert_eq!(stat(view, "/a/top").await, stat(fs, "/a/top").await);
    assert_eq!(names_in(view, "/a/top").await, ["f"]);
    given(view, [set("/a/top", SetAttrs::new().mode(0o700)), append("/a/file", "y"), mkdir_all("/a/top")])
        .await;
    assert_eq!((stat(fs, "/a/top").await.mode, text(fs, "/a/file").await.as_str()), (0o700, "xy"));
    for top in ["/a/top", "/a/file"] {
        refused(view, remove(top, Remove::Tree), Busy, top).await;
        refused(view, Op::Remove { at: at(top), what: Remove::Any, missing_ok: true }, Busy, top).await;
        refused(view, rename(top, "/a/top/x"), Busy, top).await;
        // The name of a top belongs to its parent, which is outside.
        refused(view, rename("/a/top/f", top), Busy, top).await;
        refused(view, rename_as("/a/top/f", top, RenameMode::Exchange), Busy, top).await;
        refused(view, mkdir(top), AlreadyExists, top).await;
        refused(view, symlink(top, "x"), AlreadyExists, top).await;
        refused(view, link("/a/top/f", top), AlreadyExists, top).await;
        refused(view, Op::write(at(top), "x").create_new(), AlreadyExists, top).await;
    }
    refused(view, write("/a/top", "x"), IsADirectory, "/a/top").await;
    refused(view, copy("/a/top/f", "/a/top"), AlreadyExists, "/a/top").await;
    // Replacing the content of a top keeps its name and its node.
    apply(view, Op::copy(at("/a/top/f"), at("/a/file")).replace()).await;
    assert_eq!(text(fs, "/a/file").await, "x");
    for op in [
        write("/a/no", "x"),
        mkdir("/a/no"),
        mkdir_all("/a/no"),
        rename("/a/no", "/a/top/x"),
        rename("/a/top/f", "/a/no"),
        copy("/a/top/f", "/a/no"),
        link("/a/top/f", "/a/no"),
        remove("/a/no", Remove::Any),
    ] {
        refused(view, op, NotFound, "/a/no").await;
    }
    apply(view, Op::Remove { at: at("/a/no"), what: Remove::Any, missing_ok: true }).await;
    given(view, [rename("/a/top/f", "/a/top/g")]).await;
    let two = confined(fs, &["/a/top", "/a/other"]).await;
    given(fs, [mkdir("/a/other")]).await;
    given(&*two, [rename("/a/top/g", "/a/other/g"), write("/a/other/h", "z")]).await;
    assert_eq!(names_in(fs, "/a/other").await, ["g", "h"], "from one subtree to another");
}

async fn repeated_confinement_intersects(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir_all("/a/b"), mkdir("/c"), write("/a/b/f", "x"), write("/a/g", "y"), write("/c/h", "z")])
        .await;
    let outer = confined(fs, &["/a", "/c"]).await;
    let inner = confined(&*outer, &["/a/b", "/d", "/c"]).await;
    assert_eq!(text(&*inner, "/a/b/f").await, "x");
    assert_eq!(text(&*inner, "/c/h").await, "z");
    unseen(&*inner, &at("/a/g"), Some("/a/g")).await;
    // Asking for more than the view has gives no more.
    let all = confined(&*inner, &["/"]).await;
    unseen(&*all, &at("/"), Some("/")).await;
    assert_eq!(text(&*all, "/a/b/f").await, "x");
    let none = confined(&*inner, &["/e"]).await;
    for path in ["/", "/e", "/a/b/f"] {
        unseen(&*none, &at(path), Some(path)).await;
    }
    refused(&*none, mkdir("/e"), NotFound, "/e").await;
    refused(&*inner, write("/a/new", "x"), NotFound, "/a/new").await;
}

async fn batch_within_limits_its_reach(subject: &Subject) {
    let fs = &*subject.fs;
    two_trees(fs).await;
    let confine = |tops: &[&str], op: Op| Batch { within: Some(within(tops)), ..Batch::new([op]) };
    fs.commit(confine(&["/in"], append("/in/d/f", "!"))).await.unwrap();
    batch_refused(fs, confine(&["/in"], append("/out/d/f", "!")), NotFound, Some("/out/d/f")).await;
    batch_refused(fs, confine(&[], append("/in/d/f", "!")), NotFound, Some("/in/d/f")).await;
    let view = confined(fs, &["/in"]).await;
    view.commit(confine(&["/in", "/out"], append("/in/d/f", "!"))).await.unwrap();
    batch_refused(&*view, confine(&["/", "/out"], append("/out/d/f", "!")), NotFound, Some("/out/d/f")).await;
    batch_refused(&*view, confine(&["/in/x"], append("/in/d/f", "!")), NotFound, Some("/in/d/f")).await;
    assert_eq!(
        (text(fs, "/in/d/f").await.as_str(), text(fs, "/out/d/f").await.as_str()),
        ("inside!!", "canary")
    );
}

/// Returns the sequence number of each version, and true if it has an entry.
fn shape(versions: &[Version]) -> Vec<(u64, bool)> {
    versions.iter().map(|version| (version.id.seq.0, version.entry.is_some())).collect()
}

async fn past_shows_node_since_inside_name(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/in"), mkdir("/out")]).await;
    // The message of a commit outside is as secret as its content.
    let before = Batch::new([write("/out/f", "canary")]).message("canary");
    let secret = fs.commit(before).await.unwrap().version(0);
    let node = At::Node(secret.ino);
    let moved = apply(fs, rename("/out/f", "/in/f")).await.0;
    let inside = put(fs, "/in/f", "inside").await;
    let left = apply(fs, rename("/in/f", "/out/f")).await.0;
    let hidden = put(fs, "/out/f", "canary again").await;
    let view = confined(fs, &["/in"]).await;
    let view = &*view;
    let page = HistoryPage::default();
    let shown = [(left.seq.0, false), (inside.seq.0, true), (moved.seq.0, true)];
    assert_eq!(shape(&view.history(&at("/in/f"), &page).await.unwrap().items), shown);
    assert_eq!(shape(&view.history(&node, &page).await.unwrap().items), shown[1..]);
    // Pages must count only the versions that are shown.
    for limit in 1..3 {
        let some = view.history(&at("/in/f"), &page.clone().limit(limit)).await.unwrap().items;
        assert_eq!(shape(&some), shown[..limit]);
    }
    assert!(
        view.history(&at("/in/f"), &page.clone().before(VersionId { seq: moved.seq, ino: Ino::NONE }))
            .await
            .unwrap()
            .items
            .is_empty()
    );
    for version in [secret, hidden, left.version(0)] {
        assert_error(view.open_version(version).await, NotFound, None);
    }
    assert_eq!(view.open_version(inside).await.unwrap().read_at(0, 9).await.unwrap(), "inside");
    for (seq, found) in [(secret.seq, false), (moved.seq, true), (inside.seq, true), (left.seq, false)] {
        let then = view.as_of(&seq.into()).await.unwrap();
        assert_eq!(then.stat(&node).await.is_ok(), found, "{seq}");
        assert_eq!(exists(&*then, "/in/f").await, found, "{seq}");
        unseen(&*then, &at("/out/f"), Some("/out/f")).await;
        let copied =
            view.commit(Batch::new([Op::copy(node.clone(), p("/in/copy")).as_of(seq).replace()])).await;
        assert_eq!(copied.is_ok(), found, "{seq}");
        refused(view, Op::copy(p("/out/f"), p("/in/copy")).as_of(seq).replace(), NotFound, "/out/f").await;
    }
    assert_error(view.history(&at("/out/f"), &page).await, NotFound, Some("/out/f"));
    let other = At::Node(stat(fs, "/out").await.ino);
    assert_error(view.history(&other, &page).await, NotFound, None);
}

async fn directory_moved_inside_brings_its_entries(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/in"), mkdir_all("/out/d"), write("/out/d/f", "canary")]).await;
    let last = Batch::new([write("/out/d/f", "as it is")]).message("canary");
    let version = fs.commit(last).await.unwrap().version(0);
    given(fs, [rename("/out/d", "/in/d")]).await;
    let view = confined(fs, &["/in"]).await;
    let entry = stat(&*view, "/in/d/f").await;
    assert_eq!(entry.version, version, "the move has not changed it");
    assert_eq!(view.open_version(version).await.unwrap().read_at(0, 9).await.unwrap(), "as it is");
    let versions = history(&*view, "/in/d/f").await;
    assert_eq!(shape(&versions), [(version.seq.0, true)]);
    // The commit was made outside, so its message stays hidden.
    assert_eq!((versions[0].commit.message.as_str(), versions[0].commit.seq), ("", version.seq));
    let blame = view.blame(&at("/in/d/f"), ByteRange::ALL, 10).await.unwrap();
    assert_eq!((blame.commits[0].message.as_str(), blame.commits[0].seq), ("", version.seq));
    let then = view.as_of(&version.seq.into()).await.unwrap();
    assert!(!exists(&*then, "/in/d/f").await, "it was not there then");
    given(fs, [remove("/in/d", Remove::Tree)]).await;
    assert_eq!(shape(&history(&*view, "/in/d/f").await).len(), 2);
    let ended = view.history(&At::Node(version.ino), &HistoryPage::default()).await.unwrap().items;
    assert_eq!(shape(&ended).len(), 2, "its end is seen, since its last name was inside");
}

async fn unlinked_node_is_reached_through_its_handle(subject: &Subject) {
    let fs = &*subject.fs;
    two_trees(fs).await;
    let (one, other) = (confined(fs, &["/in"]).await, confined(fs, &["/in"]).await);
    let file = one.open(&at("/in/d/f")).await.unwrap();
    let node = At::Node(file.ino());
    given(fs, [remove("/in/d/f", Remove::File)]).await;
    assert_eq!(one.stat(&node).await.unwrap().nlink, 0);
    apply(&*one, Op::append(node.clone(), "!")).await;
    assert_error(other.stat(&node).await, NotFound, None);
    refused_outright(&*other, Op::append(node.clone(), "!"), NotFound).await;
    assert_eq!(file.read_at(0, 20).await.unwrap(), "inside!");
    // A hold belongs to one handle, and not to the views made from it.
    let inner = confined(&*one, &["/in"]).await;
    assert_error(inner.stat(&node).await, NotFound, None);
    drop(file);
    assert_error(one.stat(&node).await, NotFound, None);

    given(fs, [mkdir("/in/e"), write("/in/e/g", "x")]).await;
    let held = one.hold(&at("/in/e")).await.unwrap();
    given(fs, [rename("/in/e", "/out/e")]).await;
    let dir = At::Node(held.ino());
    assert!(one.list(&dir, &Page::default()).await.unwrap().items.is_empty(), "what is in it went with it");
    assert!(one.walk(&dir, &WalkPage::default()).await.unwrap().items.is_empty());
    assert!(names_of(&*one, &dir).await.unwrap().is_empty());
    unseen(&*one, &At::Child(held.ino(), name("g")), None).await;
    refused_outright(&*one, write_at(At::Child(held.ino(), name("new")), "x"), NotFound).await;
    refused_outright(&*one, Op::copy_tree(dir, p("/in/copy")), NotFound).await;
}

async fn snapshots_keys_and_staged_bodies_have_owners(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/in"), Op::snapshot("kept")]).await;
    let views = [
        fs.confined(&confinement(&["/"], "one")).await.unwrap(),
        fs.confined(&confinement(&["/"], "other")).await.unwrap(),
        fs.confined(&confinement(&["/"], "one"))
            .await
            .unwrap()
            .confined(&confinement(&["/"], "other"))
            .await
            .unwrap(),
    ];
    let names =
        async |fs: &Fs| snapshots(fs).await.unwrap().into_iter().map(|it| it.name).collect::<Vec<_>>();
    let mut staged = Vec::new();
    for (n, view) in views.iter().enumerate() {
        let view = &**view;
        assert!(names(view).await.is_empty());
        assert_error(view.as_of(&Moment::Snapshot("kept".to_owned())).await, NotFound, None);
        refused_outright(view, Op::drop_snapshot("kept"), NotFound).await;
        let seq = apply(view, Op::snapshot("kept")).await.0.seq;
        assert_eq!(
            view.as_of(&Moment::Snapshot("kept".to_owned())).await.unwrap().head().await.unwrap().seq,
            seq
        );
        assert_eq!(names(view).await, ["kept"]);
        let path = format!("/in/{n}");
        let once = Batch::new([append(&path, "x")]).id(CommitId(5)).idempotency(record("key", 1, 1000));
        let commit = view.commit(once.clone()).await.unwrap();
        assert!(!commit.replayed, "nobody has used the id or the key here");
        assert_eq!(view.commit(once).await.unwrap().seq, commit.seq);
        assert_eq!(history(view, &path).await[0].commit.id, Some(CommitId(5)));
        // Bodies of less than one piece, and of several.
        for size in [5, 2 << 20] {
            let mut upload = view.stage(&at(&path)).await.unwrap();
            upload.write(vec![b'x'; size].into()).await.unwrap();
            staged.push((n, upload.finish().await.unwrap()));
        }
    }
    assert_eq!(history(&*views[1], "/in/0").await[0].commit.id, None, "the id of another");
    for (n, body) in &staged {
        for (m, view) in views.iter().enumerate().filter(|(m, _)| m != n) {
            refused_outright(&**view, write(&format!("/in/{m}"), Body::Staged(body.clone())), NotFound).await;
        }
        refused_outright(fs, write("/in/all", Body::Staged(body.clone())), NotFound).await;
    }
    for (n, body) in staged {
        apply(&*views[n], write("/in/used", Body::Staged(body))).await;
    }
    given(&*views[0], [Op::drop_snapshot("kept")]).await;
    assert!(names(&*views[0]).await.is_empty());
    assert_eq!(names(&*views[1]).await, ["kept"]);
    // A new handle of the same owner, with other tops.
    let again = fs.confined(&confinement(&["/in"], "other")).await.unwrap();
    assert_eq!(names(&*again).await, ["kept"], "of an owner, not of a handle");
    given(fs, [Op::drop_snapshot("kept")]).await;
}

async fn key_space_record_belongs_to_its_owner(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/in")]).await;
    let [one, other] = [confinement(&["/in"], "one"), confinement(&["/in"], "other")];
    let [one, other] = [fs.confined(&one).await.unwrap(), fs.confined(&other).await.unwrap()];
    let line = |record| Batch::new([append("/in/f", "x")]).idempotency(record);
    let kept = |note: &str| record("k", 1, 1000).note(note).kept_in(fs.key_space().unwrap());
    let first = one.commit(line(kept("first"))).await.unwrap();
    for again in [&*one, &*other, fs] {
        let again = again.commit(line(kept("again"))).await.unwrap();
        assert_eq!((again.seq, again.replayed, again.note.as_str()), (first.seq, true, "first"));
    }
    assert_eq!(fs.recorded("k").await.unwrap().unwrap().commit.seq, first.seq);
    // The view that committed it has no such key, and its own records do not belong to the owner.
    assert_eq!(one.recorded("k").await.unwrap(), None);
    let own = one.commit(line(record("k", 2, 1000).note("own"))).await.unwrap();
    assert!(!own.replayed);
    let own_space = one.key_space().unwrap();
    let again = fs.commit(line(record("k", 2, 1000).kept_in(own_space))).await.unwrap();
    assert_eq!((again.seq, again.note.as_str()), (own.seq, "own"), "the owner of views may keep their keys");
    assert_eq!(fs.recorded("k").await.unwrap().unwrap().commit.note, "first");
    assert_eq!(text(fs, "/in/f").await, "xx");
    // The key space of another store.
    let elsewhere = MemoryFs::new(Env::system(), Registry::empty()).key_space().unwrap();
    batch_refused(fs, line(record("k", 1, 1000).kept_in(elsewhere)), InvalidArgument, None).await;
}

async fn assumptions_are_judged_before_conditions(subject: &Subject) {
    let fs = &*subject.fs;
    let version = put(fs, "/f", "1").await;
    let assume = |that| vec![(at("/f"), that)];
    let batch = Batch {
        assumptions: assume(Precondition::Version(version)),
        idempotency: can(fs).log.then(|| record("key", 1, 1000)),
        ..Batch::new([write("/f", "2")])
    };
    let first = fs.commit(batch.clone()).await.unwrap();
    if can(fs).log {
        let again = fs.commit(batch.clone()).await.unwrap();
        assert_eq!((again.seq, again.replayed), (first.seq, true), "whatever holds by now");
    }
    // The assumption fails first: `Stale` makes the view plan again, while `Conflict` would reach the caller.
    let late = Batch { idempotency: None, ..batch }.require(at("/f"), Precondition::Absent);
    batch_refused(fs, late, Stale, None).await;
    let conflict = Batch { assumptions: assume(Precondition::Exists), ..Batch::new([write("/f", "3")]) };
    batch_refused(fs, conflict.require(at("/f"), Precondition::Absent), Conflict, Some("/f")).await;
}

async fn answer_reports_named_operations(subject: &Subject) {
    let fs = &*subject.fs;
    put(fs, "/below", "x").await;
    let shown = Ino(1 << 40);
    let batch = Batch {
        answers: Some(vec![
            Answer { created: Some(false), ino: Some(shown), ..Answer::from(1) },
            Answer::from(0),
            Answer { ino: Some(shown), ..Answer::from(2) },
        ]),
        idempotency: can(fs).log.then(|| record("key", 1, 1000)),
        ..Batch::new([
            Op::copy(p("/below"), p("/above")),
            append("/above", "y"),
            Op::Remove { at: at("/no"), what: Remove::Any, missing_ok: true },
        ])
    };
    let first = fs.commit(batch.clone()).await.unwrap();
    let made = stat(fs, "/above").await.ino;
    let told: Vec<_> = first.outcomes.iter().map(|it| (it.ino, it.version.ino, it.created)).collect();
    assert_eq!(told, [(shown, shown, false), (made, made, true), (Ino::NONE, Ino::NONE, false)]);
    if can(fs).log {
        let again = fs.commit(batch.clone()).await.unwrap();
        assert_eq!((again.outcomes, again.replayed), (first.outcomes, true), "a retry is told the same");
    }
    let wrong = Batch { answers: Some(vec![Answer::from(3)]), idempotency: None, ..batch };
    batch_refused(fs, wrong, InvalidArgument, None).await;
}
