//! Tests every call that writes, by the table of routes: it runs once even without room for its answer, and
//! its answer contains no stored data for a key that may not read.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use garth_engine::env::ManualClock;
use garth_engine::home::{NewKey, Scope};
use garth_engine::model::{Batch, Op, Seq, Timestamp};
use garth_engine::{Env, Home, TreePath};
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::route::{Length, Route, Run};
use super::router_of;
use super::served::Served;
use super::table::routes;
use crate::answers::Room;

/// Word that is stored by the setup, and by no call below.
const CANARY: &str = "canary";
/// All room of one account, in bytes.
const ALL_ROOM: usize = 32 << 20;
const MEMORIES: &str = "ctx://acme/users/ann/memories/events";

/// Server with something to change for each call.
struct Server {
    served: Served,
    key: String,
    /// Id of content that is swapped out, and key of a media file.
    swapped: String,
    media: String,
    _clock: ManualClock,
    _folder: TempDir,
}

impl Server {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (env, clock) = Env::manual(Timestamp(1_769_472_000_000_000_000));
        let home =
            garth_engine::DataDir::builder(garth_agent::registry()).env(env).open(folder.path()).unwrap();
        home.create_account("acme").await.unwrap();
        let key = new_key(&home, &[Scope::Admin]).await;
        let served = Served::new(std::sync::Arc::new(home), None, std::sync::Arc::default());
        let (swapped, media) = (String::new(), String::new());
        let mut server = Self { served, key, swapped, media, _clock: clock, _folder: folder };
        server.fill().await;
        server
    }

    async fn fill(&mut self) {
        let account = self.served.home.open("acme").await.unwrap();
        let settings = TreePath::parse("/agents/scout/settings.json").unwrap();
        let owned = Op::write(settings, r#"{"owner":"ann"}"#).with_parents();
        account.commit(Batch::new([owned])).await.unwrap();
        let skill = format!("---\nname: pdf\ndescription: {CANARY}\n---\n{CANARY}\n");
        let memory = |name: &str| json!({"uri": format!("{MEMORIES}/{name}"), "content": format!("A {CANARY} {name}."), "tags": [CANARY]});
        let edge = json!({"from_uri": format!("{MEMORIES}/one"), "to_uri": format!("{MEMORIES}/two"), "relation_type": CANARY});
        let said = |text: &str| json!({"role": "user", "content": text});
        let messages = [said(&format!("The {CANARY}.")), said(&"long ".repeat(2000)), said("Three.")];
        let entry = json!({"id": "d1", "decision": format!("Keep the {CANARY}."), "source": "messages:1"});
        let session = json!({"name": "work", "key": "agent:scout:main", "title": CANARY});
        let file = |text: &str| json!({"ops": [{"op": "write", "path": "/kept.md", "text": text}]});
        for (call, body) in [
            ("put", json!({"path": "/a", "value": CANARY})),
            ("memories/put", memory("one")),
            ("memories/put", memory("two")),
            ("memories/relate", edge),
            ("sessions/create", of_session(session)),
            ("sessions/append", of_session(json!({"name": "work", "messages": messages}))),
            ("context/derive", of_session(json!({"name": "work", "decisions": [entry]}))),
            ("context/spawn", of_session(json!({"name": "work", "id": "c1", "handoff": CANARY}))),
            ("agents/scout/daily/add", json!({"user": "ann", "text": CANARY})),
            ("agents/scout/skills/write", json!({"user": "ann", "path": "pdf/SKILL.md", "text": skill})),
            ("admin/rules/set", json!({"pattern": "/logs/**", "constraint": "append-only"})),
            ("admin/quotas/set", json!({"path": "/media", "max_entries": 1000})),
            ("admin/overlays/create", json!({"id": "draft"})),
            ("batch", file(CANARY)),
            ("admin/snapshots/create", json!({"name": "before"})),
            ("batch", file("later")),
        ] {
            let (status, answer) = self.post(&self.key, call, &body).await;
            assert_eq!(status, StatusCode::OK, "{call}: {answer}");
        }
        let out = of_session(json!({"name": "work", "source": "messages:2"}));
        let (_, answer) = self.post(&self.key, "context/swap-out", &out).await;
        self.swapped = parsed(&answer)["entry"]["id"].as_str().unwrap().to_owned();
        let upload = self.request(
            &self.key,
            "agents/scout/media?session_key=agent:scout:main&user=ann",
            "image/png",
            "bytes",
        );
        let (_, answer) = text(upload.await).await;
        self.media = parsed(&answer)["media"]["key"].as_str().unwrap().to_owned();
    }

    async fn post(&self, key: &str, call: &str, body: &Value) -> (StatusCode, String) {
        text(self.request(key, call, "application/json", &body.to_string()).await).await
    }

    async fn request(&self, key: &str, call: &str, mime_type: &str, body: &str) -> Response {
        let request = hyper::Request::post(format!("/v1/{call}"))
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", mime_type)
            .body(Body::from(body.to_owned()));
        let service = TowerToHyperService::new(router_of(self.served.clone()));
        service.call(request.unwrap()).await.unwrap_or_else(|never| match never {})
    }

    async fn commits(&self) -> Seq {
        self.served.home.open("acme").await.unwrap().head().await.unwrap().seq
    }

    /// Takes all room of the account, as slow readers would.
    fn take_room(&self) -> Room {
        self.served.answers.room_now("acme", ALL_ROOM).unwrap()
    }

    /// Returns a request that changes something, for a call that writes.
    fn body(&self, route: &Route) -> Value {
        let uri = |name: &str| format!("{MEMORIES}/{name}");
        let work = |body: Value| {
            let mut body = of_session(body);
            body["name"] = json!("work");
            body
        };
        let tags: Vec<String> = (0..64).map(|number| format!("{number:0200}")).collect();
        // Their ids make an answer that needs room.
        let messages: Vec<Value> =
            (0..1000).map(|number| json!({"role": "user", "content": number.to_string()})).collect();
        let front = "---\nname: md\ndescription: About it.\n---\nRead.\n";
        match route.path.trim_start_matches("/v1/") {
            "put" => json!({"path": "/b", "value": 1}),
            "put-many" => json!({"items": [{"path": "/b", "value": 1}, {"path": "/c/d", "value": 2}]}),
            "increment" => json!({"path": "/count"}),
            "expire" => json!({"path": "/a", "ttl_seconds": 60}),
            "delete" => json!({"path": "/a"}),
            "remember" => json!({"text": "Takes her coffee black.", "tags": tags}),
            "forget" => json!({"uri": uri("two")}),
            "memory-tool" => {
                of_session(json!({"command": "create", "path": "/memories/new.md", "file_text": "x"}))
            }
            "memories/put" => json!({"uri": uri("one"), "content": "Another text.", "tags": tags}),
            "memories/tag" => json!({"uri": uri("one"), "add": tags[1..]}),
            "memories/relate" => {
                json!({"from_uri": uri("two"), "to_uri": uri("one"), "relation_type": "after"})
            }
            "memories/unrelate" => json!({"from_uri": uri("one"), "to_uri": uri("two")}),
            "memories/move" => json!({"uri": uri("two"), "new_uri": uri("three")}),
            "memories/delete" => json!({"uri": uri("two")}),
            "sessions/create" => of_session(json!({"name": "new"})),
            "sessions/current" => of_session(json!({"key": "agent:scout:dm:ann", "create": true})),
            "sessions/set" => work(json!({"state": "active"})),
            "sessions/append" => work(json!({"messages": messages})),
            "sessions/retract" => work(json!({"source": "messages:1"})),
            "sessions/import" => {
                let text = r#"{"role":"user","content":"New."}"#;
                work(json!({"format": "openai", "mode": "part", "transcript": text}))
            }
            "context/derive" => work(json!({"summary": "Short."})),
            "context/pin" => work(json!({"file": "system.md", "text": "Be kind."})),
            "context/compact" => work(json!({"keep": 1})),
            "context/pack" => work(json!({})),
            "context/swap-out" => work(json!({"source": "messages:1", "summary": "s"})),
            "context/swap-in" => work(json!({"id": self.swapped})),
            "context/dedup" => work(json!({"sources": ["messages:2"]})),
            "context/spawn" => work(json!({"id": "c2"})),
            "context/set-child" => work(json!({"id": "c1", "status": "active"})),
            "context/gc" => work(json!({"dry": false})),
            "context/publish" => work(json!({"id": "d1", "uri": uri("four")})),
            "agents" | "agents/{agent}/create" => json!({"owner": "ann"}),
            "agents/{agent}/prompt" => json!({"user": "ann", "session": "work"}),
            "agents/{agent}/daily/add" => json!({"user": "ann", "text": "More."}),
            "agents/{agent}/reset" => json!({"user": "ann", "name": "work"}),
            "agents/{agent}/media/delete" => json!({"user": "ann", "key": self.media}),
            "agents/{agent}/media/copy" => json!({"user": "ann", "key": self.media, "name": "work"}),
            "agents/{agent}/skills/write" => json!({"user": "ann", "path": "md/SKILL.md", "text": front}),
            "agents/{agent}/skills/edit" => {
                json!({"user": "ann", "path": "pdf/SKILL.md", "old": "name: pdf", "new": "name: pdf2"})
            }
            "agents/{agent}/skills/install" => {
                json!({"user": "ann", "name": "md", "files": {"SKILL.md": front}})
            }
            "agents/{agent}/skills/publish" | "agents/{agent}/skills/delete" => {
                json!({"user": "ann", "name": "pdf"})
            }
            "batch" => json!({"ops": [{"op": "write", "path": "/new.md", "text": "x"}]}),
            "tree/commit" => {
                json!({"ops": [{"write": {"at": {"path": "/new.md"}, "body": {"bytes": "eA=="}}}]})
            }
            "tree/edit" => {
                let path = "/agents/scout/skills/pdf/SKILL.md";
                json!({"path": path, "old": "name: pdf", "new": "name: pdf2"})
            }
            "tree/restore" => json!({"path": "/kept.md", "at": "before"}),
            "admin/rules/set" => {
                json!({"pattern": "/a/**", "constraint": "max-size", "terms": {"bytes": 1000}})
            }
            "admin/rules/remove" => json!({"pattern": "/logs/**", "constraint": "append-only"}),
            "admin/quotas/set" => json!({"path": "/agents", "max_entries": 1000}),
            "admin/quotas/remove" => json!({"path": "/media"}),
            "admin/retention/set" => json!({"commits": 1_000_000}),
            "admin/overlays/create" => json!({"id": "fork"}),
            "admin/overlays/apply" | "admin/overlays/discard" => json!({"id": "draft"}),
            "admin/snapshots/create" => json!({"name": "after"}),
            "admin/snapshots/remove" => json!({"name": "before"}),
            other => panic!("{other} writes and has no request here: add one"),
        }
    }
}

