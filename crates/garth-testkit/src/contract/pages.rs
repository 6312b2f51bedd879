//! Pages of listings and walks.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use garth_engine::ErrorKind::{InvalidArgument, NotADirectory};
use garth_engine::TreePath;
use garth_engine::model::{
    At, Batch, ChangesQuery, HistoryPage, Kind, Listing, MAX_PAGE, MAX_PAGE_BYTES, NamesPage, Op, Page,
    Remove, Seq, SetAttrs, Snapshot, SnapshotsPage, WalkPage, Weigh,
};

use super::suite::checks;
use crate::subject::Subject;
use crate::tools::*;

checks! {
    listing_is_in_byte_order_across_pages
    listing_starts_after_any_name
    listing_includes_entries_on_request [nodes]
    directory_lists_only_its_children
    walk_is_ordered_by_directory_then_name
    walk_starts_after_any_path
    pages_have_limits
    large_directory_is_listed_completely
    pages_are_bounded_in_bytes [attributes]
    names_and_snapshots_come_in_pages [links]
    history_pages_are_bounded_in_bytes [history attributes]
}

const ODD: [&str; 14] =
    ["A", "a", "a b", "a!", "a%", "a-", "a.", "a0", "a_", "ab", "chat-a", "chat-ab", "é", "\u{ffff}"];

async fn odd_tree(fs: &Fs) {
    let mut ops = Vec::new();
    for name in ODD {
        ops.push(mkdir(&format!("/{name}")));
        ops.push(write(&format!("/{name}/f"), name));
        ops.push(mkdir(&format!("/{name}/sub")));
        ops.push(write(&format!("/{name}/sub/g"), name));
    }
    fs.commit(Batch::new(ops)).await.unwrap();
}

async fn listing_is_in_byte_order_across_pages(subject: &Subject) {
    let fs = &*subject.fs;
    odd_tree(fs).await;
    assert_eq!(names_in(fs, "/").await, ODD);
    // The last three: one less than all names, all of them, and one more.
    for limit in [1, 2, 5, 13, 14, 15] {
        let mut all = Vec::new();
        let mut page = Page::default().limit(limit);
        loop {
            let listing = fs.list(&at("/"), &page).await.unwrap();
            assert!(listing.items.len() <= limit);
            // An empty page keeps its position.
            page.after = listing.items.last().map(|item| item.name.clone()).or(page.after);
            all.extend(listing.items.into_iter().map(|item| item.name.to_string()));
            if !listing.more {
                break;
            }
        }
        assert_eq!(all, ODD, "in pages of {limit}");
    }
}

async fn listing_starts_after_any_name(subject: &Subject) {
    let fs = &*subject.fs;
    odd_tree(fs).await;
    // The name may have been removed since the page before.
    for (after, first) in [("a", "a b"), ("aa", "ab"), ("chat-a", "chat-ab"), ("0", "A")] {
        let page = Page::default().after(name(after));
        let listing = fs.list(&at("/"), &page).await.unwrap();
        assert_eq!(listing.items[0].name.as_str(), first, "behind {after}");
    }
    let page = Page::default().after(name("\u{ffff}"));
    let listing = fs.list(&at("/"), &page).await.unwrap();
    assert!(listing.items.is_empty() && !listing.more);
}

async fn listing_includes_entries_on_request(subject: &Subject) {
    let fs = &*subject.fs;
    given(
        fs,
        [mkdir("/d"), write("/d/f", "x"), symlink("/d/l", "t"), mkdir("/d/s"), write("/d/s/deep", "y")],
    )
    .await;
    for dir in [at("/d"), At::Node(stat(fs, "/d").await.ino), At::Child(stat(fs, "/").await.ino, name("d"))] {
        let bare = fs.list(&dir, &Page::default()).await.unwrap();
        assert!(bare.items.iter().all(|item| item.entry.is_none()));
        let kinds: Vec<_> = bare.items.iter().map(|item| (item.name.as_str(), item.kind)).collect();
        assert_eq!(kinds, [("f", Kind::File), ("l", Kind::Symlink), ("s", Kind::Directory)]);
        let full = fs.list(&dir, &Page::default().with_entries()).await.unwrap();
        for item in full.items {
            let entry = stat(fs, &format!("/d/{}", item.name)).await;
            assert_eq!((item.ino, item.entry.as_deref()), (entry.ino, Some(&entry)));
        }
    }
}

async fn directory_lists_only_its_children(subject: &Subject) {
    let fs = &*subject.fs;
    odd_tree(fs).await;
    for name in ODD {
        assert_eq!(names_in(fs, &format!("/{name}")).await, ["f", "sub"]);
        let top = format!("/{name}");
        // Names with the same beginning sort next to it, and must not be part of it.
        let below = [format!("{top}/f"), format!("{top}/sub"), format!("{top}/sub/g")];
        assert_eq!(paths_below(fs, &top).await, below, "a look-alike of {name} is elsewhere");
    }
}

