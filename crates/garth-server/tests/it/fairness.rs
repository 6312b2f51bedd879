//! No account stalls another: each route runs with a costly input in one account, while another account is
//! quiet. The test counts steps and pieces of work, never time.

mod transfers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;

use futures::FutureExt as _;
use futures::executor::block_on;
use futures::future::join_all;
use garth_engine::compute::{Computed, IN_PLACE};
use garth_engine::datadir::Scope;
use garth_engine::model::Op;
use garth_engine::{Env, TreePath};
use garth_server::reference::{self, BodyReference, CallReference};
use serde_json::{Value, json};

use super::harness::Server;

/// Bytes of the long texts. This is many times the limit for work in place.
const LONG: usize = 300_000;

fn words(bytes: usize) -> String {
    (0..).map(|n| format!("word{} ", n % 977)).take(bytes / 7).collect()
}

fn of(mut fields: Value) -> String {
    (fields["agent"], fields["user"]) = (json!("coder"), json!("ann"));
    fields.to_string()
}

/// Starts a server with the accounts `acme` and `quiet`. `acme` has much data of each kind.
fn server() -> (Server, String) {
    let server = Server::start();
    block_on(server.home.create_account("quiet")).unwrap();
    let quiet = server.key("quiet", &[Scope::Admin]);
    let tree = block_on(server.home.account("acme")).unwrap();
    let write = |name: String, text: String| {
        let path = TreePath::parse(&format!("/agents/coder/{name}")).unwrap();
        block_on(tree.commit(Op::write(path, text).with_parents().into())).unwrap();
    };
    for skill in 0..100 {
        let values = "[1, 2, 3], ".repeat(190);
        let text = format!("---\nname: s{skill}\nmetadata: {{x: [{values}]}}\n---\n{}", words(1000));
        write(format!("skills/s{skill}/SKILL.md"), text);
    }
    for name in ["AGENTS.md", "MEMORY.md", "SOUL.md"] {
        write(name.to_owned(), words(LONG));
    }
    for key in 0..100 {
        let value = words(9_000);
        let body = json!({"path": format!("/user/{key}"), "value": value, "searchable": true});
        server.ok("put", body.to_string());
    }
    server.own("coder", "ann");
    server.ok("sessions/create", of(json!({"name": "work", "key": "agent:coder:main"})));
    for _ in 0..3 {
        let message = json!({"role": "user", "content": words(LONG)});
        server.ok("sessions/append", of(json!({"name": "work", "messages": [message]})));
    }
    (server, quiet)
}

/// Route, call and body.
type Costly = (&'static str, &'static str, String);

const MEMORY: &str = "ctx://acme/users/ann/memories/events/long";

/// Returns each route with its costliest input, in an order in which each call finds the data it needs.
/// `HEAD` stands for the newest sequence of the account.
fn calls() -> Vec<Costly> {
    [
        of_values_and_memories(),
        of_sessions(),
        of_context(),
        of_workspace(),
        of_keys(),
        of_tree(),
        of_files_and_admin(),
    ]
    .concat()
}

