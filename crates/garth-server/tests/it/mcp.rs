//! The Model Context Protocol over HTTP: `POST /mcp`, with messages as clients send them.

mod hints;

use std::sync::atomic::{AtomicU64, Ordering};

use futures::executor::block_on;
use garth_engine::home::Scope;
use garth_engine::model::HistoryPage;
use garth_engine::{FileSystem as _, FileSystemExt as _, TreePath};
use garth_server::{Limits, Options};
use serde_json::{Value, json};

use super::harness::{Connection, Reply, Server, request};

/// Revision that names version and capabilities in each request.
const MODERN: &str = "2026-07-28";
/// Last revision before it.
const LEGACY: &str = "2025-11-25";

static LAST: AtomicU64 = AtomicU64::new(0);

/// Returns a message with a new id.
fn message(method: &str, params: &Value) -> Value {
    let id = LAST.fetch_add(1, Ordering::Relaxed);
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Returns the parameters of a request of the revision without sessions.
fn with_meta(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

/// Returns the headers of a request, each with its line break.
fn headers(key: &str, more: &[(&str, &str)]) -> String {
    let fixed = [
        ("authorization", format!("Bearer {key}")),
        ("content-type", "application/json".to_owned()),
        ("accept", "application/json, text/event-stream".to_owned()),
    ];
    let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
    fixed.into_iter().chain(more).map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

/// Sends bytes to an address. Its answers are not those of the described API.
fn send(server: &Server, target: &str, headers: &str, body: &[u8]) -> Reply {
    let mut connection = Connection::open(server.address);
    connection.send(&request("POST", target, headers, body));
    connection.reply()
}

/// Sends a request of the revision without sessions, with the headers that it requires.
fn modern(server: &Server, key: &str, query: &str, method: &str, params: Value) -> Reply {
    let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
    let message = message(method, &with_meta(params));
    let mut more = vec![("mcp-protocol-version", MODERN), ("mcp-method", method)];
    if !name.is_empty() {
        more.push(("mcp-name", name.as_str()));
    }
    send(server, &format!("/mcp{query}"), &headers(key, &more), message.to_string().as_bytes())
}

/// Returns the result of a request that must succeed.
fn result(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let answer = reply.json();
    assert!(answer.get("error").is_none(), "{answer}");
    answer["result"].clone()
}

/// Returns the code of the error of a request that must fail.
fn error(reply: &Reply) -> i64 {
    reply.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("{}", reply.text()))
}

fn call(server: &Server, key: &str, query: &str, tool: &str, arguments: Value) -> Value {
    let mut params = json!({"name": tool});
    params["arguments"] = arguments;
    result(&modern(server, key, query, "tools/call", params))
}

/// Calls a tool that must succeed. Returns its text.
fn called(server: &Server, key: &str, query: &str, tool: &str, arguments: Value) -> String {
    let result = call(server, key, query, tool, arguments);
    assert_eq!(result["isError"], false, "{result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn revision_without_sessions_is_served() {
    let server = Server::start();
    let found = result(&modern(&server, &server.key, "", "server/discover", json!({})));
    let versions = found["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!(MODERN)) && versions.contains(&json!(LEGACY)), "{found}");
    assert_eq!((&found["cacheScope"], found["ttlMs"].as_u64()), (&json!("private"), Some(60_000)));
    assert_eq!(found["capabilities"]["resources"]["subscribe"], true);
    let reply = modern(&server, &server.key, "", "tools/list", json!({}));
    assert!(reply.header("mcp-session-id").is_none() && reply.header("x-request-id").is_some());
    let tools = result(&reply);
    assert_eq!((&tools["cacheScope"], &tools["tools"][0]["name"]), (&json!("private"), &json!("ls")));
    called(&server, &server.key, "", "write_file", json!({"path": "/a.md", "content": "first\n"}));
    assert!(called(&server, &server.key, "", "read_file", json!({"path": "/a.md"})).contains("first"));
}

#[test]
fn earlier_revisions_are_served_without_sessions() {
    let server = Server::start();
    let initialize = json!({
        "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    });
    let body = message("initialize", &initialize).to_string();
    let reply = send(&server, "/mcp", &headers(&server.key, &[]), body.as_bytes());
    assert!(reply.header("mcp-session-id").is_none());
    let begun = result(&reply);
    assert_eq!((&begun["protocolVersion"], &begun["serverInfo"]["name"]), (&json!(LEGACY), &json!("garth")));
    assert_eq!(begun["capabilities"]["resources"], json!({}));
    let version = headers(&server.key, &[("mcp-protocol-version", LEGACY)]);
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(send(&server, "/mcp", &version, initialized.as_bytes()).status, 202);
    let list = message("tools/call", &json!({"name": "ls", "arguments": {}})).to_string();
    let listed = result(&send(&server, "/mcp", &version, list.as_bytes()));
    assert_eq!((&listed["isError"], listed.get("resultType")), (&json!(false), None));
    // A session of before does not matter, and there is no stream to open.
    let mut connection = Connection::open(server.address);
    connection.send(&request("GET", "/mcp", &version, b""));
    let reply = connection.reply();
    assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")));
}

#[test]
fn headers_that_contradict_the_message_are_refused() {
    let server = Server::start();
    let key = server.key.clone();
    let list = message("tools/list", &with_meta(json!({}))).to_string();
    let ls = message("tools/call", &with_meta(json!({"name": "ls"}))).to_string();
    let version = ("mcp-protocol-version", MODERN);
    for (more, body) in [
        (vec![version], &list),
        (vec![version, ("mcp-method", "tools/call")], &list),
        (vec![version, ("mcp-method", "tools/call")], &ls),
        (vec![version, ("mcp-method", "tools/call"), ("mcp-name", "grep")], &ls),
        (vec![("mcp-protocol-version", LEGACY), ("mcp-method", "tools/list")], &list),
        (vec![("mcp-method", "tools/list")], &list),
    ] {
        let reply = send(&server, "/mcp", &headers(&key, &more), body.as_bytes());
        assert_eq!((reply.status, error(&reply)), (400, -32020), "{more:?}: {}", reply.text());
    }
    let unknown = list.replace(MODERN, "2099-01-01");
    let more = [("mcp-protocol-version", "2099-01-01"), ("mcp-method", "tools/list")];
    let reply = send(&server, "/mcp", &headers(&key, &more), unknown.as_bytes());
    assert_eq!(reply.status, 400, "{}", reply.text());
}

#[test]
fn wrong_messages_are_answered() {
    let server = Server::start();
    let key = server.key.clone();
    for (body, status, code) in [
        ("nope", 400, -32700),
        ("[]", 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#, 400, -32602),
        (r#"{"id":1,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#, 200, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}"#, 200, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, 200, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, 400, -32600),
    ] {
        let reply = send(&server, "/mcp", &headers(&key, &[]), body.as_bytes());
        assert_eq!((reply.status, error(&reply)), (status, code), "{body}: {}", reply.text());
    }
    for arguments in [json!({"path": 1}), json!({"path": "x".repeat(10 << 20)}), json!({"user": "bob"})] {
        let said = call(&server, &key, "", "ls", arguments);
        assert_eq!(said["isError"], true);
        assert!(said["content"][0]["text"].as_str().unwrap().len() < 4000);
    }
    let ping = message("ping", &json!({})).to_string();
    let more = "authorization: Bearer x\r\ncontent-type: application/json\r\n".replace('x', &key);
    assert_eq!(send(&server, "/mcp", &more, ping.as_bytes()).status, 406, "without `Accept`");
    // As curl sends it.
    let any = send(&server, "/mcp", &format!("{more}accept: */*\r\n"), ping.as_bytes());
    assert_eq!(any.status, 200, "{}", any.text());
    let plain = headers(&key, &[]).replace("application/json\r\n", "text/plain\r\n");
    assert_eq!(send(&server, "/mcp", &plain, ping.as_bytes()).status, 415);
    called(&server, &key, "", "ls", json!({}));
}

#[test]
fn unserved_methods_are_not_found() {
    let server = Server::start();
    let key = server.key.clone();
    let version = headers(&key, &[("mcp-protocol-version", LEGACY)]);
    let earlier = |method: &str, params: Value| {
        let body = message(method, &params).to_string();
        let reply = send(&server, "/mcp", &version, body.as_bytes());
        (reply.status, error(&reply))
    };
    let later = |method: &str, params: Value| {
        let reply = modern(&server, &key, "", method, params);
        (reply.status, error(&reply))
    };
    let complete = json!({
        "ref": {"type": "ref/prompt", "name": "workspace"}, "argument": {"name": "a", "value": ""},
    });
    for (method, params) in [
        ("completion/complete", complete),
        ("logging/setLevel", json!({"level": "info"})),
        ("resources/subscribe", json!({"uri": "garth:///a.md"})),
        ("resources/unsubscribe", json!({"uri": "garth:///a.md"})),
        ("no/such", json!({"a": 1})),
    ] {
        // Parameters of wrong types make no difference.
        for params in [params, json!({}), json!({"uri": 7, "level": 7, "ref": 7})] {
            assert_eq!(earlier(method, params.clone()), (200, -32601), "{method} {params}");
            assert_eq!(later(method, params.clone()), (404, -32601), "{method} {params}");
        }
    }
    let why = |method: &str| {
        let body = message(method, &json!({})).to_string();
        send(&server, "/mcp", &version, body.as_bytes()).text()
    };
    assert!(why("no/such").contains("is not a method of this server"), "{}", why("no/such"));
    assert!(why("resources/subscribe").contains("call subscriptions/listen"));
    for method in ["server/discover", "subscriptions/listen"] {
        assert!(why(method).contains("_meta"), "{}", why(method));
    }
    // These belong to one of the lifecycles.
    assert_eq!(earlier("initialize", json!({})), (200, -32602));
    assert_eq!(later("initialize", json!({})), (404, -32601));
    assert_eq!(later("ping", json!({})), (404, -32601));
    assert_eq!(earlier("subscriptions/listen", json!({"notifications": 7})), (200, -32601));
    assert_eq!(later("subscriptions/listen", json!({"notifications": 7})), (200, -32602));
}

#[test]
fn requests_without_a_valid_key_are_refused() {
    let server = Server::start();
    let body = message("ping", &json!({})).to_string();
    let reply = send(&server, "/mcp", &headers("wrong", &[]), body.as_bytes());
    assert_eq!(
        reply.refused(401, "UNAUTHORIZED"),
        "this API key is unknown, wrong, revoked or expired; send a valid one"
    );
    assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    let reply =
        send(&server, "/mcp", &headers(&server.key, &[("origin", "https://evil.example")]), body.as_bytes());
    reply.refused(403, "FORBIDDEN");
    let reply = send(&server, "/mcp?agnet=scout", &headers(&server.key, &[]), body.as_bytes());
    assert!(reply.refused(400, "VALIDATION_ERROR").contains("did you mean \"agent\"?"));
}

/// Adds the agent that addresses name.
fn add_agent(server: &Server) {
    let account = block_on(server.home.account("acme")).unwrap();
    block_on(account.mkdir_all("/agents/scout")).unwrap();
}

#[test]
fn unknown_agent_in_the_address_is_refused_and_not_created() {
    let server = Server::start();
    let query = "?agent=scuot&user=ann";
    for (method, params) in [
        ("tools/call", json!({"name": "write_file", "arguments": {"path": "/a", "content": "x"}})),
        ("tools/call", json!({"name": "ls", "arguments": {}})),
        ("tools/list", json!({})),
        ("prompts/get", json!({"name": "workspace"})),
    ] {
        let reply = modern(&server, &server.key, query, method, params);
        let message = reply.refused(404, "NOT_FOUND");
        assert!(message.starts_with("there is no agent `scuot`; correct"), "{message}");
    }
    let by_user = server.bound_key(&json!({"user": "ann"}));
    modern(&server, &by_user, "?agent=scuot", "tools/list", json!({})).refused(404, "NOT_FOUND");
    let account = block_on(server.home.account("acme")).unwrap();
    assert!(!block_on(account.exists("/agents/scuot")).unwrap());
    // A key is bound on purpose, maybe before the agent exists.
    let bound = server.bound_key(&json!({"agent": "new"}));
    called(&server, &bound, "", "write_file", json!({"path": "/a.md", "content": "x"}));
}

#[test]
fn address_names_the_identity_and_the_tools() {
    let server = Server::start();
    add_agent(&server);
    let key = server.key.clone();
    let (ann, bob) = ("?agent=scout&user=ann", "?agent=scout&user=bob");
    called(&server, &key, ann, "write_file", json!({"path": "/.user/plan.md", "content": "canary\n"}));
    assert!(called(&server, &key, ann, "read_file", json!({"path": "/.user/plan.md"})).contains("canary"));
    let missing = call(&server, &key, bob, "read_file", json!({"path": "/.user/plan.md"}));
    assert_eq!(missing["isError"], true, "{missing}");
    let some = result(&modern(&server, &key, "?tools=ls,delete&read_only=true", "tools/list", json!({})));
    assert_eq!(some["tools"].as_array().unwrap().len(), 1);
    let refused = modern(&server, &key, "?tools=ls", "tools/call", json!({"name": "grep"}));
    assert_eq!(error(&refused), -32602);
}

#[test]
fn commits_are_stamped_with_key_and_identity() {
    let server = Server::start();
    add_agent(&server);
    let key = server.key("acme", &[Scope::FilesRead, Scope::FilesWrite]);
    let query = "?agent=scout&user=ann&chat=trip&session=work&class=dm";
    called(&server, &key, query, "write_file", json!({"path": "/a.md", "content": "x"}));
    let account = block_on(server.home.account("acme")).unwrap();
    let path = TreePath::parse("/chats/trip/a.md").unwrap();
    let versions = block_on(account.history(&path.into(), &HistoryPage::default())).unwrap();
    let author = &versions.items[0].commit.author;
    assert!(author.key.is_some());
    let named =
        [&author.agent, &author.user, &author.session, &author.class].map(|name| name.as_deref().unwrap());
    assert_eq!(named, ["scout", "ann", "work", "dm"]);
}

#[test]
fn bound_key_fixes_the_identity() {
    let server = Server::start();
    let bound = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    called(&server, &bound, "", "write_file", json!({"path": "/.user/a.md", "content": "x"}));
    let named = "?agent=scout&user=ann";
    assert_eq!(server.post("agents/scout/create", "{}").status, 200);
    called(&server, &server.key, named, "read_file", json!({"path": "/.user/a.md"}));
    called(&server, &bound, named, "read_file", json!({"path": "/.user/a.md"}));
    for query in ["?user=bob", "?agent=other"] {
        let reply = modern(&server, &bound, query, "tools/list", json!({}));
        assert!(reply.refused(403, "FORBIDDEN").contains("is bound to"), "{query}");
    }
    // A key without a scope does not see its tools.
    let reader = server.key("acme", &[Scope::FilesRead]);
    let tools = result(&modern(&server, &reader, "", "tools/list", json!({})));
    let names: Vec<&str> =
        tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"ls") && !names.contains(&"write_file") && !names.contains(&"recall"),
        "{names:?}"
    );
    assert_eq!(error(&modern(&server, &reader, "", "prompts/get", json!({"name": "workspace"}))), -32602);
}

#[test]
fn content_beyond_an_upload_is_to_be_divided() {
    let server = Server::start();
    let bound = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    let content = "x".repeat((10 << 20) + 1);
    let answer = call(&server, &bound, "", "write_file", json!({"path": "/big.txt", "content": content}));
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(answer["isError"] == true && text.contains("; split it into several files"), "{text}");
}

#[test]
fn open_tree_of_an_identity_follows_its_settings() {
    let server = Server::start();
    let key = server.key.clone();
    let list = |query: &str| call(&server, &key, query, "ls", json!({"path": "/.agent"})).to_string();
    server.own("scout", "ann");
    // Twice, so that the second call has the tree of the first.
    for _ in 0..2 {
        assert!(list("?agent=scout&user=ann").contains("settings.json"));
        assert!(!list("?agent=scout&user=bob").contains("settings.json"));
    }
    server.own("scout", "bob");
    for _ in 0..2 {
        assert!(!list("?agent=scout&user=ann").contains("settings.json"));
        assert!(list("?agent=scout&user=bob").contains("settings.json"));
    }
}

#[test]
fn calls_count_towards_the_limits_of_the_key() {
    let server = Server::start_limited(Limits::default().writes_per_minute(1));
    let write = json!({"name": "write_file", "arguments": {"path": "/a", "content": "x"}});
    let reply = modern(&server, &server.key, "", "tools/call", write.clone());
    assert_eq!((reply.status, reply.header("x-ratelimit-limit")), (200, Some("1")));
    let reply = modern(&server, &server.key, "", "tools/call", write);
    reply.refused(429, "RATE_LIMITED");
    assert!(reply.header("retry-after").is_some());
    called(&server, &server.key, "", "ls", json!({}));
}

#[test]
fn long_bodies_are_refused() {
    let server = Server::start_with(Options::default().limits(Limits::default().max_message_body(1 << 20)));
    let arguments = json!({"path": "/a", "content": "x".repeat(2 << 20)});
    let params = json!({"name": "write_file", "arguments": arguments});
    modern(&server, &server.key, "", "tools/call", params).refused(413, "PAYLOAD_TOO_LARGE");
}

#[test]
fn files_are_resources() {
    let server = Server::start();
    let key = server.key.clone();
    called(&server, &key, "", "write_file", json!({"path": "/notes/a b.md", "content": "text\n"}));
    let listed = result(&modern(&server, &key, "", "resources/list", json!({})));
    let names: Vec<&Value> =
        listed["resources"].as_array().unwrap().iter().map(|item| &item["uri"]).collect();
    assert!(names.contains(&&json!("garth:///notes")), "{listed}");
    assert_eq!(listed["cacheScope"], "private");
    let read = |uri: &str| modern(&server, &key, "", "resources/read", json!({"uri": uri}));
    assert_eq!(result(&read("garth:///notes/a%20b.md"))["contents"][0]["text"], "text\n");
    assert_eq!(result(&read("garth:///notes"))["contents"][0]["text"], "a b.md\n");
    let missing = read("garth:///none");
    assert_eq!((missing.status, error(&missing)), (200, -32602));
    let data = missing.json()["error"]["data"].clone();
    assert_eq!((&data["code"], &data["uri"]), (&json!("NOT_FOUND"), &json!("garth:///none")));
    for uri in ["file:///etc/passwd", "skill://none/SKILL.md"] {
        let refused = read(uri);
        assert_eq!((error(&refused), &refused.json()["error"]["data"]["uri"]), (-32602, &json!(uri)));
    }
    let large = "x".repeat(300 << 10);
    called(&server, &key, "", "write_file", json!({"path": "/large", "content": large}));
    let refused = read("garth:///large").json();
    assert!(refused["error"]["message"].as_str().unwrap().contains("read_file"), "{refused}");
}

#[test]
fn skills_are_listed_for_clients_that_name_them() {
    let server = Server::start();
    let key = server.key.clone();
    let text = "---\nname: pdf\ndescription: Reads PDF files\n---\nUse it.\n";
    server.ok("agents/scout/skills/write", json!({"path": "pdf/SKILL.md", "text": text}).to_string());
    let query = "?agent=scout";
    let skills = result(&modern(&server, &key, query, "skills/list", json!({})));
    assert_eq!(skills["skills"][0]["uri"], "skill://pdf/SKILL.md", "{skills}");
    let read = modern(&server, &key, query, "resources/read", json!({"uri": "skill://pdf/SKILL.md"}));
    assert_eq!(result(&read)["contents"][0]["text"], text);
    let found = result(&modern(&server, &key, query, "server/discover", json!({})));
    assert!(found["capabilities"].get("extensions").is_none(), "{found}");
    let mut params = with_meta(json!({}));
    let skills = json!({"extensions": {"io.modelcontextprotocol/skills": {}}});
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = skills;
    let more = [("mcp-protocol-version", MODERN), ("mcp-method", "server/discover")];
    let body = message("server/discover", &params).to_string();
    let found = result(&send(&server, &format!("/mcp{query}"), &headers(&key, &more), body.as_bytes()));
    assert!(found["capabilities"]["extensions"].get("io.modelcontextprotocol/skills").is_some(), "{found}");
}

#[test]
fn skill_named_skills_shows_no_other_skill() {
    let server = Server::start();
    let key = server.key.clone();
    let applies = "---\nname: skills\ndescription: Lists skills\n---\nUse it.\n";
    let requires = "metadata: {gsv: {requires: {bins: [pdftotext]}}}";
    let other = format!("---\nname: pdf\ndescription: Reads PDF\n{requires}\n---\nUse it.\n");
    for (path, text) in [("skills/skills/SKILL.md", applies), ("pdf/SKILL.md", other.as_str())] {
        server.ok("agents/scout/skills/write", json!({"path": path, "text": text}).to_string());
    }
    let read = |uri: &str| modern(&server, &key, "?agent=scout", "resources/read", json!({"uri": uri}));
    assert_eq!(result(&read("skill://skills/SKILL.md"))["contents"][0]["text"], applies);
    for uri in ["skill://pdf/SKILL.md", "skill://skills/pdf/SKILL.md"] {
        assert_eq!(error(&read(uri)), -32602, "{uri}");
    }
}

#[test]
fn names_with_line_ends_stay_on_their_line() {
    let server = Server::start();
    let key = server.key.clone();
    called(&server, &key, "", "write_file", json!({"path": "/dir/a\nb.md", "content": "x"}));
    let read = modern(&server, &key, "", "resources/read", json!({"uri": "garth:///dir"}));
    assert_eq!(result(&read)["contents"][0]["text"], "\"a\\nb.md\"\n");
    let missing = call(&server, &key, "", "read_file", json!({"path": "/a\nb"}));
    let text = missing["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("/a\\nb: no such file"), "{text}");
}

#[test]
fn key_with_prefix_sees_what_it_may_use() {
    let server = Server::start();
    let ann = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    called(&server, &ann, "", "write_file", json!({"path": "/notes/a.md", "content": "1"}));
    let key = server.bound_key(&json!({"agent": "scout", "user": "ann", "prefix": "/notes"}));
    let tools = result(&modern(&server, &key, "?tools=all", "tools/list", json!({})));
    let names: Vec<&str> =
        tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"ls") && names.contains(&"recall"), "{names:?}");
    for name in ["remember", "forget", "memory"] {
        assert!(!names.contains(&name), "{names:?}");
        let refused = modern(&server, &key, "?tools=all", "tools/call", json!({"name": name}));
        assert_eq!(error(&refused), -32602, "{name}");
    }
    let prompts = |key: &str| result(&modern(&server, key, "", "prompts/list", json!({})))["prompts"].clone();
    assert_eq!((prompts(&key), &prompts(&ann)[0]["name"]), (json!([]), &json!("workspace")));
    let listed = result(&modern(&server, &key, "", "resources/list", json!({})));
    assert_eq!(listed["resources"][0]["uri"], "garth:///notes/a.md", "{listed}");
    let found = |key: &str| result(&modern(&server, key, "", "server/discover", json!({}))).to_string();
    assert!(found(&key).contains("All files are below `/notes`") && found(&key).contains("`recall`"));
    assert!(!found(&key).contains("/.user") && !found(&key).contains("`remember`"));
    assert!(found(&ann).contains("/.user") && found(&ann).contains("`remember`"));
}

/// A stream of notifications.
struct Listening {
    connection: Connection,
    text: String,
}

impl Listening {
    fn start(server: &Server, key: &str, notifications: &Value) -> Self {
        let method = "subscriptions/listen";
        let body = message(method, &with_meta(json!({"notifications": notifications}))).to_string();
        let more = [("mcp-protocol-version", MODERN), ("mcp-method", method)];
        let mut connection = Connection::open(server.address);
        connection.send(&request("POST", "/mcp", &headers(key, &more), body.as_bytes()));
        let mut listening = Self { connection, text: String::new() };
        let head = listening.until("\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
        listening
    }

    /// Reads until the text has a part. Returns the text up to it.
    fn until(&mut self, part: &str) -> String {
        loop {
            if let Some(at) = self.text.find(part) {
                let rest = self.text.split_off(at + part.len());
                return std::mem::replace(&mut self.text, rest);
            }
            let bytes = self.connection.bytes().unwrap_or_else(|| panic!("it ended: {}", self.text));
            self.text.push_str(&String::from_utf8(bytes).unwrap());
        }
    }
}

#[test]
fn listening_client_gets_changes_of_its_files() {
    let mut server = Server::start();
    let key = server.key.clone();
    let asked = json!({
        "resourceSubscriptions": ["garth:///a.md", "file:///etc/passwd"], "resourcesListChanged": true,
        "toolsListChanged": true,
    });
    let mut listening = Listening::start(&server, &key, &asked);
    let accepted = listening.until("notifications/subscriptions/acknowledged");
    let accepted = accepted + &listening.until("\n\n");
    assert!(accepted.contains("garth:///a.md") && !accepted.contains("passwd"), "{accepted}");
    assert!(!accepted.contains("toolsListChanged"), "{accepted}");
    called(&server, &key, "", "write_file", json!({"path": "/a.md", "content": "1"}));
    let updated = listening.until("notifications/resources/updated") + &listening.until("\n\n");
    assert!(updated.contains("garth:///a.md"), "{updated}");
    listening.until("notifications/resources/list_changed");
    called(&server, &key, "", "write_file", json!({"path": "/dir/b.md", "content": "1"}));
    called(&server, &key, "", "write_file", json!({"path": "/a.md", "content": "2"}));
    listening.until("notifications/resources/updated");
    // The end of the server completes the request.
    server.begin_stop();
    listening.until("\"result\"");
    server.stopped();
}

#[test]
fn key_with_prefix_gets_changes_of_its_list() {
    let server = Server::start();
    let ann = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    let write = |path: &str, content: &str| {
        called(&server, &ann, "", "write_file", json!({"path": path, "content": content}));
    };
    write("/notes/a.md", "1");
    let key = server.bound_key(&json!({"agent": "scout", "user": "ann", "prefix": "/notes"}));
    let asked = json!({"resourceSubscriptions": ["garth:///notes/b.md"], "resourcesListChanged": true});
    let mut listening = Listening::start(&server, &key, &asked);
    listening.until("acknowledged");
    write("/notes/b.md", "1");
    listening.until("resources/updated");
    write("/notes/b.md", "2");
    let between = listening.until("resources/updated");
    assert!(between.contains("resources/list_changed"), "{between}");
}

#[test]
fn repeated_files_of_a_subscription_count_once() {
    let server = Server::start();
    let key = server.key.clone();
    let asked = json!({"resourceSubscriptions": ["garth:///a.md", "garth:///a.md", "garth:///b.md"]});
    let mut listening = Listening::start(&server, &key, &asked);
    listening.until("acknowledged");
    for path in ["/a.md", "/b.md"] {
        called(&server, &key, "", "write_file", json!({"path": path, "content": "1"}));
        let updated = listening.until("resources/updated") + &listening.until("\n\n");
        assert!(updated.contains(&format!("garth://{path}")), "{path}: {updated}");
    }
    let many = json!({"resourceSubscriptions": vec!["garth:///a.md"; 10_000]});
    let refused = modern(&server, &key, "", "subscriptions/listen", json!({"notifications": many}));
    assert!(refused.refused(413, "PAYLOAD_TOO_LARGE").contains("name fewer files"));
}

#[test]
fn client_that_listens_to_nothing_takes_a_place() {
    let server = Server::start_with(Options::default().limits(Limits::default().streams_per_account(1)));
    let key = server.key.clone();
    let mut first = Listening::start(&server, &key, &json!({"resourceSubscriptions": ["garth:///a.md"]}));
    first.until("acknowledged");
    called(&server, &key, "", "write_file", json!({"path": "/a.md", "content": "1"}));
    // It has its place now.
    first.until("resources/updated");
    let mut second = Listening::start(&server, &key, &json!({"toolsListChanged": true}));
    second.until("acknowledged");
    second.until("\"error\"");
}

#[test]
fn client_that_listens_to_nothing_ends_with_the_server() {
    let mut server = Server::start();
    let key = server.key.clone();
    let mut listening = Listening::start(&server, &key, &json!({"toolsListChanged": true}));
    listening.until("acknowledged");
    server.begin_stop();
    listening.until("\"result\"");
    server.stopped();
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let server = Server::start_with(Options::default().limits(Limits::default().streams_per_account(2)));
    let key = server.key.clone();
    let asked = json!({"resourceSubscriptions": ["garth:///a.md"]});
    for _ in 0..20 {
        let mut listening = Listening::start(&server, &key, &asked);
        listening.until("acknowledged");
    }
    // Until the server has noticed that they left, there is no place for another one.
    let found = (0..1000).any(|number| {
        let mut listening = Listening::start(&server, &key, &asked);
        listening.until("acknowledged");
        listening.until("\n\n");
        called(&server, &key, "", "write_file", json!({"path": "/a.md", "content": number.to_string()}));
        listening.until("\n\n").contains("resources/updated")
    });
    assert!(found);
    let calls = message("tools/call", &with_meta(json!({"name": "ls"}))).to_string();
    let more = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "ls")];
    for _ in 0..200 {
        let mut connection = Connection::open(server.address);
        connection.send(&request("POST", "/mcp", &headers(&key, &more), calls.as_bytes()));
        drop(connection);
    }
    called(&server, &key, "", "ls", json!({}));
}