async fn walk_is_ordered_by_directory_then_name(subject: &Subject) {
    let fs = &*subject.fs;
    odd_tree(fs).await;
    let mut expected: Vec<TreePath> = ODD
        .iter()
        .flat_map(|name| ["", "/f", "/sub", "/sub/g"].map(|rest| p(&format!("/{name}{rest}"))))
        .collect();
    // By directory, then by name.
    expected.sort_by_key(TreePath::split);
    for limit in [1, 3, 7, 56, 57] {
        let mut all = Vec::new();
        let mut page = WalkPage::default().limit(limit).with_entries();
        loop {
            let walk = fs.walk(&at("/"), &page).await.unwrap();
            assert!(walk.items.len() <= limit);
            page.after = walk.items.last().map(|item| item.path.clone()).or(page.after);
            for item in walk.items {
                let entry = fs.stat(&At::Path(item.path.clone())).await.unwrap();
                assert_eq!(
                    (item.ino, item.kind, item.entry.as_deref()),
                    (entry.ino, entry.kind, Some(&entry))
                );
                all.push(item.path);
            }
            if !walk.more {
                break;
            }
        }
        assert_eq!(all, expected, "in pages of {limit}");
    }
}

async fn walk_starts_after_any_path(subject: &Subject) {
    let fs = &*subject.fs;
    odd_tree(fs).await;
    for (after, first) in [("/a/e", "/a/f"), ("/a/f", "/a/sub"), ("/a/sub/no", ""), ("/a/sub/f", "/a/sub/g")]
    {
        let page = WalkPage::default().after(p(after));
        let walk = fs.walk(&at("/a"), &page).await.unwrap();
        let found = walk.items.first().map_or("", |item| item.path.as_str());
        assert_eq!(found, first, "behind {after}");
    }
    // A position outside of the walked directory is a mistake of the caller.
    for outside in ["/", "/a", "/ab", "/ab/f", "/a%/f"] {
        let page = WalkPage::default().after(p(outside));
        assert_error(fs.walk(&at("/a"), &page).await.map(|walk| walk.items.len()), InvalidArgument, None);
    }
}

async fn pages_have_limits(subject: &Subject) {
    let fs = &*subject.fs;
    put(fs, "/f", "x").await;
    for limit in [0, MAX_PAGE + 1, usize::MAX] {
        assert_error(fs.list(&at("/"), &Page::default().limit(limit)).await, InvalidArgument, None);
        assert_error(fs.walk(&at("/"), &WalkPage::default().limit(limit)).await, InvalidArgument, None);
        if can(fs).history {
            let page = HistoryPage::default().limit(limit);
            assert_error(fs.history(&at("/f"), &page).await, InvalidArgument, None);
            assert_error(fs.changes(&ChangesQuery::since(Seq(0)).limit(limit)).await, InvalidArgument, None);
        }
    }
    assert_error(fs.list(&at("/f"), &Page::default()).await, NotADirectory, Some("/f"));
    assert_error(fs.walk(&at("/f"), &WalkPage::default()).await, NotADirectory, Some("/f"));
}

async fn large_directory_is_listed_completely(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d")]).await;
    let names: Vec<String> = (0..2_500).map(|number| format!("{number:05}")).collect();
    fs.commit(Batch::new(names.iter().map(|name| write(&format!("/d/{name}"), "")))).await.unwrap();
    let page = Page::default();
    let first = fs.list(&at("/d"), &page).await.unwrap();
    assert_eq!((first.items.len(), first.more), (1000, true));
    assert_eq!(names_in(fs, "/d").await, names);
    assert_eq!(paths_below(fs, "/").await.len(), 2_501);
}

/// Returns attributes of about 240 KiB.
fn large_attributes(mark: usize) -> SetAttrs {
    SetAttrs::default().metadata("large", format!("{mark}{}", "x".repeat(240 << 10)))
}

/// Checks the size of a page that is not the last.
#[track_caller]
fn assert_bounded<T: Weigh>(page: &Listing<T>) {
    let bytes: usize = page.items.iter().map(Weigh::weight).sum();
    assert!(page.more && !page.items.is_empty(), "{} items are all", page.items.len());
    assert!((MAX_PAGE_BYTES * 9 / 10..=MAX_PAGE_BYTES).contains(&bytes), "the page has {bytes} bytes");
}

