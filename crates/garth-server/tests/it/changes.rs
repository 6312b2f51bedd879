//! Changes that a client waits for: calls of `tree/changes` that wait, and streams of events.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::home::{NewKey, Scope};
use garth_engine::model::{Batch, Op, Seq};
use garth_engine::rule::retention::Retention;
use garth_engine::{AccountStore, TreePath};
use garth_server::{Limits, Options};
use serde_json::{Value, json};

use super::events::{Event, Events};
use super::harness::{Connection, START, Server, request};

/// Time after which a key is looked up again, and some more.
const LATER: Duration = Duration::from_millis(200);
/// Files of a commit that a stream sends in parts.
const MANY: usize = 600;

/// Returns options with frequent heartbeats.
fn restless() -> Options {
    Options::default().limits(Limits::default().stream_heartbeat(Duration::from_millis(100)))
}

fn account(server: &Server) -> Arc<dyn AccountStore> {
    block_on(server.home.account("acme")).unwrap()
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn writes<'a>(files: impl IntoIterator<Item = &'a str>) -> Batch {
    Batch::new(files.into_iter().map(|file| Op::write(path(file), "x".to_owned()).with_parents()))
}

fn write(server: &Server, file: &str) -> Seq {
    block_on(account(server).commit(writes([file]))).unwrap().seq
}

/// Writes files in commits of one, and many in one commit.
fn fill(server: &Server) {
    for number in 0..12 {
        write(server, &format!("/in/{number}"));
        write(server, &format!("/out/{number}"));
    }
    let many: Vec<String> = (0..MANY).map(|number| format!("/in/many/{number}")).collect();
    block_on(account(server).commit(writes(many.iter().map(String::as_str)))).unwrap();
    block_on(account(server).commit(Batch::new([Op::rename(path("/out/3"), path("/in/moved"))]))).unwrap();
}

/// Returns commits with their changes, parts of one commit joined.
fn joined<'a>(parts: impl IntoIterator<Item = &'a Value>) -> Vec<Value> {
    let mut commits: Vec<Value> = Vec::new();
    for part in parts {
        match commits.last_mut().filter(|last| last["commit"] == part["commit"]) {
            Some(last) => {
                let further = part["changes"].as_array().unwrap().clone();
                last["changes"].as_array_mut().unwrap().extend(further);
            }
            None => commits.push(part.clone()),
        }
    }
    commits
}

/// Returns all changes, by pages of `tree/changes`.
fn paged(server: &Server, key: &str, fields: &Value) -> Vec<Value> {
    let (mut body, mut commits) = (fields.clone(), Vec::new());
    loop {
        let reply = server.post_as(key, "tree/changes", body.to_string());
        assert_eq!(reply.status, 200, "{}", reply.text());
        let page = reply.json();
        commits.extend(page["commits"].as_array().unwrap().clone());
        if page["has_more"] != true {
            return joined(&commits);
        }
        body["cursor"] = page["next_cursor"].clone();
    }
}

/// Returns all changes of a stream until it waits.
fn streamed(server: &Server, key: &str, query: &str) -> Vec<Value> {
    let events = Events::open(server, key, query, None).unwrap().until_waiting();
    assert!(events.iter().all(|event| event.name == "commit" && event.id.is_some()), "{events:?}");
    joined(events.iter().map(|event| &event.data))
}

/// Asserts that the next event is a failure, after which the stream ends. Returns its code.
fn failure(events: &mut Events) -> Value {
    let Event { id, name, data, .. } = events.data();
    assert_eq!((id, &*name), (None, "error"), "{data}");
    assert!(events.next().is_none());
    data["error"]["code"].clone()
}

#[test]
fn call_waits_for_the_next_change() {
    let server = Server::start();
    let since = write(&server, "/a").0;
    let ask = |since: u64, wait: u64| json!({"since": since, "wait_ms": wait, "within": ["/a"]}).to_string();
    let page = server.ok("tree/changes", ask(since - 1, 60_000));
    assert_eq!(page["commits"][0]["commit"]["seq"], json!(since), "there is one already");
    let page = server.ok("tree/changes", ask(since, 0));
    assert_eq!((&page["commits"], &page["until"]["seq"]), (&json!([]), &json!(since)));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.ok("tree/changes", ask(since, 60_000)));
        write(&server, "/b");
        let seq = write(&server, "/a");
        let page = waiting.join().unwrap();
        let commits = page["commits"].as_array().unwrap();
        assert_eq!((commits.len(), &commits[0]["commit"]["seq"]), (1, &json!(seq)), "not of another path");
    });
}

