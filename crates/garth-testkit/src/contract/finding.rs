//! Finding by key: a node is found from the commit that gives it the key until the commit that takes it away.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use std::time::Duration;

use garth_engine::ErrorKind::{InvalidArgument, Unsupported};
use garth_engine::model::{
    Batch, Confinement, FindItem, FindQuery, Moment, Op, Owner, Projection, Remove, SetAttrs, Special, Within,
};

use super::suite::checks;
use crate::subject::{START, Subject};
use crate::tools::*;

checks! {
    find_sees_new_keys_immediately [find attributes]
    find_omits_lost_keys_and_names [find attributes]
    find_omits_expired_entries [find attributes expiry]
    find_returns_key_ranges_in_byte_order [find attributes]
    find_returns_long_keys_completely [find attributes]
    find_is_bounded_by_segment [find attributes links]
    find_is_limited_to_its_handle [find attributes confinement links]
    find_returns_pages [find attributes]
    find_covers_every_kind_of_node [find attributes special]
}

/// Returns all results of a query, read in pages of `limit`.
pub(crate) async fn all_found(
    fs: &Fs,
    query: &FindQuery,
    limit: usize,
) -> garth_engine::Result<Vec<FindItem>> {
    let (mut items, mut after) = (Vec::new(), None);
    loop {
        let page = fs.find(&query.clone().limit(limit).after(after)).await?;
        assert!(page.items.len() <= limit, "{} items of {limit}", page.items.len());
        items.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(items),
        }
    }
}

/// Returns the paths that a query finds, sorted, after checking that the page size makes no difference.
async fn found(fs: &Fs, query: FindQuery) -> Vec<String> {
    let whole = all_found(fs, &query, 1000).await.unwrap();
    for limit in [1, 3] {
        assert_eq!(all_found(fs, &query, limit).await.unwrap(), whole, "pages of {limit}");
    }
    let mut paths: Vec<String> = whole.iter().map(|item| item.path.to_string()).collect();
    paths.sort();
    paths
}

fn tags<const N: usize>(tags: [&str; N]) -> SetAttrs {
    SetAttrs::new().tags(tags)
}

fn tagged(tag: &str) -> FindQuery {
    FindQuery::tag(tag)
}

async fn find_sees_new_keys_immediately(subject: &Subject) {
    let fs = &*subject.fs;
    // A tag that is set twice is found once.
    let attrs = tags(["x", "y", "x"]).metadata("due", "2026-01-02").metadata("owner", "ann");
    given(fs, [write_with("/a", "a", attrs), write("/b", "b"), mkdir("/d"), symlink("/s", "/a")]).await;
    assert_eq!(found(fs, tagged("x")).await, ["/a"]);
    let item = &fs.find(&tagged("x")).await.unwrap().items[0];
    assert_eq!((item.ino, &*item.key, &item.line), (stat(fs, "/a").await.ino, "x", &None));
    assert!(found(fs, tagged("X")).await.is_empty() && found(fs, tagged("xy")).await.is_empty());
    given(fs, [set("/b", tags(["x"])), set("/d", tags(["x"])), set("/s", tags(["x"]))]).await;
    assert_eq!(found(fs, tagged("x")).await, ["/a", "/b", "/d", "/s"], "of every kind");
    assert_eq!(found(fs, FindQuery::metadata("owner", "ann")).await, ["/a"]);
    assert!(found(fs, FindQuery::metadata("owner", "an")).await.is_empty());
    assert!(found(fs, FindQuery::metadata("due", "ann")).await.is_empty());
    given(fs, [set("/", tags(["root"])), copy("/a", "/copy")]).await;
    assert_eq!(found(fs, tagged("y")).await, ["/a", "/copy"]);
    let root = &fs.find(&tagged("root")).await.unwrap().items[0];
    assert_eq!((root.path.as_str(), root.ino), ("/", stat(fs, "/").await.ino));
    // The index must follow each change, and not only the creation.
    given(fs, [write_with("/made", "1", tags(["made"])), set("/made", tags(["again"]))]).await;
    assert!(found(fs, tagged("made")).await.is_empty());
    assert_eq!(found(fs, tagged("again")).await, ["/made"]);
    let batch = [write_with("/brief", "1", tags(["brief"])), remove("/brief", Remove::File)];
    fs.commit(Batch::new(batch)).await.unwrap();
    assert!(found(fs, tagged("brief")).await.is_empty());
}

