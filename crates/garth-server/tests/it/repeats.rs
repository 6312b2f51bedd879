//! Repeats of a write under its `Idempotency-Key`, on every route that writes: one effect, and the same
//! answer to each.

use std::sync::Barrier;

use futures::executor::block_on;
use garth_engine::AccountStore;
use garth_engine::model::{Batch, Op};
use garth_server::reference::{BodyReference, CallReference, calls};
use serde_json::{Value, json};

use super::harness::{Reply, Server};

const MEMORIES: &str = "ctx://acme/users/ann/memories/preferences";
const SKILL: &str = "---\nname: pdf\ndescription: Reads PDF\n---\nUse it.\n";

/// Server with something for each route to change.
struct World {
    server: Server,
    /// Key of a media file.
    media: String,
    /// Id of content that is swapped out.
    swapped: String,
}

fn of_session(mut body: Value) -> Value {
    for (name, value) in [("agent", "scout"), ("user", "ann")] {
        body[name] = json!(value);
    }
    body
}

impl World {
    fn new() -> Self {
        let server = Server::start();
        server.own("scout", "ann");
        server.put("/there", "1");
        for name in ["tea", "coffee"] {
            let memory =
                json!({"uri": format!("{MEMORIES}/{name}"), "content": format!("Ann likes {name}.\n")});
            server.ok("memories/put", memory.to_string());
        }
        let edge = json!({"from_uri": format!("{MEMORIES}/coffee"), "to_uri": format!("{MEMORIES}/tea"),
            "relation_type": "like"});
        server.ok("memories/relate", edge.to_string());
        let on_session = |call: &str, body: Value| server.ok(call, of_session(body).to_string());
        on_session("sessions/create", json!({"name": "work", "key": "agent:scout:main"}));
        let messages: Vec<Value> = (1..=20)
            .map(|n| json!({"role": if n % 2 == 1 { "user" } else { "assistant" }, "content": format!("said {n}")}))
            .collect();
        on_session("sessions/append", json!({"name": "work", "messages": messages}));
        let facts = json!([{"id": "f1", "text": "It is out.", "source": "messages:3"}]);
        on_session("context/derive", json!({"name": "work", "facts": facts}));
        on_session("context/spawn", json!({"name": "work", "id": "c1"}));
        let swapped =
            on_session("context/swap-out", json!({"name": "work", "source": "messages:1-2", "summary": "s"}));
        let skill = json!({"user": "ann", "name": "pdf", "files": {"SKILL.md": SKILL}});
        server.ok("agents/scout/skills/install", skill.to_string());
        for (call, body) in [
            ("rules/set", json!({"pattern": "/logs/**", "constraint": "append-only"})),
            ("quotas/set", json!({"path": "/media", "max_entries": 1000})),
            ("overlays/create", json!({"id": "draft"})),
            ("snapshots/create", json!({"name": "before"})),
        ] {
            server.ok(&format!("admin/{call}"), body.to_string());
        }
        // Its earlier state is that of the snapshot.
        for text in ["one", "two"] {
            let op = json!({"op": "write", "path": "/kept.md", "text": text});
            server.ok("batch", json!({"ops": [op]}).to_string());
            if text == "one" {
                server.ok("admin/snapshots/create", json!({"name": "kept"}).to_string());
            }
        }
        let put = upload(&server, &server.key, None, b"GIF89a");
        Self {
            media: put.json()["media"]["key"].as_str().unwrap().to_owned(),
            swapped: swapped["entry"]["id"].as_str().unwrap().to_owned(),
            server,
        }
    }

