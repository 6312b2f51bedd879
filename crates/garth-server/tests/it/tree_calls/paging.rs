//! Cursors: those of a past state stay in it, those of `find` and `changes` are sealed, and none is valid for
//! another request. That pages of any size join to the whole is tested for all calls by the table of routes.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use garth_engine::datadir::Scope;
use garth_engine::model::{Op, SetAttrs};
use serde_json::{Value, json};

use super::{World, path, with};

/// Returns the items of all pages of one item, and runs `between` before each further page.
fn paged(world: &World, call: &str, body: &Value, name: &str, between: impl Fn(usize)) -> Vec<Value> {
    let (mut items, mut cursor, mut page) = (Vec::new(), Value::Null, 0);
    loop {
        let answer = world.ok(call, &with(body, json!({"limit": 1, "cursor": cursor})));
        items.extend(answer[name].as_array().unwrap().clone());
        cursor = answer["next_cursor"].clone();
        assert_eq!(answer["has_more"] == json!(true), !cursor.is_null(), "{answer}");
        if cursor.is_null() {
            return items;
        }
        page += 1;
        assert!(page < 100, "{call} does not end");
        between(page);
    }
}

#[test]
fn pages_of_the_past_read_one_state() {
    for (call, body, name) in [
        ("list", json!({"path": "/d", "entries": true}), "items"),
        ("walk", json!({}), "items"),
        ("history", json!({"path": "/d/3"}), "items"),
        ("changes", json!({}), "commits"),
        ("grep", json!({"expressions": ["line"]}), "files"),
        ("glob", json!({"pattern": "/d/*"}), "items"),
    ] {
        let world = World::empty();
        world.commit([Op::mkdir(path("/d"))]);
        // One change for each commit: a page of one item shows a part of a longer one.
        for n in 0..4 {
            world.commit([Op::write(path(&format!("/d/{n}")), format!("line {n}\n"))]);
        }
        world.server.clock.advance(Duration::from_secs(120));
        let asked = with(&body, json!({"at": "1m"}));
        let whole = world.ok(call, &asked)[name].as_array().unwrap().clone();
        // Each page would read a later state if it took the time of its own call.
        let change = |page: usize| {
            world.commit([Op::write(path(&format!("/d/{call}-{page}")), "another line\n")]);
            world.commit([Op::append(path("/d/3"), "more\n")]);
            world.server.clock.advance(Duration::from_secs(120));
        };
        assert_eq!(paged(&world, call, &asked, name, change), whole, "{call}");
    }
}

#[test]
fn pages_of_a_diff_compare_the_same_states() {
    let world = World::empty();
    for n in 0..3 {
        world.commit([Op::write(path(&format!("/{n}")), format!("{n}\n"))]);
    }
    world.server.clock.advance(Duration::from_secs(120));
    let asked = json!({"path": "/", "from": "0", "to": "1m"});
    let whole = world.ok("diff", &asked)["items"].as_array().unwrap().clone();
    assert!(whole.len() >= 3, "{whole:?}");
    let change = |page: usize| {
        world.commit([Op::write(path(&format!("/a{page}")), "new\n")]);
        world.server.clock.advance(Duration::from_secs(120));
    };
    assert_eq!(paged(&world, "diff", &asked, "items", change), whole);
}

#[test]
fn cursors_are_valid_for_their_request_alone() {
    let world = World::new();
    let list = world.ok("list", &json!({"path": "/", "limit": 1}))["next_cursor"].clone();
    let walk = world.ok("walk", &json!({"path": "/", "limit": 1}))["next_cursor"].clone();
    for (call, body) in [
        ("list", json!({"path": "/", "cursor": walk})),
        ("walk", json!({"path": "/", "cursor": list})),
        ("list", json!({"path": "/notes", "cursor": list})),
        ("list", json!({"path": "/", "entries": true, "cursor": list})),
        ("list", json!({"path": "/", "at": "before", "cursor": list})),
        ("list", json!({"path": "/", "user": "ann", "cursor": list})),
        ("find", json!({"tag": "plan", "cursor": list})),
        ("diff", json!({"path": "/", "cursor": list})),
    ] {
        let message = world.post(call, &body).refused(400, "VALIDATION_ERROR");
        assert!(message.contains("leave \"cursor\" out"), "{call} {body}: {message}");
    }
    world.ok("list", &json!({"path": "/", "limit": 5, "cursor": list}));
}

#[test]
fn cursor_of_find_shows_nothing_and_opens_only_in_its_home() {
    let world = World::new();
    let tagged = SetAttrs::new().tags(["canary-tag"]);
    for name in ["one", "two", "three"] {
        world.commit([Op::write(path(&format!("/hidden-{name}")), "").with_attrs(tagged.clone())]);
    }
    let asked = json!({"tag": "canary-tag", "limit": 1});
    let cursor = world.ok("find", &asked)["next_cursor"].as_str().unwrap().to_owned();
    let bytes = URL_SAFE_NO_PAD.decode(&cursor).unwrap();
    for text in ["canary-tag", "hidden", "one", "two"] {
        assert!(!bytes.windows(text.len()).any(|part| part == text.as_bytes()), "{text}");
    }
    assert_eq!(paged(&world, "find", &json!({"tag": "canary-tag"}), "items", |_| ()).len(), 3);
    let resumed = with(&asked, json!({"cursor": cursor}));
    assert_eq!(world.ok("find", &resumed)["items"].as_array().unwrap().len(), 1);
    // Another account, another request, the server of another data folder.
    futures::executor::block_on(world.server.home.create_account("other")).unwrap();
    let other = world.server.key("other", &[Scope::Admin]);
    let reply = world.server.post_as(&other, "tree/find", resumed.to_string());
    reply.refused(400, "VALIDATION_ERROR");
    world.post("find", &json!({"tag": "plan", "cursor": cursor})).refused(400, "VALIDATION_ERROR");
    let message = World::empty().post("find", &resumed).refused(400, "VALIDATION_ERROR");
    assert!(message.contains("leave \"cursor\" out"), "{message}");
}