async fn find_omits_lost_keys_and_names(subject: &Subject) {
    let fs = &*subject.fs;
    let attrs = || tags(["x", "y"]).metadata("k", "v");
    for path in ["/a", "/b", "/c", "/over"] {
        given(fs, [write_with(path, path, attrs())]).await;
    }
    given(fs, [mkdir("/d"), mkdir("/d/e"), write_with("/d/e/f", "f", attrs()), set("/d/e", attrs())]).await;
    given(fs, [set("/a", tags(["y"])), set("/b", SetAttrs::new().remove_metadata("k"))]).await;
    assert_eq!(found(fs, tagged("x")).await, ["/b", "/c", "/d/e", "/d/e/f", "/over"]);
    assert_eq!(found(fs, FindQuery::metadata("k", "v")).await, ["/a", "/c", "/d/e", "/d/e/f", "/over"]);
    given(fs, [set("/b", tags([]))]).await;
    given(fs, [remove("/c", Remove::File), rename("/d", "/moved"), rename("/a", "/over")]).await;
    assert_eq!(found(fs, tagged("x")).await, ["/moved/e", "/moved/e/f"], "where they are now");
    assert_eq!(found(fs, tagged("y")).await, ["/moved/e", "/moved/e/f", "/over"]);
    given(fs, [remove("/moved", Remove::Tree)]).await;
    assert_eq!(found(fs, tagged("y")).await, ["/over"]);
    // Writing the content keeps the attributes.
    given(fs, [write("/over", "the content alone")]).await;
    assert_eq!(found(fs, tagged("y")).await, ["/over"]);
}

async fn find_omits_expired_entries(subject: &Subject) {
    let fs = &*subject.fs;
    let expires = tags(["x"]).expires_at(START.plus_seconds(10));
    given(fs, [write_with("/a", "a", expires.clone()), write_with("/b", "b", tags(["x"]))]).await;
    assert_eq!(found(fs, tagged("x")).await, ["/a", "/b"]);
    subject.clock.advance(Duration::from_secs(10));
    assert_eq!(found(fs, tagged("x")).await, ["/b"]);
    // A new node under the same path, without the key.
    given(fs, [write("/a", "another")]).await;
    assert_eq!(found(fs, tagged("x")).await, ["/b"], "nor is what takes its name");
    if let Some(collect) = &subject.collect {
        collect().await.unwrap();
    }
    if let Some(reopen) = &subject.reopen {
        assert_eq!(found(&*reopen().await.fs, tagged("x")).await, ["/b"]);
    }
}

async fn find_returns_key_ranges_in_byte_order(subject: &Subject) {
    let fs = &*subject.fs;
    // Unsorted, with a repeated value, an empty one and one beyond ASCII.
    for day in ["2026-01-10", "2025-12-31", "2026-01-02", "é", "", "2026-01-02"] {
        let path = format!("/{}", paths_below(fs, "/").await.len());
        given(fs, [write_with(&path, day, SetAttrs::new().metadata("due", day).metadata("du", "1"))]).await;
    }
    let values = async |query: FindQuery| {
        let items = all_found(fs, &query, 2).await.unwrap().into_iter();
        let value = |item: FindItem| item.key.split_once('\0').map(|(_, value)| value.to_owned()).unwrap();
        items.map(value).collect::<Vec<_>>()
    };
    let all = ["", "2025-12-31", "2026-01-02", "2026-01-02", "2026-01-10", "é"];
    assert_eq!(values(FindQuery::metadata_from("due", "")).await, all);
    assert_eq!(values(FindQuery::metadata_from("due", "2026")).await, all[2..]);
    assert_eq!(values(FindQuery::metadata_from("due", "2026").to("due\x002026-01-05")).await, all[2..4]);
    assert_eq!(values(FindQuery::new(Projection::METADATA).from("due")).await, all);
    assert_eq!(values(FindQuery::new(Projection::METADATA)).await.len(), 12);
    for limit in [0, 1001, 10_001] {
        let query = FindQuery::tag("x").limit(limit);
        match limit {
            1001 => assert!(fs.find(&query).await.is_ok()),
            _ => assert_error(fs.find(&query).await, InvalidArgument, None),
        }
    }
    let then = fs.as_of(&Moment::Seq(subject.seq(1))).await;
    if let Ok(then) = then {
        assert!(!can(&*then).find);
        assert_eq!(then.find(&tagged("x")).await.unwrap_err().kind(), Unsupported);
    }
}

async fn find_returns_long_keys_completely(subject: &Subject) {
    let fs = &*subject.fs;
    // Longer than an index entry: only the beginning and a hash are indexed.
    let long = |end: &str| format!("{}{end}", "k".repeat(5000));
    given(fs, [write_with("/a", "", tags([&long("1"), "k"])), write_with("/b", "", tags([&long("2")]))])
        .await;
    assert_eq!(found(fs, tagged(&long("1"))).await, ["/a"]);
    assert_eq!(found(fs, tagged(&long("2"))).await, ["/b"]);
    assert!(found(fs, tagged(&long(""))).await.is_empty() && found(fs, tagged(&long("3"))).await.is_empty());
    let kept = fs.find(&tagged(&long("1"))).await.unwrap().items[0].key.clone();
    given(fs, [write_with("/c", "", tags([&kept]))]).await;
    assert_eq!(found(fs, tagged(&long("1"))).await, ["/a"], "what is kept of a long key is another key");
    assert_eq!(found(fs, FindQuery::new(Projection::TAG).from("kk").to("l")).await, ["/a", "/b", "/c"]);
}

