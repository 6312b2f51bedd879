//! Writes of the key-value API beyond a plain put: conditions, several keys, counters, expiry.

use super::*;
use garth_agent::Once;
use garth_testkit::fs::interfering::{Call, Interfering};

on_each_engine! {
    put_keeps_unnamed_attributes,
    put_bounds_tags_and_importance,
    failed_condition_reports_the_current_version,
    put_all_is_atomic,
    put_all_refuses_keys_that_exclude_each_other,
    put_outlasts_writers_that_overtake_it,
    concurrent_puts_and_deletes_all_succeed,
    get_many_reads_one_snapshot,
    concurrent_increments_are_all_counted,
    increment_rejects_files_without_an_integer,
    repeat_of_increment_adds_nothing,
    repeat_of_expire_returns_the_first_time,
    expire_keeps_the_value,
}

async fn put_keeps_unnamed_attributes(fs: Fs, _: ManualClock) {
    let end = START.plus_seconds(60);
    put_until(&fs, "/a", "1", Some(end)).await.unwrap();
    let value = RawValue::from_string("2".into()).unwrap();
    kv(&fs).put(&Put::new("/a", &value), None).await.unwrap();
    let found = kv(&fs).get("/a").await.unwrap().unwrap();
    assert_eq!((text(&found.value).as_str(), found.expires_at, found.searchable), ("2", Some(end), true));
    assert_eq!((found.tags, found.importance), (vec!["t".to_owned()], 0.5));
    kv(&fs).put(&Put { expires_at: Some(None), ..Put::new("/a", &value) }, None).await.unwrap();
    assert_eq!(kv(&fs).get("/a").await.unwrap().unwrap().expires_at, None);
    kv(&fs).put(&Put::new("/new", &value), None).await.unwrap();
    let entry = fs.stat(&path("/agents/x/kv/new.json").into()).await.unwrap();
    assert_eq!(entry.attributes.searchable, Some(false), "a new key is not searchable unless told otherwise");
}

async fn put_bounds_tags_and_importance(fs: Fs, _: ManualClock) {
    let value = RawValue::from_string("1".into()).unwrap();
    let new = || Put::new("/a", &value);
    kv(&fs).put(&new().tags(vec!["é".repeat(64); 64]).importance(1.0), None).await.unwrap();
    let kept = kv(&fs).get("/a").await.unwrap().unwrap().version;
    for beyond in [
        new().tags(["é".repeat(65)]),
        new().tags(["a"; 65]),
        new().importance(1.001),
        new().importance(-0.001),
        new().importance(f64::NAN),
    ] {
        assert_eq!(code(kv(&fs).put(&beyond, None).await), KvCode::Validation);
    }
    assert_eq!(kv(&fs).get("/a").await.unwrap().unwrap().version, kept);
}

async fn failed_condition_reports_the_current_version(fs: Fs, clock: ManualClock) {
    let value = RawValue::from_string("9".into()).unwrap();
    let put_if = async |key, condition| kv(&fs).put(&Put { condition, ..Put::new(key, &value) }, None).await;
    let conflict = KvCode::FileSystem(ErrorKind::Conflict);
    let first = put_if("/a", Condition::Absent).await.unwrap();
    let error = put_if("/a", Condition::Absent).await.unwrap_err();
    let version = first.version;
    assert_eq!(error.message(), format!("`/a` has a value already: it is at version {version}"));
    assert_eq!(error.code(), conflict);
    let second = put_if("/a", Condition::Version(version)).await.unwrap();
    let error = put_if("/a", Condition::Version(version)).await.unwrap_err();
    let message = format!("`/a` is not at version {version}: it is at version {}", second.version);
    assert_eq!((error.code(), error.message()), (conflict, message.as_str()));
    let error = put_if("/none", Condition::Version(version)).await.unwrap_err();
    assert!(error.message().ends_with("it has no value"));
    put_until(&fs, "/gone", "1", Some(START.plus_seconds(1))).await.unwrap();
    put_until(&fs, "/dir.json/b", "1", Some(START.plus_seconds(1))).await.unwrap();
    clock.advance(Duration::from_secs(1));
    put_if("/gone", Condition::Absent).await.unwrap();
    put_if("/dir", Condition::Absent).await.unwrap();
    put(&fs, "/full.json/b", "1").await.unwrap();
    assert_eq!(code(put_if("/full", Condition::Absent).await), KvCode::PathConflict);
}

