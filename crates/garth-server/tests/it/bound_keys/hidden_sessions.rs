//! Sessions of the class `main` and keys with more listeners: in the past, while a call runs, and under the
//! name of another session.

use futures::executor::block_on;
use garth_agent::{Access, Caller, Request};
use garth_engine::model::Seq;
use serde_json::{Value, json};

use super::{WORDS, filled, with};
use crate::it::harness::Server;

/// Sessions of ann in a tree of hers.
const TOPS: [&str; 2] = ["/.user/session", "/ctx/home/ann/agent/scout/session"];

/// Returns the last commit of the account.
fn head(server: &Server) -> Seq {
    block_on(block_on(server.home.account("acme")).unwrap().head()).unwrap().seq
}

/// Removes a session of ann as its owner does on the command line.
fn remove(server: &Server, session: &str) {
    let account = block_on(server.home.account("acme")).unwrap();
    let request = Request::new("scout").user("ann");
    block_on(async {
        let access = Access::open(&account, server.home.env(), Caller::Holder, &request).await.unwrap();
        access.workspace().remove_session("ann", session).await.unwrap();
    });
}

/// Returns a key of each kind that does not see ann's sessions of the class `main`, with the fields of its
/// calls.
fn narrower(server: &Server) -> [(String, Value); 3] {
    let dm = json!({"agent": "scout", "user": "ann", "class": "dm"});
    let session = with(dm.clone(), &json!({"session": "ann-chat"}));
    [(server.bound_key(&dm), json!({})), (server.bound_key(&session), json!({})), (server.key.clone(), dm)]
}

/// Returns reads of a session of ann in the state after a commit.
fn reads(session: &str, then: Seq) -> Vec<(&'static str, Value)> {
    let at = then.0.to_string();
    let mut reads = Vec::new();
    for top in TOPS {
        let file = format!("{top}/{session}/messages.jsonl");
        let copy = |from: &str, recursive: bool| {
            let to = json!({"path": "/copied"});
            json!({"ops": [{"copy":
                {"from": {"path": from}, "to": to, "as_of": then.0, "recursive": recursive}}]})
        };
        reads.extend([
            ("tree/fetch", json!({"path": file, "at": at})),
            ("tree/stat", json!({"path": file, "at": at})),
            ("tree/history", json!({"path": file})),
            ("tree/diff", json!({"path": file, "from": at, "to": "1"})),
            ("tree/grep", json!({"path": top, "expressions": [WORDS[0]], "at": at})),
            ("tree/walk", json!({"path": top, "at": at})),
            ("tree/list", json!({"path": top, "at": at})),
            ("tree/glob", json!({"pattern": format!("{top}/**"), "at": at})),
            ("tree/commit", copy(&file, false)),
            ("tree/commit", copy(&format!("{top}/{session}"), true)),
        ]);
    }
    reads.push(("tree/changes", json!({})));
    reads
}

#[test]
fn removed_main_sessions_stay_hidden_in_the_past() {
    let server = filled();
    let then = head(&server);
    let main = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    remove(&server, "ann-chat");
    let file = json!({"path": format!("{}/ann-chat/messages.jsonl", TOPS[0]), "at": then.0.to_string()});
    assert!(server.post_as(&main, "tree/fetch", file.to_string()).status == 200, "it is there for its owner");
    for (key, named) in narrower(&server) {
        for (call, body) in reads("ann-chat", then) {
            let reply = server.post_as(&key, call, with(body.clone(), &named).to_string());
            let text = reply.text();
            assert!(!text.contains(WORDS[0]), "{call} {body} {named}: {text}");
            match call {
                "tree/fetch" | "tree/stat" | "tree/history" | "tree/commit" => {
                    assert!(reply.status >= 400, "{call} {body} {named}: {text}");
                }
                // The only session of a bound key is a directory of its tree, also if it is hidden.
                "tree/walk" | "tree/list" | "tree/changes" => {
                    assert!(!text.contains("messages.jsonl"), "{call} {body} {named}: {text}");
                }
                _ => {}
            }
        }
        let query = if named == json!({}) { "" } else { "&agent=scout&user=ann&class=dm" };
        for top in TOPS {
            let target = format!("/v1/fs{top}/ann-chat/messages.jsonl?at={}{query}", then.0);
            let headers = format!("authorization: Bearer {key}\r\n");
            let reply = server.request("GET", &target, &headers, b"");
            assert_eq!(reply.status, 404, "{target}: {}", reply.text());
        }
    }
}