async fn find_is_bounded_by_segment(subject: &Subject) {
    let fs = &*subject.fs;
    // Names that a prefix, a pattern or a comparison without case would confuse.
    for dir in ["/chat-a", "/chat-ab", "/chat_a", "/chat%", "/CHAT-A"] {
        given(fs, [mkdir(dir), write_with(&format!("{dir}/f"), "x", tags(["x"]))]).await;
    }
    for dir in ["/chat-a", "/chat_a", "/chat%", "/CHAT-A"] {
        assert_eq!(found(fs, tagged("x").within(p(dir))).await, [format!("{dir}/f")]);
    }
    let two = tagged("x").within(p("/chat-a")).within(p("/chat-ab/f"));
    assert_eq!(found(fs, two).await, ["/chat-a/f", "/chat-ab/f"]);
    assert!(found(fs, tagged("x").within(p("/none"))).await.is_empty());
    given(fs, [link("/chat-a/f", "/chat%/g"), link("/chat-a/f", "/chat-a/a"), link("/chat-a/f", "/z")]).await;
    let all = ["/chat%/f", "/chat%/g", "/chat-a/a", "/chat-a/f", "/z"];
    let query = tagged("x").within(p("/chat%")).within(p("/z")).within(p("/chat-a"));
    assert_eq!(found(fs, query).await, all);
    given(fs, [remove("/chat-a/f", Remove::File)]).await;
    assert_eq!(found(fs, tagged("x").within(p("/chat-a"))).await, ["/chat-a/a"]);
}

async fn find_is_limited_to_its_handle(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/in"), mkdir("/in/out"), mkdir("/in/out/island"), mkdir("/other")]).await;
    for path in ["/in/a", "/in/out/b", "/in/out/island/c", "/other/d"] {
        given(fs, [write_with(path, path, tags(["x"]))]).await;
    }
    given(fs, [link("/other/d", "/in/out/island/d"), link("/in/a", "/other/a")]).await;
    let within = Within::new([p("/in")]).without([p("/in/out")]).with([p("/in/out/island")]);
    let to = Confinement::new(within, Owner::new("part").unwrap());
    let view = fs.confined(&to).await.unwrap();
    assert_eq!(found(&*view, tagged("x")).await, ["/in/a", "/in/out/island/c", "/in/out/island/d"]);
    assert_eq!(found(&*view, tagged("x").within(p("/in/out"))).await.len(), 2);
    assert!(found(&*view, tagged("x").within(p("/other"))).await.is_empty());
    // The node lives on under `/other/a`, which is outside.
    given(fs, [remove("/in/a", Remove::File)]).await;
    assert_eq!(found(&*view, tagged("x")).await, ["/in/out/island/c", "/in/out/island/d"]);
}

async fn find_returns_pages(subject: &Subject) {
    let fs = &*subject.fs;
    // More than one page in any case.
    let count = if subject.slow { 30 } else { 300 };
    let file = |n: usize| write_with(&format!("/d/{n:03}"), "", tags(["x", &format!("t{n:03}")]));
    fs.commit(Batch::new(std::iter::once(mkdir("/d")).chain((0..count).map(file)))).await.unwrap();
    let due: Vec<String> = (0..count).map(|n| format!("/d/{n:03}")).collect();
    for limit in [7, 100] {
        let items = all_found(fs, &tagged("x"), limit).await.unwrap();
        let mut paths: Vec<_> = items.iter().map(|item| item.path.to_string()).collect();
        paths.sort();
        assert_eq!(paths, due);
        let items = all_found(fs, &FindQuery::new(Projection::TAG).from("t"), limit).await.unwrap();
        assert!(items.is_sorted_by(|one, other| one.key <= other.key));
        assert_eq!(items.len(), 2 * count);
    }
    // A key set between two pages is found after them, and a result is not found twice.
    let first = fs.find(&tagged("x").limit(5)).await.unwrap();
    let gone = first.items[0].path.clone();
    fs.commit(Batch::new([Op::set_attrs(&gone, tags([]))])).await.unwrap();
    let rest = all_found(fs, &tagged("x").after(None), 1000).await.unwrap();
    assert_eq!(rest.len(), count - 1);
    let mut after = first.next;
    let mut seen = first.items;
    while after.is_some() {
        let page = fs.find(&tagged("x").limit(50).after(after)).await.unwrap();
        seen.extend(page.items);
        after = page.next;
    }
    assert_eq!(seen.len(), count);
}

async fn find_covers_every_kind_of_node(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mknod("/fifo", Special::Fifo), set("/fifo", tags(["x"]))]).await;
    assert_eq!(found(fs, tagged("x")).await, ["/fifo"]);
    given(fs, [remove("/fifo", Remove::File)]).await;
    assert!(found(fs, tagged("x")).await.is_empty());
}
