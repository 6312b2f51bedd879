//! Several values in one call: one state, in pages, with a name for each key without a value.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{Reply, Server};

fn get_many(server: &Server, paths: &Value) -> Reply {
    server.post("get-many", json!({"paths": paths}).to_string())
}

#[test]
fn items_are_answers_of_get_in_order() {
    let server = Server::start();
    server.put("/a", r#"{ "n" : 1.10 }"#);
    server.ok("put", r#"{"path":"/b/c","value":null,"tags":["t"],"ttl_seconds":60}"#);
    server.ok("put", r#"{"path":"/gone","value":1,"ttl_seconds":5}"#);
    server.put("/deleted", "1");
    server.ok("delete", r#"{"path":"/deleted"}"#);
    server.clock.advance(Duration::from_secs(5));
    let paths = json!(["/b//c/", "/none", "/a", "/gone", "/b", "/deleted", "/sys/x", "/a"]);
    let answer = get_many(&server, &paths);
    assert!(answer.text().contains(r#""value":{ "n" : 1.10 }"#), "{}", answer.text());
    let items: Vec<Value> = paths
        .as_array()
        .unwrap()
        .iter()
        .map(|path| match server.ok("get", json!({"path": path}).to_string()) {
            found if found["found"] == true => found,
            _ => json!({"found": false, "path": path}),
        })
        .collect();
    assert_eq!(items.iter().filter(|item| item["found"] == true).count(), 3);
    assert_eq!(answer.json(), json!({"items": items}));
    assert_eq!(get_many(&server, &json!([])).json(), json!({"items": []}));
}

#[test]
fn values_of_one_answer_are_of_one_state() {
    const WRITES: usize = 200;
    let server = Server::start();
    let write = |number: usize| {
        let items = ["/a", "/b", "/c"].map(|path| json!({"path": path, "value": number}));
        server.ok("put-many", json!({"items": items}).to_string());
    };
    write(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..=WRITES).for_each(write));
        let mut last = 0;
        loop {
            let is_over = writer.is_finished();
            let answer = get_many(&server, &json!(["/a", "/b", "/c"])).json();
            let values =
                answer["items"].as_array().unwrap().iter().map(|item| item["value"].as_u64().unwrap());
            let values: Vec<u64> = values.collect();
            assert!(values.len() == 3 && values.iter().all(|value| *value == values[0]), "{answer}");
            assert!(values[0] >= last, "{answer} after {last}");
            last = values[0];
            if is_over {
                break;
            }
        }
        writer.join().unwrap();
        assert_eq!(last, WRITES as u64);
    });
}

#[test]
fn pages_are_bounded_and_have_a_cursor() {
    let server = Server::start();
    let mut paths = Vec::new();
    for number in 0..8 {
        let path = format!("/long/{number}");
        server.put(&path, &json!(format!("{number}{}", "x".repeat(900_000))).to_string());
        paths.extend([path, format!("/none/{number}")]);
    }
    let (mut seen, mut pages, mut cursor) = (Vec::new(), 0, Value::Null);
    loop {
        let body = json!({"paths": paths, "cursor": cursor});
        let reply = server.post("get-many", body.to_string());
        assert!(reply.status == 200 && reply.body.len() < 4_300_000, "{}", reply.body.len());
        let answer = reply.json();
        let items = answer["items"].as_array().unwrap();
        seen.extend(items.iter().map(|item| (item["path"].clone(), item["found"].clone())));
        pages += 1;
        cursor = answer.get("next_cursor").cloned().unwrap_or_default();
        assert_eq!(answer.get("has_more").is_some(), cursor.is_string());
        if !cursor.is_string() {
            break;
        }
        let mut other = paths.clone();
        other.pop();
        let wrong = json!({"paths": other, "cursor": cursor}).to_string();
        assert!(server.post("get-many", wrong).refused(400, "VALIDATION_ERROR").contains("\"cursor\""));
    }
    let due: Vec<(Value, Value)> =
        paths.iter().map(|path| (json!(path), json!(path.contains("long")))).collect();
    assert_eq!((seen, pages), (due, 2));
}

#[test]
fn rejects_wrong_paths_before_it_reads() {
    const ARRAY: &str = "\"paths\" must be an array of at most 1000 strings";
    let server = Server::start();
    server.put("/a", "1");
    assert_eq!(get_many(&server, &json!(vec!["/a"; 1000])).json()["items"].as_array().unwrap().len(), 1000);
    for (paths, code, message) in [
        (json!(vec!["/a"; 1001]), "VALIDATION_ERROR", ARRAY),
        (json!("/a"), "VALIDATION_ERROR", ARRAY),
        (json!(["/a", 1]), "VALIDATION_ERROR", ARRAY),
        (json!(["/a", {"path": "/a"}]), "VALIDATION_ERROR", ARRAY),
        (Value::Null, "VALIDATION_ERROR", "\"paths\" is missing"),
        (json!(["/a", "b"]), "INVALID_PATH", "`b`: a key path starts with `/`"),
        (json!(["/../a"]), "INVALID_PATH", "`/../a`: a key path must not contain the segments `.` and `..`"),
        (json!(["/"]), "INVALID_PATH", "`/`: a key path names at least one segment, as `/a` does"),
    ] {
        assert_eq!(get_many(&server, &paths).refused(400, code), message);
    }
    let message = server.post("get-many", r#"{"path":"/a"}"#).refused(400, "VALIDATION_ERROR");
    assert!(message.contains("did you mean \"paths\"?"), "{message}");
    for cursor in ["", "AA", "1"] {
        let body = json!({"paths": ["/a"], "cursor": cursor}).to_string();
        server.post("get-many", body).refused(400, "VALIDATION_ERROR");
    }
    // A path of a page to come is checked with the first one.
    let mut paths: Vec<String> = (0..6).map(|number| format!("/long/{number}")).collect();
    for path in &paths {
        server.put(path, &json!("x".repeat(900_000)).to_string());
    }
    paths.push("b".to_owned());
    assert!(get_many(&server, &json!(paths)).refused(400, "INVALID_PATH").starts_with("`b`:"));
}

#[test]
fn bound_key_finds_values_within_its_prefix_alone() {
    let server = Server::start();
    server.own("scout", "ann");
    for path in ["/faq/one", "/plan"] {
        server.ok("put", json!({"agent_id": "scout", "path": path, "value": 1}).to_string());
    }
    server.ok("put", r#"{"agent_id":"other","path":"/faq/two","value":1}"#);
    let body = r#"{"paths":["/faq/one","/plan","/faq/two","/faq"]}"#;
    let found = |binding: Value| {
        let answer = server.post_as(&server.bound_key(&binding), "get-many", body).json();
        let items = answer["items"].as_array().unwrap_or_else(|| panic!("{answer}"));
        items.iter().map(|item| item["found"] == true).collect::<Vec<_>>()
    };
    let faq = json!({"agent": "scout", "user": "ann", "prefix": "/.agent/kv/faq"});
    assert_eq!(found(faq), [true, false, false, false]);
    assert_eq!(found(json!({"agent": "scout", "user": "ann"})), [true, true, false, false]);
    let stranger = server.bound_key(&json!({"agent": "scout", "user": "bob", "prefix": "/.agent/kv/faq"}));
    server.post_as(&stranger, "get-many", body).refused(403, "FORBIDDEN");
    let of_other = r#"{"agent_id":"other","paths":["/faq/two"]}"#;
    let key = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    server.post_as(&key, "get-many", of_other).refused(403, "FORBIDDEN");
}