#[test]
fn call_refuses_waits_in_vain() {
    let server = Server::start();
    let head = write(&server, "/a").0;
    let long: Vec<String> = (0..500).map(|number| format!("/directory/{number}")).collect();
    for body in [
        json!({"wait_ms": 60_001}),
        json!({"wait_ms": 10, "at": head}),
        json!({"wait_ms": 10, "since": head + 1}),
        json!({"wait_ms": 10, "within": long}),
    ] {
        server.post("tree/changes", body.to_string()).refused(400, "VALIDATION_ERROR");
    }
}

#[test]
fn cursor_is_valid_with_any_wait() {
    let server = Server::start();
    fill(&server);
    let first = server.ok("tree/changes", json!({"limit": 3}).to_string());
    let next = json!({"limit": 3, "wait_ms": 5, "cursor": first["next_cursor"]});
    let page = server.ok("tree/changes", next.to_string());
    assert_eq!(page["commits"].as_array().unwrap().len(), 3);
}

#[test]
fn stream_sends_what_pages_return() {
    let server = Server::start();
    fill(&server);
    let (all, inside) = (json!({}), json!({"within": ["/in"]}));
    assert_eq!(streamed(&server, &server.key, "?since=0"), paged(&server, &server.key, &all));
    let shown = streamed(&server, &server.key, "?since=0&in=/in");
    assert_eq!(shown, paged(&server, &server.key, &inside));
    assert!(!json!(shown).to_string().contains("/out"), "a name outside");
    let since = json!({"since": 20});
    assert_eq!(streamed(&server, &server.key, "?since=20"), paged(&server, &server.key, &since));
    assert!(streamed(&server, &server.key, "").is_empty(), "it begins at the last commit");
}

#[test]
fn stream_sends_changes_while_they_happen() {
    let server = Server::start();
    let mut events = Events::open(&server, &server.key, "?in=/in", None).unwrap();
    events.until_waiting();
    for number in 0..5 {
        write(&server, "/out/a");
        let seq = write(&server, &format!("/in/{number}"));
        let event = events.data();
        assert_eq!(event.data["commit"]["seq"], json!(seq));
        assert_eq!(event.data["changes"].as_array().unwrap().last().unwrap()["kind"], "created");
    }
}

#[test]
fn stream_resumes_after_any_event() {
    let server = Server::start();
    fill(&server);
    let whole = Events::open(&server, &server.key, "?since=0", None).unwrap().until_waiting();
    assert!(whole.len() > 25 + MANY / 256, "{}", whole.len());
    let due = joined(whole.iter().map(|event| &event.data));
    for (at, event) in whole.iter().enumerate() {
        let mut rest = Events::open(&server, &server.key, "?since=0", event.id.as_deref()).unwrap();
        let rest = rest.until_waiting();
        let seen = joined(whole[..=at].iter().chain(&rest).map(|event| &event.data));
        assert!(seen == due, "resumed after {at}");
    }
}

#[test]
fn killed_client_misses_and_repeats_nothing() {
    let server = Server::start();
    fill(&server);
    let due = paged(&server, &server.key, &json!({}));
    let (mut last, mut seen, mut most): (Option<String>, Vec<Value>, usize) = (None, Vec::new(), 0);
    // The most that it receives grows, so that it is killed within each event and gets further at last.
    while joined(&seen) != due {
        assert!(most < 1 << 20, "{} of {}", joined(&seen).len(), due.len());
        let events = Events::open(&server, &server.key, "?since=0", last.as_deref()).unwrap();
        for event in events.killed_after(most) {
            last = event.id;
            seen.extend(Some(event.data).filter(|data| !data.is_null()));
        }
        most += 331;
    }
    let rest = Events::open(&server, &server.key, "?since=0", last.as_deref()).unwrap().until_waiting();
    assert!(rest.is_empty(), "{rest:?}");
}

#[test]
fn first_position_resumes_stream_without_events() {
    let server = Server::start();
    write(&server, "/a");
    let mut events = Events::open(&server, &server.key, "", None).unwrap();
    let first = events.next().unwrap();
    assert!(first.id.is_some() && first.data.is_null(), "{first:?}");
    drop(events);
    let seq = write(&server, "/b");
    let missed = Events::open(&server, &server.key, "", first.id.as_deref()).unwrap().until_waiting();
    let missed: Vec<&Value> = missed.iter().map(|event| &event.data["commit"]["seq"]).collect();
    assert_eq!(missed, [&json!(seq)]);
}

