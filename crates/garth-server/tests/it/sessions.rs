//! Sessions over HTTP.

use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;
use garth_engine::TreePath;
use garth_engine::datadir::Scope;
use garth_engine::model::{At, ByteRange, Op};
use garth_server::Options;
use garth_server::chat_model::{HttpModel, ServedModel};
use serde_json::{Value, json};

use super::chat_model::endpoint;
use super::harness::Server;

fn of(body: Value) -> String {
    let mut body = body;
    for (name, value) in [("agent", "coder"), ("user", "ann")] {
        if body.get(name).is_none() {
            body[name] = json!(value);
        }
    }
    body.to_string()
}

/// Starts a server on which Ann owns agent `coder`.
fn server() -> Server {
    let server = Server::start();
    server.own("coder", "ann");
    server
}

#[test]
fn sessions_are_created_appended_and_read() {
    let server = server();
    let made =
        server.ok("sessions/create", of(json!({"name": "work", "title": "T", "key": "agent:coder:main"})));
    assert_eq!((&made["session"]["state"], &made["session"]["meta"]["title"]), (&json!("idle"), &json!("T")));
    assert_eq!(server.ok("sessions/lines", of(json!({"name": "work"})))["items"], json!([]));
    let exact = r#"{"agent":"coder","user":"ann","name":"work","run":"r","messages":[
        {"role":"user","content":"hi"},
        {"role":"assistant","content":[{"type":"tool_call","id":"c","name":"n","arguments":{"x":12345678901234567890.50}}]}
    ],"events":[{"type":"tool.started"}],"usage":{"input_tokens":3,"output_tokens":4},"state":"active"}"#;
    let done = server.ok("sessions/append", exact);
    assert_eq!((&done["lines"], done["messages"].as_array().unwrap().len()), (&json!([1, 2]), 2));
    let reply = server.post("sessions/lines", of(json!({"name": "work", "source": "messages:1-2"}))).text();
    assert!(reply.contains("\"arguments\":{\"x\":12345678901234567890.50}"), "{reply}");
    let events = server.ok("sessions/lines", of(json!({"name": "work", "source": "events:1"})));
    assert_eq!((&events["log"], &events["items"][0]["value"]["run"]), (&json!("events"), &json!("r")));
    let current = server.ok("sessions/current", of(json!({"key": "agent:coder:main"})));
    assert_eq!(current["session"]["meta"]["usage"]["total_tokens"], json!(7));
    let resolved = server.ok("sessions/resolve", of(json!({"name": "work", "source": "user:latest"})));
    assert_eq!(resolved["source"], json!("work#messages:1-1"));
    server.ok("sessions/retract", of(json!({"name": "work", "source": "tail:1"})));
    let left = server.ok("sessions/lines", of(json!({"name": "work"})));
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    let all =
        server.ok("sessions/lines", of(json!({"name": "work", "source": "messages:1-2", "retracted": true})));
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    server.ok("sessions/set", of(json!({"name": "work", "state": "done"})));
    assert_eq!(server.ok("sessions/current", of(json!({"key": "agent:coder:main"})))["session"], json!(null));
    let new = server.ok("sessions/current", of(json!({"key": "agent:coder:main", "create": true})));
    assert_eq!(new["created"], json!(true));
    let page = server.ok("sessions/list", of(json!({"limit": 1})));
    assert_eq!((page["items"].as_array().unwrap().len(), &page["has_more"]), (1, &json!(true)));
}