/// Adds agent and user to a request on sessions.
fn of_session(mut body: Value) -> Value {
    (body["agent"], body["user"]) = (json!("scout"), json!("ann"));
    body
}

async fn new_key(home: &dyn Home, scopes: &[Scope]) -> String {
    home.issue_key(NewKey::new(Some("acme"), scopes)).await.unwrap().1.reveal().to_owned()
}

async fn text(response: Response) -> (StatusCode, String) {
    let status = response.status();
    let refusal =
        response.extensions().get::<crate::errors::Refusal>().map(|refusal| refusal.text().into_owned());
    let body: Bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, refusal.unwrap_or_else(|| String::from_utf8(body.to_vec()).unwrap()))
}

fn parsed(answer: &str) -> Value {
    serde_json::from_str(answer).unwrap()
}

/// Returns the calls in JSON that write, each with its path without `/v1/`, of agent `scout`.
fn writes() -> impl Iterator<Item = (&'static Route, String, Length)> {
    routes().filter_map(|route| match route.run {
        Run::Write(length, _) => {
            Some((route, route.path.trim_start_matches("/v1/").replace("{agent}", "scout"), length))
        }
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn write_without_answer_room_never_runs_twice() {
    let mut longest = 0;
    for (route, call, length) in writes() {
        let (free, full) = (Server::start().await, Server::start().await);
        let begin = full.commits().await;
        assert_eq!(free.commits().await, begin);
        let (status, answer) = free.post(&free.key, &call, &free.body(route)).await;
        assert_eq!(status, StatusCode::OK, "{call}: {answer}");
        let expected = free.commits().await;
        longest = longest.max(answer.len());

        let room = full.take_room();
        let (status, answer) = full.post(&full.key, &call, &full.body(route)).await;
        if length == Length::Long {
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{call}: {answer}");
            assert_eq!(full.commits().await, begin, "{call} was refused after its commit");
            drop(room);
            assert_eq!(full.post(&full.key, &call, &full.body(route)).await.0, StatusCode::OK, "{call}");
        } else {
            assert_eq!(status, StatusCode::OK, "{call}: {answer}");
        }
        assert_eq!(full.commits().await, expected, "{call} ran another number of times");
    }
    assert!(longest > 16 << 10, "an answer that takes room is among them");
}

#[test]
fn calls_with_by_model_wait_for_a_turn() {
    for route in routes() {
        let names_model = route.field_groups().flatten().any(|field| field.name == "by_model");
        assert_eq!(route.asks_model(), names_model, "{}", route.path);
    }
}

#[tokio::test]
async fn write_answers_hide_content_from_write_only_keys() {
    for (route, call, _) in writes() {
        let server = Server::start().await;
        let writer = new_key(&*server.served.home, &[Scope::MemoryWrite, Scope::FilesWrite]).await;
        let (status, answer) = server.post(&writer, &call, &server.body(route)).await;
        let needs_read = [Scope::MemoryRead, Scope::FilesRead, Scope::Admin]
            .iter()
            .any(|scope| route.scopes.contains(scope));
        assert_eq!(status == StatusCode::FORBIDDEN, needs_read, "{call}: {answer}");
        assert!(!answer.contains(CANARY), "{call}: {answer}");
    }
}

#[tokio::test]
async fn refused_writes_hide_content_from_write_only_keys() {
    let server = Server::start().await;
    let writer = new_key(&*server.served.home, &[Scope::MemoryWrite]).await;
    let (one, moved) = (format!("{MEMORIES}/one"), format!("{MEMORIES}/{CANARY}"));
    let to = json!({"uri": one, "new_uri": moved});
    assert_eq!(server.post(&server.key, "memories/move", &to).await.0, StatusCode::OK);
    let message = json!([{"id": "msg-1", "role": "user", "content": "x"}]);
    let old = of_session(json!({"name": "old"}));
    assert_eq!(server.post(&server.key, "sessions/create", &old).await.0, StatusCode::OK);
    let reset = json!({"user": "ann", "name": "old"});
    assert_eq!(server.post(&server.key, "agents/scout/reset", &reset).await.0, StatusCode::OK);
    let facts = json!([{"id": "f1", "text": "x", "source": "messages:99"}]);
    for (call, body, status) in [
        ("memories/delete", json!({"uri": one}), StatusCode::NOT_FOUND),
        ("memories/put", json!({"uri": moved, "content": "x", "if_version": 9}), StatusCode::CONFLICT),
        ("sessions/create", of_session(json!({"name": "work"})), StatusCode::CONFLICT),
        (
            "sessions/append",
            of_session(json!({"name": "work", "after": "msg-0", "messages": message})),
            StatusCode::NOT_FOUND,
        ),
        ("sessions/append", of_session(json!({"name": "old", "messages": message})), StatusCode::CONFLICT),
        ("agents/scout/reset", reset, StatusCode::CONFLICT),
        ("context/derive", of_session(json!({"name": "work", "facts": facts})), StatusCode::CONFLICT),
    ] {
        let (refused, told) = server.post(&writer, call, &body).await;
        assert_eq!(refused, status, "{call}: {told}");
        assert!(told.ends_with("details require a key with the scope `memory:read`"), "{call}: {told}");
        let (_, told) = server.post(&server.key, call, &body).await;
        assert!(!told.contains("details require a key"), "{call}: {told}");
    }
}

#[tokio::test]
async fn calls_without_effect_create_no_directories() {
    let server = Server::start().await;
    let begin = server.commits().await;
    let key = "agent:scout:slack:channel:C1";
    for (call, mut body) in [
        ("agents/scout/prompt", json!({"dry": true})),
        ("agents/scout/prompt", json!({"dry": true, "session": "work"})),
        ("sessions/current", json!({"agent": "scout", "key": key})),
        ("context/pack", json!({"agent": "scout", "name": "work", "dry": true})),
        ("context/gc", json!({"agent": "scout", "name": "work"})),
    ] {
        body["user"] = json!("stranger");
        let (status, answer) = server.post(&server.key, call, &body).await;
        assert!(status.is_success() || status == StatusCode::NOT_FOUND, "{call}: {answer}");
        assert_eq!(server.commits().await, begin, "{call} wrote");
    }
}

#[tokio::test]
async fn refused_writes_create_no_directories() {
    let server = Server::start().await;
    let mut refused = 0;
    for (route, call, _) in writes() {
        let mut body = server.body(route);
        if body.get("user").is_none() {
            continue;
        }
        body["user"] = json!("stranger");
        let begin = server.commits().await;
        let (status, answer) = server.post(&server.key, &call, &body).await;
        if !status.is_success() {
            refused += 1;
            assert_eq!(server.commits().await, begin, "{call} wrote, and answered {answer}");
        }
    }
    assert!(refused > 15, "{refused}");
}

#[tokio::test]
async fn set_child_hides_state_from_write_only_keys() {
    let server = Server::start().await;
    let spawn = of_session(json!({"name": "work", "id": "kid"}));
    assert_eq!(server.post(&server.key, "context/spawn", &spawn).await.0, StatusCode::OK);
    let writer = new_key(&*server.served.home, &[Scope::MemoryWrite]).await;
    for (key, is_told) in [(&writer, false), (&server.key, true)] {
        let (status, answer) = server.post(key, "context/set-child", &spawn).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["child"]["session"].is_string(), is_told, "{answer}");
    }
}

/// Returns directories to create, as operations of a commit.
fn directories(count: usize) -> Vec<Value> {
    (0..count).map(|number| json!({"mkdir": {"at": {"path": format!("/{number}")}}})).collect()
}

#[tokio::test(start_paused = true)]
async fn long_batch_without_answer_room_changes_nothing() {
    let server = Server::start().await;
    let lines = (0..100).map(|number| json!({"op": "mkdir", "path": format!("/{number:0200}")}));
    let batch = json!({"ops": lines.collect::<Vec<_>>()});
    for (call, body) in [("batch", batch), ("tree/commit", json!({"ops": directories(200)}))] {
        let begin = server.commits().await;
        let room = server.take_room();
        let (status, answer) = server.post(&server.key, call, &body).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{call}: {answer}");
        assert_eq!(server.commits().await, begin, "{call} was refused after its commit");
        drop(room);
        let (status, answer) = server.post(&server.key, call, &body).await;
        assert_eq!(status, StatusCode::OK, "{call}: {answer}");
        assert!(server.commits().await > begin, "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn answer_to_repeat_by_id_takes_its_room() {
    let server = Server::start().await;
    let id = "0".repeat(31) + "7";
    let first = json!({"ops": directories(200), "id": id});
    assert_eq!(server.post(&server.key, "tree/commit", &first).await.0, StatusCode::OK);
    let again = json!({"ops": [], "id": id});
    let room = server.take_room();
    let (status, answer) = server.post(&server.key, "tree/commit", &again).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
    drop(room);
    let (status, answer) = server.post(&server.key, "tree/commit", &again).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(parsed(&answer)["commit"]["outcomes"].as_array().unwrap().len(), 200);
}