    /// Returns the body of a request to a route that writes.
    fn body(&self, path: &str) -> Value {
        let memory = |name: &str| format!("{MEMORIES}/{name}");
        let of_work = |mut body: Value| {
            body["name"] = json!("work");
            of_session(body)
        };
        match path {
            "/v1/put" => json!({"path": "/a", "value": 1}),
            "/v1/put-many" => json!({"items": [{"path": "/a", "value": 1}], "agent_id": "default"}),
            "/v1/increment" => json!({"path": "/n", "by": 3}),
            "/v1/expire" => json!({"path": "/there", "ttl_seconds": 3600}),
            "/v1/delete" => json!({"path": "/there"}),
            "/v1/remember" => json!({"text": "Takes her coffee black."}),
            "/v1/forget" => json!({"uri": memory("tea")}),
            "/v1/memory-tool" => {
                of_session(json!({"command": "create", "path": "/memories/tea.md", "file_text": "x"}))
            }
            "/v1/memories/put" => json!({"uri": memory("juice"), "content": "Ann likes tea.\n"}),
            "/v1/memories/tag" => json!({"uri": memory("tea"), "add": ["hot"]}),
            "/v1/memories/relate" => {
                json!({"from_uri": memory("tea"), "to_uri": memory("coffee"), "relation_type": "unlike"})
            }
            "/v1/memories/unrelate" => json!({"from_uri": memory("coffee"), "to_uri": memory("tea")}),
            "/v1/memories/move" => json!({"uri": memory("tea"), "new_uri": memory("green-tea")}),
            "/v1/memories/delete" => json!({"uri": memory("tea")}),
            "/v1/sessions/create" => of_session(json!({"name": "new"})),
            "/v1/sessions/current" => of_session(json!({"key": "agent:scout:other", "create": true})),
            "/v1/sessions/set" => of_work(json!({"title": "T", "state": "active"})),
            "/v1/sessions/append" => {
                of_work(json!({"messages": [{"role": "user", "content": "x"}], "events": [{"type": "t"}]}))
            }
            "/v1/sessions/retract" => of_work(json!({"source": "tail:2"})),
            "/v1/sessions/import" => {
                let transcript = (1..=2500).map(|n| format!("{{\"role\":\"user\",\"content\":\"i{n}\"}}\n"));
                of_work(
                    json!({"format": "garth", "mode": "part", "transcript": transcript.collect::<String>()}),
                )
            }
            "/v1/context/derive" => of_work(json!({"summary": "S"})),
            "/v1/context/pin" => of_work(json!({"file": "rules.md", "text": "t"})),
            "/v1/context/compact" | "/v1/context/pack" => of_work(json!({})),
            "/v1/context/swap-out" => of_work(json!({"source": "messages:5-6", "summary": "s"})),
            "/v1/context/swap-in" => of_work(json!({"id": self.swapped})),
            "/v1/context/dedup" => of_work(json!({"sources": ["messages:3"]})),
            "/v1/context/spawn" => of_work(json!({"id": "c2", "handoff": "do"})),
            "/v1/context/set-child" => of_work(json!({"id": "c1", "status": "done", "result": "r"})),
            "/v1/context/gc" => of_work(json!({"dry": false})),
            "/v1/context/publish" => of_work(json!({"id": "f1", "uri": memory("published")})),
            "/v1/agents" | "/v1/agents/{agent}/create" => json!({"time_zone": "Europe/Berlin"}),
            "/v1/agents/{agent}/prompt" => json!({"user": "ann", "session": "work"}),
            "/v1/agents/{agent}/daily/add" => json!({"user": "ann", "text": "t"}),
            "/v1/agents/{agent}/reset" => json!({"user": "ann", "name": "work"}),
            "/v1/agents/{agent}/media/copy" => json!({"user": "ann", "key": self.media, "name": "work"}),
            "/v1/agents/{agent}/media/delete" => json!({"user": "ann", "key": self.media}),
            "/v1/agents/{agent}/skills/write" => json!({"user": "ann", "path": "pdf/notes.md", "text": "x"}),
            "/v1/agents/{agent}/skills/edit" => {
                json!({"user": "ann", "path": "pdf/SKILL.md", "old": "Use it.", "new": "Use it well."})
            }
            "/v1/agents/{agent}/skills/install" => {
                json!({"user": "ann", "name": "csv", "files": {"SKILL.md": SKILL}})
            }
            "/v1/agents/{agent}/skills/publish" | "/v1/agents/{agent}/skills/delete" => {
                json!({"user": "ann", "name": "pdf"})
            }
            "/v1/batch" => {
                let op = json!({"op": "write", "path": "/a", "text": "x"});
                json!({"ops": [op], "message": "m"})
            }
            "/v1/admin/rules/set" => {
                json!({"pattern": "/a/**", "constraint": "max-size", "terms": {"bytes": 1000}})
            }
            "/v1/admin/rules/remove" => json!({"pattern": "/logs/**", "constraint": "append-only"}),
            "/v1/admin/quotas/set" => json!({"path": "/a", "max_entries": 1000}),
            "/v1/admin/quotas/remove" => json!({"path": "/media"}),
            "/v1/admin/retention/set" => json!({"commits": 1_000_000}),
            "/v1/admin/overlays/create" => json!({"id": "fork", "at": "before"}),
            "/v1/admin/overlays/apply" | "/v1/admin/overlays/discard" => json!({"id": "draft"}),
            "/v1/admin/snapshots/create" => json!({"name": "after"}),
            "/v1/admin/snapshots/remove" => json!({"name": "before"}),
            "/v1/tree/commit" => {
                let write = json!({"at": {"path": "/new.md"}, "body": {"bytes": "eA=="}});
                json!({"ops": [{"write": write}], "message": "m"})
            }
            "/v1/tree/edit" => {
                let path = "/agents/scout/skills/pdf/SKILL.md";
                json!({"path": path, "old": "Use it.", "new": "Use it well."})
            }
            "/v1/tree/restore" => json!({"path": "/kept.md", "at": "kept"}),
            other => panic!("{other} writes; say here how, so that its repeats are tested"),
        }
    }