#[test]
fn retractions_hide_messages_or_are_refused() {
    let server = server();
    server.ok("sessions/create", of(json!({"name": "work"})));
    let said: Vec<Value> = (1..=3).map(|n| json!({"role": "user", "content": format!("m{n}")})).collect();
    server.ok("sessions/append", of(json!({"name": "work", "messages": said})));
    let left = || {
        let lines = server.ok("sessions/lines", of(json!({"name": "work"})));
        lines["items"].as_array().unwrap().iter().map(|item| item["line"].clone()).collect::<Vec<_>>()
    };
    let long = "x".repeat(70_000);
    let call = json!({"name": "work", "source": "messages:1", "reason": long});
    server.post("sessions/retract", of(call)).refused(413, "PAYLOAD_TOO_LARGE");
    let append = |event: Value| {
        let mut event = event;
        event["type"] = json!("message.withdrawn");
        server.post("sessions/append", of(json!({"name": "work", "events": [event]})))
    };
    append(json!({"source": "messages:1-1", "reason": long})).refused(413, "PAYLOAD_TOO_LARGE");
    append(json!({"source": "messages:2-1000"})).refused(404, "NOT_FOUND");
    let said = append(json!({"source": "messages:3-2"})).refused(400, "VALIDATION_ERROR");
    assert!(said.contains("ends at line 2, before line 3"), "{said}");
    append(json!({"source": "messages:2-2", "span": "messages:1-3"})).refused(400, "VALIDATION_ERROR");
    assert_eq!(left(), [1, 2, 3]);
    assert_eq!(append(json!({"source": "messages:2-2", "pad": long})).json()["ok"], json!(true));
    assert_eq!(left(), [1, 3]);
    let more = json!({"name": "work", "messages": [{"role": "user", "content": "m4"}]});
    server.ok("sessions/append", of(more));
    assert_eq!(left(), [1, 3, 4]);
}

#[test]
fn rejects_invalid_sessions_and_messages() {
    let server = server();
    server.ok("sessions/create", of(json!({"name": "work"})));
    server.post("sessions/create", of(json!({"name": "work"}))).refused(409, "PATH_CONFLICT");
    server.post("sessions/get", of(json!({"name": "no"}))).refused(404, "NOT_FOUND");
    for (call, body) in [
        ("sessions/get", json!({"name": "a/b"})),
        ("sessions/get", json!({})),
        ("sessions/append", json!({"name": "work", "messages": [{"role": "developer", "content": "x"}]})),
        ("sessions/append", json!({"name": "work", "messages": "x"})),
        ("sessions/append", json!({"name": "work", "messages": ["x"]})),
        ("sessions/append", json!({"name": "work", "usage": 1})),
        ("sessions/append", json!({"name": "work", "messages": []})),
        ("sessions/lines", json!({"name": "work", "source": "state"})),
        ("sessions/lines", json!({"name": "work", "source": "messages:0"})),
        ("sessions/current", json!({"key": "main"})),
        ("sessions/current", json!({"key": "agent:coder:main", "title": "T"})),
        ("sessions/set", json!({"name": "work", "state": "tired"})),
        ("sessions/set", json!({"name": "work", "budget": 9, "no_budget": true})),
    ] {
        server.post(call, of(body)).refused(400, "VALIDATION_ERROR");
    }
    server.post("sessions/get", json!({"name": "work"}).to_string()).refused(400, "VALIDATION_ERROR");
    let reader = server.key("acme", &[Scope::MemoryRead]);
    server.post_as(&reader, "sessions/append", of(json!({"name": "work"}))).refused(403, "FORBIDDEN");
}

#[test]
fn group_chat_reaches_only_its_own_session() {
    let server = server();
    for user in ["ann", "bob"] {
        server.ok("sessions/create", of(json!({"user": user, "name": "work"})));
        let said =
            json!({"user": user, "name": "work", "messages": [{"role": "user", "content": "a canary"}]});
        server.ok("sessions/append", of(said));
    }
    let group = |call: &str, body: Value| {
        let mut body = body;
        for (name, value) in [("chat", "trip"), ("class", "group"), ("session", "g")] {
            body[name] = json!(value);
        }
        server.post(call, of(body))
    };
    assert_eq!(group("sessions/create", json!({"name": "g"})).status, 200);
    assert_eq!(group("sessions/list", json!({})).json()["items"].as_array().unwrap().len(), 1);
    for call in ["sessions/get", "sessions/lines"] {
        let refused = group(call, json!({"name": "work"})).refused(404, "NOT_FOUND");
        assert!(!refused.contains("canary"), "{refused}");
    }
    let main = of(json!({"chat": "trip", "name": "work"}));
    assert_eq!(server.ok("sessions/get", main)["session"]["name"], json!("work"));
}

