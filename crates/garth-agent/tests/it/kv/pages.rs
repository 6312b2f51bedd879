//! Pages of the key-value API: complete, in order, bounded, and at a cost that depends only on their items.

use garth_testkit::fs::counting::Counting;

use super::*;

on_each_engine! {
    pages_return_every_key_once_in_order,
    deep_pages_are_in_key_order,
    kv_history_pages_are_bounded_in_bytes,
    rejects_cursor_of_another_request,
    page_cost_depends_on_its_items_only,
}

/// Returns all items, read in pages of `limit`.
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

async fn pages_return_every_key_once_in_order(fs: Fs, _: ManualClock) {
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

async fn deep_pages_are_in_key_order(fs: Fs, _: ManualClock) {
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

async fn kv_history_pages_are_bounded_in_bytes(fs: Fs, _: ManualClock) {
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

async fn rejects_cursor_of_another_request(fs: Fs, _: ManualClock) {
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

async fn page_cost_depends_on_its_items_only(fs: Fs, _: ManualClock) {
    let mut keys: Vec<String> = (0..20_000).map(|number| format!("/d/{number:05}")).collect();
    keys.extend((0..2000).map(|number| format!("/e/{number:05}/x")));
    put_all(&fs, &keys).await;
    let fs = Counting::new(fs);
    let kv = Kv::new(&fs, "x").unwrap();
    for after in [None, Some("/d/00001"), Some("/d/10000"), Some("/d/19000")] {
        let page = PageRequest { limit: 100, cursor: after };
        assert_eq!(kv.list("/d", page).await.unwrap().items.len(), 100);
        let listed = fs.names_since();
        assert_eq!(kv.glob("/**", Semantics::Whole, page).await.unwrap().items.len(), 100);
        let globbed = fs.names_since();
        assert!(listed < 300 && globbed < 6000, "after {after:?}: {listed}, {globbed}");
    }
    let page = PageRequest { limit: 100, cursor: Some("/e/01000/x") };
    let found = kv.glob("/e/*/x", Semantics::Segment, page).await.unwrap();
    assert_eq!(found.items.last().map(String::as_str), Some("/e/01100/x"));
    let globbed = fs.names_since();
    assert!(globbed < 3000, "{globbed}");
}