    /// Sends a write under an idempotency key. With `twist` it is another request.
    fn send(&self, call: &CallReference, key: &str, twist: bool) -> Reply {
        if call.path.starts_with("/v1/fs/") || call.path == "/v1/uploads" {
            return self.send_bytes(call, key, twist);
        }
        if call.body == BodyReference::Bytes {
            let body: &[u8] = if twist { b"GIF89b" } else { b"GIF89a" };
            return upload(&self.server, &self.server.key, Some(key), body);
        }
        let mut body = self.body(call.path);
        if twist {
            let object = body.as_object_mut().unwrap();
            let text = [
                "text",
                "content",
                "title",
                "id",
                "uri",
                "path",
                "name",
                "key",
                "from_uri",
                "session",
                "message",
                "pattern",
                "time_zone",
                "agent_id",
            ];
            match text.into_iter().find(|name| object.contains_key(*name)) {
                Some(name) => {
                    let other = format!("{}x", object[name].as_str().unwrap());
                    object.insert(name.to_owned(), json!(other));
                }
                None => {
                    let other = object["commits"].as_u64().unwrap() + 1;
                    object.insert("commits".to_owned(), json!(other));
                }
            }
        }
        post(&self.server, call.path, key, &body.to_string())
    }

    /// Sends a write of the bytes of a file.
    fn send_bytes(&self, call: &CallReference, key: &str, twist: bool) -> Reply {
        let mut target = call.path.replace("{*path}", "agents/scout/skills/pdf/SKILL.md");
        let body: &[u8] = match (call.body == BodyReference::Bytes, twist) {
            (true, true) => b"y",
            (true, false) => b"x",
            (false, _) => b"",
        };
        if body.is_empty() && twist {
            target.push_str("?recursive=true");
        }
        let headers = format!("authorization: Bearer {}\r\nidempotency-key: {key}\r\n", self.server.key);
        self.server.request(call.method, &target, &headers, body)
    }

    fn head(&self) -> u64 {
        block_on(self.account().head()).unwrap().seq.0
    }