#[test]
fn heartbeat_moves_past_hidden_commits() {
    let server = Server::start_with(restless());
    let mut events = Events::open(&server, &server.key, "?in=/in", None).unwrap();
    let first = events.next().unwrap().id;
    events.until_waiting();
    write(&server, "/out/a");
    let moved = loop {
        let event = events.next().unwrap();
        assert!(event.data.is_null(), "{event:?}");
        if event.id.is_some() {
            break event.id;
        }
    };
    assert_ne!(moved, first);
    let seq = write(&server, "/in/a");
    let rest = Events::open(&server, &server.key, "?in=/in", moved.as_deref()).unwrap().until_waiting();
    assert_eq!((rest.len(), &rest[0].data["commit"]["seq"]), (1, &json!(seq)));
}

#[test]
fn stream_refuses_ids_of_other_requests() {
    let server = Server::start();
    write(&server, "/a");
    let first = Events::open(&server, &server.key, "", None).unwrap().next().unwrap().id.unwrap();
    let bound = server.bound_key(&json!({"agent": "scout", "user": "ann"}));
    for (key, query, id) in [
        (&server.key, "?in=/in", &*first),
        (&server.key, "?since=0", &*first),
        (&bound, "", &*first),
        (&server.key, "", "12"),
        (&server.key, "", &first[1..]),
    ] {
        let refused = Events::open(&server, key, query, Some(id)).err().unwrap();
        let message = refused.refused(400, "VALIDATION_ERROR");
        assert!(message.contains("Last-Event-ID"), "{message}");
    }
    let beyond = Events::open(&server, &server.key, "?since=99", None).err().unwrap();
    beyond.refused(400, "VALIDATION_ERROR");
    let memory = server.key("acme", &[Scope::MemoryRead]);
    Events::open(&server, &memory, "", None).err().unwrap().refused(403, "FORBIDDEN");
}

#[test]
fn stream_shows_only_what_its_key_reaches() {
    let server = Server::start();
    server.own("scout", "ann");
    let session = |user: &str, name: &str| {
        let body = json!({"agent": "scout", "user": user, "name": name});
        server.ok("sessions/create", body.to_string());
    };
    let keys = [
        server.bound_key(&json!({"agent": "scout", "user": "ann"})),
        server.bound_key(&json!({"agent": "scout", "user": "ann", "class": "dm"})),
        server.bound_key(&json!({"agent": "scout", "user": "bob"})),
        server.bound_key(&json!({"agent": "scout", "user": "ann", "prefix": "/.user"})),
    ];
    session("ann", "ann-before");
    session("bob", "bob-before");
    let mut open: Vec<Events> =
        keys.iter().map(|key| Events::open(&server, key, "?since=0", None).unwrap()).collect();
    let mut shown: Vec<Vec<Event>> = open.iter_mut().map(Events::until_waiting).collect();
    // While they wait.
    session("ann", "ann-after");
    session("bob", "bob-after");
    for ((key, mut events), shown) in keys.iter().zip(open).zip(&mut shown) {
        // The heartbeat is far away, so another stream shows where this one has to end.
        let due = streamed(&server, key, "?since=0");
        while joined(shown.iter().map(|event| &event.data)).len() < due.len() {
            shown.push(events.data());
        }
        assert_eq!(joined(shown.iter().map(|event| &event.data)), due);
        assert_eq!(due, paged(&server, key, &json!({})));
    }
    let text = |events: &Vec<Event>| events.iter().map(|event| event.data.to_string()).collect();
    let texts: Vec<String> = shown.iter().map(text).collect();
    let shows = |key: usize, file: &str| texts[key].contains(file);
    assert!(shows(0, "/ann-before/") && shows(0, "/ann-after/") && !shows(0, "/bob-"), "{}", texts[0]);
    assert!(!shows(1, "/ann-") && !shows(1, "/bob-"), "{}", texts[1]);
    assert!(shows(2, "/bob-before/") && shows(2, "/bob-after/") && !shows(2, "/ann-"), "{}", texts[2]);
    assert!(shows(3, "/ann-after/") && !shows(3, "/bob-"), "{}", texts[3]);
}