fn of_files_and_admin() -> Vec<Costly> {
    let write = |n: usize| json!({"op": "write", "path": format!("/b{n}"), "text": words(2_000)});
    let schema = json!({"title": words(8_000)});
    let rule = json!({"pattern": "/r/**", "constraint": "json", "terms": {"schema": schema}});
    vec![
        ("/v1/batch", "batch", json!({"ops": (0..50).map(write).collect::<Vec<_>>()}).to_string()),
        ("/v1/uploads/discard", "uploads/discard", json!({"id": "0".repeat(32)}).to_string()),
        ("/v1/admin/rules/set", "admin/rules/set", rule.to_string()),
        ("/v1/admin/rules/list", "admin/rules/list", "{}".to_owned()),
        (
            "/v1/admin/rules/remove",
            "admin/rules/remove",
            json!({"pattern": "/r/**", "constraint": "json"}).to_string(),
        ),
        ("/v1/admin/quotas/set", "admin/quotas/set", json!({"path": "/r", "max_bytes": 1000}).to_string()),
        ("/v1/admin/quotas/list", "admin/quotas/list", "{}".to_owned()),
        ("/v1/admin/quotas/remove", "admin/quotas/remove", json!({"path": "/r"}).to_string()),
        ("/v1/admin/retention/set", "admin/retention/set", json!({"commits": 1_000_000}).to_string()),
        ("/v1/admin/retention/get", "admin/retention/get", "{}".to_owned()),
        ("/v1/admin/usage", "admin/usage", json!({"path": "/agents"}).to_string()),
        ("/v1/admin/snapshots/create", "admin/snapshots/create", json!({"name": "s"}).to_string()),
        ("/v1/admin/snapshots/list", "admin/snapshots/list", "{}".to_owned()),
        ("/v1/admin/snapshots/remove", "admin/snapshots/remove", json!({"name": "s"}).to_string()),
        ("/v1/admin/overlays/create", "admin/overlays/create", json!({"id": "draft"}).to_string()),
        ("/v1/admin/overlays/list", "admin/overlays/list", "{}".to_owned()),
        ("/v1/admin/overlays/diff", "admin/overlays/diff", json!({"id": "draft"}).to_string()),
        ("/v1/admin/overlays/apply", "admin/overlays/apply", json!({"id": "draft"}).to_string()),
        ("/v1/admin/overlays/discard", "admin/overlays/discard", json!({"id": "draft"}).to_string()),
        ("/v1/admin/accounts/collect", "admin/accounts/collect", "{}".to_owned()),
        ("/v1/admin/accounts/check", "admin/accounts/check", "{}".to_owned()),
        ("/v1/admin/accounts/reindex", "admin/accounts/reindex", "{}".to_owned()),
    ]
}

fn of_tree() -> Vec<Costly> {
    let long = json!({"path": "/agents/coder/MEMORY.md"});
    let many: Vec<&Value> = std::iter::repeat_n(&long, 100).collect();
    let bytes = "d29y".repeat(LONG / 4);
    let write = |n: usize| json!({"write": {"at": {"path": format!("/t{n}")}, "body": {"bytes": "eA=="}}});
    let ops: Vec<Value> = (0..1000).map(write).collect();
    vec![
        ("/v1/tree/capabilities", "tree/capabilities", "{}".to_owned()),
        ("/v1/tree/head", "tree/head", "{}".to_owned()),
        ("/v1/tree/wait", "tree/wait", json!({"since": 0, "wait_ms": 0}).to_string()),
        ("/v1/tree/stat", "tree/stat", long.to_string()),
        ("/v1/tree/names", "tree/names", long.to_string()),
        ("/v1/tree/list", "tree/list", json!({"path": "/agents/coder/skills", "entries": true}).to_string()),
        ("/v1/tree/walk", "tree/walk", json!({"entries": true, "limit": 10_000}).to_string()),
        (
            "/v1/tree/fetch",
            "tree/fetch",
            json!({"path": "/agents/coder/MEMORY.md", "length": 4 << 20}).to_string(),
        ),
        ("/v1/tree/fetch-many", "tree/fetch-many", json!({"items": many}).to_string()),
        ("/v1/tree/history", "tree/history", json!({"path": "/agents", "limit": 1000}).to_string()),
        ("/v1/tree/blame", "tree/blame", long.to_string()),
        ("/v1/tree/changes", "tree/changes", json!({"limit": 10_000}).to_string()),
        ("/v1/tree/snapshots", "tree/snapshots", "{}".to_owned()),
        (
            "/v1/tree/search",
            "tree/search",
            json!({"query": "word1 word2 word3 word4", "limit": 50, "per_file": 20, "context": 20})
                .to_string(),
        ),
        ("/v1/tree/find", "tree/find", json!({"tag": "none"}).to_string()),
        (
            "/v1/tree/grep",
            "tree/grep",
            json!({"expressions": ["word9[0-9]+ word[0-9]+ "], "before": 100, "after": 100, "max_line": 4000})
                .to_string(),
        ),
        // Thousands of states are active at each byte.
        ("/v1/tree/grep", "tree/grep", json!({"expressions": [r"[a-z0-9 ]*word9[a-z0-9 ]{4000}\{"]}).to_string()),
        ("/v1/tree/glob", "tree/glob", json!({"pattern": "/**", "entries": true}).to_string()),
        ("/v1/tree/diff", "tree/diff", json!({"path": "/", "from": "0"}).to_string()),
        ("/v1/tree/du", "tree/du", json!({"depth": 16}).to_string()),
        (
            "/v1/tree/edit",
            "tree/edit",
            json!({"path": "/agents/coder/MEMORY.md", "line": 0, "text": words(LONG)}).to_string(),
        ),
        ("/v1/tree/restore", "tree/restore", json!({"path": "/", "at": "HEAD"}).to_string()),
        (
            "",
            "tree/commit",
            json!({"ops": [{"write": {"at": {"path": "/long"}, "body": {"bytes": bytes}}}]}).to_string(),
        ),
        ("/v1/tree/commit", "tree/commit", json!({"ops": ops}).to_string()),
        ("/v1/tree/committed", "tree/committed", json!({"id": "0".repeat(32)}).to_string()),
        ("/v1/tree/sync", "tree/sync", "{}".to_owned()),
    ]
}

