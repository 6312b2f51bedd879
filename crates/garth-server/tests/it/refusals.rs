//! Every refusal: its status, its code, and the envelope around it.

use serde_json::{Value, json};

use super::harness::{Connection, Server, request};

#[test]
fn unknown_routes_are_not_found() {
    let server = Server::start();
    let key = format!("authorization: Bearer {}\r\n", server.key);
    for target in [
        "/v1",
        "/v1/",
        "/v1/put/",
        "/v1/puts",
        "/V1/put",
        "/v1/%70ut",
        "/v2/put",
        "//v1/put",
        "/v1/../v1/put",
        "/favicon.ico",
        "/healthz/",
        "/v1/get;x",
        "/%00",
        "*",
        "/\u{e9}",
    ] {
        for method in ["POST", "GET", "OPTIONS", "BREW"] {
            let reply = server.request(method, target, &key, b"{}");
            assert!(matches!(reply.status, 400 | 404), "{method} {target}");
            reply.envelope();
            if target.is_ascii() && target.starts_with('/') {
                reply.refused(404, "NOT_FOUND");
            }
        }
    }
    server.request("POST", "/v1/nothing", "", b"").refused(404, "NOT_FOUND");
    server.request("CONNECT", "garth:80", &key, b"").refused(404, "NOT_FOUND");
    let reply = server.request("POST", "http://localhost/v1/get", &key, br#"{"path":"/a"}"#);
    assert_eq!(reply.text(), r#"{"found":false}"#, "the form of requests through a proxy");
}

#[test]
fn wrong_method_error_names_allowed_methods() {
    let server = Server::start();
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "post", "X"] {
        let reply = server.request(method, "/v1/put", "", b"");
        reply.refused(405, "METHOD_NOT_ALLOWED");
        assert_eq!(reply.header("allow"), Some("POST"));
    }
    let reply = server.request("POST", "/healthz", "", b"{}");
    reply.refused(405, "METHOD_NOT_ALLOWED");
    assert_eq!(reply.header("allow"), Some("GET, HEAD"));
    let mut connection = Connection::open(server.address);
    connection.send(&request("HEAD", "/v1/put", "", b""));
    assert_eq!(connection.reply_to(true).status, 405);
    connection.send(&request("HEAD", "/healthz", "", b""));
    assert_eq!(connection.reply_to(true).status, 200);
}

#[test]
fn rejects_bodies_of_wrong_shape() {
    let server = Server::start();
    let deep = format!("{{\"path\":{}", "[".repeat(100_000));
    let bodies: [&[u8]; 34] = [
        b"",
        b" ",
        b"{",
        b"{}",
        b"null",
        b"[]",
        b"[\"default\",\"/a\",1]",
        b"\"/a\"",
        b"1",
        b"{\"path\":\"/a\"",
        b"{\"path\":\"/a\"}}",
        b"{\"path\":\"/a\",\"value\":1}x",
        b"{\"path\":\"/a\"}",
        b"{\"value\":1}",
        b"{\"path\":1,\"value\":1}",
        b"{\"path\":null,\"value\":1}",
        b"{\"path\":[\"/a\"],\"value\":1}",
        b"{\"path\":\"/a\",\"path\":\"/b\",\"value\":1}",
        b"{\"path\":\"/a\",\"value\":1,\"value\":2}",
        b"{\"path\":\"/a\",\"value\":01}",
        b"{\"path\":\"/a\",\"value\":NaN}",
        b"{\"path\":\"/a\",\"value\":Infinity}",
        b"{\"path\":\"/a\",\"value\":'x'}",
        b"{\"path\":\"/a\",\"value\":\"\xff\"}",
        b"{\"path\":\"/a\",\"value\":1,\"extra\":\"\xff\"}",
        b"{\"path\":\"/\xff\",\"value\":1}",
        b"\xef\xbb\xbf{\"path\":\"/a\",\"value\":1}",
        b"{\"path\":\"/\\ud800\",\"value\":1}",
        b"{\"path\":\"/a\",\"value\":1,}",
        b"{\"path\":\"/a\",\"value\":}",
        b"{\"path\":\"/a\",\"value\":[}",
        b"{\"path\":\"/a\" \"value\":1}",
        b"{'path':'/a','value':1}",
        deep.as_bytes(),
    ];
    for body in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let reply = server.post("put", body);
        assert_eq!(reply.status, 400, "{shown}");
        reply.refused(400, "VALIDATION_ERROR");
    }
    assert_eq!(server.get("/a"), r#"{"found":false}"#);
}

#[test]
fn field_errors_name_expected_json_type() {
    const TTL: &str = "\"ttl_seconds\" must be an integer from 1 to 9223372036";
    const QUOTED_TTL: &str = "\"ttl_seconds\" must be an integer, not a string";
    const TAGS: &str = "\"tags\" must be an array of at most 64 strings";
    const IMPORTANCE: &str = "\"importance\" must be a number from 0 to 1";
    let server = Server::start();
    let cases = [
        ("put", r#""path":1,"value":1"#, "\"path\" must be a string"),
        ("put", r#""value":1"#, "\"path\" is missing"),
        ("put", r#""path":"/a""#, "\"value\" is missing"),
        ("put", r#""path":"/a","value":1,"value":2"#, "\"value\" occurs twice"),
        ("put", r#""path":"/a","value":1,"ttl_seconds":0"#, TTL),
        ("put", r#""path":"/a","value":1,"ttl_seconds":-1"#, TTL),
        ("put", r#""path":"/a","value":1,"ttl_seconds":1.5"#, TTL),
        ("put", r#""path":"/a","value":1,"ttl_seconds":"9""#, QUOTED_TTL),
        ("put", r#""path":"/a","value":1,"tags":"x""#, TAGS),
        ("put", r#""path":"/a","value":1,"tags":[1]"#, TAGS),
        ("put", r#""path":"/a","value":1,"importance":"x""#, IMPORTANCE),
        ("put", r#""path":"/a","value":1,"importance":1e999"#, IMPORTANCE),
        ("put", r#""path":"/a","value":1,"importance":1.01"#, IMPORTANCE),
        ("put", r#""path":"/a","value":1,"importance":-0.01"#, IMPORTANCE),
        ("put", r#""path":"/a","value":1,"searchable":1"#, "\"searchable\" must be true or false"),
        ("put", r#""path":"/a","value":1,"agent_id":7"#, "\"agent_id\" must be a string"),
        ("list", r#""prefix":{}"#, "\"prefix\" must be a string"),
        ("list", r#""cursor":5"#, "\"cursor\" must be a string"),
        ("list", r#""limit":501"#, "\"limit\" must be an integer from 1 to 500"),
        ("glob", r#""pattern":"/*","semantics":"x""#, "\"semantics\" must be one of \"like\", \"segment\""),
        ("history", r#""path":"/a","limit":101"#, "\"limit\" must be an integer from 1 to 100"),
        ("search", r#""query":"a","limit":51"#, "\"limit\" must be an integer from 1 to 50"),
        ("search", r#""query":"a","tags_any":{}"#, "\"tags_any\" must be an array of at most 20 strings"),
    ];
    for (call, fields, message) in cases {
        let reply = server.post(call, format!("{{{fields}}}"));
        assert_eq!(reply.refused(400, "VALIDATION_ERROR"), message, "{call} {fields}");
    }
    let syntax = server.post("put", "{\"path\":\"/a\"").refused(400, "VALIDATION_ERROR");
    assert_eq!(syntax, "the body is not valid JSON: EOF while parsing an object at line 1 column 12");
}

#[test]
fn integer_fields_accept_zero_fraction() {
    let server = Server::start();
    server.ok("put", r#"{"path":"/a","value":1,"ttl_seconds":3600.0}"#);
    assert_eq!(server.ok("get", r#"{"path":"/a"}"#)["expires_at"], "2026-01-27T01:00:00.000Z");
    assert_eq!(server.ok("history", r#"{"path":"/a","limit":2e0}"#)["versions"].as_array().unwrap().len(), 1);
}

#[test]
fn integers_inside_of_arrays_have_digits_only() {
    let server = Server::start();
    let commit = |size: &str| {
        let write = r#"{"write":{"at":{"path":"/a"},"body":{"bytes":""}}}"#;
        let truncate = format!(r#"{{"truncate":{{"at":{{"path":"/a"}},"size":{size}}}}}"#);
        server.post("tree/commit", format!(r#"{{"ops":[{write},{truncate}]}}"#))
    };
    for size in ["1E+2", "1e2", "100.0"] {
        commit(size).refused(400, "VALIDATION_ERROR");
    }
    let done = commit("100").json();
    assert_eq!(done["commit"]["outcomes"][1]["size"], 100, "{done}");
}

#[test]
fn rejects_fields_of_wrong_type() {
    let server = Server::start();
    let fields = [
        "\"ttl_seconds\":0",
        "\"ttl_seconds\":-1",
        "\"ttl_seconds\":1.5",
        "\"ttl_seconds\":60.5",
        "\"ttl_seconds\":1e-3",
        "\"ttl_seconds\":\"60\"",
        "\"ttl_seconds\":true",
        "\"ttl_seconds\":9223372036",
        "\"ttl_seconds\":9223372036854775807",
        "\"ttl_seconds\":18446744073709551615",
        "\"ttl_seconds\":99999999999999999999999",
        "\"tags\":\"a\"",
        "\"tags\":[1]",
        "\"tags\":[null]",
        "\"tags\":{}",
        "\"importance\":\"high\"",
        "\"importance\":1e999",
        "\"importance\":[]",
        "\"searchable\":1",
        "\"searchable\":\"true\"",
        "\"agent_id\":1",
        "\"agent_id\":\"\"",
        "\"agent_id\":\"a/b\"",
        "\"agent_id\":\"..\"",
        "\"agent_id\":\"a\\u0000\"",
        "\"agent_id\":{}",
    ];
    for field in fields {
        let reply = server.post("put", format!(r#"{{"path":"/a","value":1,{field}}}"#));
        assert_eq!(reply.status, 400, "{field}");
        reply.refused(400, "VALIDATION_ERROR");
    }
    let tags = json!({ "path": "/a", "value": 1, "tags": ["a".repeat(300_000)] });
    server.post("put", tags.to_string()).refused(400, "VALIDATION_ERROR");
    for (call, body) in [
        ("get", r#"{"path":"/a","agent_id":5}"#),
        ("list", r#"{"prefix":5}"#),
        ("glob", "{}"),
        ("glob", r#"{"pattern":5}"#),
        ("glob", r#"{"pattern":"/*","semantics":"regex"}"#),
        ("glob", r#"{"pattern":"/*","semantics":1}"#),
        ("history", r#"{"path":"/a","limit":0}"#),
        ("history", r#"{"path":"/a","limit":-1}"#),
        ("history", r#"{"path":"/a","limit":1.5}"#),
        ("history", r#"{"path":"/a","limit":"5"}"#),
        ("history", r#"{"path":"/a","limit":99999999999999999999999}"#),
        ("delete", "{}"),
        ("search", "{}"),
        ("search", r#"{"query":5}"#),
        ("search", r#"{"query":"a","tags_any":"x"}"#),
    ] {
        server.post(call, body).refused(400, "VALIDATION_ERROR");
    }
    assert_eq!(server.get("/a"), r#"{"found":false}"#);
}

#[test]
fn tags_and_importance_are_bounded() {
    let server = Server::start();
    let put = |more: Value| {
        let mut body = json!({"path": "/a", "value": 1});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post("put", body.to_string())
    };
    let tags = |count: usize, tag: &str| json!({"tags": vec![tag; count]});
    let (longest, longer) = ("é".repeat(64), "é".repeat(65));
    for fitting in [tags(64, &longest), json!({"importance": 0}), json!({"importance": 1.0})] {
        assert_eq!(put(fitting.clone()).status, 200, "{fitting}");
    }
    let stored = server.get("/a");
    for beyond in
        [tags(65, "a"), tags(1, &longer), json!({"importance": 1.0000001}), json!({"importance": -1})]
    {
        put(beyond).refused(400, "VALIDATION_ERROR");
    }
    let item = json!({"path": "/b", "value": 1, "tags": [longer]});
    let message = server.post("put-many", json!({"items": [item]}).to_string());
    assert!(message.refused(400, "VALIDATION_ERROR").contains("64 characters"));
    let search = |count| json!({"query": "a", "tags_any": vec!["t"; count]}).to_string();
    assert_eq!(server.post("search", search(20)).status, 200);
    server.post("search", search(21)).refused(400, "VALIDATION_ERROR");
    assert_eq!(server.get("/a"), stored);
}

#[test]
fn null_fields_have_the_defaults() {
    let server = Server::start();
    let nulls = r#"{"agent_id":null,"path":"/a","value":null,"ttl_seconds":null,"tags":null,"importance":null,"searchable":null}"#;
    server.ok("put", nulls);
    let get = server.ok("get", r#"{"path":"/a"}"#);
    assert_eq!((&get["value"], &get["tags"], &get["expires_at"]), (&json!(null), &json!([]), &json!(null)));
}

#[test]
fn invalid_paths_and_patterns_have_own_codes() {
    let server = Server::start();
    let (chars, segments) = (format!("/{}", "ab/".repeat(171)), "/a".repeat(65));
    let folded = format!("/a{}", "/".repeat(64));
    for path in ["", "a", "a/b", "/", "/..", "/a/../b", "/./a", "/a\0b", &chars, &segments, &folded] {
        server.post("put", json!({ "path": path, "value": 1 }).to_string()).refused(400, "INVALID_PATH");
        for call in ["get", "delete", "history"] {
            server.post(call, json!({ "path": path }).to_string()).refused(400, "INVALID_PATH");
        }
        let pattern = server.post("glob", json!({ "pattern": path }).to_string());
        if path == "/" {
            assert_eq!(pattern.json(), json!({ "paths": [] }));
            continue;
        }
        pattern.refused(400, "INVALID_GLOB");
        server.post("list", json!({ "prefix": path }).to_string()).refused(400, "INVALID_PATH");
    }
    let longest = format!("/{}", "é/".repeat(63));
    server.put(&longest, "1");
    assert!(server.get(&longest).contains("\"found\":true"));
}

#[test]
fn put_rejects_reserved_sys_paths() {
    let server = Server::start();
    for path in ["/sys", "/sys/", "/sys/a", "//sys//a/b"] {
        server.post("put", json!({ "path": path, "value": 1 }).to_string()).refused(403, "RESERVED_PATH");
        let body = json!({ "path": path }).to_string();
        assert_eq!(server.post("get", &body).text(), r#"{"found":false}"#);
        assert_eq!(server.post("delete", &body).status, 200);
    }
    for path in ["/system", "/sysa/b", "/a/sys", "/Sys", "/sys.json"] {
        server.put(path, "1");
    }
}

#[test]
fn path_conflict_names_the_blocking_key() {
    let server = Server::start();
    server.put("/a", "1");
    let reply = server.post("put", r#"{"path":"/a.json/b","value":2}"#);
    assert_eq!(reply.refused(409, "PATH_CONFLICT"), "`/a` is in the way of this key");
    server.put("/b.json/c", "1");
    let reply = server.post("put", r#"{"path":"/b","value":2}"#);
    assert_eq!(reply.refused(409, "PATH_CONFLICT"), "`/b.json` is in the way of this key");
}