#[test]
fn an_import_creates_the_first_session_of_anyone() {
    let server = server();
    let line = r#"{"role":"user","content":"a"}"#;
    let asked = [
        json!({"agent": "sc", "user": "dave"}),
        json!({"agent": "coder", "user": "bob"}),
        json!({"agent": "coder", "user": "eve", "key": "agent:coder:dm:eve"}),
        json!({"agent": "coder", "key": "agent:coder:telegram:group:g"}),
    ];
    for mut body in asked {
        for (name, value) in [("name", "z"), ("format", "openai"), ("transcript", line)] {
            body[name] = json!(value);
        }
        server.post("sessions/import", body.to_string()).refused(404, "NOT_FOUND");
        body["create"] = json!(true);
        let done = server.ok("sessions/import", body.to_string());
        assert_eq!((&done["new"], &done["lines"]), (&json!(1), &json!([1, 1])), "{body}");
    }
}

#[test]
fn transcripts_are_imported_and_exported() {
    let server = Server::start();
    server.ok("sessions/create", of(json!({"name": "work"})));
    let line = r#"{"role":"user","content":"hi","timestamp":1708300000000,"cost":1.50}"#;
    for new in [1, 0] {
        let body = of(json!({"name": "work", "format": "pi", "mode": "whole", "transcript": line}));
        assert_eq!(server.ok("sessions/import", body)["new"], json!(new));
    }
    let body = of(json!({"name": "work", "format": "pi", "transcript": line}));
    server.post("sessions/import", body).refused(409, "CONFLICT");
    // A part without an id, so a repeat is not recognized.
    let part = of(json!({"name": "parts", "create": true, "format": "pi", "mode": "part", "skip_bad": true,
        "transcript": format!("{line}\n{{")}));
    let done = server.ok("sessions/import", part);
    assert_eq!((&done["new"], &done["skipped"][0]["line"]), (&json!(1), &json!(2)), "{done}");
    assert!(done["warning"].as_str().unwrap().contains("Idempotency-Key"), "{done}");
    let rewound = of(json!({"name": "parts", "format": "openai", "rewind": true,
        "transcript": r#"{"role":"user","content":"ho"}"#}));
    assert_eq!(server.ok("sessions/import", rewound)["retracted"], json!([1, 1]));
    let reply = server.post("sessions/export", of(json!({"name": "work", "format": "pi"}))).text();
    assert!(reply.contains(line), "{reply}");
    let body = of(json!({"name": "work", "format": "markdown", "source": "messages:1"}));
    let section = &server.ok("sessions/export", body)["items"][0];
    assert!(section.as_str().unwrap().starts_with("## user 2024-"), "{section}");
    server.ok("sessions/retract", of(json!({"name": "work", "source": "messages:1"})));
    let gone = server.ok("sessions/export", of(json!({"name": "work", "format": "pi"})));
    assert_eq!(gone["items"], json!([]));
    let all = of(json!({"name": "work", "format": "openai", "retracted": true}));
    assert_eq!(server.ok("sessions/export", all)["items"], json!([{"role": "user", "content": "hi"}]));
    server.ok("sessions/create", of(json!({"name": "empty"})));
    assert_eq!(
        server.ok("sessions/export", of(json!({"name": "empty", "format": "pi"})))["items"],
        json!([])
    );
    for (call, body) in [
        ("sessions/import", json!({"name": "work", "format": "pi", "transcript": "{}"})),
        ("sessions/import", json!({"name": "work", "format": "x", "transcript": ""})),
        ("sessions/import", json!({"name": "work", "format": "pi"})),
        ("sessions/export", json!({"name": "work"})),
        ("sessions/export", json!({"name": "work", "format": "pi", "source": "state"})),
    ] {
        server.post(call, of(body)).refused(400, "VALIDATION_ERROR");
    }
    let reader = server.key("acme", &[Scope::MemoryRead]);
    let body = of(json!({"name": "work", "format": "pi", "transcript": line}));
    server.post_as(&reader, "sessions/import", body).refused(403, "FORBIDDEN");
}

#[test]
fn import_under_an_idempotency_key_has_no_warning() {
    let server = Server::start();
    // A part without an id, so a repeat is only recognized by its key.
    let part = of(json!({"name": "parts", "create": true, "format": "pi", "mode": "part",
        "transcript": r#"{"role":"user","content":"hi","timestamp":1708300000000}"#}));
    let headers = format!("authorization: Bearer {}\r\nidempotency-key: once\r\n", server.key);
    for _ in 0..2 {
        let done = server.request("POST", "/v1/sessions/import", &headers, part.as_bytes()).json();
        assert_eq!((&done["lines"], done.get("warning")), (&json!([1, 1]), None), "{done}");
    }
    let done = server.ok("sessions/import", &part);
    assert_eq!((&done["lines"], done["warning"].is_string()), (&json!([2, 2]), true), "{done}");
}

#[test]
fn context_is_packed_swapped_and_collected() {
    let server = Server::start();
    server.ok("sessions/create", of(json!({"name": "work"})));
    server.ok("context/pin", of(json!({"name": "work", "file": "system.md", "text": "You are a coder."})));
    let exact = r#"{"agent":"coder","user":"ann","name":"work","messages":[
        {"role":"user","content":"hi"},
        {"role":"assistant","content":[{"type":"tool_call","id":"c","name":"n","arguments":{"x":12345678901234567890.50}}]},
        {"role":"tool","content":[{"type":"tool_result","call_id":"c","content":"out"}]}
    ]}"#;
    server.ok("sessions/append", exact);
    let fact = json!({"id": "f1", "text": "It is out.", "source": "tool:c"});
    server.ok("context/derive", of(json!({"name": "work", "facts": [fact]})));
    let why = server.ok("context/why", of(json!({"name": "work", "id": "f1"})));
    assert_eq!((&why["entry"]["text"], &why["sources"][0]["lines"]), (&json!("It is out."), &json!([3, 3])));
    let packed = server.ok("context/pack", of(json!({"name": "work", "budget": 2000})));
    assert!(packed["content"].as_str().unwrap().contains("12345678901234567890.50"), "{packed}");
    let list = server.ok("context/replay", of(json!({"name": "work", "form": "openai"})));
    assert_eq!(list["content"]["messages"][3]["content"], json!("out"));
    server.ok(
        "sessions/append",
        of(json!({"name": "work", "messages": [{"role": "user", "content": "more"}]})),
    );
    server.ok("context/pack", of(json!({"name": "work", "budget": 2000})));
    let seq = server
        .ok("sessions/append", of(json!({"name": "work", "messages": [{"role": "user", "content": "x"}]})));
    server.ok("context/pack", of(json!({"name": "work", "budget": 2000})));
    let from = seq["seq"].to_string();
    let compared = server.ok("context/compare", of(json!({"name": "work", "from": from})));
    assert_eq!(compared["changed"][0]["to"]["range"], json!("1-5"));
    assert_eq!(compared["common_bytes"], compared["bytes"][0]);
    let entry =
        server.ok("context/swap-out", of(json!({"name": "work", "source": "messages:1", "summary": "s"})));
    let id = entry["entry"]["id"].clone();
    assert_eq!(server.ok("context/swapped", of(json!({"name": "work"})))["items"][0]["id"], id);
    server.ok("context/swap-in", of(json!({"name": "work", "id": id})));
    server.ok("context/dedup", of(json!({"name": "work", "sources": ["tool:c"]})));
    server.ok("context/spawn", of(json!({"name": "work", "id": "rev-1", "handoff": "Review it."})));
    let child = json!({"name": "work", "id": "rev-1", "status": "done", "result": "Fine."});
    assert_eq!(server.ok("context/set-child", of(child))["child"]["status"], json!("done"));
    let again = json!({"name": "work", "id": "rev-1", "status": "active"});
    server.post("context/set-child", of(again)).refused(409, "CONFLICT");
    assert_eq!(
        server.ok("context/children", of(json!({"name": "work"})))["items"][0]["session"],
        json!("rev-1")
    );
    assert_eq!(server.ok("context/gc", of(json!({"name": "work"})))["removed"], json!([]));
    server.post("context/pack", of(json!({"name": "work", "budget": 5}))).refused(422, "BUDGET_TOO_SMALL");
    for (call, body) in [
        ("context/derive", json!({"name": "work"})),
        ("context/pack", json!({"name": "work", "form": "xml"})),
        ("context/pack", json!({"name": "work", "budget": -1})),
        ("context/dedup", json!({"name": "work"})),
    ] {
        server.post(call, of(body)).refused(400, "VALIDATION_ERROR");
    }
    let nowhere = json!([{"id": "f", "text": "t", "source": "messages:9"}]);
    server.post("context/derive", of(json!({"name": "work", "facts": nowhere}))).refused(409, "CONFLICT");
    server.ok("sessions/set", of(json!({"name": "work", "budget": 3000})));
    assert_eq!(server.ok("context/pack", of(json!({"name": "work"})))["pack"]["budget_tokens"], json!(3000));
}

#[test]
fn swapped_files_keep_paths_of_their_tree() {
    let server = Server::start();
    server.own("scout", "ann");
    let call = |call: &str, body: Value| {
        let mut body = body;
        body["agent"] = json!("scout");
        body["user"] = json!("bob");
        server.ok(call, body.to_string())
    };
    let write = |path: &str, text: &str| {
        let op = json!({"op": "write", "path": path, "text": text, "parents": true});
        call("batch", json!({"session": "arts", "ops": [op]}));
    };
    call("sessions/create", json!({"name": "arts"}));
    call("sessions/append", json!({"name": "arts", "messages": [{"role": "user", "content": "canary"}]}));
    write("/art.txt", "one");
    let swapped =
        |source: &str| call("context/swap-out", json!({"name": "arts", "source": source}))["entry"].clone();
    let entry = swapped("/art.txt");
    assert_eq!(entry["source"], "/art.txt");
    let resolve = || call("sessions/resolve", json!({"name": "arts", "source": entry["source"]}));
    let before = resolve();
    // The same path as that of the file in the account.
    write("/chats/bob/art.txt", "other");
    assert_eq!(resolve(), before);
    let wrote = call("sessions/provenance", json!({"name": "arts"}))["items"].clone();
    let paths: Vec<&str> =
        wrote.as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert!(paths.contains(&"/art.txt") && paths.contains(&"/chats/bob/art.txt"), "{paths:?}");
    assert!(!paths.iter().any(|path| path.starts_with("/users")), "{paths:?}");

    // Retracted messages are left out of the log, by its path in the tree or, as in older entries, in the
    // account.
    let log = swapped("messages.jsonl");
    assert_eq!(log["source"], "/ctx/home/bob/agent/scout/session/arts/messages.jsonl");
    call("sessions/retract", json!({"name": "arts", "source": "messages:1"}));
    let show = || {
        let body = json!({"name": "arts", "id": log["id"], "agent": "scout", "user": "bob"});
        server.post("context/swap-show", body.to_string()).refused(404, "NOT_FOUND");
    };
    show();
    let account = block_on(server.home.account("acme")).unwrap();
    let index = "/users/bob/agents/scout/session/arts/context/swap/index.jsonl";
    let index = TreePath::parse(index).unwrap();
    let text = block_on(account.read(&At::from(&index), ByteRange::ALL)).unwrap();
    let text = String::from_utf8(text.to_vec()).unwrap();
    let older = text.replace("/ctx/home/bob/agent/scout/session/", "/users/bob/agents/scout/session/");
    assert_ne!(older, text);
    block_on(account.commit(Op::write(index, older).into())).unwrap();
    show();
}

#[test]
fn swapped_content_is_shown_as_it_was() {
    let server = server();
    server.ok("sessions/create", of(json!({"name": "work"})));
    let said = json!([{"role": "user", "content": "hello"}, {"role": "user", "content": "there"}]);
    server.ok("sessions/append", of(json!({"name": "work", "messages": said})));
    let account = block_on(server.home.account("acme")).unwrap();
    let write = |name: &str, bytes: &'static [u8]| {
        let path = TreePath::parse(&format!("/users/ann/agents/coder/session/work/{name}")).unwrap();
        block_on(account.commit(Op::write(path, Bytes::from_static(bytes)).into())).unwrap();
    };
    let swapped = |source: &str| {
        let done = server.ok("context/swap-out", of(json!({"name": "work", "source": source})));
        done["entry"]["id"].as_str().unwrap().to_owned()
    };
    let show = |id: &str, more: Value| {
        let mut body = json!({"name": "work", "id": id});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post("context/swap-show", of(body))
    };
    write("notes.md", b"of a file");
    write("image.bin", b"\xff\x00");
    let (file, image, message) = (swapped("notes.md"), swapped("image.bin"), swapped("messages:1"));
    write("notes.md", b"changed");
    for (range, text) in [
        (json!({}), "of a file"),
        (json!({"offset": 5, "length": 2}), "fi"),
        (json!({"offset": 8, "length": 100}), "e"),
        (json!({"offset": 9}), ""),
    ] {
        assert_eq!(show(&file, range).json(), json!({"id": file, "size": 9, "text": text}));
    }
    assert_eq!(show(&image, json!({})).json(), json!({"id": image, "size": 2, "base64": "/wA="}));
    let line = show(&message, json!({})).json();
    let line: Value = serde_json::from_str(line["text"].as_str().unwrap()).unwrap();
    assert_eq!(line["content"], "hello");
    assert_eq!(
        server.ok("context/swapped", of(json!({"name": "work"})))["items"].as_array().unwrap().len(),
        3
    );
    server.ok("sessions/retract", of(json!({"name": "work", "source": "messages:1"})));
    assert!(show(&message, json!({})).refused(404, "NOT_FOUND").contains("retracted"));
    show("sha256-none", json!({})).refused(404, "NOT_FOUND");
    show(&file, json!({"length": 0})).refused(400, "VALIDATION_ERROR");
    write(&format!("context/swap/chunk/{file}"), b"forged");
    show(&file, json!({})).refused(500, "CORRUPT");
}

#[test]
fn compaction_respects_daily_model_tokens() {
    let said = json!({
        "summary": "They met.", "todo": "- go on",
        "facts": [{"id": "f1", "text": "Ann says hello.", "source": "messages:1-1"}], "decisions": [], "refs": [],
    });
    let answer = json!({
        "choices": [{"message": {"content": said.to_string()}}], "usage": {"total_tokens": 90_000},
    });
    let (url, told) = endpoint(vec![(200, answer.to_string())]);
    let model = Arc::new(HttpModel::new(&url, "m", None).unwrap());
    let model = ServedModel { model, daily_tokens: Some(9_000) };
    let server = Server::start_with(Options::default().model(Some(model)));
    let say = |text: &str| {
        let message = json!({"role": "user", "content": text});
        server.ok("sessions/append", of(json!({"name": "work", "messages": [message]})));
    };
    server.ok("sessions/create", of(json!({"name": "work"})));
    say("Hello.");
    let left_out = server.ok("context/compact", of(json!({"name": "work", "keep": 0, "by_model": false})));
    assert_eq!((&left_out["by_model"], &left_out["lines"]), (&json!(false), &json!([1, 1])));
    say("Hello again.");
    let asked = server.ok("context/compact", of(json!({"name": "work", "keep": 0})));
    assert_eq!((&asked["by_model"], &asked["lines"]), (&json!(true), &json!([2, 2])));
    assert!(told.recv().unwrap().contains("Hello again."));
    say("And again.");
    let over = server.ok("context/compact", of(json!({"name": "work", "keep": 0})));
    assert_eq!(over["by_model"], json!(false), "the tokens of the day are used up");
    let without = Server::start();
    without.ok("sessions/create", of(json!({"name": "work"})));
    let asked = of(json!({"name": "work", "by_model": true}));
    without.post("context/compact", asked).refused(400, "VALIDATION_ERROR");
}

#[test]
fn decision_is_published_as_memory() {
    let server = Server::start();
    server.ok("sessions/create", of(json!({"name": "work"})));
    let message = json!({"role": "user", "content": "Use Rust."});
    server.ok("sessions/append", of(json!({"name": "work", "messages": [message]})));
    let decision = json!({"id": "d1", "decision": "Use Rust.", "source": "messages:1"});
    server.ok("context/derive", of(json!({"name": "work", "decisions": [decision]})));
    let uri = "ctx://acme/users/ann/memories/events/rust";
    let body = json!({"name": "work", "id": "d1", "uri": uri});
    let done = server.ok("context/publish", of(body.clone()));
    assert_eq!((&done["created"], &done["meta"]["provenance"]["entry"]), (&json!(true), &json!("d1")));
    assert_eq!(done["meta"]["provenance"]["sources"], json!(["work#messages:1-1"]));
    assert_eq!(server.ok("memories/get", json!({"uri": uri}).to_string())["text"], json!("Use Rust.\n"));
    let mut foreign = body.clone();
    foreign["uri"] = json!("ctx://other/users/ann/memories/events/rust");
    server.post("context/publish", of(foreign)).refused(403, "FORBIDDEN");
    // In a chat, through the tree of the agent there.
    let mut in_chat = body;
    in_chat["chat"] = json!("main");
    assert_eq!(server.ok("context/publish", of(in_chat.clone()))["changed"], json!(false));
    in_chat["uri"] = json!("ctx://acme/users/bob/memories/events/rust");
    assert_ne!(server.post("context/publish", of(in_chat)).status, 200, "another user's");
}

#[test]
fn provider_lists_contain_images_and_packs_names() {
    let server = server();
    server.ok("sessions/create", of(json!({"name": "work", "key": "agent:coder:main"})));
    // The header of a picture with one pixel.
    let data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAA=";
    let image = json!({"type": "image", "mime_type": "image/jpg", "data": data});
    let said = json!({"role": "user", "content": [{"type": "text", "text": "look"}, image]});
    server.ok("sessions/append", of(json!({"name": "work", "messages": [said]})));
    let packed = server.ok("context/pack", of(json!({"name": "work"})));
    assert!(packed["content"].as_str().unwrap().contains("media/agent:coder:main/"), "{packed}");
    for call in ["context/pack", "context/replay"] {
        let list = server.ok(call, of(json!({"name": "work", "form": "openai"})));
        let url = &list["content"]["messages"][0]["content"][1]["image_url"]["url"];
        assert_eq!(url, &json!(format!("data:image/png;base64,{data}")), "{list}");
        let list = server.ok(call, of(json!({"name": "work", "form": "anthropic"})));
        assert_eq!(list["content"]["messages"][0]["content"][1]["source"]["data"], json!(data), "{list}");
        assert_eq!(list["pack"], packed["pack"]);
    }
}