#[test]
fn visible_commit_is_durable_before_it_is_sent() {
    let server = Server::start();
    let account = account(&server);
    let durable = || account.view_base().known_durable().unwrap();
    let mut events = Events::open(&server, &server.key, "", None).unwrap();
    events.until_waiting();
    let seq = block_on(account.commit(writes(["/a"]).visible())).unwrap().seq;
    assert_eq!(events.data().data["commit"]["seq"], json!(seq));
    assert!(durable() >= seq);
    let seq = block_on(account.commit(writes(["/b"]).visible())).unwrap().seq;
    let page = server.ok("tree/changes", json!({"since": seq.0 - 1, "wait_ms": 10}).to_string());
    assert_eq!(page["commits"][0]["commit"]["seq"], json!(seq));
    assert!(durable() >= seq);
}

#[test]
fn revoked_key_ends_its_stream() {
    for options in [restless(), Options::default()] {
        let server = Server::start_with(options);
        let control = server.home.control();
        let (key, secret) = block_on(control.create_key("acme", "", &[Scope::FilesRead])).unwrap();
        let mut events = Events::open(&server, secret.reveal(), "", None).unwrap();
        events.until_waiting();
        block_on(control.revoke_key(Some("acme"), &key.id)).unwrap();
        server.home.env().sleep(LATER);
        // With frequent heartbeats it has ended by now. Otherwise this wakes it, and is not shown.
        write(&server, "/a");
        assert_eq!(failure(&mut events), "UNAUTHORIZED");
    }
}

#[test]
fn page_that_waits_for_room_ends_with_its_key() {
    let limits = Limits::default().answer_room(16 << 20).room_wait(Duration::from_secs(300));
    let server = Server::start_with(Options::default().limits(limits));
    // As JSON it takes all room of the account, and more than sockets buffer.
    let large = "\n".repeat(4 << 20);
    block_on(account(&server).commit(Batch::new([Op::write(path("/large"), large)]))).unwrap();
    let control = server.home.control();
    let (key, secret) = block_on(control.create_key("acme", "", &[Scope::FilesRead])).unwrap();
    let mut events = Events::open(&server, secret.reveal(), "", None).unwrap();
    events.until_waiting();
    let mut slow = Connection::open(server.address);
    let headers = format!("authorization: Bearer {}\r\n", server.key);
    let body = json!({"path": "/large", "length": 4 << 20}).to_string();
    slow.send(&request("POST", "/v1/tree/fetch", &headers, body.as_bytes()));
    assert_eq!(slow.reply_to(true).status, 200);
    // A long page: a short one needs no room.
    let many: Vec<String> = (0..MANY).map(|number| format!("/many/{number:0100}")).collect();
    block_on(account(&server).commit(writes(many.iter().map(String::as_str)))).unwrap();
    server.home.env().sleep(LATER);
    block_on(control.revoke_key(Some("acme"), &key.id)).unwrap();
    server.home.env().sleep(LATER);
    drop(slow);
    assert_eq!(failure(&mut events), "UNAUTHORIZED");
}

#[test]
fn expired_key_ends_its_stream() {
    let server = Server::start_with(restless());
    let mut new = NewKey::new(Some("acme"), &[Scope::FilesRead]);
    new.expires = Some(START.plus_seconds(60));
    let (_, secret) = block_on(server.home.control().issue_key(new)).unwrap();
    let mut events = Events::open(&server, secret.reveal(), "", None).unwrap();
    events.until_waiting();
    server.clock.set(START.plus_seconds(61));
    assert_eq!(failure(&mut events), "UNAUTHORIZED");
}

#[test]
fn deleted_account_ends_its_streams() {
    let server = Server::start_with(restless());
    let mut events = Events::open(&server, &server.key, "", None).unwrap();
    events.until_waiting();
    block_on(server.home.delete_account("acme")).unwrap();
    let code = failure(&mut events);
    assert!(code == "UNAUTHORIZED" || code == "NOT_FOUND", "{code}");
}