async fn get_many_reads_one_snapshot(fs: Fs, clock: ManualClock) {
    put(&fs, "/a", "1").await.unwrap();
    put(&fs, "/b/c", "2").await.unwrap();
    put_until(&fs, "/gone", "3", Some(START.plus_seconds(1))).await.unwrap();
    clock.advance(Duration::from_secs(1));
    let keys = ["/b/c", "/none", "/../x", "/a", "/gone", "/b", "/a"];
    let many = kv(&fs).get_many(&keys).await.unwrap();
    assert_eq!((many.seq, many.values.len()), (fs.head().await.unwrap().seq, keys.len()));
    for (key, value) in keys.iter().zip(many.values) {
        let shown = |value: KvResult<Option<CurrentValue>>| {
            value.map(|found| found.map(|found| (found.path, found.version, text(&found.value))))
        };
        match (shown(kv(&fs).get(key).await), shown(value)) {
            (Ok(alone), Ok(together)) => assert_eq!(together, alone, "{key}"),
            (alone, together) => assert_eq!(together.unwrap_err().code(), alone.unwrap_err().code(), "{key}"),
        }
    }
    assert_eq!(code(kv(&fs).get_many(&["/a"; MAX_GETS + 1]).await), KvCode::Validation);
    let long = format!("\"{}\"", "x".repeat(MAX_VALUE - 2));
    let keys: Vec<String> = (0..20).map(|number| format!("/long/{number:02}")).collect();
    for key in &keys {
        put(&fs, key, &long).await.unwrap();
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let many = kv(&fs).get_many(&keys).await.unwrap();
    assert!((10..20).contains(&many.values.len()), "what one answer has room for: {}", many.values.len());
    let rest = &keys[many.values.len()..];
    put(&fs, rest[0], "0").await.unwrap();
    let then = fs.as_of(&many.seq.into()).await.unwrap();
    let kv = Kv::new(&*then, "x").unwrap();
    let values = kv.get_many(rest).await.unwrap().values;
    assert_eq!(values.len(), rest.len());
    assert!(
        values.into_iter().all(|value| value.unwrap().unwrap().value.get() == long),
        "of the same moment"
    );
}

async fn put_all_is_atomic(fs: Fs, _: ManualClock) {
    let value = RawValue::from_string("1".into()).unwrap();
    let puts = ["/a", "/b/c", "/d"].map(|key| Put::new(key, &value));
    let written = kv(&fs).put_all(&puts, None).await.unwrap();
    assert!(written.iter().all(|one| one.version.seq == Seq(1)));
    for (one, key) in written.iter().zip(["/a", "/b/c", "/d"]) {
        assert_eq!(kv(&fs).get(key).await.unwrap().unwrap().version, one.version);
    }
    let absent = Put { condition: Condition::Absent, ..Put::new("/b/c", &value) };
    let more = [Put::new("/e", &value), absent];
    assert_eq!(code(kv(&fs).put_all(&more, None).await), KvCode::FileSystem(ErrorKind::Conflict));
    assert_eq!(get(&fs, "/e").await, None);
    let reserved = [Put::new("/e", &value), Put::new("/sys/a", &value)];
    assert_eq!(code(kv(&fs).put_all(&reserved, None).await), KvCode::ReservedPath);
    assert_eq!(code(kv(&fs).put_all(&[], None).await), KvCode::Validation);
    let twice = [Put::new("/f", &value), Put::new("/f", &value)];
    assert_eq!(code(kv(&fs).put_all(&twice, None).await), KvCode::Validation);
}

async fn put_all_refuses_keys_that_exclude_each_other(fs: Fs, _: ManualClock) {
    let value = RawValue::from_string("1".into()).unwrap();
    // Refused without an attempt, before which this write would happen.
    let attempted = Op::write(path("/agents/x/kv/attempted.json"), "0").with_parents();
    let watched: Fs = Arc::new(Interfering::new(&fs, Call::Commit, 0, vec![attempted]));
    for keys in [
        ["/x.json/y", "/x", "/z"],
        ["/x", "/x-", "/x.json/y"],
        ["/a/b.json/c/d", "/z", "/a/b"],
        ["/z", "/a.json/b.json/c", "/a.json/b"],
    ] {
        let puts = keys.map(|key| Put::new(key, &value));
        assert_eq!(code(kv(&watched).put_all(&puts, None).await), KvCode::PathConflict, "{keys:?}");
    }
    assert_eq!(get(&fs, "/attempted").await, None);
    let apart = ["/x", "/x.jsonl/y", "/x/y", "/x.json-/y"].map(|key| Put::new(key, &value));
    kv(&fs).put_all(&apart, None).await.unwrap();
}

async fn put_outlasts_writers_that_overtake_it(fs: Fs, _: ManualClock) {
    let (file, value) = (path("/agents/x/kv/a.json"), RawValue::from_string("1".into()).unwrap());
    let mut busy = Fs::clone(&fs);
    for attempt in 0..20 {
        // The key has a value after each second attempt, so what an attempt has read is always outdated.
        let other = match attempt % 2 {
            0 => Op::write(file.clone(), "0").with_parents(),
            _ => Op::remove_file(file.clone()),
        };
        busy = Arc::new(Interfering::new(&busy, Call::Commit, attempt, vec![other]));
    }
    let written = kv(&busy).put(&Put::new("/a", &value), None).await.unwrap();
    assert_eq!((written.version.seq, get(&fs, "/a").await.as_deref()), (Seq(21), Some("1")));
    let past = history(&fs, "/a", 100).await;
    assert_eq!(past.len(), 21, "each of the others was faster");
}

async fn concurrent_puts_and_deletes_all_succeed(fs: Fs, _: ManualClock) {
    const WRITERS: usize = 64;
    let barrier = Arc::new(tokio::sync::Barrier::new(WRITERS));
    let writers = (0..WRITERS).map(|writer| {
        let (fs, barrier) = (fs.clone(), Arc::clone(&barrier));
        tokio::spawn(async move {
            let value = RawValue::from_string(writer.to_string()).unwrap();
            barrier.wait().await;
            match writer % 2 {
                0 => kv(&fs).put(&Put::new("/d/a", &value), None).await.map(|_| ()),
                _ => kv(&fs).delete("/d/a", None).await.map(|_| ()),
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap().unwrap();
    }
    // One commit each, in some order: a put that came last has left its value, a deletion has left none.
    assert_eq!(fs.head().await.unwrap().seq, Seq(WRITERS as u64));
    let past = history(&fs, "/d/a", 100).await;
    assert_eq!(past.iter().filter(|version| version.value.is_some()).count(), WRITERS / 2);
    assert_eq!(get(&fs, "/d/a").await, texts(&past[..1])[0]);
}

async fn concurrent_increments_are_all_counted(fs: Fs, _: ManualClock) {
    put_until(&fs, "/n", "40", Some(START.plus_seconds(60))).await.unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let fs = fs.clone();
            tokio::spawn(async move {
                for _ in 0..20 {
                    kv(&fs).increment("/n", 2).await.unwrap();
                    kv(&fs).increment("/new", -1).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let found = kv(&fs).get("/n").await.unwrap().unwrap();
    assert_eq!((text(&found.value).as_str(), found.expires_at), ("360", Some(START.plus_seconds(60))));
    assert_eq!(kv(&fs).increment("/new", 0).await.unwrap().0, -160);
    for text in ["1.5", "\"1\"", "null", "9223372036854775808"] {
        put(&fs, "/bad", text).await.unwrap();
        assert_eq!(code(kv(&fs).increment("/bad", 1).await), KvCode::Validation, "{text}");
    }
    put(&fs, "/most", &i64::MAX.to_string()).await.unwrap();
    assert_eq!(code(kv(&fs).increment("/most", 1).await), KvCode::Validation);
    assert_eq!(get(&fs, "/most").await, Some(i64::MAX.to_string()));
}

async fn increment_rejects_files_without_an_integer(fs: Fs, _: ManualClock) {
    let of_others = [
        Op::write(path("/agents/x/kv/text.json"), "no JSON").with_parents(),
        Op::write(path("/agents/x/kv/long.json"), format!("1{}", " ".repeat(64))),
        Op::write(path("/agents/x/kv/spaced.json"), " 41\n"),
        Op::symlink(path("/agents/x/kv/link.json"), "/agents/x/kv/spaced.json"),
    ];
    // Data from before the rule.
    fs.commit(Batch::new(of_others).overriding_rules()).await.unwrap();
    put(&fs, "/dir.json/key", "1").await.unwrap();
    for (key, expected) in [
        ("/text", KvCode::Validation),
        ("/long", KvCode::Validation),
        ("/link", KvCode::PathConflict),
        ("/dir", KvCode::PathConflict),
        ("/spaced.json/key", KvCode::PathConflict),
        ("/sys/n", KvCode::ReservedPath),
        ("n", KvCode::InvalidPath),
    ] {
        assert_eq!(code(kv(&fs).increment(key, 1).await), expected, "{key}");
    }
    assert_eq!(kv(&fs).increment("/spaced", 1).await.unwrap().0, 42);
}

/// Begins a request, as a server does for each attempt.
async fn begin(fs: &Fs, key: &str) -> Once {
    let record = Idempotency::new(key, [1; 32], START.plus_seconds(86_400));
    Once::begin(Fs::clone(fs), record).await.unwrap()
}

async fn repeat_of_increment_adds_nothing(fs: Fs, clock: ManualClock) {
    put(&fs, "/n", "5").await.unwrap();
    let twins = [begin(&fs, "k").await, begin(&fs, "k").await];
    let once = |once: &Once| kv(&fs).once(once.clone());
    let first = once(&twins[0]).increment("/n", 2).await.unwrap();
    assert_eq!(first.0, 7);
    // The other one began at the same time, and reads another value now.
    kv(&fs).increment("/n", 10).await.unwrap();
    assert_eq!(once(&twins[1]).increment("/n", 2).await.unwrap(), first);
    clock.advance(Duration::from_secs(5));
    put(&fs, "/n", "\"text\"").await.unwrap();
    let head = fs.head().await.unwrap().seq;
    for later in [&twins[1], &begin(&fs, "k").await] {
        assert_eq!(once(later).increment("/n", 2).await.unwrap(), first);
    }
    assert_eq!((fs.head().await.unwrap().seq, get(&fs, "/n").await.as_deref()), (head, Some("\"text\"")));
}

async fn repeat_of_expire_returns_the_first_time(fs: Fs, clock: ManualClock) {
    put(&fs, "/a", "1").await.unwrap();
    let (soon, later) = (START.plus_seconds(60), START.plus_seconds(90));
    let set = async |key: &str, at| kv(&fs).once(begin(&fs, key).await).expire("/a", Some(at)).await.unwrap();
    let first = set("k", soon).await;
    assert_eq!(first.unwrap().0, Some(soon));
    assert_eq!(set("k", later).await, first);
    clock.advance(Duration::from_secs(60));
    assert_eq!(get(&fs, "/a").await, None);
    assert_eq!(set("k", later).await, first);
    assert_eq!(set("missing", later).await, None);
    put(&fs, "/a", "1").await.unwrap();
    assert_eq!(set("missing", later).await, None, "as at the first attempt");
    assert_eq!(kv(&fs).get("/a").await.unwrap().unwrap().expires_at, None);
}

async fn expire_keeps_the_value(fs: Fs, clock: ManualClock) {
    put(&fs, "/a", "1").await.unwrap();
    let end = START.plus_seconds(60);
    let (expires_at, written) = kv(&fs).expire("/a", Some(end)).await.unwrap().unwrap();
    assert_eq!(expires_at, Some(end));
    let found = kv(&fs).get("/a").await.unwrap().unwrap();
    assert_eq!((found.expires_at, found.version, found.tags.len()), (Some(end), written.version, 1));
    kv(&fs).expire("/a", None).await.unwrap().unwrap();
    clock.advance(Duration::from_secs(60));
    assert_eq!(get(&fs, "/a").await.as_deref(), Some("1"));
    put(&fs, "/d/e", "1").await.unwrap();
    for key in ["/none", "/d", "/d/e/f"] {
        assert_eq!(kv(&fs).expire(key, Some(end)).await.unwrap(), None, "{key}");
    }
}