fn work(fields: Value) -> String {
    let mut fields = fields;
    fields["name"] = json!("work");
    of(fields)
}

fn of_values_and_memories() -> Vec<Costly> {
    let memory = MEMORY;
    let other = "ctx://acme/users/ann/memories/events/other";
    let edge =
        json!({"from_uri": memory, "to_uri": other, "relation_type": "about", "weight": 0.5, "reason": "r"});
    let values = |key: &str| json!({"path": key, "value": words(LONG), "searchable": true}).to_string();
    let paths: Vec<String> = (0..100).map(|key| format!("/user/{key}")).collect();
    vec![
        ("/v1/put", "put", values("/user/long")),
        (
            "/v1/put-many",
            "put-many",
            json!({"items": [{"path": "/user/many", "value": words(LONG), "searchable": true}]}).to_string(),
        ),
        ("/v1/get", "get", json!({"path": "/user/long"}).to_string()),
        ("/v1/get-many", "get-many", json!({"paths": paths}).to_string()),
        ("/v1/increment", "increment", json!({"path": "/user/count"}).to_string()),
        ("/v1/expire", "expire", json!({"path": "/user/long", "ttl_seconds": 60}).to_string()),
        ("/v1/list", "list", json!({"prefix": "/user"}).to_string()),
        ("/v1/glob", "glob", json!({"pattern": "/**/*1*/**"}).to_string()),
        ("/v1/history", "history", json!({"path": "/user/long"}).to_string()),
        ("/v1/search", "search", json!({"query": "word1 word2 word3 word4", "limit": 50}).to_string()),
        (
            "/v1/search",
            "search",
            json!({"query": "word1 word2 word3 word4", "kinds": [], "limit": 50, "per_file": 20, "context": 20})
                .to_string(),
        ),
        ("/v1/delete", "delete", json!({"path": "/user/long"}).to_string()),
        ("/v1/memories/put", "memories/put", json!({"uri": memory, "content": words(LONG)}).to_string()),
        ("/v1/memories/get", "memories/get", json!({"uri": memory, "layer": 2}).to_string()),
        ("/v1/memories/exists", "memories/exists", json!({"uri": memory}).to_string()),
        ("/v1/memories/list", "memories/list", json!({"prefix": "ctx://acme/users/ann"}).to_string()),
        ("/v1/memories/log", "memories/log", json!({"uri": memory}).to_string()),
        ("/v1/memories/tag", "memories/tag", json!({"uri": memory, "add": ["a"]}).to_string()),
        ("/v1/remember", "remember", json!({"text": words(LONG)}).to_string()),
        ("/v1/forget", "forget", json!({"text": words(LONG)}).to_string()),
        ("", "memory-tool", of(json!({"command": "create", "path": "/memories/a.md", "file_text": words(LONG)}))),
        (
            "",
            "memory-tool",
            of(json!({"command": "str_replace", "path": "/memories/a.md", "old_str": "word1 word2", "new_str": "x"})),
        ),
        ("/v1/memory-tool", "memory-tool", of(json!({"command": "view", "path": "/memories/a.md"}))),
        ("", "memories/put", json!({"uri": other, "content": words(LONG)}).to_string()),
        ("/v1/memories/relate", "memories/relate", edge.to_string()),
        ("/v1/memories/relations", "memories/relations", json!({"uri": memory}).to_string()),
        (
            "/v1/memories/unrelate",
            "memories/unrelate",
            json!({"from_uri": memory, "to_uri": other}).to_string(),
        ),
        (
            "/v1/memories/move",
            "memories/move",
            json!({"uri": other, "new_uri": format!("{other}-2")}).to_string(),
        ),
        ("/v1/memories/delete", "memories/delete", json!({"uri": format!("{other}-2")}).to_string()),
    ]
}