#[test]
fn stop_of_the_server_ends_all_that_wait() {
    // Calls that do not end with the server are cut off.
    let limits = Limits::default().stop_grace(Duration::from_secs(10));
    let mut server = Server::start_with(Options::default().limits(limits));
    let since = write(&server, "/a").0;
    let mut events = Events::open(&server, &server.key.clone(), "", None).unwrap();
    events.until_waiting();
    let body = json!({"since": since, "wait_ms": 30_000}).to_string();
    let mut open = ["changes", "wait"].map(|call| {
        let mut connection = Connection::open(server.address);
        let head = format!(
            "POST /v1/tree/{call} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
             expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
            server.key,
            body.len()
        );
        connection.send(head.as_bytes());
        // The server asks for the body when the request has begun.
        assert_eq!(connection.reply().status, 100);
        connection.send(body.as_bytes());
        connection
    });
    server.begin_stop();
    assert!(events.next().is_none());
    let [changes, wait] = open.each_mut().map(|connection| connection.reply().json());
    assert_eq!((&changes["commits"], &wait["seq"]), (&json!([]), &json!(since)));
    server.stopped();
}

#[test]
fn consumers_are_limited_by_account_and_in_all() {
    let limits = Limits::default().streams(2).streams_per_account(1);
    let server = Server::start_with(Options::default().limits(limits));
    for name in ["beta", "gamma"] {
        block_on(server.home.create_account(name)).unwrap();
    }
    let [beta, gamma] = ["beta", "gamma"].map(|name| server.key(name, &[Scope::FilesRead]));
    let mut first = Events::open(&server, &server.key, "", None).unwrap();
    first.until_waiting();
    let refused = Events::open(&server, &server.key, "", None).err().unwrap();
    refused.refused(503, "UNAVAILABLE");
    assert_eq!(refused.header("retry-after"), Some("1"));
    server.post("tree/changes", r#"{"wait_ms":10}"#).refused(503, "UNAVAILABLE");
    let metrics = server.request("GET", "/metrics", "", b"").text();
    for line in
        ["garth_room_used_ratio{room=\"streams\"} 0.5", "garth_room_refused_total{room=\"streams\"} 2"]
    {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    assert_eq!(server.post("tree/changes", "{}").status, 200, "it does not wait");
    let mut other = Events::open(&server, &beta, "", None).unwrap();
    other.until_waiting();
    Events::open(&server, &gamma, "", None).err().unwrap().refused(503, "UNAVAILABLE");
}

#[test]
fn waiting_streams_read_nothing() {
    for count in [4, 40] {
        let server = Server::start_with(restless());
        let pieces = || server.home.env().computed().pieces;
        let open = |_| Events::open(&server, &server.key, "", None).unwrap();
        let mut open: Vec<Events> = (0..count).map(open).collect();
        let wait = |open: &mut Vec<Events>| {
            for events in open {
                assert!(events.until_waiting().is_empty());
            }
        };
        wait(&mut open);
        // Each page is a piece of work.
        let before = pieces();
        for _ in 0..3 {
            wait(&mut open);
        }
        assert_eq!(pieces(), before, "{count} streams");
        let seq = write(&server, "/a");
        for events in &mut open {
            assert_eq!(events.data().data["commit"]["seq"], json!(seq));
        }
        assert_eq!(pieces(), before + count, "one page for each stream");
    }
}

#[test]
fn overlays_have_no_stream() {
    let server = Server::start();
    server.ok("admin/overlays/create", r#"{"id":"draft"}"#);
    let refused = Events::open(&server, &server.key, "?overlay=draft", None).err().unwrap();
    refused.refused(501, "UNSUPPORTED");
}

#[test]
fn stream_of_folded_position_is_gone() {
    let server = Server::start();
    for file in ["/in/a", "/in/b", "/in/c"] {
        write(&server, file);
    }
    let mut before = Events::open(&server, &server.key, "?in=/in&since=0", None).unwrap();
    let first = before.until_waiting().remove(0).id.unwrap();
    let account = account(&server);
    let oldest = block_on(async {
        account.set_retention(Retention { commits: Some(1), ..Retention::default() }).await.unwrap();
        account.gc(Duration::ZERO).await.unwrap();
        account.retention().await.unwrap().oldest.0
    });
    for (query, last) in [("?in=/in&since=0", Some(&*first)), ("?since=0", None)] {
        let mut events = Events::open(&server, &server.key, query, last).unwrap();
        assert_eq!(failure(&mut events), "GONE");
    }
    let refused = server.post("tree/changes", json!({"since": oldest - 1}).to_string());
    assert!(refused.refused(410, "GONE").contains(&format!("ask for {oldest} or later")));
    let mut rest = Events::open(&server, &server.key, &format!("?since={oldest}"), None).unwrap();
    assert_eq!(rest.until_waiting().len(), 1);
}