#[test]
fn session_binding_follows_no_name_to_another_class() {
    let server = filled();
    let then = head(&server);
    remove(&server, "ann-chat");
    let dm = json!({"agent": "scout", "user": "ann", "class": "dm"});
    server.ok("sessions/create", with(json!({"name": "ann-chat"}), &dm).to_string());
    let said = json!({"name": "ann-chat", "messages": [{"role": "user", "content": "Of the new one."}]});
    server.ok("sessions/append", with(said, &dm).to_string());
    for (key, named) in narrower(&server) {
        let file = format!("{}/ann-chat/messages.jsonl", TOPS[1]);
        let lines =
            server.post_as(&key, "sessions/lines", with(json!({"name": "ann-chat"}), &named).to_string());
        assert!(lines.text().contains("Of the new one."), "{}", lines.text());
        for (call, body) in reads("ann-chat", then) {
            let text = server.post_as(&key, call, with(body.clone(), &named).to_string()).text();
            assert!(!text.contains(WORDS[0]), "{call} {body} {named}: {text}");
        }
        let history = with(json!({"path": file}), &named).to_string();
        let history = server.post_as(&key, "tree/history", history).json();
        let versions = history["items"].as_array().unwrap();
        // Created and appended to; nothing of the session before.
        assert_eq!(versions.len(), 2, "{history}");
    }
    // The name gets a session with fewer listeners again.
    remove(&server, "ann-chat");
    server.ok("sessions/create", json!({"agent": "scout", "user": "ann", "name": "ann-chat"}).to_string());
    for (key, named) in narrower(&server) {
        let lines = with(json!({"name": "ann-chat"}), &named).to_string();
        server.post_as(&key, "sessions/lines", lines).refused(404, "NOT_FOUND");
    }
}

#[test]
fn history_of_the_directory_lists_no_hidden_session() {
    let server = filled();
    let dm = server.bound_key(&json!({"agent": "scout", "user": "ann", "class": "dm"}));
    let seen = || {
        TOPS.map(|path| {
            let path = json!({"path": path}).to_string();
            let stat = server.post_as(&dm, "tree/stat", &*path);
            let history = server.post_as(&dm, "tree/history", path);
            assert_eq!((stat.status, history.status), (200, 200), "{}", history.text());
            (stat.text(), history.text())
        })
    };
    let before = seen();
    server.ok("sessions/create", r#"{"agent":"scout","user":"ann","name":"hidden"}"#);
    assert_eq!(seen(), before);
    assert!(before.iter().all(|(_, history)| !history.contains("ann-chat")), "{before:?}");
}

#[test]
fn shared_archives_show_no_empty_directory() {
    let server = filled();
    let account = block_on(server.home.account("acme")).unwrap();
    let path = garth_engine::TreePath::parse("/agents/scout/settings.json").unwrap();
    let settings = r#"{"owner":"ann","shared":{"sessions":"write"}}"#;
    block_on(account.commit(garth_engine::model::Op::write(path, settings).into())).unwrap();
    let key = server.bound_key(&json!({"agent": "scout", "user": "bob"}));
    let stat = |path: &str| server.post_as(&key, "tree/stat", json!({"path": path}).to_string());
    assert_eq!(stat("/.agent").status, 200);
    stat("/.agent/sessions").refused(404, "NOT_FOUND");
}

#[test]
fn quota_errors_tell_no_size_of_hidden_sessions() {
    let server = filled();
    let body = vec![b'x'; 100_001];
    // The session, the directory of sessions, and all of the audience.
    for quota in ["/users/ann/agents/scout/session/ann-chat", "/users/ann/agents/scout/session", "/users/ann"]
    {
        server.ok("admin/quotas/set", json!({"path": quota, "max_bytes": 100_000}).to_string());
        for (key, named) in narrower(&server) {
            let query = if named == json!({}) { "" } else { "agent=scout&user=ann&class=dm" };
            for (method, target) in [
                ("POST", "/v1/uploads?path=/.user/session/ann-chat/x&"),
                ("POST", "/v1/uploads?path=/.user/session/new/x&"),
                ("PUT", "/v1/fs/.user/session/ann-chat/x?"),
                ("PUT", "/v1/fs/.user/session/new/x?"),
                ("PUT", "/v1/fs/.user/x?"),
            ] {
                let headers = format!("authorization: Bearer {key}\r\n");
                let reply = server.request(method, &format!("{target}{query}"), &headers, &body);
                if reply.status < 400 {
                    continue;
                }
                let message = reply.envelope();
                assert!(!message.contains("100000") && !message.contains("are used"), "{target}: {message}");
            }
        }
        server.ok("admin/quotas/remove", json!({"path": quota}).to_string());
    }
    // The owner sees all of it.
    let main = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    let quota = json!({"path": "/users/ann/agents/scout/session/ann-chat", "max_bytes": 100_000});
    server.ok("admin/quotas/set", quota.to_string());
    let headers = format!("authorization: Bearer {main}\r\n");
    let target = "/v1/uploads?path=/.user/session/ann-chat/x";
    let message = server.request("POST", target, &headers, &body).refused(403, "QUOTA_EXCEEDED");
    assert!(message.contains("the quota of 100000 bytes"), "{message}");
    // It is no place for those who do not see the session.
    let dm = server.bound_key(&json!({"agent": "scout", "user": "ann", "class": "dm"}));
    let headers = format!("authorization: Bearer {dm}\r\n");
    server.request("POST", target, &headers, b"x").refused(403, "FORBIDDEN");
}