fn of_sessions() -> Vec<Costly> {
    let lines: String = (0..3_000)
        .map(|n| json!({"role": "user", "content": format!("Line {n}: {}", words(200))}).to_string() + "\n")
        .collect();
    vec![
        ("/v1/sessions/create", "sessions/create", of(json!({"name": "second"}))),
        ("/v1/sessions/get", "sessions/get", work(json!({}))),
        ("/v1/sessions/list", "sessions/list", of(json!({}))),
        ("/v1/sessions/current", "sessions/current", of(json!({"key": "agent:coder:main"}))),
        ("/v1/sessions/set", "sessions/set", work(json!({"title": "T"}))),
        (
            "/v1/sessions/append",
            "sessions/append",
            work(json!({"messages": [{"role": "user", "content": words(LONG)}]})),
        ),
        ("/v1/sessions/lines", "sessions/lines", work(json!({"source": "messages:1-3"}))),
        ("/v1/sessions/resolve", "sessions/resolve", work(json!({"source": "messages:1-3"}))),
        (
            "/v1/sessions/import",
            "sessions/import",
            of(json!({"name": "second", "format": "openai", "transcript": lines})),
        ),
        ("/v1/sessions/export", "sessions/export", work(json!({"format": "markdown"}))),
    ]
}

fn of_context() -> Vec<Costly> {
    let fact = json!({"id": "f1", "text": words(2_000), "source": "messages:1-3"});
    let decision = json!({"id": "d1", "decision": words(2_000), "source": "messages:1"});
    vec![
        ("/v1/context/derive", "context/derive", work(json!({"facts": [fact], "decisions": [decision]}))),
        ("/v1/context/why", "context/why", work(json!({"id": "f1"}))),
        ("/v1/context/pin", "context/pin", work(json!({"file": "system.md", "text": words(40_000)}))),
        ("/v1/context/pack", "context/pack", work(json!({"budget": 900_000}))),
        ("/v1/context/replay", "context/replay", work(json!({"form": "openai"}))),
        ("/v1/context/compare", "context/compare", work(json!({"from": "HEAD"}))),
        ("/v1/context/dedup", "context/dedup", work(json!({"sources": ["messages:1-3"]}))),
        ("/v1/context/swap-out", "context/swap-out", work(json!({"source": "messages:2", "summary": "s"}))),
        ("/v1/context/swapped", "context/swapped", work(json!({}))),
        ("/v1/context/swap-in", "context/swap-in", work(json!({"id": "none"}))),
        ("/v1/context/swap-show", "context/swap-show", work(json!({"id": "none"}))),
        ("/v1/context/spawn", "context/spawn", work(json!({"id": "r1", "handoff": words(20_000)}))),
        ("/v1/context/children", "context/children", work(json!({}))),
        (
            "/v1/context/set-child",
            "context/set-child",
            work(json!({"id": "r1", "status": "done", "result": words(20_000)})),
        ),
        ("/v1/sessions/provenance", "sessions/provenance", work(json!({}))),
        ("/v1/context/publish", "context/publish", work(json!({"id": "d1", "uri": MEMORY}))),
        ("/v1/sessions/retract", "sessions/retract", work(json!({"source": "messages:1"}))),
        ("/v1/context/compact", "context/compact", work(json!({"keep": 0, "by_model": false}))),
        ("/v1/context/gc", "context/gc", work(json!({}))),
    ]
}