    fn account(&self) -> std::sync::Arc<dyn AccountStore> {
        block_on(self.server.home.account("acme")).unwrap()
    }

    /// Removes all data of the account, except the owner of the agent.
    fn remove_all(&self) {
        let account = self.account().overriding_rules();
        let root = garth_engine::TreePath::root();
        let names: Vec<_> =
            block_on(account.list(&(&root).into(), &garth_engine::model::Page::default())).unwrap().items;
        let ops = names.iter().map(|item| Op::remove_tree(root.join(&item.name).unwrap()));
        block_on(account.commit(Batch::new(ops))).unwrap();
        self.server.own("scout", "ann");
    }
}

fn post(server: &Server, path: &str, key: &str, body: &str) -> Reply {
    let headers = format!("authorization: Bearer {}\r\nidempotency-key: {key}\r\n", server.key);
    server.request("POST", &path.replace("{agent}", "scout"), &headers, body.as_bytes())
}

fn upload(server: &Server, api_key: &str, key: Option<&str>, body: &[u8]) -> Reply {
    let key = key.map(|key| format!("idempotency-key: {key}\r\n")).unwrap_or_default();
    let headers = format!("authorization: Bearer {api_key}\r\ncontent-type: image/gif\r\n{key}");
    server.request("POST", "/v1/agents/scout/media?session_key=agent:scout:main&name=a.gif", &headers, body)
}

fn writes() -> impl Iterator<Item = CallReference> {
    // Keys and accounts are not in the tree of an account; `keys.rs` and `operators.rs` repeat these calls.
    let is_of_home = |path: &str| {
        path.starts_with("/v1/admin/keys/")
            || ["/v1/admin/accounts/create", "/v1/admin/accounts/delete"].contains(&path)
    };
    calls().into_iter().filter(move |call| call.writes && !is_of_home(call.path))
}

#[track_caller]
fn same(call: &CallReference, reply: &Reply, first: &Reply) {
    assert_eq!((reply.status, reply.text()), (first.status, first.text()), "{}", call.path);
}

#[test]
fn every_write_is_idempotent_under_its_key() {
    for call in writes() {
        let world = World::new();
        let before = world.head();
        let first = world.send(&call, "k", false);
        assert_eq!(first.status, 200, "{}: {}", call.path, first.text());
        let head = world.head();
        assert!(head > before, "{}: its record is a commit, too", call.path);
        world.server.clock.advance(std::time::Duration::from_secs(60));
        same(&call, &world.send(&call, "k", false), &first);
        world.send(&call, "k", true).refused(422, "IDEMPOTENCY_KEY_MISMATCH");
        assert_eq!(world.head(), head, "{}", call.path);
        // The changed file is gone, and so is all that the call needs, but a pack is built again from the
        // messages, which only an administrator can remove.
        if call.path == "/v1/context/pack" {
            let more = json!({"name": "work", "messages": [{"role": "user", "content": "more"}]});
            world.server.ok("sessions/append", of_session(more).to_string());
        } else {
            world.remove_all();
        }
        let emptied = world.head();
        same(&call, &world.send(&call, "k", false), &first);
        assert_eq!(world.head(), emptied, "{}", call.path);
    }
}

#[test]
fn rejects_repeat_after_change_of_owner() {
    let of_agent = |path: &str| ["/v1/sessions/", "/v1/agents/"].iter().any(|top| path.starts_with(top));
    // One is under a session key, whose audience no settings change, and one serves no audience.
    let is_fixed = |path: &str| ["/v1/sessions/current", "/v1/agents/{agent}/create"].contains(&path);
    for call in writes().filter(|call| of_agent(call.path) && !is_fixed(call.path)) {
        let world = World::new();
        let first = world.send(&call, "k", false);
        assert_eq!(first.status, 200, "{}: {}", call.path, first.text());
        world.server.own("scout", "zoe");
        let head = world.head();
        let again = world.send(&call, "k", false);
        assert_eq!(again.status, 422, "{}: {}", call.path, again.text());
        assert_eq!(world.head(), head, "{}", call.path);
    }
}

