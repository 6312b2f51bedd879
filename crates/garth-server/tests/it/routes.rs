//! The table of routes: its reference page, the scopes of each call, and fields that a call does not have.

use garth_engine::datadir::Scope;
use garth_engine::model::{Batch, Op, SetAttrs};
use garth_engine::{FileSystem, TreePath};
use garth_server::reference::{self, BodyReference, CallReference, FieldReference};

use super::harness::Server;

/// Calls that take JSON.
fn json_calls() -> impl Iterator<Item = CallReference> {
    reference::calls().into_iter().filter(|call| call.body == BodyReference::Json)
}

/// Returns the path of a call without `/v1/`, for agent `scout`.
fn path(call: &CallReference) -> String {
    call.path.trim_start_matches("/v1/").replace("{agent}", "scout")
}

#[test]
fn calls_reject_unknown_fields_with_suggestion() {
    let server = Server::start();
    for call in json_calls() {
        for field in &call.fields {
            let (name, mistyped) = (field.name, format!("{}x", field.name));
            let message =
                server.post(&path(&call), format!("{{\"{mistyped}\":1}}")).refused(400, "VALIDATION_ERROR");
            let expected = format!("\"{mistyped}\" is not a field of this call; did you mean \"{name}\"?");
            assert_eq!(message, expected, "{}", call.path);
        }
    }
    let message = server.post("put", r#"{"path":"/a","value":1,"ttl":60}"#).refused(400, "VALIDATION_ERROR");
    assert_eq!(message, r#""ttl" is not a field of this call; did you mean "ttl_seconds"?"#);
    for (call, name, meant) in [
        ("tree/grep", "pattern", "expressions"),
        ("tree/grep", "regex", "expressions"),
        ("tree/glob", "expression", "pattern"),
        ("tree/search", "path", "in"),
        ("tree/changes", "in", "within"),
        ("search", "question", "query"),
        ("search", "text", "query"),
        ("recall", "query", "question"),
        ("recall", "path", "within"),
        ("get", "key", "path"),
    ] {
        let message = server.post(call, format!("{{\"{name}\":\"a\"}}")).refused(400, "VALIDATION_ERROR");
        let expected = format!("\"{name}\" is not a field of this call; did you mean \"{meant}\"?");
        assert_eq!(message, expected, "{call}");
    }
    let message = server.post("tree/edit", r#"{"colour":"red"}"#).refused(400, "VALIDATION_ERROR");
    assert!(message.contains(r#"its fields are "path" (required), "old", "new","#), "{message}");
    assert_eq!(server.get("/a"), r#"{"found":false}"#);
}

#[test]
fn calls_reject_duplicate_and_mistyped_fields() {
    let server = Server::start();
    for call in json_calls() {
        for field in call.fields.iter().filter(|field| !field.r#type.is_empty()) {
            let name = field.name;
            let twice = server.post(&path(&call), format!("{{\"{name}\":null,\"{name}\":null}}"));
            assert_eq!(twice.refused(400, "VALIDATION_ERROR"), format!("\"{name}\" occurs twice"));
            let other = if field.r#type == "object" { "[\"\"]" } else { "{\"\":[]}" };
            let required = call.fields.iter().filter(|other| other.required && other.name != name);
            // Fields are read in the order of the declaration, so the ones before need valid values.
            let required = required.map(|field| format!("\"{}\":{}", field.name, example(field)));
            let fields: Vec<String> = required.chain([format!("\"{name}\":{other}")]).collect();
            let message = server.post(&path(&call), format!("{{{}}}", fields.join(","))).envelope();
            assert!(message.starts_with(&format!("\"{name}\" must be ")), "{}: {message}", call.path);
        }
    }
}

#[test]
fn moments_are_strings_or_sequences() {
    let server = Server::start();
    let mut tried = 0;
    for call in json_calls() {
        for field in call.fields.iter().filter(|field| field.of == "moment") {
            let name = field.name;
            let ask = |moment: &str| {
                let required = call.fields.iter().filter(|other| other.required && other.name != name);
                let required = required.map(|field| format!("\"{}\":{}", field.name, example(field)));
                let fields: Vec<String> = required.chain([format!("\"{name}\":{moment}")]).collect();
                server.post(&path(&call), format!("{{{}}}", fields.join(",")))
            };
            for moment in ["1", "1.0", "\"1\"", "\"now\""] {
                let answer = ask(moment).text();
                assert!(
                    !answer.contains(&format!("\\\"{name}\\\" must")),
                    "{} {moment}: {answer}",
                    call.path
                );
            }
            for wrong in ["-1", "1.5", "true"] {
                let message = ask(wrong).refused(400, "VALIDATION_ERROR");
                let expected = format!("\"{name}\" must be a time, a sequence or the name of a snapshot");
                assert_eq!(message, expected, "{} {wrong}", call.path);
            }
            tried += 1;
        }
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn errors_quote_little_of_long_fields() {
    let server = Server::start();
    let (text, long_path) = ("k".repeat(900 << 10), format!("/{}", "k".repeat(900 << 10)));
    let (mut sent, mut refused) = (0, 0);
    for call in json_calls().filter(|call| call.max_body >= 1 << 20) {
        let fields = call.fields.iter().filter(|field| field.words.is_empty());
        for field in fields.filter(|field| field.r#type == "string" || field.items == "string") {
            let name = field.name;
            let long = if field.of.contains("path") { &long_path } else { &text };
            let long = if field.r#type == "string" { format!("\"{long}\"") } else { format!("[\"{long}\"]") };
            let required = call.fields.iter().filter(|other| other.required && other.name != name);
            let required = required.map(|field| format!("\"{}\":{}", field.name, example(field)));
            let fields: Vec<String> = required.chain([format!("\"{name}\":{long}")]).collect();
            let reply = server.post(&path(&call), format!("{{{}}}", fields.join(",")));
            sent += 1;
            if reply.status != 200 {
                assert!(reply.body.len() < 8 << 10, "{} {name}: {} bytes", call.path, reply.body.len());
                refused += 1;
            }
        }
    }
    assert!(sent > 100 && refused > 50, "{sent} sent, {refused} refused");
    let name = "k".repeat(30 << 20);
    let body = format!("{{\"name\":\"a\",\"key\":\"{name}\",\"messages\":[]}}");
    let reply = server.post("sessions/append", body);
    assert!((400..500).contains(&reply.status) && reply.body.len() < 8 << 10, "{}", reply.body.len());
    for body in [
        format!("{{\"{half}\":1,\"{half}\":1}}", half = &text[..400 << 10]),
        format!("{{\"items\":[{{\"path\":\"{text}\",\"value\":1}}]}}"),
        format!("{{\"items\":[{{\"{text}\":1}}]}}"),
    ] {
        let reply = server.post("put-many", body);
        assert!(reply.status == 400 && reply.body.len() < 8 << 10, "{}", reply.body.len());
    }
}

/// Returns a value of the type of a field.
fn example(field: &FieldReference) -> String {
    match (field.r#type, field.words.first()) {
        (_, Some(word)) => format!("\"{word}\""),
        ("integer" | "number", _) => "1".to_owned(),
        ("boolean", _) => "true".to_owned(),
        ("object", _) => "{}".to_owned(),
        ("array", _) => "[]".to_owned(),
        _ => "\"a\"".to_owned(),
    }
}

#[test]
fn json_calls_reject_a_query() {
    let server = Server::start();
    let headers = format!("authorization: Bearer {}\r\n", server.key);
    for call in json_calls() {
        let target = format!("/v1/{}?limit=1", path(&call));
        let message = server.request("POST", &target, &headers, b"{}").refused(400, "VALIDATION_ERROR");
        assert!(message.contains("takes no query"), "{message}");
    }
}

#[test]
fn queries_are_decoded_strictly() {
    let server = Server::start();
    let headers = format!("authorization: Bearer {}\r\n", server.key);
    let mut tried = 0;
    for call in reference::calls().into_iter().filter(|call| call.body != BodyReference::Json) {
        let target = call.path.replace("{agent}", "scout").replace("{session_key}", "k");
        let target = target.replace("{file}", "f").replace("{*path}", "f");
        for field in &call.fields {
            // A lossy decoder would take the first two for one text.
            for value in ["%ff", "%fe", "%", "%zz"] {
                let target = format!("{target}?{}={value}", field.name);
                let reply = server.request(call.method, &target, &headers, b"");
                let message = reply.refused(400, "VALIDATION_ERROR");
                let expected = format!("\"{}\" of the query must be UTF-8", field.name);
                assert!(message.starts_with(&expected), "{} {}: {message}", call.method, call.path);
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn unknown_path_error_names_nearest_route() {
    let server = Server::start();
    for (path, nearest) in [
        ("sesions/append", "POST /v1/sessions/append"),
        ("gett", "POST /v1/get"),
        ("agents/scout/skill/list", "POST /v1/agents/{agent}/skills/list"),
        ("memories/remove", "POST /v1/memories/delete"),
        ("prompt", "POST /v1/agents/{agent}/prompt"),
        ("keys/create", "POST /v1/admin/keys/create"),
        ("fs", "GET /v1/fs/{path}"),
        ("nodes/put", "POST /v1/memories/put"),
        ("sessions/withdraw", "POST /v1/sessions/retract"),
        ("sessions/pack", "POST /v1/context/pack"),
        ("sessions/collect", "POST /v1/context/gc"),
        ("agents/scout/memory/days", "POST /v1/agents/{agent}/daily/list"),
        ("agents/scout/memory/add", "POST /v1/agents/{agent}/daily/add"),
    ] {
        let message = server.post(path, "{}").refused(404, "NOT_FOUND");
        assert!(message.contains(&format!("did you mean {nearest}?")), "{path}: {message}");
    }
    let message = server.post("completely/other/things", "{}").refused(404, "NOT_FOUND");
    assert!(!message.contains("did you mean") && message.contains("`GET /docs`"), "{message}");
}

#[test]
fn only_writes_check_the_idempotency_key() {
    let server = Server::start();
    let headers = format!("authorization: Bearer {}\r\nidempotency-key: a b\r\n", server.key);
    for call in json_calls() {
        let message = server.request("POST", &format!("/v1/{}", path(&call)), &headers, b"{}").text();
        assert_eq!(message.contains("Idempotency-Key"), call.writes, "{}: {message}", call.path);
        assert_eq!(call.headers.iter().any(|header| header.name == "idempotency-key"), call.writes);
    }
    let upload = "/v1/agents/scout/media?session_key=agent:scout:main";
    let message = server.request("POST", upload, &headers, b"a").refused(400, "INVALID_IDEMPOTENCY_KEY");
    assert!(message.contains("Idempotency-Key"), "{message}");
}

/// Written by `GARTH_WRITE_REFERENCE=1 cargo nextest run -p garth-server reference_page_matches_table`.
#[test]
fn reference_page_matches_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/specs/http-reference.md");
    if std::env::var_os("GARTH_WRITE_REFERENCE").is_some() {
        std::fs::write(path, reference::page()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    let command = "GARTH_WRITE_REFERENCE=1 cargo nextest run -p garth-server reference_page_matches_table";
    assert!(
        written == reference::page(),
        "docs/specs/http-reference.md is out of date; write it with\n{command}"
    );
}

/// Row of the table of scopes: a call, and its cell for each of [`SCOPES`].
type Row = (String, Vec<String>);

/// Scopes in the order of the columns.
const SCOPES: [Scope; 6] = Scope::ALL;

fn scope_table() -> Vec<Row> {
    let page = include_str!("../../../../docs/specs/http-scopes.md");
    let columns = SCOPES.map(|scope| format!("`{scope}`")).join(" | ");
    let (_, table) =
        page.split_once(&format!("| call | {columns} |\n|---|---|---|---|---|---|---|\n")).unwrap();
    let row = |line: &str| {
        let mut cells =
            line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned());
        (cells.next().unwrap(), cells.collect())
    };
    table.lines().take_while(|line| line.starts_with('|')).map(row).collect()
}

/// Returns true if a key with these scopes may make a call.
fn is_let_in(server: &Server, call: &CallReference, scopes: &[Scope]) -> bool {
    let headers = format!("authorization: Bearer {}\r\n", server.key("acme", scopes));
    let target = call.path.replace("{agent}", "scout").replace("{session_key}", "k");
    let target = target.replace("{file}", "f").replace("{*path}", "f");
    let reply = server.request(call.method, &target, &headers, b"{}");
    assert_ne!(reply.status, 401, "{}", call.path);
    reply.status != 403
}

#[test]
fn scopes_open_the_calls_of_the_table() {
    let server = Server::start();
    let calls: Vec<CallReference> =
        reference::calls().into_iter().filter(|call| !call.scopes.is_empty()).collect();
    let table = scope_table();
    let name = |call: &CallReference| format!("{} {}", call.method, call.path);
    let listed: Vec<&String> = table.iter().map(|(call, _)| call).collect();
    assert_eq!(listed, calls.iter().map(name).collect::<Vec<_>>().iter().collect::<Vec<_>>());
    for (call, (_, cells)) in calls.iter().zip(&table) {
        for (scope, cell) in SCOPES.iter().zip(cells) {
            assert!(["yes", "no", "both"].contains(&cell.as_str()), "{cell}");
            assert_eq!(is_let_in(&server, call, &[*scope]), cell == "yes", "{} {scope}", call.path);
        }
        let saying = |word: &str| {
            let cells = SCOPES.iter().zip(cells).filter(|(_, cell)| *cell == word);
            cells.map(|(scope, _)| *scope).collect::<Vec<Scope>>()
        };
        let (together, useless) = (saying("both"), saying("no"));
        assert!(together.is_empty() || is_let_in(&server, call, &together), "{}", call.path);
        assert!(useless.is_empty() || !is_let_in(&server, call, &useless), "{}", call.path);
    }
}

#[test]
fn extreme_numbers_cause_no_server_error() {
    let server = Server::start();
    let session = r#"{"name":"work","user":"ann","agent":"scout"}"#;
    server.ok("sessions/create", session);
    server.ok(
        "sessions/append",
        r#"{"name":"work","user":"ann","agent":"scout","messages":[{"role":"user","content":"hello"}]}"#,
    );
    let mut tried = 0;
    for call in json_calls() {
        for field in call.fields.iter().filter(|field| field.r#type == "integer") {
            let bounds =
                field.bounds.clone().unwrap_or_else(|| panic!("{}: {} has no bounds", call.path, field.name));
            for number in [&bounds.0, &bounds.1, &u64::MAX.into(), &i64::MIN.into()] {
                let mut body = serde_json::json!({});
                for other in call.fields.iter().filter(|other| other.required) {
                    body[other.name] = serde_json::from_str(&example(other)).unwrap();
                }
                for (name, value) in [("name", "work"), ("user", "ann"), ("agent", "scout")] {
                    if call.fields.iter().any(|field| field.name == name) {
                        body[name] = value.into();
                    }
                }
                body[field.name] = number.clone();
                let reply = server.post(&path(&call), body.to_string());
                assert!(reply.status < 500 || reply.status == 501, "{} {body}: {}", call.path, reply.text());
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn half_surrogate_pair_error_names_field() {
    let server = Server::start();
    let message = server.post("get", r#"{"path":"/\ud800"}"#).refused(400, "VALIDATION_ERROR");
    assert!(message.contains("\"path\"") && message.contains("half of a surrogate pair"), "{message}");
}

fn tree_path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

/// Number of items of each call with pages.
const ITEMS: usize = 12;

/// Creates items for the calls of the tree.
fn fill_tree<F: FileSystem + ?Sized>(server: &Server, account: &F) {
    for n in 0..ITEMS {
        let (path, linked) = (format!("/p/{n:02}"), format!("/linked/{n:02}"));
        let ops = [
            Op::write(tree_path(&path), format!("paddle {n}\n"))
                .with_attrs(SetAttrs::new().tags(["paged"]))
                .with_parents(),
            Op::write(tree_path(&format!("/p2/{n:02}")), format!("other {n}\n")).with_parents(),
            match n {
                0 => Op::write(tree_path(&linked), "").with_parents(),
                _ => Op::link(tree_path("/linked/00"), tree_path(&linked)),
            },
            // A directory less than items: the path itself has a total, too.
            match n {
                0 => Op::write(tree_path("/counted/file"), "x").with_parents(),
                _ => Op::write(tree_path(&format!("/counted/{n:02}/file")), "x").with_parents(),
            },
            Op::append(tree_path("/grown"), format!("line {n}\n")),
        ];
        futures::executor::block_on(account.commit(Batch::new(ops))).unwrap();
        let snapshot = serde_json::json!({"ops": [{"snapshot": {"name": format!("paged-{n}")}}]});
        server.ok("tree/commit", snapshot.to_string());
    }
}

/// Creates [`ITEMS`] items for each call with pages. Returns the body for each call.
fn with_pages(server: &Server) -> std::collections::BTreeMap<&'static str, &'static str> {
    server.own("scout", "ann");
    let account = futures::executor::block_on(server.home.account("acme")).unwrap();
    for n in 0..ITEMS {
        server.ok("put", format!(r#"{{"path":"/d/k{n}","value":"needle {n}","searchable":true}}"#));
        server.ok("put", format!(r#"{{"path":"/changed","value":{n}}}"#));
        let key = if n == 0 { r#","key":"agent:scout:main""# } else { "" };
        server.ok("sessions/create", format!(r#"{{"name":"s{n}","user":"ann","agent":"scout"{key}}}"#));
        let uri = format!("ctx://acme/users/ann/memories/events/e{n}");
        server.ok("memories/put", format!(r#"{{"uri":"{uri}","content":"Tea."}}"#));
        let changed = "ctx://acme/users/ann/memories/cases/changed";
        match n + 1 < ITEMS {
            true => server.ok("memories/put", format!(r#"{{"uri":"{changed}","content":"Tea {n}."}}"#)),
            false => server.ok("memories/delete", format!(r#"{{"uri":"{changed}"}}"#)),
        };
        let headers = format!("authorization: Bearer {}\r\ncontent-type: image/png\r\n", server.key);
        let upload = "/v1/agents/scout/media?session_key=agent:scout:main";
        assert_eq!(server.request("POST", upload, &headers, b"picture").status, 200);
        // The server has one key and one account already.
        if n > 0 {
            server.key("acme", &[Scope::MemoryRead]);
            futures::executor::block_on(server.home.create_account(&format!("other-{n}"))).unwrap();
        }
        for file in [
            format!("/agents/scout/sessions/a{n}.jsonl.gz"),
            format!("/agents/scout/sessions/a{n}/picture.png"),
            format!("/agents/scout/sessions/a{n}-part{n}.jsonl.gz"),
            format!("/agents/scout/memory/2026-01-{:02}.md", n + 1),
            format!("/agents/scout/memory/2026-01-{:02}-notes.md", n + 1),
        ] {
            let write = Op::write(tree_path(&file), "text").with_parents();
            futures::executor::block_on(account.commit(write.into())).unwrap();
        }
    }
    server.ok("admin/overlays/create", r#"{"id":"changed"}"#);
    let overlay =
        futures::executor::block_on(garth_engine::view::overlay::StoredOverlay::open(&*account, "changed"));
    let overlay = overlay.unwrap().tree();
    for n in 0..ITEMS {
        server.ok("admin/rules/set", format!(r#"{{"pattern":"/r{n}/**","constraint":"append-only"}}"#));
        server.ok("admin/quotas/set", format!(r#"{{"path":"/q{n}","max_bytes":1000}}"#));
        server.ok("admin/snapshots/create", format!(r#"{{"name":"s{n}"}}"#));
        // With the one that is changed there are as many as items.
        if n > 0 {
            server.ok("admin/overlays/create", format!(r#"{{"id":"o{n}"}}"#));
        }
        let write = Op::write(tree_path(&format!("/new{n}")), "text");
        futures::executor::block_on(overlay.commit(write.into())).unwrap();
    }
    fill_tree(server, &*account);
    [
        ("/v1/list", r#"{"prefix":"/d"}"#),
        ("/v1/glob", r#"{"pattern":"/d/*"}"#),
        ("/v1/history", r#"{"path":"/changed"}"#),
        ("/v1/search", r#"{"query":"needle"}"#),
        ("/v1/memories/list", "{}"),
        ("/v1/memories/log", r#"{"uri":"ctx://acme/users/ann/memories/cases/changed"}"#),
        ("/v1/sessions/list", r#"{"user":"ann","agent":"scout"}"#),
        ("/v1/agents/{agent}/archives", r#"{"user":"ann"}"#),
        ("/v1/agents/{agent}/daily/list", r#"{"user":"ann"}"#),
        ("/v1/agents/{agent}/media/list", r#"{"session_key":"agent:scout:main"}"#),
        ("/v1/tree/names", r#"{"path":"/linked/00"}"#),
        ("/v1/tree/list", r#"{"path":"/p","entries":true}"#),
        ("/v1/tree/walk", r#"{"path":"/p"}"#),
        ("/v1/tree/history", r#"{"path":"/grown"}"#),
        ("/v1/tree/blame", r#"{"path":"/grown"}"#),
        ("/v1/tree/changes", r#"{"within":["/grown"]}"#),
        ("/v1/tree/snapshots", "{}"),
        ("/v1/tree/search", r#"{"query":"paddle","mode":"words"}"#),
        ("/v1/tree/find", r#"{"tag":"paged"}"#),
        ("/v1/tree/grep", r#"{"expressions":["paddle"],"path":"/p"}"#),
        ("/v1/tree/glob", r#"{"pattern":"/p/*"}"#),
        ("/v1/tree/diff", r#"{"path":"/p","other":"/p2"}"#),
        ("/v1/tree/du", r#"{"path":"/counted","depth":1}"#),
        ("/v1/admin/keys/list", "{}"),
        ("/v1/admin/accounts/list", "{}"),
        ("/v1/admin/rules/list", r#"{"built_in":false}"#),
        ("/v1/admin/quotas/list", "{}"),
        ("/v1/admin/overlays/list", "{}"),
        ("/v1/admin/overlays/diff", r#"{"id":"changed"}"#),
        ("/v1/admin/snapshots/list", "{}"),
    ]
    .into()
}

#[test]
fn pages_of_any_size_give_the_same_items() {
    let server = Server::start();
    let asked = with_pages(&server);
    let new = garth_engine::home::NewKey::new(None, &[Scope::Admin]);
    let issued = futures::executor::block_on(server.home.control().issue_key(new)).unwrap();
    let operator = issued.1.reveal().to_owned();
    let mut paged = 0;
    let has = |call: &CallReference, name: &str| call.fields.iter().any(|field| field.name == name);
    for call in json_calls().filter(|call| has(call, "cursor") && has(call, "limit")) {
        let body = asked.get(call.path).unwrap_or_else(|| panic!("{}: say what to ask it", call.path));
        let page = |limit: usize, cursor: Option<serde_json::Value>| {
            let mut body: serde_json::Value = serde_json::from_str(body).unwrap();
            body["limit"] = limit.into();
            body["cursor"] = cursor.unwrap_or_default();
            let key = if call.path == "/v1/admin/accounts/list" { &operator } else { &server.key };
            let reply = server.post_as(key, &path(&call), body.to_string());
            assert_eq!(reply.status, 200, "{}: {}", call.path, reply.text());
            let answer = reply.json();
            let items =
                answer.as_object().unwrap().values().find_map(|value| value.as_array()).unwrap().clone();
            assert!(items.len() <= limit, "{}: {answer}", call.path);
            let next = answer.get("next_cursor").cloned();
            // The last page has neither field.
            let is_last = next.is_none() && answer.get("has_more").is_none();
            let is_other =
                next.as_ref().is_some_and(serde_json::Value::is_string) && answer["has_more"] == true;
            assert!(is_last || is_other, "{}: {answer}", call.path);
            (items, next)
        };
        let limit = call.fields.iter().find(|field| field.name == "limit").unwrap();
        let most = limit.bounds.as_ref().unwrap().1.as_u64().unwrap();
        let (whole, next) = page(most.try_into().unwrap(), None);
        // The account has some, and calls on files have made as many.
        let due = if call.path == "/v1/admin/snapshots/list" { 2 * ITEMS } else { ITEMS };
        assert!(whole.len() == due && next.is_none(), "{}: {}", call.path, whole.len());
        for limit in [1, 2, 7] {
            let (mut items, mut cursor) = page(limit, None);
            while cursor.is_some() {
                let (more, next) = page(limit, cursor);
                items.extend(more);
                cursor = next;
            }
            assert_eq!(items, whole, "{} in pages of {limit}", call.path);
        }
        paged += 1;
    }
    assert_eq!(paged, asked.len());
}
