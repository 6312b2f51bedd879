//! Handles with exclusions in a subtree, and islands in these: excluded nodes do not exist for them, and no
//! name can be created there.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use std::sync::Arc;

use garth_engine::ErrorKind::{
    AccessDenied, AlreadyExists, Busy, Conflict, IsADirectory, NotADirectory, NotFound,
};
use garth_engine::FileSystem;
use garth_engine::model::{
    At, Batch, ByteRange, Change, ChangeKind, ChangesQuery, Confinement, Create, HistoryPage, Ino, NamesPage,
    Op, Owner, Page, Precondition, Remove, RenameMode, SearchQuery, Seq, SetAttrs, Special, WalkPage, Within,
};

use super::confining::unseen;
use super::suite::checks;
use crate::subject::Subject;
use crate::tools::*;

checks! {
    excluded_nodes_are_unreachable [confinement nodes]
    operations_cannot_reach_excluded_paths [confinement nodes links holes special]
    excluded_names_are_not_listed [confinement nodes links]
    directory_with_exclusion_cannot_move [confinement nodes history]
    island_is_reached_by_its_path [confinement]
    pages_skip_excluded_entries [confinement]
    root_shows_without_exclusions [confinement nodes]
    repeated_confinement_unites_exclusions [confinement nodes]
    past_omits_current_exclusions [confinement nodes history]
    moves_across_exclusion_are_removal_and_creation [confinement history]
    excluded_text_raises_no_score [confinement search]
    search_omits_exclusions [confinement search links]
}

/// Returns `/a` with exclusions: `/a/s` has an island, `/a/h/x/gone` does not exist.
fn part() -> Within {
    let left_out = ["/a/mem", "/a/MEM.md", "/a/s", "/a/none", "/a/h/x/gone"];
    Within::new([p("/a")]).without(left_out.map(p)).with([p("/a/s/1")])
}

async fn seen_through(fs: &Fs, within: Within) -> Arc<dyn FileSystem> {
    fs.confined(&Confinement::new(within, Owner::new("view").unwrap())).await.unwrap()
}

/// Creates files inside, excluded, in an island, and with names that only look excluded.
async fn some_tree(fs: &Fs) {
    given(fs, [mkdir_all("/a/d"), write("/a/f", "inside"), write("/a/d/f", "inside")]).await;
    given(fs, [mkdir_all("/a/mem/deep"), write("/a/mem/f", "canary"), write("/a/mem/deep/f", "canary")])
        .await;
    given(fs, [write("/a/MEM.md", "canary"), mkdir_all("/a/mem-x"), write("/a/mem-x/f", "x")]).await;
    given(
        fs,
        [mkdir_all("/a/s/1"), write("/a/s/1/f", "island"), mkdir("/a/s/2"), write("/a/s/2/f", "canary")],
    )
    .await;
    given(fs, [mkdir_all("/a/h/x"), write("/a/h/f", "x"), write("/a/meme", "x"), mkdir("/b")]).await;
}

const LEFT_OUT: [&str; 10] = [
    "/a/mem",
    "/a/mem/f",
    "/a/mem/deep",
    "/a/mem/no",
    "/a/MEM.md",
    "/a/s",
    "/a/s/2",
    "/a/s/2/f",
    "/a/none",
    "/a/h/x/gone",
];

