//! Keys that are bound to an agent, user, session key, chat, class, session or path. Each limit holds for a
//! call of each family, and for what calls have in common: idempotency keys, snapshots, completed names.

mod hidden_sessions;
mod prefix;

use futures::executor::block_on;
use garth_engine::TreePath;
use garth_engine::model::{Author, Batch, ByteRange, Op};
use garth_server::reference;
use serde_json::{Value, json};

use super::harness::{Reply, Server};

const CHANNEL: &str = "agent:scout:slack:channel:C1";
const SECOND: &str = "agent:scout:slack:channel:C2";

/// Words in the texts of ann, who owns the agent, of bob, of a channel, and in the values of the agent.
const WORDS: [&str; 4] = ["annsword", "bobsword", "channelsword", "valuesword"];

/// A call of each family, with the fields that name nobody.
const CALLS: [(&str, &str); 9] = [
    ("get", r#"{"path":"/plan"}"#),
    ("search", r#"{"query":"annsword bobsword channelsword valuesword","kinds":[]}"#),
    ("memories/list", "{}"),
    ("sessions/list", "{}"),
    ("context/children", r#"{"name":"bob-chat"}"#),
    ("agents/{agent}/daily/list", "{}"),
    ("agents/{agent}/prompt", r#"{"dry":true}"#),
    ("agents/{agent}/skills/list", "{}"),
    ("recall", r#"{"question":"annsword bobsword channelsword valuesword","budget":8000}"#),
];

/// Starts a server on which ann, bob and a channel each have a session, a memory and a day.
fn filled() -> Server {
    let server = Server::start();
    server.own("scout", "ann");
    let value = |agent: &str, path: &str, value: &str| {
        json!({"agent_id": agent, "path": path, "value": value, "searchable": true}).to_string()
    };
    server.ok("put", value("scout", "/plan", "valuesword"));
    server.ok("put", value("scout", "/faq/one", "valuesword"));
    server.ok("put", value("other", "/plan", "annsword"));
    for (who, word, session, audience) in [
        (json!({"user": "ann"}), WORDS[0], "ann-chat", "ann"),
        (json!({"user": "bob"}), WORDS[1], "bob-chat", "bob"),
        (json!({"user": "bob"}), WORDS[1], "bob-other", "bob"),
        (json!({"key": CHANNEL}), WORDS[2], "channel-chat", "%3Aslack%3Achannel%3AC1"),
    ] {
        let with = |body: Value| with(body, &who).to_string();
        server.ok("sessions/create", with(json!({"agent": "scout", "name": session})));
        let messages = [json!({"role": "user", "content": format!("The {word} of {session}.")})];
        let said = json!({"agent": "scout", "name": session, "messages": messages});
        server.ok("sessions/append", with(said));
        server.ok("agents/scout/daily/add", with(json!({"text": format!("Heard of {word}.")})));
        let uri = format!("ctx://acme/users/{audience}/memories/events/{session}");
        let content = format!("The {word} drinks tea.");
        let memory = json!({"uri": uri, "content": content, "tags": [word]});
        server.ok("memories/put", memory.to_string());
    }
    server
}

/// Returns an object with the fields of both.
fn with(mut one: Value, more: &Value) -> Value {
    one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    one
}

/// Returns the fields among these that a call has.
fn taken(call: &str, named: &Value) -> Value {
    let path = format!("/v1/{call}");
    let found = reference::calls().into_iter().find(|known| known.path == path).unwrap();
    let has = |name: &str| found.fields.iter().any(|field| field.name == name);
    named.as_object().unwrap().clone().into_iter().filter(|(name, _)| has(name)).collect()
}

/// Returns true if a call has all of these fields; the agent may be in its path.
fn takes(call: &str, named: &Value) -> bool {
    let in_path = usize::from(call.contains("{agent}") && !named["agent"].is_null());
    taken(call, named).as_object().unwrap().len() + in_path == named.as_object().unwrap().len()
}

/// Sends a call with a key, and those names that the call has.
fn send(server: &Server, key: &str, (call, body): (&str, &str), named: &Value) -> Reply {
    let agent = named["agent"].as_str().unwrap_or("scout");
    let body = with(serde_json::from_str(body).unwrap(), &taken(call, named));
    server.post_as(key, &call.replace("{agent}", agent), body.to_string())
}

fn send_once(server: &Server, key: &str, idempotency: &str, (call, body): (&str, Value)) -> Reply {
    let headers = format!("authorization: Bearer {key}\r\nidempotency-key: {idempotency}\r\n");
    server.request("POST", &format!("/v1/{call}"), &headers, body.to_string().as_bytes())
}

/// Asserts that a text has these words and none of the others.
fn assert_shows(text: &str, words: &[&str], what: &str) {
    for word in WORDS {
        assert_eq!(text.contains(word), words.contains(&word), "{what}, {word}: {text}");
    }
}

#[test]
fn bound_key_rejects_other_names_in_each_family() {
    let server = filled();
    for (binding, named) in [
        (json!({"agent": "scout"}), json!({"agent": "other"})),
        (json!({"agent": "scout"}), json!({"agent_id": "other"})),
        (json!({"agent": "scout", "user": "bob"}), json!({"user": "ann"})),
        (json!({"agent": "scout", "user": "bob"}), json!({"key": CHANNEL})),
        (json!({"agent": "scout", "user": "bob"}), json!({"class": "group", "chat": "trip"})),
        (json!({"key": CHANNEL}), json!({"key": SECOND})),
        (json!({"key": CHANNEL}), json!({"key": "agent:scout:main"})),
        (json!({"agent": "scout", "chat": "trip"}), json!({"chat": "other"})),
        (json!({"agent": "scout", "session": "bob-chat"}), json!({"session": "ann-chat"})),
    ] {
        let key = server.bound_key(&binding);
        let calls: Vec<_> = CALLS.into_iter().filter(|(call, _)| takes(call, &named)).collect();
        assert!(!calls.is_empty(), "{named}");
        for call in calls {
            let reply = send(&server, &key, call, &named);
            let message = reply.refused(403, "FORBIDDEN");
            assert!(message.contains("bound to"), "{binding} {call:?} {named}: {message}");
        }
    }
}

#[test]
fn bound_key_completes_names_in_each_family() {
    let server = filled();
    let bob = server.bound_key(&json!({"agent": "scout", "user": "bob"}));
    for call in CALLS {
        let reply = send(&server, &bob, call, &json!({}));
        assert_eq!(reply.status, 200, "{call:?}: {}", reply.text());
        let text = reply.text();
        let shown: &[&str] = match call.0 {
            "search" | "recall" | "memories/list" | "agents/{agent}/prompt" => &["bobsword"],
            _ => &[],
        };
        // Names of sessions and days have no word.
        assert_shows(&text, shown, call.0);
    }
    let list = server.post_as(&bob, "sessions/list", "{}").json();
    let names: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
    assert_eq!(names, ["bob-chat", "bob-other"]);
}

#[test]
fn search_names_the_agent_of_a_user_bound_key() {
    let server = filled();
    let key = server.bound_key(&json!({"user": "ann"}));
    let search = |body: Value| {
        let body = with(json!({"query": "valuesword", "kinds": []}), &body);
        server.post_as(&key, "search", body.to_string())
    };
    let message = search(json!({"agent_id": "scout"})).refused(403, "FORBIDDEN");
    assert!(message.contains("bound to the user `ann`") && message.contains("\"agent\""), "{message}");
    assert_shows(&search(json!({"agent": "scout"})).text(), &["valuesword"], "the agent is named");
    let message = search(json!({"agent": "scout", "agent_id": "other"})).refused(403, "FORBIDDEN");
    assert!(message.contains("only the agent `scout`"), "{message}");
}

#[test]
fn session_key_binding_reaches_its_channel_alone() {
    let server = filled();
    let key = server.bound_key(&json!({"key": CHANNEL}));
    // The key is of the agent, so it fixes the agent as well.
    for call in ["search", "recall", "memories/list"] {
        let body = CALLS.into_iter().find(|known| known.0 == call).unwrap();
        assert_shows(&send(&server, &key, body, &json!({})).text(), &["channelsword"], call);
    }
    let lines = r#"{"name":"channel-chat"}"#;
    assert_shows(&server.post_as(&key, "sessions/lines", lines).text(), &["channelsword"], "lines");
    server.post_as(&key, "sessions/lines", r#"{"name":"bob-chat"}"#).refused(404, "NOT_FOUND");
    // A named user speaks in the channel.
    let spoken = r#"{"name":"channel-chat","user":"ann"}"#;
    assert_shows(&server.post_as(&key, "sessions/lines", spoken).text(), &["channelsword"], "speaker");
}

#[test]
fn class_binding_is_a_floor() {
    let server = filled();
    let key = server.bound_key(&json!({"agent": "scout", "user": "ann", "class": "dm"}));
    for class in [json!({}), json!({"class": "main"})] {
        let reply = send(&server, &key, ("sessions/list", "{}"), &class);
        assert_eq!(reply.json()["items"], json!([]), "sessions of the class main are hidden");
        let value = send(&server, &key, ("get", r#"{"path":"/plan"}"#), &json!({}));
        assert_eq!(value.json(), json!({"found": false}));
    }
    let made = send(&server, &key, ("sessions/create", r#"{"name":"new"}"#), &json!({"class": "main"}));
    assert_eq!(made.json()["session"]["meta"]["class"], "dm");
}

#[test]
fn session_binding_reaches_one_session() {
    let server = filled();
    let key = server.bound_key(&json!({"agent": "scout", "user": "bob", "session": "bob-chat"}));
    let list = server.post_as(&key, "sessions/list", "{}").json();
    let names: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
    assert_eq!(names, ["bob-chat"]);
    let said = json!({"name": "bob-chat", "messages": [{"role": "user", "content": "More."}]});
    assert_eq!(server.post_as(&key, "sessions/append", said.to_string()).status, 200);
    for call in ["sessions/get", "sessions/lines", "sessions/append", "context/pack", "context/children"] {
        let body = match call {
            "sessions/append" => json!({"name": "bob-other", "messages": [{"role": "user", "content": "x"}]}),
            _ => json!({"name": "bob-other"}),
        };
        server.post_as(&key, call, body.to_string()).refused(404, "NOT_FOUND");
    }
    let archives = server.post_as(&key, "agents/scout/archives", "{}");
    assert_eq!(archives.json()["items"], json!([]));
    let reset = server.post_as(&key, "agents/scout/reset", r#"{"name":"bob-chat"}"#);
    assert_ne!(reset.status, 200, "{}", reset.text());
    let child = r#"{"name":"bob-chat","id":"c1"}"#;
    assert_ne!(server.post_as(&key, "context/spawn", child).status, 200);
    let kept = server.ok("sessions/get", r#"{"agent":"scout","user":"bob","name":"bob-chat"}"#);
    assert!(kept["session"]["meta"]["next"].is_null(), "{kept}");
}

/// Returns the id of the archive of a session, after its reset.
fn archived(server: &Server, user: &str, name: &str) -> String {
    let reset = server.ok("agents/scout/reset", json!({"user": user, "name": name}).to_string());
    let archive = reset["archive"].as_str().unwrap().rsplit('/').next().unwrap();
    archive.trim_end_matches(".jsonl.gz").to_owned()
}

/// Returns true if a key lists an archive, reads its transcript, and sees its file. All three must agree.
fn reads_archive(server: &Server, binding: &Value, named: &Value, id: &str) -> bool {
    let key = server.bound_key(binding);
    let list = server.post_as(&key, "agents/scout/archives", named.to_string());
    assert_eq!(list.status, 200, "{binding}: {}", list.text());
    let name = with(json!({"name": id, "format": "openai"}), named).to_string();
    let transcript = server.post_as(&key, "agents/scout/transcript", name);
    let path = format!("/.agent/sessions/{id}.jsonl.gz");
    let file = with(json!({"agent": "scout", "path": path}), named).to_string();
    let statuses = [transcript.status, server.post_as(&key, "tree/stat", file).status];
    let is_listed = list.text().contains(id);
    assert_eq!(statuses, [if is_listed { 200 } else { 404 }; 2], "{binding}: {}", transcript.text());
    is_listed
}

#[test]
fn key_that_fixes_a_name_reads_no_archive_of_others() {
    let server = filled();
    let of_bob = archived(&server, "bob", "bob-chat");
    let ann = json!({"user": "ann"});
    for (binding, named) in [
        (json!({"agent": "scout", "user": "ann"}), json!({})),
        (json!({"user": "ann", "class": "main"}), json!({})),
        (json!({"key": "agent:scout:main"}), json!({})),
        (json!({"agent": "scout", "chat": "trip"}), ann.clone()),
        (json!({"agent": "scout", "session": "ann-chat"}), ann.clone()),
        (json!({"agent": "scout", "class": "dm"}), ann.clone()),
    ] {
        assert!(!reads_archive(&server, &binding, &named, &of_bob), "{binding}");
    }
    // The agent alone is fixed, and the request names its owner.
    for binding in [json!({"agent": "scout"}), json!({"agent": "scout", "class": "main"})] {
        assert!(reads_archive(&server, &binding, &ann, &of_bob), "{binding}");
    }
}

#[test]
fn bound_owner_lists_its_own_archives() {
    let server = filled();
    let (of_ann, of_bob) = (archived(&server, "ann", "ann-chat"), archived(&server, "bob", "bob-chat"));
    let key = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    let list = server.post_as(&key, "agents/scout/archives", "{}").text();
    assert!(list.contains(&of_ann) && !list.contains(&of_bob), "{list}");
    let lines = server.post_as(
        &key,
        "agents/scout/transcript",
        json!({"name": of_ann, "format": "openai"}).to_string(),
    );
    assert_shows(&lines.text(), &["annsword"], "transcript");
    // Archives of the key's own audience are read by these calls, not as files.
    let path = json!({"agent": "scout", "path": format!("/.agent/sessions/{of_ann}.jsonl.gz")});
    server.post_as(&key, "tree/stat", path.to_string()).refused(404, "NOT_FOUND");
}

#[test]
fn session_binding_does_not_tell_which_sessions_exist() {
    let server = filled();
    let key = server.bound_key(&json!({"agent": "scout", "user": "bob", "session": "bob-chat"}));
    let refused = |name: &str| {
        let body = json!({"name": name}).to_string();
        server.post_as(&key, "sessions/create", body).refused(403, "FORBIDDEN").replace(name, "NAME")
    };
    assert_eq!(refused("bob-other"), refused("no-such-session"));
}

#[test]
fn taken_names_do_not_tell_who_has_them() {
    let server = filled();
    let dm = server.bound_key(&json!({"agent": "scout", "user": "ann", "class": "dm"}));
    let create = |name: &str| server.post_as(&dm, "sessions/create", json!({"name": name}).to_string());
    assert_eq!(create("own").status, 200);
    let refused = |name: &str| create(name).refused(409, "PATH_CONFLICT").replace(name, "NAME");
    assert_eq!(refused("ann-chat"), refused("own"), "one of the class main is hidden");

    let headers = format!("authorization: Bearer {}\r\n", server.key);
    for chat in ["trip", "gone"] {
        let target = format!("/v1/fs/note.md?agent=scout&user=bob&chat={chat}");
        let reply = server.request("PUT", &target, &headers, b"x");
        assert!(reply.status < 300, "{}", reply.text());
    }
    let account = block_on(server.home.account("acme")).unwrap();
    block_on(garth_agent::chat::delete(&*account, "gone", Author::default())).unwrap();
    let ann = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    let refused = |chat: &str| {
        let body = json!({"path": "/", "chat": chat}).to_string();
        server.post_as(&ann, "tree/stat", body).refused(403, "FORBIDDEN").replace(chat, "NAME")
    };
    assert_eq!(refused("trip"), refused("gone"));
    assert!(refused("trip").contains("or name the user who has it"), "{}", refused("trip"));
}

#[test]
fn bound_key_starts_no_child_of_another_agent() {
    let server = filled();
    let body = |key: &str, id: &str| {
        let spawn = json!({"agent": "scout", "user": "bob", "name": "bob-chat", "id": id});
        let spawn = with(spawn, &json!({"child_agent": "other"}));
        server.post_as(key, "context/spawn", spawn.to_string())
    };
    let bob = server.bound_key(&json!({"agent": "scout", "user": "bob"}));
    assert!(body(&bob, "c1").refused(403, "FORBIDDEN").contains("reaches only the agent scout"));
    assert_eq!(body(&server.key, "c2").status, 200);
}

#[test]
fn prefix_binding_reaches_values_search_and_recall_below_it() {
    let server = filled();
    let binding = json!({"agent": "scout", "user": "ann", "prefix": "/.agent/kv/faq"});
    let key = server.bound_key(&binding);
    let get = |path: &str| server.post_as(&key, "get", json!({"path": path}).to_string()).json();
    assert_eq!(get("/faq/one")["value"], "valuesword");
    assert_eq!(get("/plan"), json!({"found": false}));
    let put = |path: &str| server.post_as(&key, "put", json!({"path": path, "value": 1}).to_string());
    assert_eq!(put("/faq/two").status, 200);
    let message = put("/other").refused(403, "FORBIDDEN");
    let words = ["the caller does not reach this key", "`shared`", "`settings.json`"];
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
    for call in CALLS {
        let reply = send(&server, &key, call, &json!({}));
        match call.0 {
            "get" => assert_eq!(reply.json(), json!({"found": false})),
            "search" => assert_shows(&reply.text(), &["valuesword"], call.0),
            "recall" => {
                let text = reply.text();
                assert_eq!(reply.status, 200, "{text}");
                assert!(WORDS[..3].iter().all(|word| !text.contains(word)), "{text}");
            }
            _ => assert!(reply.refused(403, "FORBIDDEN").contains("bound to /.agent/kv/faq"), "{call:?}"),
        }
    }
    // A user whose tree does not have the path is told so.
    let closed = server.bound_key(&json!({"agent": "scout", "user": "bob", "prefix": "/.agent/kv/faq"}));
    let message = server.post_as(&closed, "get", r#"{"path":"/faq/one"}"#).refused(403, "FORBIDDEN");
    assert!(message.contains("does not have"), "{message}");
}

#[test]
fn read_only_binding_changes_nothing() {
    let server = filled();
    let key = server.bound_key(&json!({"agent": "new", "user": "cy", "read_only": true}));
    let head = || block_on(block_on(server.home.account("acme")).unwrap().head()).unwrap().seq;
    let before = head();
    for (call, body) in CALLS {
        let reply = send(&server, &key, (call, body), &json!({"agent": "new"}));
        match call {
            "agents/{agent}/prompt" => {
                let message = reply.refused(403, "FORBIDDEN");
                assert!(message.contains("read-only") && message.contains("`memory:write`"), "{message}");
            }
            _ => assert!(matches!(reply.status, 200 | 404), "{call}: {}", reply.text()),
        }
    }
    for (call, body) in [
        ("put", json!({"path": "/a", "value": 1})),
        ("remember", json!({"text": "Tea."})),
        ("sessions/create", json!({"name": "s"})),
        ("agents/new/daily/add", json!({"text": "Tea."})),
    ] {
        let message = server.post_as(&key, call, body.to_string()).refused(403, "FORBIDDEN");
        let is_named = message.contains("read-only") && message.contains("`memory:write`");
        assert!(is_named, "{call}: {message}");
    }
    assert_eq!(head(), before, "directories of the agent were created");
}

#[test]
fn idempotency_keys_belong_to_the_binding() {
    let server = filled();
    let ann = json!({"agent": "scout", "user": "ann"});
    let (key, same) = (server.bound_key(&ann), server.bound_key(&ann));
    let bob = server.bound_key(&json!({"agent": "scout", "user": "bob"}));
    let put = |value: u32| ("put", json!({"path": "/once", "value": value}));
    let of_account = send_once(&server, &server.key, "k", ("put", json!({"path": "/x", "value": 1})));
    let first = send_once(&server, &key, "k", put(1));
    assert_eq!((of_account.status, first.status), (200, 200), "{}", first.text());
    assert_eq!(send_once(&server, &key, "k", put(1)).body, first.body);
    // A rotated key has the same binding, and repeats the requests of the old one.
    assert_eq!(send_once(&server, &same, "k", put(1)).body, first.body);
    send_once(&server, &same, "k", put(2)).refused(422, "IDEMPOTENCY_KEY_MISMATCH");
    let remembered = ("remember", json!({"text": "Bob likes tea."}));
    let of_bob = send_once(&server, &bob, "k", remembered.clone());
    assert_eq!(of_bob.status, 200, "{}", of_bob.text());
    assert_eq!(send_once(&server, &bob, "k", remembered).body, of_bob.body);
    let again = send_once(&server, &server.key, "k", ("put", json!({"path": "/x", "value": 1})));
    assert_eq!(again.body, of_account.body);
}

#[test]
fn bound_key_does_not_see_snapshots_of_the_account() {
    let server = filled();
    let account = block_on(server.home.account("acme")).unwrap();
    block_on(account.commit(Batch::new([Op::snapshot("before-release")]))).unwrap();
    let uri = "ctx://acme/users/bob/memories/events/bob-chat";
    let body = |name: &str| json!({"agent": "scout", "user": "bob", "uri": uri, "at": name}).to_string();
    assert_eq!(server.post("memories/get", body("before-release")).status, 200);
    let bob = server.bound_key(&json!({"agent": "scout", "user": "bob"}));
    let refused = |name: &str| {
        server.post_as(&bob, "memories/get", body(name)).refused(404, "NOT_FOUND").replace(name, "NAME")
    };
    assert_eq!(refused("before-release"), refused("no-such-name"));
}

#[test]
fn remember_for_the_agent_uses_the_bound_agent() {
    let server = filled();
    let key = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    let body = r#"{"text":"Support is open from nine to five.","owner":"agent"}"#;
    let reply = server.post_as(&key, "remember", body);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let uri = reply.json()["uri"].as_str().unwrap().to_owned();
    assert!(uri.starts_with("ctx://acme/agents/scout/memories/"), "{uri}");
}

#[test]
fn prompts_of_a_bound_key_show_no_days_of_others() {
    let server = filled();
    let ann = json!({"agent": "scout", "user": "ann"});
    let key = server.bound_key(&ann);
    let prompt = ("agents/{agent}/prompt", r#"{"dry":true}"#);
    let free = send(&server, &server.key, prompt, &json!({"agent": "scout", "user": "ann"})).text();
    assert!(free.contains("bobsword") && free.contains("channelsword"), "{free}");
    let bound = send(&server, &key, prompt, &json!({})).text();
    assert!(!bound.contains("bobsword") && !bound.contains("channelsword"), "{bound}");
    // A prompt that a free key built and recorded with them is replayed without them.
    let main = json!({"agent": "scout", "user": "ann", "session": "ann-chat"});
    assert_eq!(send(&server, &server.key, ("agents/{agent}/prompt", "{}"), &main).status, 200);
    let head = block_on(block_on(server.home.account("acme")).unwrap().head()).unwrap().seq;
    let at = json!({"session": "ann-chat", "at": head.0.to_string(), "dry": true});
    let replayed = send(&server, &key, ("agents/{agent}/prompt", "{}"), &at);
    assert_eq!(replayed.status, 200, "{}", replayed.text());
    assert!(!replayed.text().contains("bobsword"), "{}", replayed.text());
}

#[test]
fn bound_user_reads_media_of_its_own_sessions() {
    let server = filled();
    let upload = |query: &str| {
        let headers = format!("authorization: Bearer {}\r\ncontent-type: image/png\r\n", server.key);
        let reply = server.request("POST", &format!("/v1/agents/scout/media?{query}"), &headers, b"bytes");
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["media"]["key"].as_str().unwrap().to_owned()
    };
    let id = |who: Value, name: &str| {
        let got = server.ok("sessions/get", with(json!({"agent": "scout", "name": name}), &who).to_string());
        got["session"]["meta"]["id"].as_str().unwrap().to_owned()
    };
    let of_bob = upload(&format!("user=bob&session_key={}", id(json!({"user": "bob"}), "bob-chat")));
    let of_ann = upload(&format!("user=ann&session_key={}", id(json!({"user": "ann"}), "ann-chat")));
    let of_channel = upload(&format!("session_key={CHANNEL}"));
    let bob = server.bound_key(&json!({"agent": "scout", "user": "bob"}));
    let read = |key: &str, media: &str| {
        let headers = format!("authorization: Bearer {key}\r\n");
        server.request("GET", &format!("/v1/agents/scout/{media}"), &headers, b"").status
    };
    assert_eq!(read(&bob, &of_bob), 200);
    assert_eq!(read(&bob, &of_ann), 404);
    assert_eq!(read(&bob, &of_channel), 404);
    let channel = server.bound_key(&json!({"key": CHANNEL}));
    assert_eq!(read(&channel, &of_channel), 200);
    assert_eq!(read(&channel, &of_bob), 404);
    let list = json!({"session_key": CHANNEL}).to_string();
    server.post_as(&bob, "agents/scout/media/list", list).refused(403, "FORBIDDEN");
    let one = server.bound_key(&json!({"agent": "scout", "user": "bob", "session": "bob-other"}));
    assert_eq!(read(&one, &of_bob), 404);
}

#[test]
fn values_of_a_bound_key_stay_below_its_agent() {
    let server = filled();
    let key = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    assert_eq!(server.post_as(&key, "get", r#"{"path":"/plan"}"#).json()["value"], "valuesword");
    assert_eq!(server.post_as(&key, "put", r#"{"path":"/plan","value":2}"#).status, 200);
    let account = block_on(server.home.account("acme")).unwrap();
    let range = ByteRange { offset: 0, length: 100 };
    let read = |path: &str| block_on(account.fetch(&TreePath::parse(path).unwrap().into(), range)).unwrap().1;
    assert_eq!(read("/agents/scout/kv/plan.json"), "2");
    assert_eq!(read("/agents/other/kv/plan.json"), "\"annsword\"");
}

#[test]
fn bound_key_searches_values_as_others_do() {
    let server = filled();
    let key = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    let search = |key: &str, body: Value| server.post_as(key, "search", body.to_string()).json();
    let asked = json!({"query": "valuesword", "path_prefix": "/faq"});
    let found = search(&key, asked.clone());
    assert_eq!(found["results"][0]["path"], "/faq/one", "{found}");
    assert_eq!(found, search(&server.key, with(asked.clone(), &json!({"agent_id": "scout"}))));
    // A field of the identity selects the other answer.
    let named = search(&key, with(asked, &json!({"user": "ann"})));
    assert_eq!(named["results"][0]["kind"], "values", "{named}");
    let bob = server.bound_key(&json!({"agent": "scout", "user": "bob"}));
    assert_eq!(search(&bob, json!({"query": "valuesword"}))["results"], json!([]));
}

#[test]
fn refused_write_names_complete_path() {
    let server = filled();
    let bob = server.bound_key(&json!({"agent": "scout", "user": "bob"}));
    let headers = format!("authorization: Bearer {bob}\r\n");
    let path = "/.agent/notes.md";
    let send = |method: &str| server.request(method, &format!("/v1/fs{path}"), &headers, b"x");
    let post = |call: &str, ops: Value| server.post_as(&bob, call, json!({"ops": ops}).to_string());
    for (number, reply) in [
        send("PUT"),
        send("PATCH"),
        post("batch", json!([{"op": "write", "path": path, "text": "x"}])),
        post("batch", json!([{"op": "mkdir", "path": path, "parents": true}])),
        post("tree/commit", json!([{"write": {"at": {"path": path}, "body": {"bytes": "eA=="}}}])),
    ]
    .into_iter()
    .enumerate()
    {
        let message = reply.refused(403, "FORBIDDEN");
        let starts = message.starts_with("/.agent/notes.md: this caller cannot write here; ");
        assert!(starts, "{number}: {message}");
    }
}

#[test]
fn refused_settings_name_a_free_key() {
    let server = filled();
    let ann = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    let headers = format!("authorization: Bearer {ann}\r\n");
    let reply = server.request("PUT", "/v1/fs/.agent/settings.json", &headers, b"{}");
    let message = reply.refused(400, "RULE_VIOLATION");
    assert!(
        message.contains("cannot be written in a session") && message.contains("bound to nothing"),
        "{message}"
    );
}

#[test]
fn fields_of_a_bound_key_do_not_require_the_agent() {
    let server = Server::start();
    let unknown = json!({"name": "work", "zebra": 1}).to_string();
    let message = server.post("sessions/get", &unknown).refused(400, "VALIDATION_ERROR");
    assert!(message.contains("\"agent\" (required)"), "{message}");
    let bound = server.bound_key(&json!({"agent": "scout"}));
    let message = server.post_as(&bound, "sessions/get", &unknown).refused(400, "VALIDATION_ERROR");
    assert!(message.contains("\"name\" (required)") && message.contains("\"agent\""), "{message}");
    assert!(!message.contains("\"agent\" (required)"), "{message}");
}

#[test]
fn content_beyond_the_limit_of_an_agents_tree_names_the_size_of_parts() {
    let server = Server::start();
    let bound = server.bound_key(&json!({"agent": "scout"}));
    let write = json!({"op": "write", "path": "/t1", "text": "x".repeat(12 << 20)});
    let message = server
        .post_as(&bound, "batch", json!({"ops": [write]}).to_string())
        .refused(413, "PAYLOAD_TOO_LARGE");
    assert!(
        message.contains("at once has at most 10485760 bytes; send parts of at most that size"),
        "{message}"
    );
}
