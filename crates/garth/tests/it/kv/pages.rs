//! Pages of the key-value API: complete, in order, bounded, and at a cost that does not grow with what is not
//! on them.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use garth::model::{
    Changes, ChangesQuery, Commit, CommitId, Confinement, Entry, Fetched, Head, HistoryPage, Listing, Moment,
    NamesPage, Page, SearchAnswer, SearchQuery, Snapshot, SnapshotsPage, Version, VersionId, Walk,
};
use garth::{Capabilities, Lowering, OpenFile, OpenNode, Upload};

use super::*;

on_each_engine! {
    pages_reach_every_key_once_and_in_key_order,
    pages_of_a_deep_tree_are_in_the_order_of_whole_keys,
    pages_of_history_hold_a_bounded_number_of_bytes,
    a_cursor_of_another_request_is_refused,
    the_cost_of_a_page_does_not_grow_with_what_is_before_or_behind_it,
}

/// All items, read in pages of `limit`.
async fn all<T>(limit: usize, read: impl AsyncFn(usize, Option<String>) -> KvResult<Paged<T>>) -> Vec<T> {
    let (mut items, mut cursor) = (Vec::new(), None);
    loop {
        let page = read(limit, cursor).await.unwrap();
        assert!(page.items.len() <= limit);
        items.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return items;
        }
    }
}

/// Writes these keys in one commit.
async fn put_all(fs: &Fs, keys: &[String]) {
    let write = |key: &String| {
        Op::write(path(&format!("/agents/x/kv{key}.json")), Bytes::from_static(b"1"))
            .create_new()
            .with_parents()
    };
    fs.commit(Batch::new(keys.iter().map(write))).await.unwrap();
}

async fn pages_reach_every_key_once_and_in_key_order(fs: Fs, _: ManualClock) {
    let mut keys: Vec<String> = (0..1500).map(|number| format!("/d/a!{number:04}")).collect();
    keys.extend(["/d/a".into(), "/d/a!".into(), "/d/b".into()]);
    put_all(&fs, &keys).await;
    keys.sort_unstable();
    let kv = kv(&fs);
    let listed = async |limit, cursor: Option<String>| {
        kv.list("/d", PageRequest { limit, cursor: cursor.as_deref() }).await
    };
    let globbed = async |limit, cursor: Option<String>| {
        kv.glob("/d/*", Semantics::Whole, PageRequest { limit, cursor: cursor.as_deref() }).await
    };
    for limit in [7, 500] {
        let items = all(limit, listed).await;
        assert_eq!(items.into_iter().map(|item| item.path).collect::<Vec<_>>(), keys);
        assert_eq!(all(limit, globbed).await, keys);
    }
}

async fn pages_of_a_deep_tree_are_in_the_order_of_whole_keys(fs: Fs, _: ManualClock) {
    // `.`, `-` and ` ` come before `/`, so the order of keys, of files and of directories all differ.
    let segments = ["a", "a ", "a-", "a-b", "a.", "a.b", "a.json", "a.jsp", "a0", "b"];
    let mut keys = Vec::new();
    for first in segments {
        keys.push(format!("/{first}"));
        for second in segments {
            keys.push(format!("/{first}/{second}"));
            keys.extend(segments.map(|third| format!("/{first}/{second}/{third}")));
        }
    }
    keys.extend((0..1200).map(|number| format!("/a-b/a.b/n{number}")));
    keys.retain(|key| !key.contains("a.json/") && !key.ends_with("/a.json"));
    put_all(&fs, &keys).await;
    keys.sort_unstable();
    let kv = kv(&fs);
    for (pattern, semantics) in
        [("/**", Semantics::Whole), ("/a*/*", Semantics::Segment), ("/*b/?", Semantics::Whole)]
    {
        let read = async |limit, cursor: Option<String>| {
            kv.glob(pattern, semantics, PageRequest { limit, cursor: cursor.as_deref() }).await
        };
        let once = all(500, read).await;
        assert_eq!(all(13, read).await, once, "{pattern}");
        assert!(once.is_sorted() && !once.is_empty());
        if pattern == "/**" {
            assert_eq!(once, keys);
        }
    }
    let read = async |limit, cursor: Option<String>| {
        kv.list("/", PageRequest { limit, cursor: cursor.as_deref() }).await
    };
    for limit in 1..6 {
        let items = all(limit, read).await.into_iter().map(|item| item.path).collect::<Vec<_>>();
        assert_eq!(items, ["/a", "/a ", "/a-", "/a-b", "/a.", "/a.b", "/a.jsp", "/a0", "/b"]);
    }
}

async fn pages_of_history_hold_a_bounded_number_of_bytes(fs: Fs, _: ManualClock) {
    let long = format!("\"{}\"", "a".repeat(MAX_VALUE - 2));
    for number in 0..12 {
        put(&fs, "/a", if number % 4 == 3 { "3" } else { &long }).await.unwrap();
        if number == 6 {
            kv(&fs).delete("/a", None).await.unwrap();
        }
    }
    let kv = kv(&fs);
    let read = async |limit, cursor: Option<String>| {
        let page = kv.history("/a", PageRequest { limit, cursor: cursor.as_deref() }).await?;
        let bytes: usize =
            page.items.iter().flat_map(|past| &past.value).map(|value| value.get().len()).sum();
        assert!(bytes <= MAX_PAGE_VALUES, "{bytes}");
        Ok(page)
    };
    let past = all(100, read).await;
    assert_eq!(past.len(), 13);
    assert!(past.windows(2).all(|pair| pair[0].version.seq > pair[1].version.seq));
    for limit in 1..4 {
        assert_eq!(texts(&all(limit, read).await), texts(&past));
    }
}