#[test]
fn pages_of_changes_count_nothing_hidden() {
    let world = World::empty();
    let server = &world.server;
    server.own("scout", "ann");
    let mut binding = json!({"agent": "scout", "user": "bob", "chat": "trip"});
    let headers = format!("authorization: Bearer {}\r\n", server.bound_key(&binding));
    assert_eq!(server.request("PUT", "/v1/fs/notes/first.md", &headers, b"1").status, 201);
    binding["prefix"] = json!("/notes");
    let key = server.bound_key(&binding);
    // Numbers of hidden changes before each visible one, in one commit, and after the last.
    for (commit, hidden) in [vec![0, 5, 1, 0, 0, 2, 7], vec![30], vec![1, 0, 3]].into_iter().enumerate() {
        let mut ops = Vec::new();
        for (number, count) in hidden.into_iter().enumerate() {
            ops.extend((0..count).map(|_| Op::set_attrs(path("/"), SetAttrs::default())));
            ops.push(Op::write(path(&format!("/chats/trip/notes/{commit}-{number}")), "x"));
        }
        ops.push(Op::append(path("/hidden.md"), "x"));
        world.commit(ops);
    }
    let ask = |limit: usize, cursor: &Value| {
        let body = json!({"limit": limit, "cursor": cursor});
        server.post_as(&key, "tree/changes", body.to_string()).json()
    };
    let changes = |page: &Value| -> Vec<Value> {
        let commits = page["commits"].as_array().unwrap();
        commits.iter().flat_map(|commit| commit["changes"].as_array().unwrap().clone()).collect()
    };
    let whole = changes(&ask(100, &Value::Null));
    assert!(whole.len() >= 11, "{whole:?}");
    let mut lengths = BTreeSet::new();
    for limit in 1..=whole.len() + 1 {
        let (mut read, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let page = ask(limit, &cursor);
            assert_eq!(page["until"], json!({"seq": page["until"]["seq"]}), "{page}");
            read.extend(changes(&page));
            cursor = page["next_cursor"].clone();
            let Some(text) = cursor.as_str() else { break };
            lengths.insert(text.len());
            let bytes = URL_SAFE_NO_PAD.decode(text).unwrap();
            assert!(!bytes.windows(10).any(|part| part == b"0000000000"), "{text}");
        }
        assert_eq!(read, whole, "{limit}");
    }
    assert_eq!(lengths.len(), 1, "the length of a cursor tells nothing: {lengths:?}");
}

#[test]
fn length_of_find_cursor_reveals_nothing_hidden() {
    let world = World::empty();
    let server = &world.server;
    server.own("scout", "ann");
    let key = server.bound_key(&json!({"agent": "scout", "user": "bob", "chat": "trip"}));
    let headers = format!("authorization: Bearer {key}\r\n");
    assert_eq!(server.request("PUT", "/v1/fs/notes/first.md", &headers, b"1").status, 201);
    let with_due =
        |at: &str, due: &str| Op::write(path(at), "").with_attrs(SetAttrs::new().metadata("due", due));
    world.commit([
        with_due("/chats/trip/notes/one.md", "1"),
        with_due("/chats/trip/notes/two.md", "3"),
        with_due("/hidden.md", "4"),
    ]);
    let asked = json!({"metadata_key": "due"});
    let cursor = || {
        let page = server.post_as(&key, "tree/find", with(&asked, json!({"limit": 1})).to_string()).json();
        assert_eq!(page["items"][0]["path"], json!("/notes/one.md"), "{page}");
        page["next_cursor"].as_str().unwrap_or_else(|| panic!("{page}")).len()
    };
    let length = cursor();
    // Values after that of the visible file, up to the longest that is stored unchanged.
    for (name, hidden) in [("a", "2".to_owned()), ("b", format!("2{}", "0".repeat(1000)))] {
        world.commit([with_due(&format!("/hidden-{name}.md"), &hidden)]);
        assert_eq!(cursor(), length, "{name}");
    }
}

#[test]
fn find_takes_one_kind_of_key() {
    let world = World::new();
    for body in [
        json!({}),
        json!({"tag": "a", "metadata_key": "b"}),
        json!({"tag": "a", "value": "b"}),
        json!({"value": "b"}),
        json!({"from": "b"}),
        json!({"metadata_key": "a", "value": "b", "from": "c"}),
    ] {
        let message = world.post("find", &body).refused(400, "VALIDATION_ERROR");
        assert!(message.contains("give \"tag\""), "{body}: {message}");
    }
}
