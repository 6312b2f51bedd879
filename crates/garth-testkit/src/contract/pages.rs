//! Pages of listings and walks.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "each function's name is its promise, and each is a test"
)]

use garth::ErrorKind::{InvalidArgument, NotADirectory};
use garth::TreePath;
use garth::model::{At, Batch, ChangesQuery, HistoryPage, Kind, MAX_PAGE, Page, Seq, WalkPage};

use super::Subject;
use crate::tools::*;

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

pub async fn a_listing_is_in_byte_order_and_pages_meet(subject: &Subject) {
    let fs = &*subject.fs;
    odd_tree(fs).await;
    assert_eq!(names_in(fs, "/").await, ODD);
    for limit in [1, 2, 5, 13, 14, 15] {
        let mut all = Vec::new();
        let mut page = Page::default().limit(limit);
        loop {
            let listing = fs.list(&at("/"), &page).await.unwrap();
            assert!(listing.items.len() <= limit);
            page.after = listing.items.last().map(|item| item.name.clone()).or(page.after);
            all.extend(listing.items.into_iter().map(|item| item.name.to_string()));
            if !listing.more {
                break;
            }
        }
        assert_eq!(all, ODD, "in pages of {limit}");
    }
}

pub async fn a_listing_starts_behind_a_name_that_need_not_exist(subject: &Subject) {
    let fs = &*subject.fs;
    odd_tree(fs).await;
    for (after, first) in [("a", "a b"), ("aa", "ab"), ("chat-a", "chat-ab"), ("0", "A")] {
        let page = Page::default().after(name(after));
        let listing = fs.list(&at("/"), &page).await.unwrap();
        assert_eq!(listing.items[0].name.as_str(), first, "behind {after}");
    }
    let page = Page::default().after(name("\u{ffff}"));
    let listing = fs.list(&at("/"), &page).await.unwrap();
    assert!(listing.items.is_empty() && !listing.more);
}

pub async fn a_listing_carries_entries_where_asked(subject: &Subject) {
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

pub async fn a_directory_lists_its_own_children_only(subject: &Subject) {
    let fs = &*subject.fs;
    odd_tree(fs).await;
    for name in ODD {
        assert_eq!(names_in(fs, &format!("/{name}")).await, ["f", "sub"]);
        let top = format!("/{name}");
        let below = [format!("{top}/f"), format!("{top}/sub"), format!("{top}/sub/g")];
        assert_eq!(paths_below(fs, &top).await, below, "a look-alike of {name} is elsewhere");
    }
}

pub async fn a_walk_goes_by_directory_then_name_and_pages_meet(subject: &Subject) {
    let fs = &*subject.fs;
    odd_tree(fs).await;
    let mut expected: Vec<TreePath> = ODD
        .iter()
        .flat_map(|name| ["", "/f", "/sub", "/sub/g"].map(|rest| p(&format!("/{name}{rest}"))))
        .collect();
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

pub async fn a_walk_starts_behind_a_path_that_need_not_exist(subject: &Subject) {
    let fs = &*subject.fs;
    odd_tree(fs).await;
    for (after, first) in [("/a/e", "/a/f"), ("/a/f", "/a/sub"), ("/a/sub/no", ""), ("/a/sub/f", "/a/sub/g")]
    {
        let page = WalkPage::default().after(p(after));
        let walk = fs.walk(&at("/a"), &page).await.unwrap();
        let found = walk.items.first().map_or("", |item| item.path.as_str());
        assert_eq!(found, first, "behind {after}");
    }
    for outside in ["/", "/a", "/ab", "/ab/f", "/a%/f"] {
        let page = WalkPage::default().after(p(outside));
        assert_error(fs.walk(&at("/a"), &page).await.map(|walk| walk.items.len()), InvalidArgument, None);
    }
}

pub async fn pages_have_limits(subject: &Subject) {
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

pub async fn a_large_directory_is_listed_whole(subject: &Subject) {
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
