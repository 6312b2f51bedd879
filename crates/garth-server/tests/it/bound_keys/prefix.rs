//! Keys that are bound to a path: there is nothing above it and next to it.

use serde_json::{Value, json};

use crate::it::harness::Server;

#[test]
fn prefix_key_searches_all_that_it_sees() {
    let server = Server::start();
    server.own("scout", "ann");
    let of_chat = json!({"agent": "scout", "user": "bob", "chat": "trip"});
    let whole = server.bound_key(&of_chat);
    for path in ["notes/a/plan.md", "notes/a/b/q.md", "notes/c.md", "notes/other.md", "other/q.md"] {
        let headers = format!("authorization: Bearer {whole}\r\n");
        let put = server.request("PUT", &format!("/v1/fs/{path}"), &headers, b"needle\n");
        assert_eq!(put.status, 201, "{}", put.text());
    }
    let paths = |key: &str, pattern: &str, limit: usize| {
        let (mut paths, mut cursor) = (Vec::new(), json!(null));
        loop {
            let body = json!({"pattern": pattern, "limit": limit, "cursor": cursor});
            let page = server.post_as(key, "tree/glob", body.to_string()).json();
            let items = page["items"].as_array().unwrap_or_else(|| panic!("{pattern}: {page}"));
            paths.extend(items.iter().map(|item| item["path"].as_str().unwrap().to_owned()));
            cursor = page["next_cursor"].clone();
            if cursor.is_null() {
                return paths;
            }
        }
    };
    for prefix in ["/notes", "/notes/a", "/notes/c.md"] {
        let mut binding = of_chat.clone();
        binding["prefix"] = json!(prefix);
        let key = server.bound_key(&binding);
        let is_seen = |path: &String| path == prefix || path.starts_with(&format!("{prefix}/"));
        let mut matched = 0;
        for pattern in [
            "/**",
            "/*",
            "/*/",
            "/*/*",
            "/*/*/*",
            "/*/*/*/*",
            "/n*/**/*.md",
            "/**/q.md",
            "/notes/*",
            "/notes/**",
            "/notes/a/*",
            "/{notes,other}/*.md",
            "/{notes/a,x}/*",
            "/notes",
            "/",
            "/o*/*",
            "/notes/[ab]/**",
        ] {
            let mut due = paths(&whole, pattern, 1000);
            due.retain(is_seen);
            for limit in [1, 2, 1000] {
                assert_eq!(paths(&key, pattern, limit), due, "{prefix} {pattern} {limit}");
            }
            matched += due.len();
        }
        assert!(matched > 4, "{prefix}: {matched}");
        let named = |call: &str, body: Value| server.post_as(&key, call, body.to_string()).text();
        let unnamed = named("tree/grep", json!({"expressions": ["needle"]}));
        assert_eq!(unnamed, named("tree/grep", json!({"expressions": ["needle"], "path": prefix})));
        assert!(unnamed.contains("\"matches\":1"), "{unnamed}");
        let of_kind = match prefix.ends_with(".md") {
            true => ["tree/fetch", "tree/blame"],
            false => ["tree/list", "tree/walk"],
        };
        assert!(named("tree/capabilities", json!({})).contains("\"write\":true"), "{prefix}");
        for call in
            ["tree/stat", "tree/names", "tree/history", "tree/capabilities"].into_iter().chain(of_kind)
        {
            let answer = named(call, json!({}));
            assert!(!answer.contains("\"error\""), "{call}: {answer}");
            assert_eq!(answer, named(call, json!({"path": prefix})), "{call}");
        }
    }
}

#[test]
fn prefix_key_finds_and_creates_nothing_elsewhere() {
    let server = Server::start();
    server.own("scout", "ann");
    let mut binding = json!({"agent": "scout", "user": "bob", "chat": "trip"});
    let whole = server.bound_key(&binding);
    binding["prefix"] = json!("/notes");
    let key = server.bound_key(&binding);
    let send = |key: &str, method: &str, path: &str| {
        let body: &[u8] = if matches!(method, "PUT" | "PATCH") { b"x" } else { b"" };
        server.request(method, &format!("/v1/fs{path}"), &format!("authorization: Bearer {key}\r\n"), body)
    };
    for path in ["/notes/a.md", "/there.md"] {
        assert_eq!(send(&whole, "PUT", path).status, 201);
    }
    for path in ["/there.md", "/new.md", "/new/deep.md", "/.user/new.md", "/notes.md"] {
        for method in ["GET", "PUT", "PATCH", "DELETE"] {
            send(&key, method, path).refused(404, "NOT_FOUND");
        }
        for op in [
            json!({"op": "write", "path": path, "text": "x", "parents": true}),
            json!({"op": "mkdir", "path": path}),
            json!({"op": "mv", "from": "/notes/a.md", "to": path}),
            json!({"op": "cp", "from": "/notes/a.md", "to": path}),
        ] {
            let reply = server.post_as(&key, "batch", json!({"ops": [op]}).to_string());
            reply.refused(404, "NOT_FOUND");
        }
    }
    assert_eq!(send(&whole, "GET", "/there.md").body, b"x");
    assert_eq!(send(&key, "PUT", "/notes/b.md").status, 201);
}

#[test]
fn prefix_key_uploads_for_nothing_elsewhere() {
    let server = Server::start();
    server.own("scout", "ann");
    let mut binding = json!({"agent": "scout", "user": "bob", "chat": "trip"});
    let whole = server.bound_key(&binding);
    binding["prefix"] = json!("/notes");
    let key = server.bound_key(&binding);
    let put = format!("authorization: Bearer {whole}\r\n");
    assert_eq!(server.request("PUT", "/v1/fs/notes/a.md", &put, b"x").status, 201);
    for path in ["/chats/trip/other", "/chats/trip/notes/full", "/chats/trip"] {
        server.ok("admin/quotas/set", json!({"path": path, "max_bytes": 10}).to_string());
    }
    let headers = format!("authorization: Bearer {key}\r\n");
    let upload =
        |query: &str, body: &[u8]| server.request("POST", &format!("/v1/uploads{query}"), &headers, body);
    for path in ["/other/x", "/", "/notes.md", "/.user/x", "/.agent/kv/x"] {
        for body in [&b"x"[..], b"eleven bytes"] {
            let message = upload(&format!("?path={path}"), body).refused(404, "NOT_FOUND");
            assert!(!message.contains("quota"), "{path}: {message}");
        }
    }
    let message = upload("?path=/notes/full/x", b"eleven bytes").refused(403, "QUOTA_EXCEEDED");
    // The path of the first quota is out of reach, the second one is within.
    assert!(message.contains("the quota of 10 bytes"), "{message}");
    let message = upload("", b"eleven bytes").refused(403, "QUOTA_EXCEEDED");
    assert!(!message.contains("10"), "{message}");
    let uploaded = upload("", b"x");
    assert_eq!(uploaded.status, 200, "{}", uploaded.text());
    let id = uploaded.json()["staged"]["id"].clone();
    let discarded = server.post_as(&key, "uploads/discard", json!({"id": id}).to_string());
    assert_eq!(discarded.json(), json!({"ok": true}));
}