#[test]
fn concurrent_repeats_have_one_effect() {
    for call in writes() {
        let alone = World::new();
        let before = alone.head();
        alone.send(&call, "k", false);
        let effect = alone.head() - before;
        let world = World::new();
        let (before, barrier) = (world.head(), Barrier::new(8));
        let replies: Vec<Reply> = std::thread::scope(|scope| {
            let twins = (0..8).map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    world.send(&call, "k", false)
                })
            });
            twins.collect::<Vec<_>>().into_iter().map(|twin| twin.join().unwrap()).collect()
        });
        assert_eq!(replies[0].status, 200, "{}: {}", call.path, replies[0].text());
        for reply in &replies[1..] {
            same(&call, reply, &replies[0]);
        }
        assert_eq!(world.head() - before, effect, "{}", call.path);
    }
}

#[test]
fn writes_without_effect_are_recorded_too() {
    let unchanged = [
        ("/v1/expire", json!({"path": "/none", "ttl_seconds": 60})),
        ("/v1/memories/put", json!({"uri": format!("{MEMORIES}/tea"), "content": "Ann likes tea.\n"})),
        ("/v1/memories/tag", json!({"uri": format!("{MEMORIES}/tea"), "remove": ["cold"]})),
        (
            "/v1/memories/unrelate",
            json!({"from_uri": format!("{MEMORIES}/tea"), "to_uri": format!("{MEMORIES}/coffee")}),
        ),
        ("/v1/sessions/set", of_session(json!({"name": "work"}))),
        ("/v1/context/compact", of_session(json!({"name": "work", "keep": 100}))),
        ("/v1/sessions/current", of_session(json!({"key": "agent:scout:main", "create": true}))),
        ("/v1/context/set-child", of_session(json!({"name": "work", "id": "c1"}))),
        (
            "/v1/agents/{agent}/skills/install",
            json!({"user": "ann", "name": "pdf", "files": {"SKILL.md": SKILL}}),
        ),
        ("/v1/agents/{agent}/reset", json!({"user": "ann", "name": "work", "if_due": true})),
        ("/v1/agents/{agent}/prompt", json!({})),
    ];
    for (path, body) in unchanged {
        let world = World::new();
        let first = post(&world.server, path, "k", &body.to_string());
        assert_eq!(first.status, 200, "{path}: {}", first.text());
        world.remove_all();
        let head = world.head();
        let again = post(&world.server, path, "k", &body.to_string());
        assert_eq!((again.status, again.text()), (200, first.text()), "{path}");
        assert_eq!(world.head(), head, "{path}");
    }
}

#[test]
fn refused_write_leaves_no_record() {
    let world = World::new();
    let body =
        of_session(json!({"name": "later", "messages": [{"role": "user", "content": "x"}]})).to_string();
    post(&world.server, "/v1/sessions/append", "k", &body).refused(404, "NOT_FOUND");
    world.server.ok("sessions/create", of_session(json!({"name": "later"})).to_string());
    let done = post(&world.server, "/v1/sessions/append", "k", &body).json();
    assert_eq!(done["lines"], json!([1, 1]));
}

#[test]
fn idempotency_key_is_shared_between_chats() {
    let world = World::new();
    let in_chat =
        |chat: &str, name: &str| of_session(json!({"name": name, "chat": chat, "session": name})).to_string();
    let first = post(&world.server, "/v1/sessions/create", "k", &in_chat("trip", "a"));
    assert_eq!(first.status, 200, "{}", first.text());
    let head = world.head();
    let again = post(&world.server, "/v1/sessions/create", "k", &in_chat("trip", "a"));
    assert_eq!((again.status, again.text()), (200, first.text()));
    let other = post(&world.server, "/v1/sessions/create", "k", &in_chat("home", "a"));
    other.refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    assert_eq!(world.head(), head, "not even the other chat was made");
}
