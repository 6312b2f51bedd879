//! Keys of the data folder: reading the files of all accounts as one tree, and creating, listing and deleting
//! accounts.

use std::time::Duration;

use futures::executor::block_on;
use garth_engine::home::{KeysPage, NewKey, Scope};
use garth_engine::{DataDir, Env, FileSystem as _};
use serde_json::{Value, json};

use super::harness::{Connection, Reply, Server, request};

/// Server with the accounts `acme` and `beta`, each with a file, and a key of the data folder.
struct World {
    server: Server,
    operator: String,
}

impl World {
    fn new() -> Self {
        let server = Server::start();
        let operator = key_of_home(&server);
        block_on(server.home.create_account("beta")).unwrap();
        let world = Self { server, operator };
        for account in ["acme", "beta"] {
            let own = world.server.key(account, &[Scope::Admin]);
            let text = format!("{account} drinks tea\n");
            let op = json!({"op": "write", "path": "/notes/tea.md", "text": text, "parents": true});
            let reply = world.server.post_as(&own, "batch", json!({"ops": [op]}).to_string());
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
        world
    }

    fn post(&self, call: &str, body: &Value) -> Reply {
        self.server.post_as(&self.operator, call, body.to_string())
    }

    fn ok(&self, call: &str, body: &Value) -> Value {
        let reply = self.post(call, body);
        assert_eq!(reply.status, 200, "{call} {body}: {}", reply.text());
        reply.json()
    }

    fn send(&self, method: &str, path: &str, body: &[u8]) -> Reply {
        let headers = format!("authorization: Bearer {}\r\n", self.operator);
        self.server.request(method, &format!("/v1/fs{path}"), &headers, body)
    }

    /// Creates an account whose stored tree is missing, as another process: this one has never opened it.
    fn create_broken(&self, account: &str) {
        let other = DataDir::open(self.server.home.folder(), Env::system(), garth_agent::registry()).unwrap();
        let stored = block_on(other.create_account(account)).unwrap().folder;
        let stored = other.folder().join("accounts").join(stored);
        std::fs::rename(stored, other.folder().join(format!("lost-{account}"))).unwrap();
    }

    /// Returns the newest sequence of each account.
    fn heads(&self) -> [u64; 2] {
        ["acme", "beta"].map(|account| {
            let tree = block_on(self.server.home.account(account)).unwrap();
            block_on(tree.head()).unwrap().seq.0
        })
    }
}

fn key_of_home(server: &Server) -> String {
    let new = NewKey::new(None, &[Scope::Admin]);
    let issued = block_on(server.home.control().issue_key(new)).unwrap();
    issued.1.reveal().to_owned()
}

fn names(listed: &Value, field: &str) -> Vec<String> {
    let items = listed["items"].as_array().unwrap().iter();
    items.map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

#[test]
fn operator_reads_files_of_all_accounts() {
    let world = World::new();
    assert_eq!(names(&world.ok("tree/list", &json!({})), "name"), ["accounts"]);
    let first = world.ok("tree/list", &json!({"path": "/accounts", "limit": 1, "entries": true}));
    assert_eq!((names(&first, "name"), &first["has_more"]), (vec!["acme".to_owned()], &json!(true)));
    let rest = json!({"path": "/accounts", "limit": 1, "entries": true, "cursor": first["next_cursor"]});
    assert_eq!(names(&world.ok("tree/list", &rest), "name"), ["beta"]);
    for account in ["acme", "beta"] {
        let (top, file) = (format!("/accounts/{account}"), format!("/accounts/{account}/notes/tea.md"));
        let text = format!("{account} drinks tea\n");
        assert_eq!(world.ok("tree/stat", &json!({"path": file}))["path"], file.as_str());
        assert_eq!(world.ok("tree/fetch", &json!({"path": file}))["text"], text.as_str());
        assert_eq!(names(&world.ok("tree/walk", &json!({"path": top})), "path").last(), Some(&file));
        let globbed = world.ok("tree/glob", &json!({"pattern": format!("{top}/**/*.md")}));
        assert_eq!(names(&globbed, "path"), std::slice::from_ref(&file));
        let found = world.ok("tree/grep", &json!({"expressions": ["tea"], "path": top}));
        assert!(found.to_string().contains(&file), "{found}");
        let hits = world.ok("tree/search", &json!({"query": "tea", "in": [top]}));
        assert_eq!(hits["hits"].as_array().unwrap().len(), 1, "{hits}");
        assert_eq!(hits["hits"][0]["path"], file.as_str());
        let changes = world.ok("tree/changes", &json!({"within": [top]}));
        assert!(changes["commits"].to_string().contains(&file), "{changes}");
        let history = world.ok("tree/history", &json!({"path": file}));
        assert_eq!(history["items"].as_array().unwrap().len(), 1);
        let got = world.send("GET", &file, b"");
        assert_eq!((got.status, got.text()), (200, text.clone()));
        assert!(got.header("etag").is_some());
    }
    let all = world.ok("tree/glob", &json!({"pattern": "/accounts/*/notes/tea.md"}));
    assert_eq!(names(&all, "path"), ["/accounts/acme/notes/tea.md", "/accounts/beta/notes/tea.md"]);
    world.send("GET", "/accounts/none/f", b"").refused(404, "NOT_FOUND");
    let file = "/notes/tea.md";
    for reply in [world.send("GET", file, b""), world.post("tree/stat", &json!({"path": file}))] {
        let message = reply.refused(404, "NOT_FOUND");
        assert!(message.starts_with(file) && message.contains("begin with /accounts/NAME"), "{message}");
    }
}

#[test]
fn operator_changes_no_file() {
    let world = World::new();
    let before = world.heads();
    let file = "/accounts/acme/notes/tea.md";
    let write = json!({"write": {"at": {"path": file}, "body": {"bytes": "eA=="}}});
    for (call, body) in [
        ("batch", json!({"ops": [{"op": "write", "path": file, "text": "x"}]})),
        ("tree/commit", json!({"ops": [write]})),
        ("tree/edit", json!({"path": file, "old": "tea", "new": "milk"})),
        ("tree/sync", json!({})),
        ("uploads/discard", json!({"id": "0".repeat(32)})),
        ("put", json!({"path": "/a", "value": 1})),
        ("admin/rules/set", json!({"pattern": "/notes/**", "constraint": "read-only"})),
    ] {
        world.post(call, &body).refused(403, "FORBIDDEN");
    }
    for (method, body) in [("PUT", "x"), ("PATCH", "x"), ("DELETE", "")] {
        let message = world.send(method, file, body.as_bytes()).refused(403, "FORBIDDEN");
        assert!(message.contains("of the data folder"), "{method}: {message}");
    }
    assert_eq!(world.heads(), before);
}

#[test]
fn calls_across_accounts_are_unsupported() {
    let world = World::new();
    for (call, body) in [
        ("tree/search", json!({"query": "tea"})),
        ("tree/search", json!({"query": "tea", "in": ["/accounts/acme", "/accounts/beta"]})),
        ("tree/find", json!({"tag": "x"})),
        ("tree/walk", json!({"path": "/accounts"})),
        ("tree/grep", json!({"expressions": ["tea"], "path": "/accounts"})),
        ("tree/changes", json!({})),
        ("tree/head", json!({})),
        ("tree/snapshots", json!({})),
        ("tree/stat", json!({"node": 2})),
        ("tree/history", json!({"path": "/accounts/acme"})),
        ("tree/committed", json!({"id": "00000000000000000000000000000001"})),
    ] {
        let message = world.post(call, &body).refused(501, "UNSUPPORTED");
        let hints = ["one account", "name a path", "key of the account"];
        assert!(hints.iter().any(|hint| message.contains(hint)), "{call}: {message}");
    }
}

#[test]
fn calls_on_the_log_ask_for_a_key() {
    let world = World::new();
    for (call, body) in
        [("tree/head", json!({})), ("tree/diff", json!({"path": "/accounts/acme", "from": "1h"}))]
    {
        let message = world.post(call, &body).refused(501, "UNSUPPORTED");
        assert!(message.contains("use a key of that account"), "{call}: {message}");
    }
}

#[test]
fn operator_counts_files_of_one_account() {
    let world = World::new();
    let counted = world.ok("tree/du", &json!({"path": "/accounts/acme/notes"}));
    let total = &counted["items"][0];
    assert_eq!((&total["path"], &total["files"]), (&json!("/accounts/acme/notes"), &json!(1)), "{counted}");
}

#[test]
fn answers_say_what_several_accounts_share() {
    let world = World::new();
    let items = |accounts: &[&str]| {
        let items =
            accounts.iter().map(|account| json!({"path": format!("/accounts/{account}/notes/tea.md")}));
        json!({"items": items.collect::<Vec<_>>()})
    };
    let of_one = world.ok("tree/fetch-many", &items(&["acme", "acme"]));
    assert_eq!(of_one["seq"], world.heads()[0]);
    let mixed = world.ok("tree/fetch-many", &items(&["acme", "beta"]));
    assert_eq!((mixed["items"].as_array().unwrap().len(), &mixed["seq"]), (1, &json!(null)));
    let missing = world.ok("tree/fetch-many", &items(&["none", "none", "beta"]));
    let codes =
        missing["items"].as_array().unwrap().iter().map(|item| item["error"]["code"].as_str().unwrap());
    assert_eq!((codes.collect::<Vec<_>>(), &missing["seq"]), (vec!["NOT_FOUND"; 2], &json!(null)));
    for call in ["stat", "names", "list"] {
        let late = json!({"path": "/accounts/acme", "at": "99"});
        world.post(&format!("tree/{call}"), &late).refused(404, "NOT_FOUND");
    }
    for (pattern, hits) in [("/accounts/*/notes/*.md", 1), ("/**/*.md", 1), ("/accounts/beta/**", 0)] {
        let asked = json!({"query": "tea", "in": ["/accounts/acme"], "patterns": [pattern]});
        let found = world.ok("tree/search", &asked);
        assert_eq!(found["hits"].as_array().unwrap().len(), hits, "{pattern}: {found}");
    }
    let found = world.ok("tree/search", &json!({"query": "tea", "patterns": ["/accounts/beta/notes/**"]}));
    assert_eq!(found["hits"][0]["path"], "/accounts/beta/notes/tea.md");
}

#[test]
fn operator_sees_snapshots_of_file_calls_only() {
    let world = World::new();
    let commit = |fields: Value| {
        let mut body = json!({"ops": [{"snapshot": {"name": "dawn"}}]});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let reply = world.server.post("tree/commit", body.to_string());
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    commit(json!({"agent": "scout"}));
    let changes = || world.ok("tree/changes", &json!({"within": ["/accounts/acme"]}))["commits"].to_string();
    assert!(!changes().contains("snapshot"), "{}", changes());
    commit(json!({}));
    assert!(changes().contains("dawn"), "{}", changes());
}

#[test]
fn account_that_cannot_be_read_hides_no_other() {
    let world = World::new();
    world.create_broken("amok");
    world.create_broken("broken");
    for call in ["list", "walk"] {
        let reply = world.post(&format!("tree/{call}"), &json!({"path": "/accounts/amok"}));
        assert!(reply.refused(500, "CORRUPT").starts_with("/accounts/amok: "), "{}", reply.text());
    }
    for limit in [1, 2, 100] {
        let mut asked = json!({"pattern": "/accounts/*/notes/*.md", "limit": limit});
        let (mut found, mut failed) = (Vec::new(), Vec::new());
        for _ in 0..10 {
            let page = world.ok("tree/glob", &asked);
            found.extend(names(&page, "path"));
            for part in page["failed"].as_array().into_iter().flatten() {
                assert_eq!(part["error"]["code"], "CORRUPT");
                failed.push(part["path"].as_str().unwrap().to_owned());
            }
            if page.get("has_more").is_none() {
                break;
            }
            asked["cursor"] = page["next_cursor"].clone();
        }
        assert_eq!(found, ["/accounts/acme/notes/tea.md", "/accounts/beta/notes/tea.md"], "pages of {limit}");
        assert_eq!(failed, ["/accounts/amok", "/accounts/broken"], "pages of {limit}");
    }
    let paths =
        ["acme", "amok", "amok", "beta"].map(|of| json!({"path": format!("/accounts/{of}/notes/tea.md")}));
    let (mut rest, mut answers) = (&paths[..], Vec::new());
    while !rest.is_empty() {
        let answer = world.ok("tree/fetch-many", &json!({"items": rest}));
        let items = answer["items"].as_array().unwrap().clone();
        rest = &rest[items.len()..];
        answers.extend(items);
    }
    assert_eq!(
        (&answers[0]["text"], &answers[3]["text"]),
        (&json!("acme drinks tea\n"), &json!("beta drinks tea\n"))
    );
    for failed in &answers[1..3] {
        assert_eq!(failed["error"]["code"], "CORRUPT");
        assert!(failed["error"]["message"].as_str().unwrap().starts_with("/accounts/amok: "), "{failed}");
    }
}

#[test]
fn only_operators_see_all_accounts() {
    let world = World::new();
    for (call, body) in [
        ("tree/list", json!({"path": "/accounts"})),
        ("tree/fetch", json!({"path": "/accounts/beta/notes/tea.md"})),
        ("tree/search", json!({"query": "tea", "in": ["/accounts/beta"]})),
    ] {
        // In an account, `/accounts` is a path like any other.
        let reply = world.server.post(call, body.to_string());
        assert!(!reply.text().contains("beta drinks"), "{call}: {}", reply.text());
        assert!(reply.status == 404 || reply.status == 200, "{call}: {}", reply.text());
        // A request that names somebody is on an account.
        let mut named = body.clone();
        named["agent"] = json!("scout");
        world.post(call, &named).refused(403, "FORBIDDEN");
    }
}

#[test]
fn links_lead_operators_to_no_other_account() {
    let world = World::new();
    let link = |name: &str, to: &str| {
        let op = json!({"op": "symlink", "path": format!("/notes/{name}"), "target": to});
        let reply = world.server.post("batch", json!({"ops": [op]}).to_string());
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    link("own", "/notes/tea.md");
    link("above", "../../beta/notes/tea.md");
    link("absolute", "/accounts/beta/notes/tea.md");
    assert_eq!(world.send("GET", "/accounts/acme/notes/own", b"").text(), "acme drinks tea\n");
    for name in ["above", "absolute"] {
        let path = format!("/accounts/acme/notes/{name}");
        world.send("GET", &path, b"").refused(404, "NOT_FOUND");
        world.post("tree/fetch", &json!({"path": path})).refused(404, "NOT_FOUND");
    }
    link("top", "/");
    let written = "/accounts/acme/notes/top/../beta/notes";
    world.post("tree/grep", &json!({"expressions": ["tea"], "path": written})).refused(404, "NOT_FOUND");
    let globbed = world.ok("tree/glob", &json!({"pattern": format!("{written}/*.md")}));
    assert_eq!(globbed, json!({"items": []}));
    let own = "/accounts/acme/notes/top/../notes/*.md";
    assert_eq!(
        names(&world.ok("tree/glob", &json!({"pattern": own})), "path"),
        ["/accounts/acme/notes/tea.md"]
    );
}

#[test]
fn operator_creates_lists_and_deletes_accounts() {
    let world = World::new();
    let created = world.ok("admin/accounts/create", &json!({"account": "gamma"}));
    assert_eq!((&created["account"]["account"], &created["created"]), (&json!("gamma"), &json!(true)));
    let again = world.ok("admin/accounts/create", &json!({"account": "gamma"}));
    assert_eq!((&again["account"], &again["created"]), (&created["account"], &json!(false)));
    assert_eq!(names(&world.ok("admin/accounts/list", &json!({})), "account"), ["acme", "beta", "gamma"]);
    let body = json!({"account": "gamma", "scopes": ["admin"]});
    let key = world.ok("admin/keys/create", &body)["secret"].as_str().unwrap().to_owned();
    assert_eq!(world.server.post_as(&key, "put", r#"{"path":"/a","value":1}"#).status, 200);
    for wrong in [json!({"account": "gamma"}), json!({"account": "gamma", "confirm": "acme"})] {
        world.post("admin/accounts/delete", &wrong).refused(400, "VALIDATION_ERROR");
    }
    let delete = json!({"account": "gamma", "confirm": "gamma"});
    assert_eq!(world.ok("admin/accounts/delete", &delete)["deleted"], true);
    assert_eq!(world.server.post_as(&key, "get", r#"{"path":"/a"}"#).status, 401);
    assert_eq!(world.ok("admin/accounts/delete", &delete)["deleted"], false);
    assert_eq!(names(&world.ok("admin/accounts/list", &json!({})), "account"), ["acme", "beta"]);
    world.post("admin/accounts/create", &json!({"account": "a/b"})).refused(400, "VALIDATION_ERROR");
    world.post("admin/accounts/create", &json!({"account": ".."})).refused(400, "VALIDATION_ERROR");
}

#[test]
fn errors_say_that_an_account_is_being_deleted() {
    let world = World::new();
    let folder = block_on(world.server.home.control().account("beta")).unwrap().folder;
    // A file under the name that the folder gets cannot be replaced, and is not removed as a folder.
    let in_the_way = world.server.home.folder().join("accounts").join(format!("{folder}.deleted"));
    std::fs::write(&in_the_way, "").unwrap();
    let delete = json!({"account": "beta", "confirm": "beta"});
    for (call, body, status, code) in [
        ("admin/accounts/delete", &delete, 503, "UNAVAILABLE"),
        ("admin/accounts/delete", &delete, 503, "UNAVAILABLE"),
        ("admin/accounts/create", &json!({"account": "beta"}), 409, "PATH_CONFLICT"),
        ("admin/keys/list", &json!({"account": "beta"}), 404, "NOT_FOUND"),
    ] {
        let message = world.post(call, body).refused(status, code);
        assert!(message.contains("is being deleted"), "{call}: {message}");
    }
    assert_eq!(names(&world.ok("admin/accounts/list", &json!({})), "account"), ["acme"]);
    std::fs::remove_file(&in_the_way).unwrap();
    assert_eq!(world.ok("admin/accounts/delete", &delete)["deleted"], false, "an earlier call has begun it");
    assert_eq!(world.ok("admin/accounts/create", &json!({"account": "beta"}))["created"], true);
}

#[test]
fn deletion_ends_calls_in_progress() {
    let world = World::new();
    let folder = block_on(world.server.home.control().account("beta")).unwrap().folder;
    let packs = world.server.home.folder().join("accounts").join(folder).join("packs");
    let headers = format!("authorization: Bearer {}\r\n", world.server.key("beta", &[Scope::Admin]));
    let [mut uploading, mut waiting] = [(); 2].map(|()| Connection::open(world.server.address));
    let wait = json!({"since": world.heads()[1], "wait_ms": 20_000}).to_string();
    waiting.send(&request("POST", "/v1/tree/wait", &headers, wait.as_bytes()));
    let upload = request("PUT", "/v1/fs/notes/large", &headers, &vec![7_u8; 4 << 20]);
    let (first, rest) = upload.split_at(3 << 20);
    uploading.send(first);
    // Until the upload is being written.
    while !std::fs::read_dir(&packs).is_ok_and(|mut packs| packs.next().is_some()) {
        Env::system().sleep(Duration::from_millis(10));
    }
    let deleted = world.ok("admin/accounts/delete", &json!({"account": "beta", "confirm": "beta"}));
    assert_eq!(deleted["deleted"], true);
    uploading.send(rest);
    for connection in [&mut uploading, &mut waiting] {
        let reply = connection.reply();
        assert!([401, 404].contains(&reply.status), "{}: {}", reply.status, reply.text());
    }
    assert_eq!(std::fs::read_dir(world.server.home.folder().join("accounts")).unwrap().count(), 1);
}

#[test]
fn repeated_deletion_spares_a_new_account() {
    let world = World::new();
    let send = |call: &str, key: &str, account: &str| {
        let mut body = json!({"account": account});
        if call == "delete" {
            body["confirm"] = json!(account);
        }
        let headers = format!("authorization: Bearer {}\r\nidempotency-key: {key}\r\n", world.operator);
        let target = format!("/v1/admin/accounts/{call}");
        world.server.request("POST", &target, &headers, body.to_string().as_bytes())
    };
    let created = send("create", "create-1", "gamma");
    assert_eq!((created.status, &created.json()["created"]), (200, &json!(true)), "{}", created.text());
    world.server.clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(send("create", "create-1", "gamma").text(), created.text());
    let found = send("create", "create-2", "gamma");
    assert_eq!(found.json()["created"], false);
    let deleted = send("delete", "delete-1", "gamma");
    assert_eq!((deleted.status, &deleted.json()["deleted"]), (200, &json!(true)), "{}", deleted.text());
    assert_eq!(send("create", "create-1", "gamma").text(), created.text(), "the first answer");
    assert_eq!(names(&world.ok("admin/accounts/list", &json!({})), "account"), ["acme", "beta"]);

    let again = world.ok("admin/accounts/create", &json!({"account": "gamma"}));
    assert_eq!(again["created"], true);
    assert_eq!(send("delete", "delete-1", "gamma").text(), deleted.text(), "the first answer");
    assert_eq!(send("create", "create-2", "gamma").text(), found.text(), "the first answer");
    let now = world.ok("admin/accounts/create", &json!({"account": "gamma"}));
    assert_eq!((&now["account"], &now["created"]), (&again["account"], &json!(false)), "it is still there");
    for (call, key, account) in [("delete", "delete-1", "beta"), ("create", "delete-1", "gamma")] {
        send(call, key, account).refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    }
    assert_eq!(send("delete", "delete-2", "gamma").json()["deleted"], true);
    assert_eq!(send("delete", "delete-3", "gamma").json()["deleted"], false);
}

#[test]
fn concurrent_deletions_have_one_winner() {
    let world = World::new();
    let barrier = std::sync::Barrier::new(16);
    let deleted = std::thread::scope(|scope| {
        let one = || {
            barrier.wait();
            world.ok("admin/accounts/delete", &json!({"account": "beta", "confirm": "beta"}))["deleted"]
                == true
        };
        let calls: Vec<_> = (0..16).map(|_| scope.spawn(one)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).filter(|deleted| *deleted).count()
    });
    assert_eq!(deleted, 1);
}

/// Positions in a deleted account mean nothing in another one of its name.
#[test]
fn cursors_end_with_their_account() {
    let world = World::new();
    let fill = || {
        let own = world.server.key("beta", &[Scope::Admin]);
        for name in ["a", "b", "c"] {
            let attrs = json!({"tags": ["x"]});
            let path = format!("/docs/{name}.md");
            let op = json!({"op": "write", "path": path, "text": "tea\n", "parents": true, "attrs": attrs});
            let reply = world.server.post_as(&own, "batch", json!({"ops": [op]}).to_string());
            assert_eq!(reply.status, 200, "{}", reply.text());
        }
        own
    };
    let calls = |top: &str| {
        [
            ("tree/find", json!({"tag": "x", "in": [format!("{top}/docs")]})),
            ("tree/changes", json!({"within": [format!("{top}/docs")]})),
            ("tree/list", json!({"path": format!("{top}/docs")})),
            ("tree/walk", json!({"path": format!("{top}/docs")})),
            ("tree/glob", json!({"pattern": format!("{top}/docs/*.md")})),
            ("tree/grep", json!({"expressions": ["tea"], "path": format!("{top}/docs")})),
            ("tree/search", json!({"query": "tea", "patterns": [format!("{top}/docs/*.md")]})),
        ]
    };
    let own = fill();
    let first = |key: &str, call: &str, body: &Value| {
        let mut body = body.clone();
        body["limit"] = json!(1);
        let reply = world.server.post_as(key, call, body.to_string());
        assert_eq!(reply.status, 200, "{call} {body}: {}", reply.text());
        body["cursor"] = reply.json()["next_cursor"].clone();
        assert!(body["cursor"].is_string(), "{call} {body}: {}", reply.text());
        body
    };
    let of_account: Vec<_> =
        calls("").into_iter().map(|(call, body)| (call, first(&own, call, &body))).collect();
    let of_home = calls("/accounts/beta").into_iter();
    let of_home: Vec<_> = of_home.map(|(call, body)| (call, first(&world.operator, call, &body))).collect();
    let ask = |key: &str, call: &str, body: &Value| world.server.post_as(key, call, body.to_string());
    for (key, (call, body)) in
        of_account.iter().map(|page| (&own, page)).chain(of_home.iter().map(|page| (&world.operator, page)))
    {
        assert_eq!(ask(key, call, body).status, 200, "{call} {body}");
    }
    block_on(world.server.home.delete_account("beta")).unwrap();
    block_on(world.server.home.create_account("beta")).unwrap();
    let own = fill();
    for (key, (call, body)) in
        of_account.iter().map(|page| (&own, page)).chain(of_home.iter().map(|page| (&world.operator, page)))
    {
        let message = ask(key, call, body).refused(400, "VALIDATION_ERROR");
        assert!(message.contains("leave \"cursor\" out"), "{call} {body}: {message}");
    }
}

#[test]
fn position_after_the_last_commit_is_refused() {
    let world = World::new();
    let [head, _] = world.heads();
    for (call, body) in [
        ("tree/changes", json!({"since": head + 1})),
        ("tree/wait", json!({"since": head + 1, "wait_ms": 30_000})),
    ] {
        let message = world.server.post(call, body.to_string()).refused(400, "VALIDATION_ERROR");
        assert!(message.contains(&format!("the last one is {head}")), "{call}: {message}");
    }
    let body = json!({"within": ["/accounts/acme"], "since": head + 1});
    world.post("tree/changes", &body).refused(400, "VALIDATION_ERROR");
    let commits = world.server.ok("tree/changes", json!({"since": head}).to_string())["commits"].clone();
    assert_eq!(commits, json!([]));
}

#[test]
fn keys_of_accounts_create_and_delete_none() {
    let world = World::new();
    let before = world.server.ok("admin/accounts/list", "{}");
    assert_eq!(names(&before, "account"), ["acme"], "its own account");
    let mut messages = std::collections::BTreeSet::new();
    for account in ["acme", "beta", "none"] {
        for (call, body) in [
            ("create", json!({"account": account})),
            ("delete", json!({"account": account, "confirm": account})),
        ] {
            let reply = world.server.post(&format!("admin/accounts/{call}"), body.to_string());
            messages.insert(reply.refused(403, "FORBIDDEN"));
        }
    }
    assert_eq!(messages.len(), 1, "the same whether the account exists: {messages:?}");
    let keys = block_on(world.server.home.control().keys(Some("beta"), &KeysPage::default())).unwrap();
    assert_eq!(keys.items.len(), 1, "it was not deleted");
}