fn of_workspace() -> Vec<Costly> {
    let skill = format!("---\nname: s\nmetadata: {{x: [{}]}}\n---\n{}", "1, ".repeat(1_900), words(200_000));
    vec![
        ("/v1/agents", "agents", "{}".to_owned()),
        ("/v1/agents/{agent}/create", "agents/coder/create", "{}".to_owned()),
        (
            "/v1/agents/{agent}/prompt",
            "agents/coder/prompt",
            json!({"user": "ann", "session": "work", "form": "anthropic"}).to_string(),
        ),
        (
            "/v1/agents/{agent}/prompt/compare",
            "agents/coder/prompt/compare",
            json!({"user": "ann", "session": "work", "from": "HEAD", "inputs": {}}).to_string(),
        ),
        (
            "/v1/agents/{agent}/daily/add",
            "agents/coder/daily/add",
            json!({"user": "ann", "text": words(LONG)}).to_string(),
        ),
        ("/v1/agents/{agent}/daily/get", "agents/coder/daily/get", json!({"user": "ann"}).to_string()),
        ("/v1/agents/{agent}/daily/list", "agents/coder/daily/list", json!({"user": "ann"}).to_string()),
        (
            "/v1/agents/{agent}/skills/install",
            "agents/coder/skills/install",
            json!({"user": "ann", "name": "new", "files": {"SKILL.md": skill}}).to_string(),
        ),
        ("/v1/agents/{agent}/skills/list", "agents/coder/skills/list", json!({"user": "ann"}).to_string()),
        ("/v1/agents/{agent}/skills/get", "agents/coder/skills/get", json!({"user": "ann", "name": "new"}).to_string()),
        (
            "/v1/agents/{agent}/skills/read",
            "agents/coder/skills/read",
            json!({"user": "ann", "path": "new/SKILL.md"}).to_string(),
        ),
        (
            "/v1/agents/{agent}/skills/write",
            "agents/coder/skills/write",
            json!({"user": "ann", "path": "new/more.md", "text": words(LONG / 2)}).to_string(),
        ),
        (
            "/v1/agents/{agent}/skills/edit",
            "agents/coder/skills/edit",
            json!({"user": "ann", "path": "new/SKILL.md", "old": "name: s\n", "new": "name: t\n"}).to_string(),
        ),
        (
            "/v1/agents/{agent}/skills/publish",
            "agents/coder/skills/publish",
            json!({"user": "ann", "name": "new"}).to_string(),
        ),
        (
            "/v1/agents/{agent}/skills/delete",
            "agents/coder/skills/delete",
            json!({"user": "ann", "name": "new"}).to_string(),
        ),
        (
            "/v1/agents/{agent}/media/list",
            "agents/coder/media/list",
            json!({"user": "ann", "session_key": "agent:coder:main"}).to_string(),
        ),
        (
            "/v1/agents/{agent}/media/copy",
            "agents/coder/media/copy",
            json!({"user": "ann", "key": "media/agent%3Acoder%3Amain/0190a0f0-0000-7000-8000-000000000000.png", "name": "work"})
                .to_string(),
        ),
        (
            "/v1/agents/{agent}/media/delete",
            "agents/coder/media/delete",
            json!({"user": "ann", "key": "media/agent%3Acoder%3Amain/0190a0f0-0000-7000-8000-000000000000.png"}).to_string(),
        ),
        (
            "/v1/recall",
            "recall",
            json!({"question": "word1 word2 word3 word4", "budget": 20_000}).to_string(),
        ),
        (
            "/v1/agents/{agent}/reset",
            "agents/coder/reset",
            json!({"user": "ann", "name": "work", "by_model": false}).to_string(),
        ),
        ("/v1/agents/{agent}/archives", "agents/coder/archives", "{}".to_owned()),
        (
            "/v1/agents/{agent}/transcript",
            "agents/coder/transcript",
            json!({"user": "ann", "name": "work", "format": "openai"}).to_string(),
        ),
    ]
}

fn of_keys() -> Vec<Costly> {
    let id = json!({"id": "0123456789abcdef"}).to_string();
    vec![
        ("/v1/admin/keys/create", "admin/keys/create", json!({"label": "x".repeat(256)}).to_string()),
        ("/v1/admin/keys/list", "admin/keys/list", json!({"limit": 500}).to_string()),
        ("/v1/admin/keys/rotate", "admin/keys/rotate", id.clone()),
        ("/v1/admin/keys/revoke", "admin/keys/revoke", id),
        ("/v1/admin/accounts/create", "admin/accounts/create", json!({"account": "new"}).to_string()),
        ("/v1/admin/accounts/list", "admin/accounts/list", json!({"limit": 500}).to_string()),
        (
            "/v1/admin/accounts/delete",
            "admin/accounts/delete",
            json!({"account": "new", "confirm": "new"}).to_string(),
        ),
    ]
}

fn made(before: Computed, after: Computed) -> [u64; 3] {
    let steps = after.steps - before.steps;
    [after.pieces - before.pieces, steps, after.steps_in_place - before.steps_in_place]
}