async fn pages_are_bounded_in_bytes(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d")]).await;
    let names: Vec<String> = (0..50).map(|number| format!("{number:02}")).collect();
    for (mark, name) in names.iter().enumerate() {
        apply(fs, write_with(&format!("/d/{name}"), "", large_attributes(mark))).await;
    }
    let (mut page, mut found) = (Page::default().with_entries(), Vec::new());
    loop {
        let listing = fs.list(&at("/d"), &page).await.unwrap();
        if found.is_empty() {
            assert_bounded(&listing);
        }
        page = page.after(listing.items.last().map(|item| item.name.clone()));
        found.extend(listing.items.iter().map(|item| item.name.to_string()));
        if !listing.more {
            break;
        }
    }
    assert_eq!(found, names);
    let walk = fs.walk(&at("/"), &WalkPage::default().with_entries()).await.unwrap();
    assert_bounded(&walk);
    let rest = WalkPage::default().after(walk.items.last().map(|item| item.path.clone()));
    let rest = fs.walk(&at("/"), &rest).await.unwrap();
    assert_eq!((walk.items.len() + rest.items.len(), rest.more), (51, false));
    assert_eq!(fs.list(&at("/d"), &Page::default()).await.unwrap().items.len(), 50);
}

async fn names_and_snapshots_come_in_pages(subject: &Subject) {
    let fs = &*subject.fs;
    // Long paths, so that a page of names ends by its bytes.
    let deep = format!("/{}", ["x".repeat(250).as_str(); 15].join("/"));
    given(fs, [write("/f", ""), mkdir_all(&deep)]).await;
    let mut names: Vec<String> = (0..2_500).map(|number| format!("{deep}/{number:04}")).collect();
    fs.commit(Batch::new(names.iter().map(|name| link("/f", name)))).await.unwrap();
    names.insert(0, "/f".to_owned());
    let mut found = Vec::new();
    for limit in [1, 7, MAX_PAGE] {
        let page = NamesPage::default().after(found.last().map(|name: &String| p(name))).limit(limit);
        let names = fs.names(&at("/f"), &page).await.unwrap();
        match limit {
            MAX_PAGE => assert_bounded(&names),
            _ => assert_eq!((names.items.len(), names.more), (limit, true)),
        }
        found.extend(names.items.iter().map(TreePath::to_string));
    }
    let page = NamesPage::default().after(found.last().map(|name| p(name))).limit(MAX_PAGE);
    let last = fs.names(&at("/f"), &page).await.unwrap();
    found.extend(last.items.iter().map(TreePath::to_string));
    assert_eq!((found, last.more), (names, false));
    assert_error(fs.names(&at("/f"), &NamesPage::default().limit(0)).await, InvalidArgument, None);

    if !can(fs).snapshots {
        return;
    }
    let names: Vec<String> = (0..2_200).map(|number| format!("s{number:04}{}", "y".repeat(4000))).collect();
    fs.commit(Batch::new(names.iter().map(Op::snapshot))).await.unwrap();
    let first = fs.snapshots(&SnapshotsPage::default().limit(MAX_PAGE)).await.unwrap();
    assert_bounded(&first);
    let page = SnapshotsPage::default().after(first.items.last().map(Snapshot::key)).limit(MAX_PAGE);
    let rest = fs.snapshots(&page).await.unwrap();
    let all = first.items.into_iter().chain(rest.items).map(|snapshot| snapshot.name);
    assert_eq!((all.collect::<Vec<_>>(), rest.more), (names, false));
    assert_error(fs.snapshots(&SnapshotsPage::default().limit(0)).await, InvalidArgument, None);
}

async fn history_pages_are_bounded_in_bytes(subject: &Subject) {
    let fs = &*subject.fs;
    // Nodes that are all written in one commit, and are renamed to one path in turn.
    let names: Vec<String> = (0..9).map(|number| format!("/{number}")).collect();
    fs.commit(Batch::new(names.iter().map(|name| write(name, "1")))).await.unwrap();
    fs.commit(Batch::new(names.iter().map(|name| write(name, "2")))).await.unwrap();
    for name in &names {
        apply(fs, rename(name, "/f")).await;
    }
    given(fs, [remove("/f", Remove::File), write("/f", "3"), rename("/f", "/g"), rename("/g", "/f")]).await;
    let all = history(fs, "/f").await;
    assert!(all.len() >= 2 * 9, "{all:?}");
    for limit in 1..5 {
        let (mut page, mut found) = (HistoryPage::default().limit(limit), Vec::new());
        loop {
            let versions = fs.history(&at("/f"), &page).await.unwrap();
            assert!(versions.items.len() <= limit);
            page = page.before(versions.items.last().map(|version| version.id));
            found.extend(versions.items);
            if !versions.more {
                break;
            }
        }
        assert_eq!(found, all, "in pages of {limit}");
    }
    given(fs, [write("/large", "")]).await;
    for mark in 0..40 {
        apply(fs, set("/large", large_attributes(mark))).await;
    }
    let first = fs.history(&at("/large"), &HistoryPage::default()).await.unwrap();
    assert_bounded(&first);
    let page = HistoryPage::default().before(first.items.last().map(|version| version.id));
    let rest = fs.history(&at("/large"), &page).await.unwrap();
    assert_eq!((first.items.len() + rest.items.len(), rest.more), (41, false));
}