async fn a_cursor_of_another_request_is_refused(fs: Fs, _: ManualClock) {
    put(&fs, "/a/b", "1").await.unwrap();
    let page = |cursor| PageRequest { limit: 1, cursor: Some(cursor) };
    for cursor in ["", "b", "/", "/a/b/c", "/b/c", "ver_1-1", "/a/.."] {
        assert_eq!(code(kv(&fs).list("/a", page(cursor)).await), KvCode::Validation, "{cursor}");
    }
    for cursor in ["", "b", "/", "/../a", "ver_1-1"] {
        assert_eq!(code(kv(&fs).glob("/a/*", Semantics::Whole, page(cursor)).await), KvCode::Validation);
        assert_eq!(code(kv(&fs).history("/a/b", page("/a")).await), KvCode::Validation);
    }
}

/// Counts the names that reads look at.
#[derive(Debug)]
struct Counting(Fs, AtomicUsize);

impl Counting {
    fn add(&self, names: usize) {
        self.1.fetch_add(names, Ordering::Relaxed);
    }
}

#[async_trait]
impl FileSystem for Counting {
    fn capabilities(&self, at: &TreePath) -> Capabilities {
        self.0.capabilities(at)
    }
    async fn head(&self) -> garth::Result<Head> {
        self.0.head().await
    }
    async fn stat(&self, at: &At) -> garth::Result<Entry> {
        self.add(1);
        self.0.stat(at).await
    }
    async fn names(&self, at: &At, page: &NamesPage) -> garth::Result<Listing<TreePath>> {
        self.0.names(at, page).await
    }
    async fn list(&self, dir: &At, page: &Page) -> garth::Result<Listing> {
        let listing = self.0.list(dir, page).await?;
        self.add(1 + listing.items.len());
        Ok(listing)
    }
    async fn walk(&self, dir: &At, page: &WalkPage) -> garth::Result<Walk> {
        let walk = self.0.walk(dir, page).await?;
        self.add(1 + walk.items.len());
        Ok(walk)
    }
    async fn fetch(&self, at: &At, range: ByteRange) -> garth::Result<(Entry, Bytes)> {
        self.0.fetch(at, range).await
    }
    async fn fetch_many(&self, items: &[(At, ByteRange)]) -> garth::Result<Fetched> {
        self.0.fetch_many(items).await
    }

    async fn hold(&self, at: &At) -> garth::Result<Arc<dyn OpenNode>> {
        self.0.hold(at).await
    }
    async fn open(&self, at: &At) -> garth::Result<Arc<dyn OpenFile>> {
        self.0.open(at).await
    }
    async fn open_version(&self, version: VersionId) -> garth::Result<Arc<dyn OpenFile>> {
        self.0.open_version(version).await
    }
    async fn history(&self, at: &At, page: &HistoryPage) -> garth::Result<Listing<Version>> {
        self.0.history(at, page).await
    }
    async fn changes(&self, query: &ChangesQuery) -> garth::Result<Changes> {
        self.0.changes(query).await
    }
    async fn wait(&self, since: Seq) -> garth::Result<Head> {
        self.0.wait(since).await
    }
    async fn as_of(&self, moment: &Moment) -> garth::Result<Fs> {
        self.0.as_of(moment).await
    }
    async fn confined(&self, to: &Confinement) -> garth::Result<Arc<dyn FileSystem>> {
        self.0.confined(to).await
    }
    fn lowering(&self) -> Box<dyn Lowering> {
        self.0.lowering()
    }
    async fn snapshots(&self, page: &SnapshotsPage) -> garth::Result<Listing<Snapshot>> {
        self.0.snapshots(page).await
    }
    async fn search(&self, query: &SearchQuery) -> garth::Result<SearchAnswer> {
        self.0.search(query).await
    }
    async fn stage(&self, at: &At) -> garth::Result<Box<dyn Upload>> {
        self.0.stage(at).await
    }
    async fn commit(&self, batch: Batch) -> garth::Result<Commit> {
        self.0.commit(batch).await
    }
    async fn committed(&self, id: CommitId) -> garth::Result<Option<Commit>> {
        self.0.committed(id).await
    }
    async fn sync(&self) -> garth::Result<Seq> {
        self.0.sync().await
    }
}

async fn the_cost_of_a_page_does_not_grow_with_what_is_before_or_behind_it(fs: Fs, _: ManualClock) {
    let mut keys: Vec<String> = (0..20_000).map(|number| format!("/d/{number:05}")).collect();
    keys.extend((0..2000).map(|number| format!("/e/{number:05}/x")));
    put_all(&fs, &keys).await;
    let fs = Counting(fs, AtomicUsize::new(0));
    let kv = Kv::new(&fs, "x", None).unwrap();
    for after in [None, Some("/d/00001"), Some("/d/10000"), Some("/d/19000")] {
        let page = PageRequest { limit: 100, cursor: after };
        assert_eq!(kv.list("/d", page).await.unwrap().items.len(), 100);
        let listed = fs.1.swap(0, Ordering::Relaxed);
        assert_eq!(kv.glob("/**", Semantics::Whole, page).await.unwrap().items.len(), 100);
        let globbed = fs.1.swap(0, Ordering::Relaxed);
        assert!(listed < 300 && globbed < 6000, "after {after:?}: {listed}, {globbed}");
    }
    let page = PageRequest { limit: 100, cursor: Some("/e/01000/x") };
    let found = kv.glob("/e/*/x", Semantics::Segment, page).await.unwrap();
    assert_eq!(found.items.last().map(String::as_str), Some("/e/01100/x"));
    let globbed = fs.1.swap(0, Ordering::Relaxed);
    assert!(globbed < 3000, "{globbed}");
}