/// Takes the share of `acme` of the threads that compute. It is given back once the gates are dropped, and
/// the future then ends.
fn taken(env: &Env) -> (Vec<mpsc::Sender<()>>, impl Future<Output = Vec<garth_engine::Result<()>>> + Unpin) {
    let (gates, held): (Vec<_>, Vec<_>) = (0..20)
        .map(|_| {
            let (open, opened) = mpsc::channel::<()>();
            let work = async move {
                let _ = opened.recv();
            };
            (open, env.compute("acme", 1, work))
        })
        .unzip();
    let mut held = join_all(held);
    // The first poll begins the work.
    assert!((&mut held).now_or_never().is_none());
    (gates, held)
}

#[test]
fn routes_compute_off_workers_without_stalling_others() {
    let (server, quiet) = server();
    let (env, tree) = (server.home.env().clone(), block_on(server.home.account("acme")).unwrap());
    let covered: BTreeSet<&str> =
        calls().iter().map(|call| call.0).filter(|route| !route.is_empty()).collect();
    let routes: BTreeMap<&str, CallReference> =
        reference::calls().into_iter().map(|route| (route.path, route)).collect();
    let in_json = routes.values().filter(|route| route.body == BodyReference::Json);
    let missing: Vec<_> = in_json.map(|route| route.path).filter(|path| !covered.contains(path)).collect();
    assert!(missing.is_empty(), "name the costliest input of {missing:?}");

    let mut refused = Vec::new();
    for (route, call, body) in calls() {
        let body = body.replace("HEAD", &block_on(tree.head()).unwrap().seq.0.to_string());
        let before = env.computed();
        let reply = server.post(call, &body);
        // A function that computes on a worker thread panics, which is a 500.
        assert!(reply.status < 500, "{route}: {}", reply.text());
        let is_small = [
            "context/swap-in",
            "context/swap-show",
            "agents/coder/media/copy",
            "agents/coder/media/delete",
            "admin/keys/rotate",
            "admin/keys/revoke",
            // For keys of the data folder.
            "admin/accounts/create",
            "admin/accounts/delete",
        ]
        .contains(&call);
        if reply.status != 200 && !is_small {
            refused.push(format!("{call}: {}", reply.text()));
        }
        let [pieces, steps, steps_in_place] = made(before, env.computed());
        assert!(steps_in_place <= IN_PLACE as u64, "{route}: {steps_in_place} steps in place");
        if routes.get(route).is_none_or(|route| route.computes) {
            assert!(pieces >= 1, "{route} runs where requests are handled, after {steps} steps");
        }
    }

    assert!(refused.is_empty(), "{}", refused.join("\n"));

    // The account's share of the threads is taken, so its calls wait.
    let (gates, held) = taken(&env);
    let answered = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let waiting = ["memories/list", "recall", "agents/coder/prompt", "agents/coder/skills/list"];
        for (_, call, body) in calls().into_iter().filter(|call| waiting.contains(&call.1)) {
            let (server, answered) = (&server, &answered);
            scope.spawn(move || {
                assert!(server.post(call, body).status < 500, "{call}");
                answered.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        for (route, call, body) in calls() {
            let body = body.replace("ctx://acme/", "ctx://quiet/").replace("HEAD", "1");
            let reply = server.post_as(&quiet, call, &body);
            assert!(reply.status < 500, "{route}: {}", reply.text());
            let [_, _, steps_in_place] = made(Computed::default(), env.computed());
            assert!(steps_in_place < (IN_PLACE * calls().len()) as u64, "{route}");
        }
        assert_eq!(
            answered.load(std::sync::atomic::Ordering::SeqCst),
            0,
            "they wait for their account's turn"
        );
        drop(gates);
    });
    assert!(block_on(held).iter().all(Result::is_ok));
}

#[test]
fn quiet_account_needs_constant_turns_per_call() {
    let (server, quiet) = server();
    let env = server.home.env().clone();
    assert_eq!(server.post_as(&quiet, "put", r#"{"path":"/a","value":1}"#).status, 200);
    for (call, body, pieces) in [
        ("get", r#"{"path":"/a"}"#, 0),
        ("put", r#"{"path":"/a","value":2}"#, 0),
        ("list", "{}", 0),
        ("glob", r#"{"pattern":"/*"}"#, 1),
        ("sessions/list", r#"{"agent":"coder","user":"ann"}"#, 1),
    ] {
        let before = env.computed();
        assert_eq!(server.post_as(&quiet, call, body).status, 200, "{call}");
        assert_eq!(made(before, env.computed())[0], pieces, "{call}");
    }
}
