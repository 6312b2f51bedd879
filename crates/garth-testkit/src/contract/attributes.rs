//! Attributes of entries.
#![allow(clippy::unwrap_used, reason = "a check panics where a promise does not hold")]

use std::collections::BTreeMap;

use garth_engine::ErrorKind::{InvalidArgument, NotFound, NotPermitted, TooLarge};
use garth_engine::model::{At, Attributes, Batch, Entry, MAX_ATTRIBUTES, Op, SetAttrs, Timestamp};

use super::suite::checks;
use crate::subject::{START, Subject};
use crate::tools::*;

checks! {
    attributes_are_stored_as_given [attributes expiry]
    unnamed_attributes_stay_and_cleared_ones_go [attributes expiry]
    attributes_exist_on_every_kind_of_node [attributes special]
    rejects_invalid_attribute_values [attributes expiry nodes]
    attributes_have_a_maximum_size [attributes]
    attributes_of_a_batch_are_limited_together [attributes]
}

fn everything() -> SetAttrs {
    SetAttrs {
        mode: Some(0o7777),
        uid: Some(u32::MAX),
        gid: Some(3),
        atime: Some(Timestamp(-5)),
        mtime: Some(Timestamp(6)),
        content_type: Some(Some("text/plain".to_owned())),
        // Neither sorted nor unique: tags are stored as they are given.
        tags: Some(vec!["b".to_owned(), "a".to_owned(), "b".to_owned()]),
        importance: Some(-0.25),
        searchable: Some(Some(false)),
        metadata: BTreeMap::from([("k".to_owned(), Some("v".to_owned())), ("none".to_owned(), None)]),
        xattrs: BTreeMap::from([("user.x".to_owned(), Some(vec![0, 255]))]),
        expires_at: Some(Some(START.plus_seconds(1_000))),
    }
}

async fn attributes_are_stored_as_given(subject: &Subject) {
    let fs = &*subject.fs;
    put(fs, "/f", "x").await;
    let before = stat(fs, "/f").await;
    assert_eq!(before.attributes, Attributes::default());
    subject.clock.advance(std::time::Duration::from_secs(1));
    let (commit, outcome) = apply(fs, set("/f", everything())).await;
    assert_eq!((outcome.ino, outcome.created), (before.ino, false));
    let attributes = Attributes {
        content_type: Some("text/plain".to_owned()),
        tags: ["b", "a", "b"].map(str::to_owned).to_vec(),
        importance: -0.25,
        searchable: Some(false),
        metadata: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
        xattrs: BTreeMap::from([("user.x".to_owned(), vec![0, 255])]),
    };
    let expected = Entry {
        mode: 0o7777,
        uid: u32::MAX,
        gid: 3,
        atime: Timestamp(-5),
        mtime: Timestamp(6),
        ctime: commit.time,
        attributes,
        expires_at: Some(START.plus_seconds(1_000)),
        version: commit.version(0),
        ..before
    };
    assert_eq!(stat(fs, "/f").await, expected, "the content, and so the etag, did not change");
    assert_eq!(text(fs, "/f").await, "x");
}

async fn unnamed_attributes_stay_and_cleared_ones_go(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write_with("/f", "x", everything())]).await;
    let before = stat(fs, "/f").await;
    given(fs, [set("/f", SetAttrs { gid: Some(9), ..SetAttrs::default() })]).await;
    let after = stat(fs, "/f").await;
    assert_eq!(after, Entry { gid: 9, ctime: after.ctime, version: after.version, ..before });
    // `None` inside of `Some` clears an attribute; a missing one stays.
    let clear = SetAttrs {
        content_type: Some(None),
        tags: Some(Vec::new()),
        importance: Some(0.0),
        searchable: Some(None),
        metadata: BTreeMap::from([("k".to_owned(), None)]),
        xattrs: BTreeMap::from([("user.x".to_owned(), None), ("user.no".to_owned(), None)]),
        expires_at: Some(None),
        ..SetAttrs::default()
    };
    given(fs, [set("/f", clear)]).await;
    let after = stat(fs, "/f").await;
    assert_eq!((after.attributes, after.expires_at), (Attributes::default(), None));
}

async fn attributes_exist_on_every_kind_of_node(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), symlink("/l", "t"), mknod("/p", garth_engine::model::Special::Fifo)]).await;
    for path in ["/", "/d", "/l", "/p"] {
        given(fs, [set(path, SetAttrs { expires_at: None, ..everything() })]).await;
        let entry = stat(fs, path).await;
        assert_eq!((entry.mode, entry.attributes.importance), (0o7777, -0.25));
    }
}

async fn rejects_invalid_attribute_values(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [mkdir("/d"), write("/f", "x")]).await;
    let none = SetAttrs::default;
    for attrs in [
        none().mode(0o10000),
        none().importance(f64::NAN),
        none().importance(f64::INFINITY),
        SetAttrs { metadata: BTreeMap::from([(String::new(), None)]), ..none() },
        SetAttrs { xattrs: BTreeMap::from([("x".repeat(256), None)]), ..none() },
    ] {
        // Invalid values are found before the path is looked up.
        refused_outright(fs, set("/no", attrs), InvalidArgument).await;
    }
    let expiry = || none().expires_at(START.plus_seconds(1));
    refused(fs, set("/d", expiry()), NotPermitted, "/d").await;
    refused(fs, set("/", expiry()), NotPermitted, "/").await;
    refused(fs, Op::mkdir(at("/new")).with_attrs(expiry()), NotPermitted, "/new").await;
    // The path is looked up before the expiry is judged by the kind of node.
    refused(fs, set("/no", expiry()), NotFound, "/no").await;
    refused_outright(fs, Op::set_attrs(At::Node(subject.ino(1000)), none()), NotFound).await;
}

async fn attributes_have_a_maximum_size(subject: &Subject) {
    let fs = &*subject.fs;
    put(fs, "/f", "x").await;
    let metadata = |key: &str, size: usize| SetAttrs {
        metadata: BTreeMap::from([(key.to_owned(), Some("v".repeat(size)))]),
        ..SetAttrs::default()
    };
    given(fs, [set("/f", metadata("a", MAX_ATTRIBUTES - 1000))]).await;
    // The limit covers all attributes of a node together, and not those of one operation.
    let error = fs.commit(Batch::new([set("/f", metadata("b", 1000))])).await.unwrap_err();
    assert_eq!(error.kind(), TooLarge);
    assert_eq!(stat(fs, "/f").await.attributes.metadata.len(), 1);
}

async fn attributes_of_a_batch_are_limited_together(subject: &Subject) {
    let fs = &*subject.fs;
    given(fs, [write_with("/f", "x", SetAttrs::new().metadata("a", "m".repeat(200 << 10)))]).await;
    // Each of these short operations writes 200 KiB.
    let copies = |count| (0..count).map(|number| Op::copy(at("/f"), at(&format!("/copy-{number}"))));
    let changes = (0..400).map(|number| set("/f", SetAttrs::new().importance(f64::from(number))));
    for batch in [Batch::new(copies(400)), Batch::new(changes)] {
        let error = fs.commit(batch).await.unwrap_err();
        assert!(error.is(TooLarge), "{:?}: {}", error.kind(), error.message());
    }
    if can(fs).atomic {
        assert_eq!(paths_below(fs, "/").await, ["/f"]);
    }
    // Changes of modes and times write none of them.
    let modes = (0..400).map(|_| set("/f", SetAttrs::new().mode(0o600)));
    fs.commit(Batch::new(modes.chain(copies(2)))).await.unwrap();
}