async fn excluded_nodes_are_unreachable(subject: &Subject) {
    let fs = &*subject.fs;
    some_tree(fs).await;
    let view = seen_through(fs, part()).await;
    let view = &*view;
    for path in LEFT_OUT.into_iter().chain(["/a/mem/f/x", "/a/MEM.md/x", "/a/none/x", "/b", "/"]) {
        unseen(view, &at(path), Some(path)).await;
    }
    for path in ["/a/mem", "/a/mem/f", "/a/mem/deep", "/a/MEM.md", "/a/s", "/a/s/2", "/a/s/2/f"] {
        let ino = stat(fs, path).await.ino;
        unseen(view, &At::Node(ino), None).await;
        unseen(view, &At::Child(ino, name("f")), None).await;
    }
    let top = stat(fs, "/a").await.ino;
    for child in ["mem", "MEM.md", "s", "none"] {
        unseen(view, &At::Child(top, name(child)), Some(&format!("/a/{child}"))).await;
    }
    for (path, content) in [("/a/f", "inside"), ("/a/s/1/f", "island"), ("/a/mem-x/f", "x"), ("/a/meme", "x")]
    {
        assert_eq!(text(view, path).await, content);
        let ino = At::Node(stat(fs, path).await.ino);
        assert_eq!(view.stat(&ino).await.unwrap(), stat(fs, path).await);
        assert_eq!(names_of(view, &ino).await.unwrap(), [p(path)]);
    }
    let island = stat(fs, "/a/s/1").await.ino;
    assert_eq!(view.stat(&At::Child(island, name("f"))).await.unwrap(), stat(fs, "/a/s/1/f").await);
    let many = ["/a/f", "/a/mem/f", "/a/s/1/f"].map(|path| (at(path), ByteRange::ALL));
    let many = view.fetch_many(&many).await.unwrap().items;
    assert_eq!(many.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_error(view.stat(&at("/a/meme/x")).await, NotADirectory, Some("/a/meme"));
    // A file above the island must not show as `NotADirectory`, since `/a/s` is excluded.
    given(fs, [remove("/a/s", Remove::Tree), write("/a/s", "a file")]).await;
    assert_error(view.stat(&at("/a/s/1/f")).await, NotFound, Some("/a/s/1/f"));
}

async fn operations_cannot_reach_excluded_paths(subject: &Subject) {
    let fs = &*subject.fs;
    some_tree(fs).await;
    let before = fs.walk(&at("/a"), &WalkPage::default().with_entries()).await.unwrap().items;
    let view = seen_through(fs, part()).await;
    let view = &*view;
    for path in LEFT_OUT {
        for op in [
            write(path, "x"),
            Op::write(at(path), "x").create_new(),
            Op::write(at(path), "x").with_parents(),
            append(path, "x"),
            mkdir(path),
            mkdir_all(path),
            symlink(path, "t"),
            mknod(path, Special::Fifo),
            link("/a/f", path),
            rename("/a/f", path),
            rename("/a/d", path),
            rename_as("/a/f", path, RenameMode::NoReplace),
            rename_as("/a/f", path, RenameMode::Exchange),
            copy("/a/f", path),
            Op::copy_tree(at("/a/d"), at(path)),
        ] {
            // Creating is denied whether the path exists or not, so the error does not tell which.
            refused(view, op, AccessDenied, path).await;
        }
        for op in [
            write_as(path, "x", Create::Never),
            patch(path, 0, "x"),
            truncate(path, 0),
            Op::punch(at(path), 0, 1),
            set(path, SetAttrs::new().mode(0o600)),
            remove(path, Remove::Any),
            remove(path, Remove::Tree),
            link(path, "/a/x"),
            rename(path, "/a/x"),
            rename_as(path, "/a/f", RenameMode::Exchange),
            copy(path, "/a/x"),
            Op::copy_tree(at(path), at("/a/x")),
            Op::copy_range(at(path), 0, 9, at("/a/f"), 0),
            Op::copy_range(at("/a/f"), 0, 9, at(path), 0),
        ] {
            refused(view, op, NotFound, path).await;
        }
        // For the view nothing exists there, so a lenient removal succeeds and removes nothing.
        apply(view, Op::Remove { at: at(path), what: Remove::Tree, missing_ok: true }).await;
        apply(view, Op::check(at(path), Precondition::Absent)).await;
        refused(view, Op::check(at(path), Precondition::Exists), Conflict, path).await;
        let seen = Batch::new([write("/a/x", "x")]).require(at(path), Precondition::Exists);
        batch_refused(view, seen, Conflict, Some(path)).await;
    }
    let top = stat(fs, "/a").await.ino;
    for child in ["mem", "MEM.md", "none"] {
        let (at, path) = (At::Child(top, name(child)), format!("/a/{child}"));
        refused(view, Op::write(at.clone(), "x"), AccessDenied, &path).await;
        refused(view, Op::mkdir(at.clone()), AccessDenied, &path).await;
        refused(view, Op::rename(p("/a/f"), at.clone()), AccessDenied, &path).await;
        refused(view, Op::truncate(at.clone(), 0), NotFound, &path).await;
        refused(view, Op::rename(at.clone(), p("/a/x")), NotFound, &path).await;
        apply(view, Op::Remove { at, what: Remove::Tree, missing_ok: true }).await;
    }
    let file = At::Node(stat(fs, "/a/mem/f").await.ino);
    for op in [
        Op::write(file.clone(), "x"),
        Op::set_attrs(file.clone(), SetAttrs::new().mode(0o600)),
        Op::link(file.clone(), p("/a/x")),
        Op::copy(file.clone(), p("/a/x")),
    ] {
        refused_outright(view, op, NotFound).await;
    }
    // No parent may be created in an excluded directory either.
    let deep = Op::write(at("/a/s/3/f"), "x").with_parents();
    refused(view, deep, AccessDenied, "/a/s/3/f").await;
    let after = fs.walk(&at("/a"), &WalkPage::default().with_entries()).await.unwrap().items;
    assert_eq!(after, before, "nothing was touched");
}

async fn excluded_names_are_not_listed(subject: &Subject) {
    let fs = &*subject.fs;
    some_tree(fs).await;
    given(fs, [link("/a/f", "/a/mem/also"), link("/a/f", "/a/d/also"), link("/a/mem/f", "/b/f")]).await;
    let view = seen_through(fs, part()).await;
    let view = &*view;
    let node = At::Node(stat(fs, "/a/f").await.ino);
    // `/a/mem/also` is a name of the same node.
    assert_eq!(names_of(view, &node).await.unwrap(), [p("/a/f"), p("/a/d/also")]);
    let first = view.names(&node, &NamesPage::default().limit(1)).await.unwrap();
    assert_eq!((first.items, first.more), (vec![p("/a/f")], true));
    let rest = view.names(&node, &NamesPage::default().after(Some(p("/a/f")))).await.unwrap();
    assert_eq!((rest.items, rest.more), (vec![p("/a/d/also")], false));
    let other = At::Node(stat(fs, "/a/mem/f").await.ino);
    unseen(view, &other, None).await;
    given(fs, [rename("/a/mem/f", "/a/d/came")]).await;
    assert_eq!(names_of(view, &other).await.unwrap(), [p("/a/d/came")]);
    let batch = Batch::new([
        Op::append(other.clone(), "!"),
        Op::remove(p("/a/d/came")),
        Op::check(other.clone(), Precondition::Absent),
    ]);
    view.commit(batch).await.unwrap();
    given(fs, [rename("/a/d/also", "/a/s/2/also"), remove("/a/f", Remove::File)]).await;
    assert_error(view.stat(&node).await, NotFound, None);
    refused_outright(view, Op::append(node, "!"), NotFound).await;
}

async fn directory_with_exclusion_cannot_move(subject: &Subject) {
    let fs = &*subject.fs;
    some_tree(fs).await;
    let view = seen_through(fs, part()).await;
    let view = &*view;
    for holder in ["/a/h", "/a/h/x"] {
        for what in [Remove::Any, Remove::Directory, Remove::Tree, Remove::File] {
            refused(view, remove(holder, what), Busy, holder).await;
        }
        let lenient = Op::Remove { at: at(holder), what: Remove::Tree, missing_ok: true };
        refused(view, lenient, Busy, holder).await;
        refused(view, rename(holder, "/a/new"), Busy, holder).await;
        refused(view, rename("/a/d", holder), Busy, holder).await;
        refused(view, rename("/a/f", holder), Busy, holder).await;
        for (from, to) in [(holder, "/a/d"), ("/a/d", holder), ("/a/f", holder), (holder, "/a/f")] {
            refused(view, rename_as(from, to, RenameMode::Exchange), Busy, holder).await;
        }
        refused(view, Op::copy_tree(at(holder), at("/a/new")), Busy, holder).await;
        // By inode, the exclusion below must be found as well.
        let by_number = At::Node(stat(fs, holder).await.ino);
        refused(view, Op::copy_tree(by_number, at("/a/new")), Busy, holder).await;
        // A copy of the past has the exclusions of the present.
        let then = view.head().await.unwrap().seq;
        refused(view, Op::copy_tree(at(holder), at("/a/new")).as_of(then), Busy, holder).await;
        refused(view, Op::copy(p(holder), p("/a/new")), IsADirectory, holder).await;
        refused(view, copy("/a/f", holder), AlreadyExists, holder).await;
        refused(view, rename_as("/a/d", holder, RenameMode::NoReplace), AlreadyExists, holder).await;
        given(view, [set(holder, SetAttrs::new().mode(0o700)), mkdir_all(holder)]).await;
    }
    refused(view, rename("/a", "/a/d/x"), Busy, "/a").await;
    refused(view, Op::copy_tree(at("/a"), at("/a/new")), Busy, "/a").await;
    // If the excluded path does not exist, a file may take a name above it, but nothing that brings entries.
    given(fs, [remove("/a/h", Remove::Tree)]).await;
    // Moved to `/a/h`, its content would land in an excluded path.
    given(view, [mkdir_all("/a/d/x/gone")]).await;
    for op in [rename("/a/d", "/a/h"), Op::copy_tree(at("/a/d"), at("/a/h"))] {
        refused(view, op, Busy, "/a/h").await;
    }
    given(view, [write("/a/h", "a file"), rename("/a/h", "/a/g"), rename("/a/g", "/a/h")]).await;
    refused(view, rename_as("/a/h", "/a/d", RenameMode::Exchange), Busy, "/a/h").await;
    refused(view, rename_as("/a/d", "/a/h", RenameMode::Exchange), Busy, "/a/h").await;
    given(view, [remove("/a/h", Remove::File), mkdir_all("/a/h/x"), write("/a/h/x/f", "x")]).await;
    refused(view, write("/a/h/x/gone", "x"), AccessDenied, "/a/h/x/gone").await;
    given(view, [remove("/a/d", Remove::Tree), rename("/a/h/x/f", "/a/h/g")]).await;
}

async fn island_is_reached_by_its_path(subject: &Subject) {
    let fs = &*subject.fs;
    some_tree(fs).await;
    let view = seen_through(fs, part()).await;
    let view = &*view;
    assert_eq!(names_in(view, "/a/s/1").await, ["f"]);
    given(view, [write("/a/s/1/g", "x"), rename("/a/f", "/a/s/1/h"), rename("/a/s/1/f", "/a/f")]).await;
    given(view, [mkdir_all("/a/s/1/x/y"), Op::copy_tree(at("/a/s/1"), at("/a/copy"))]).await;
    assert_eq!(paths_below(view, "/a/copy").await.len(), 4);
    given(view, [set("/a/s/1", SetAttrs::new().mode(0o700)), mkdir_all("/a/s/1")]).await;
    let top = "/a/s/1";
    refused(view, remove(top, Remove::Tree), Busy, top).await;
    refused(view, rename(top, "/a/x"), Busy, top).await;
    refused(view, rename("/a/d", top), Busy, top).await;
    refused(view, rename_as("/a/d", top, RenameMode::Exchange), Busy, top).await;
    refused(view, mkdir(top), AlreadyExists, top).await;
    // The directory above the island does not exist, also as a target.
    refused(view, rename("/a/s/1/g", "/a/s"), AccessDenied, "/a/s").await;
    refused(view, Op::copy_tree(at("/a/s/1"), at("/a/s")), AccessDenied, "/a/s").await;
    given(fs, [remove("/a/s", Remove::Tree)]).await;
    for op in [mkdir(top), mkdir_all(top), write("/a/s/1/f", "x"), rename("/a/d", top)] {
        let path = if matches!(op, Op::Write { .. }) { "/a/s/1/f" } else { top };
        refused(view, op, NotFound, path).await;
    }
    refused(view, mkdir_all("/a/s/1/x"), NotFound, "/a/s/1/x").await;
    assert!(!exists(fs, "/a/s").await, "no directory was made on the way");
}

async fn pages_skip_excluded_entries(subject: &Subject) {
    let fs = &*subject.fs;
    some_tree(fs).await;
    // More excluded entries than a page has.
    let many = (0..300).map(|n| write(&format!("/a/mem/deep/{n}"), "x"));
    fs.commit(Batch::new(many)).await.unwrap();
    let then = fs.head().await.unwrap().seq;
    let view = seen_through(fs, part()).await;
    let listed = ["d", "f", "h", "mem-x", "meme"];
    let walked = ["/a/d", "/a/f", "/a/h", "/a/mem-x", "/a/meme", "/a/d/f", "/a/h/f", "/a/h/x", "/a/mem-x/f"];
    let past = view.as_of(&then.into()).await;
    for view in [Ok(Arc::clone(&view)), past].into_iter().flatten() {
        let view = &*view;
        assert_eq!(names_in(view, "/a").await, listed);
        assert_eq!(paths_below(view, "/a").await, walked);
        for limit in 1..6 {
            for entries in [false, true] {
                let (mut page, mut names) = (Page::default().limit(limit), Vec::new());
                page.entries = entries;
                loop {
                    let listing = view.list(&at("/a"), &page).await.unwrap();
                    assert!(listing.items.len() == limit || !listing.more);
                    names.extend(listing.items.iter().map(|item| item.name.to_string()));
                    page.after = listing.items.last().map(|item| item.name.clone());
                    if !listing.more {
                        break;
                    }
                }
                assert_eq!(names, listed, "in pages of {limit}");
                let (mut page, mut paths) = (WalkPage::default().limit(limit), Vec::new());
                page.entries = entries;
                loop {
                    let walk = view.walk(&at("/a"), &page).await.unwrap();
                    assert!(walk.items.len() == limit || !walk.more);
                    paths.extend(walk.items.iter().map(|item| item.path.to_string()));
                    page.after = walk.items.last().map(|item| item.path.clone());
                    if !walk.more {
                        break;
                    }
                }
                assert_eq!(paths, walked, "in pages of {limit}");
            }
        }
        // A page may begin after an excluded path, which the caller may have guessed.
        let behind = WalkPage::default().after(Some(p("/a/mem/deep/5")));
        let rest = view.walk(&at("/a"), &behind).await.unwrap().items;
        assert_eq!(rest.iter().map(|item| item.path.as_str()).collect::<Vec<_>>(), Vec::<&str>::new());
    }
}

async fn root_shows_without_exclusions(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/.own"), write("/.own/f", "canary"), write("/f", "x")]).await;
    let view = seen_through(fs, Within::everything().without([p("/.own")])).await;
    let view = &*view;
    assert_eq!(stat(view, "/").await, stat(fs, "/").await);
    let root = At::Node(Ino::ROOT);
    assert_eq!(view.stat(&root).await.unwrap(), stat(fs, "/").await);
    assert_eq!(names_of(view, &root).await.unwrap(), [p("/")]);
    assert_eq!(names_in(view, "/").await, ["f"]);
    assert_eq!(paths_below(view, "/").await, ["/f"]);
    let walk = view.walk(&root, &WalkPage::default()).await.unwrap().items;
    assert_eq!(walk.len(), 1);
    unseen(view, &At::Child(Ino::ROOT, name(".own")), Some("/.own")).await;
    unseen(view, &at("/.own/f"), Some("/.own/f")).await;
    given(view, [Op::write(At::Child(Ino::ROOT, name("g")), "x"), mkdir("/d")]).await;
    refused(view, Op::write(At::Child(Ino::ROOT, name(".own")), "x"), AccessDenied, "/.own").await;
    refused(view, Op::copy_tree(root.clone(), at("/d/all")), Busy, "/").await;
    given(view, [Op::set_attrs(root.clone(), SetAttrs::new().mode(0o700))]).await;
    assert_eq!(stat(fs, "/").await.mode, 0o700);
    let hold = view.hold(&root).await.unwrap();
    assert_eq!(hold.stat().await.unwrap().mode, 0o700);
}

async fn repeated_confinement_unites_exclusions(subject: &Subject) {
    let fs = &*subject.fs;
    some_tree(fs).await;
    let outer = seen_through(fs, part()).await;
    let inner = seen_through(&*outer, Within::everything().without([p("/a/d")])).await;
    for path in ["/a/mem/f", "/a/s/2/f", "/a/d", "/a/d/f"] {
        unseen(&*inner, &at(path), Some(path)).await;
    }
    assert_eq!(text(&*inner, "/a/s/1/f").await, "island");
    assert_eq!(names_in(&*inner, "/a").await, ["f", "h", "mem-x", "meme"]);
    refused(&*inner, write("/a/d/g", "x"), AccessDenied, "/a/d/g").await;
    let back = seen_through(&*inner, Within::new([p("/a/mem"), p("/a/s"), p("/a/f")])).await;
    for path in ["/a/mem", "/a/s", "/a/s/2"] {
        // A second confinement cannot bring back an excluded path.
        unseen(&*back, &at(path), Some(path)).await;
    }
    assert_eq!(text(&*back, "/a/s/1/f").await, "island");
    let confine = |within: Within, op: Op| Batch { within: Some(within), ..Batch::new([op]) };
    let less = || Within::new([p("/a")]).without([p("/a/d")]).with([p("/a/d/in")]);
    batch_refused(fs, confine(less(), write("/a/d/g", "x")), AccessDenied, Some("/a/d/g")).await;
    batch_refused(fs, confine(less(), append("/a/d/f", "x")), AccessDenied, Some("/a/d/f")).await;
    batch_refused(fs, confine(less(), remove("/a/d", Remove::Tree)), NotFound, Some("/a/d")).await;
    batch_refused(&*outer, confine(less(), write("/a/mem/g", "x")), AccessDenied, Some("/a/mem/g")).await;
    outer.commit(confine(less(), write("/a/g", "x"))).await.unwrap();
    given(fs, [mkdir("/a/d/in")]).await;
    outer.commit(confine(less(), write("/a/d/in/g", "x"))).await.unwrap();
    assert_eq!(paths_below(fs, "/a/d").await, ["/a/d/f", "/a/d/in", "/a/d/in/g"]);
}

async fn past_omits_current_exclusions(subject: &Subject) {
    let fs = &*subject.fs;
    some_tree(fs).await;
    let secret = fs.commit(Batch::new([write("/a/mem/g", "canary")]).message("canary")).await.unwrap();
    let secret = secret.version(0);
    // The file moves in and out of the visible part, and a history by inode must show only the visible
    // stretches.
    let node = At::Node(secret.ino);
    let came = apply(fs, rename("/a/mem/g", "/a/g")).await.0;
    let inside = put(fs, "/a/g", "inside").await;
    let left = apply(fs, rename("/a/g", "/a/s/2/g")).await.0;
    let hidden = put(fs, "/a/s/2/g", "canary").await;
    let island = apply(fs, rename("/a/s/2/g", "/a/s/1/g")).await.0;
    let view = seen_through(fs, part()).await;
    let view = &*view;
    let page = HistoryPage::default();
    let shown: Vec<u64> =
        view.history(&node, &page).await.unwrap().items.iter().map(|version| version.id.seq.0).collect();
    assert_eq!(shown, [island.seq.0, inside.seq.0, came.seq.0]);
    let of_path = history(view, "/a/g").await;
    let ends: Vec<_> = of_path.iter().map(|version| (version.id.seq, version.entry.is_some())).collect();
    assert_eq!(ends, [(left.seq, false), (inside.seq, true), (came.seq, true)]);
    for version in [secret, hidden, left.version(0)] {
        assert_error(view.open_version(version).await, NotFound, None);
    }
    for (seq, at_path) in [
        (secret.seq, None),
        (came.seq, Some("/a/g")),
        (inside.seq, Some("/a/g")),
        (left.seq, None),
        (hidden.seq, None),
        (island.seq, Some("/a/s/1/g")),
    ] {
        let then = view.as_of(&seq.into()).await.unwrap();
        assert_eq!(then.stat(&node).await.is_ok(), at_path.is_some(), "{seq}");
        for path in ["/a/mem/g", "/a/s/2/g", "/a/mem", "/a/s"] {
            unseen(&*then, &at(path), Some(path)).await;
            refused(view, Op::copy(p(path), p("/a/copy")).as_of(seq), NotFound, path).await;
        }
        let copied =
            view.commit(Batch::new([Op::copy(node.clone(), p("/a/copy")).as_of(seq).replace()])).await;
        assert_eq!(copied.is_ok(), at_path.is_some(), "{seq}");
        if let Some(path) = at_path {
            assert_eq!(names_of(&*then, &node).await.unwrap(), [p(path)]);
            let top = stat(fs, "/a").await.ino;
            let child = Op::copy(At::Child(top, name("mem")), p("/a/no")).as_of(seq);
            refused(view, child, NotFound, "/a/mem").await;
        }
        refused(view, Op::copy_tree(p("/a/h"), p("/a/no")).as_of(seq), Busy, "/a/h").await;
    }
    let root = seen_through(fs, Within::everything().without([p("/a/mem")])).await;
    let versions = root.history(&At::Node(Ino::ROOT), &page).await.unwrap().items;
    assert_eq!(versions, fs.history(&At::Node(Ino::ROOT), &page).await.unwrap().items);
    let then = root.as_of(&secret.seq.into()).await.unwrap();
    assert_eq!(names_in(&*then, "/").await, ["a", "b"]);
    assert_eq!(then.stat(&At::Node(Ino::ROOT)).await.unwrap(), stat(&*then, "/").await);
}

/// Returns the changes that a view shows after a commit.
async fn seen(view: &Fs, since: Seq) -> Vec<Change> {
    let (mut query, mut changes) = (ChangesQuery::since(since).limit(1), Vec::new());
    loop {
        let page = view.changes(&query).await.unwrap();
        if page.until == query.since {
            return changes;
        }
        changes.extend(page.commits.into_iter().flat_map(|commit| commit.changes));
        query.since = page.until;
    }
}

async fn moves_across_exclusion_are_removal_and_creation(subject: &Subject) {
    use ChangeKind::{Created, Modified, Removed, Renamed};
    let fs = &*subject.fs;
    some_tree(fs).await;
    let view = seen_through(fs, part()).await;
    let view = &*view;
    let change = |kind: ChangeKind, ino: Ino, path: &str| Change::new(kind, ino, [p(path)]);
    let ino = async |path: &str| stat(fs, path).await.ino;
    let mut since = fs.head().await.unwrap().seq;
    // Changes within what is excluded are not shown.
    given(fs, [write("/a/mem/new", "x"), append("/a/mem/f", "x"), remove("/a/s/2", Remove::Tree)]).await;
    given(fs, [rename("/a/mem/new", "/a/mem/deep/new"), write("/a/MEM.md", "x")]).await;
    assert_eq!(seen(view, since).await, []);
    since = fs.head().await.unwrap().seq;
    let (file, dir, island) = (ino("/a/f").await, ino("/a/mem/deep").await, ino("/a/s/1/f").await);
    given(fs, [rename("/a/f", "/a/mem/f2"), rename("/a/mem/deep", "/a/deep"), append("/a/s/1/f", "x")]).await;
    given(fs, [rename("/a/s/1/f", "/a/f")]).await;
    assert_eq!(
        seen(view, since).await,
        [
            change(Removed, file, "/a/f"),
            change(Created, dir, "/a/deep"),
            change(Modified, island, "/a/s/1/f"),
            change(Renamed { from: p("/a/s/1/f") }, island, "/a/f"),
        ]
    );
    // A directory that is renamed with its excluded nodes, or to a place with an exclusion.
    since = fs.head().await.unwrap().seq;
    let whole =
        seen_through(fs, Within::everything().without([p("/a/mem"), p("/c/d")]).with([p("/a/mem/f")])).await;
    let (a, mem, d, f) = (ino("/a").await, ino("/a/mem").await, ino("/a/d").await, ino("/a/mem/f").await);
    given(fs, [rename("/a", "/c")]).await;
    assert_eq!(
        seen(&*whole, since).await,
        [
            change(Removed, f, "/a/mem/f"),
            change(Removed, d, "/a/d"),
            change(Renamed { from: p("/a") }, a, "/c"),
            change(Created, mem, "/c/mem"),
        ]
    );
    since = fs.head().await.unwrap().seq;
    given(fs, [rename("/c", "/a")]).await;
    assert_eq!(
        seen(&*whole, since).await,
        [
            change(Removed, mem, "/c/mem"),
            change(Renamed { from: p("/c") }, a, "/a"),
            change(Created, d, "/a/d"),
            change(Created, f, "/a/mem/f"),
        ]
    );
}

async fn search_omits_exclusions(subject: &Subject) {
    let fs = &*subject.fs;
    some_tree(fs).await;
    let text = "a grey heron";
    given(
        fs,
        [write("/a/MEM.md", text), write("/a/mem/h", text), write("/a/h/h", text), write("/a/mem-x/h", text)],
    )
    .await;
    given(
        fs,
        [write("/a/s/1/h", text), write("/a/s/x", text), write("/b/h", text), link("/a/mem/h", "/a/z")],
    )
    .await;
    let view = seen_through(fs, part()).await;
    let found = async |query: SearchQuery| {
        let hits = view.search(&query).await.unwrap().hits;
        let mut paths: Vec<String> = hits.iter().map(|hit| hit.path.to_string()).collect();
        paths.sort();
        paths
    };
    let heron = || SearchQuery::new("heron");
    assert_eq!(found(heron()).await, ["/a/h/h", "/a/mem-x/h", "/a/s/1/h", "/a/z"]);
    assert_eq!(found(heron().within(p("/a/s"))).await, ["/a/s/1/h"]);
    assert_eq!(found(heron().within(p("/a/mem"))).await, [""; 0]);
}

async fn excluded_text_raises_no_score(subject: &Subject) {
    let fs = &*subject.fs;
    some_tree(fs).await;
    given(
        fs,
        [write("/a/h/h", "the grey heron of the garden pond"), write("/a/h/i", "a quiet harbour town")],
    )
    .await;
    let view = seen_through(fs, part()).await;
    let scores = async || {
        let mut scores = Vec::new();
        for question in ["heron quokka", "the quokka of the grey pond", "an old town with quokka ships"] {
            let hits = view.search(&SearchQuery::new(question).per_file(20)).await.unwrap().hits;
            scores.extend(hits.into_iter().map(|hit| (hit.path, hit.score.to_bits())));
        }
        scores
    };
    let before = scores().await;
    assert!(!before.is_empty());
    // In the place of another file, so that the number of passages stays.
    given(fs, [write("/a/mem/h", "nothing at all")]).await;
    let other = scores().await;
    given(fs, [write("/a/mem/h", "the quokka of the grey pond, an old town, ships")]).await;
    assert_eq!(scores().await, other);
}
