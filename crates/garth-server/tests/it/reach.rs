//! The places that each call reaches for each asker, compared with the second table of
//! `docs/specs/http-scopes.md`. The calls are from the table of routes, so a new call needs a row. Each place
//! of an account has its own words. A call has reached a place if its answer has these words, if it names a
//! thing of the place, or if it changes the place.

mod places;
mod requests;

use std::collections::BTreeSet;

use garth_server::reference::{self, BodyReference, CallReference};
use serde_json::{Value, json};

use self::places::Place::{Channel, Closed, Open, Other, Owner, Second, User};
use self::places::{ASKERS, Asker, Filled, Place, SESSIONS};
use self::requests::{asks, files, is_asked_of_media, offered, short};

/// Returns the rows of the table: a call, and a word for each of [`ASKERS`].
fn table() -> Vec<(String, Vec<String>)> {
    let page = include_str!("../../../../docs/specs/http-scopes.md");
    let head =
        "| call | owner | user | channel | nobody | key of another agent |\n|---|---|---|---|---|---|\n";
    let (_, table) = page.split_once(head).unwrap();
    let row = |line: &str| {
        let mut cells =
            line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned());
        (cells.next().unwrap(), cells.collect())
    };
    table.lines().take_while(|line| line.starts_with('|')).map(row).collect()
}

/// Returns the places that a word of the table stands for.
fn meant(word: &str, asker: Asker, call: &CallReference) -> BTreeSet<Place> {
    let mut places: BTreeSet<Place> = match word {
        "no" => BTreeSet::new(),
        "own" => asker.own().into_iter().collect(),
        "open" => asker.own().into_iter().chain([Open]).collect(),
        "all" => asker.own().into_iter().chain([Open, Closed]).collect(),
        "others" => [Owner, User, Channel, Second, Open, Closed].into(),
        "agent" => [Closed].into(),
        "account" => [Owner, User, Channel, Second, Open, Closed, Other].into(),
        other => panic!("{other} is no word of the table"),
    };
    let offered = offered(call);
    places.retain(|place| offered.contains(place));
    places
}

/// Returns the fields for an asker. A field that the call does not have is left out.
fn who(asker: Asker, call: &CallReference) -> Value {
    let has = |name: &str| call.fields.iter().any(|field| field.name == name);
    let mut fields = json!({});
    // A session always names its agent.
    if has("agent")
        && (asker != Asker::Nobody || ["sessions/", "context/"].iter().any(|of| short(call).starts_with(of)))
    {
        fields["agent"] = json!("scout");
    }
    if has("agent_id") {
        fields["agent_id"] = json!("scout");
    }
    let user = match asker {
        Asker::Owner => Some("ann"),
        Asker::User => Some("bob"),
        _ => None,
    };
    if let Some(user) = user.filter(|_| has("user")) {
        fields["user"] = json!(user);
    }
    let key = match (asker, short(call)) {
        // This call takes only a session key.
        (Asker::Owner, "sessions/current") => Some("agent:scout:main"),
        (Asker::User, "sessions/current") => Some("agent:scout:dm:bob"),
        (Asker::Channel, _) => Some("agent:scout:slack:channel:C1"),
        (Asker::Another, _) => Some("agent:other:main"),
        _ => None,
    };
    // In calls on media, `key` is the key of a file.
    if let Some(key) = key.filter(|_| has("key") && !short(call).starts_with("media")) {
        fields["key"] = json!(key);
    }
    fields
}

/// Returns the places that an asker reaches by a call.
fn reached(filled: &Filled, call: &CallReference, asker: Asker) -> BTreeSet<Place> {
    if call.method == "DELETE" {
        filled.leave_files();
    }
    let (mut reached, before) = (BTreeSet::new(), filled.head());
    let mut note = |to: Place, names: bool, reply: &crate::it::harness::Reply| {
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(reply.status < 500, "{} {asker:?} {to:?}: {text}", call.path);
        let is_there = !text.contains("\"exists\":false") && !text.contains("\"items\":[]");
        reached.extend((names && reply.status == 200 && is_there).then_some(to));
        reached.extend(filled.shown_in(&text, matches!(short(call), "daily/list" | "archives")));
    };
    let user = who(asker, call)["user"].as_str().map(|user| format!("user={user}"));
    let path = call.path.trim_start_matches("/v1/").replace("{agent}", "scout");
    match call.body {
        _ if short(call).starts_with("fs/") || short(call) == "uploads" => {
            let query = who(asker, call);
            let query: Vec<String> = query
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, value)| format!("{name}={}", value.as_str().unwrap()))
                .collect();
            let headers = format!("authorization: Bearer {}\r\n", filled.server.key);
            let body: &[u8] = if matches!(call.body, BodyReference::Bytes) { b"x" } else { b"" };
            for file in files(call) {
                let target = call.path.replace("{*path}", file.trim_start_matches('/'));
                let target = format!("{target}?{}", query.join("&"));
                note(Owner, false, &filled.server.request(call.method, &target, &headers, body));
            }
        }
        BodyReference::Json => {
            for ask in asks(call, asker, filled) {
                let mut body = who(asker, call);
                body.as_object_mut().unwrap().extend(ask.body.as_object().unwrap().clone());
                note(ask.to, ask.names, &filled.server.post(&path, body.to_string()));
            }
        }
        BodyReference::Bytes => {
            for place in SESSIONS.into_iter().filter(|place| is_asked_of_media("put", asker, *place)) {
                let key = place.key().unwrap_or(&filled.ids[&place]);
                let query = [Some(format!("session_key={key}")), user.clone()];
                let query = query.into_iter().flatten().collect::<Vec<_>>().join("&");
                note(place, true, &filled.upload(&path, &query, "x"));
            }
        }
        _ => {
            for place in SESSIONS.into_iter().filter(|place| is_asked_of_media("read", asker, *place)) {
                let headers = format!("authorization: Bearer {}\r\n", filled.server.key);
                let query = user.as_ref().map_or_else(String::new, |user| format!("?{user}"));
                let target = format!("/v1/agents/scout/{}{query}", filled.media[&place][0]);
                note(place, true, &filled.server.request("GET", &target, &headers, b""));
            }
        }
    }
    let changed = filled.changed_since(before);
    if call.fields.iter().any(|field| field.name == "user") && asker != Asker::Nobody && asker != Asker::Owner
    {
        let others = changed.iter().filter(|place| Some(**place) != asker.own());
        assert_eq!(others.count(), 0, "{} {asker:?} changed {changed:?}", call.path);
    }
    reached.extend(changed);
    reached
}

#[test]
fn calls_reach_places_of_the_scope_table() {
    let calls: Vec<CallReference> =
        reference::calls().into_iter().filter(|call| call.path != "/healthz").collect();
    let table = table();
    let name = |call: &CallReference| format!("{} {}", call.method, call.path);
    let listed: Vec<&String> = table.iter().map(|(call, _)| call).collect();
    assert_eq!(listed, calls.iter().map(name).collect::<Vec<_>>().iter().collect::<Vec<_>>());
    let mut wrong = Vec::new();
    for (column, asker) in ASKERS.into_iter().enumerate() {
        let filled = Filled::start();
        for (call, (_, cells)) in calls.iter().zip(&table) {
            let (found, meant) = (reached(&filled, call, asker), meant(&cells[column], asker, call));
            if found != meant {
                let word = &cells[column];
                wrong.push(format!("{} as {asker:?}: {word} means {meant:?}, reached {found:?}", name(call)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_name_reaches_another_audience() {
    let filled = Filled::start();
    let long = format!("agent:scout:slack:channel:{}", "C".repeat(64));
    for (who, own) in [
        (json!({"user": ":slack:channel:C1"}), None),
        (json!({"user": "default"}), None),
        (json!({"user": "ANN"}), None),
        (json!({"user": "ann "}), None),
        (json!({"user": "bob/../ann"}), None),
        (json!({"user": "bob", "class": "main"}), Some(User)),
        (json!({"user": "bob", "chat": "ann"}), Some(User)),
        (json!({"user": "bob", "chat": ":slack:channel:C1"}), Some(User)),
        (json!({"user": "bob", "session": "owner-chat"}), Some(User)),
        (json!({"user": "bob", "session": "../../../../ann/agents/scout/session/owner-chat"}), Some(User)),
        (json!({"user": "bob", "key": "agent:scout:main"}), None),
        (json!({"user": "bob", "class": "group", "chat": "ann"}), None),
        (json!({"user": "bob", "class": "group", "session": "owner-chat"}), None),
        (json!({"class": "main"}), None),
        (json!({"chat": "ann"}), None),
        (json!({"session": "owner-chat"}), None),
        (json!({"key": "agent:scout:Main"}), None),
        (json!({"key": "agent:scout:%6dain"}), None),
        (json!({"key": "agent:scout:dm:ann"}), None),
        (json!({"key": "agent:scout:slack:dm:ann"}), None),
        (json!({"key": "agent:scout:slack:channel:C1:topic:1"}), Some(Channel)),
        (json!({"key": "agent:scout:slack:channel:C1:thread:1", "user": "ann"}), Some(Channel)),
        (json!({"key": "agent:scout:slack:channel:C1", "session": "second-chat"}), Some(Channel)),
        (json!({"key": "agent:scout:slack:channel:C1:thread:1:thread:2"}), None),
        (json!({"key": "agent:scout:slack:channel:C1%3aC2"}), None),
        (json!({"key": "agent:scout:slack:group:C1"}), None),
        (json!({"key": long}), None),
        (json!({"key": "agent:scout"}), None),
        (json!({"key": "agent:Scout:main"}), None),
    ] {
        for (call, body) in [
            ("sessions/list", json!({"agent": "scout"})),
            ("sessions/lines", json!({"agent": "scout", "name": "owner-chat"})),
            ("memories/list", json!({"agent": "scout"})),
            ("recall", json!({"agent": "scout", "question": "Who drinks tea?", "budget": 8000})),
            ("recall", json!({"agent": "scout", "question": Owner.canary(), "budget": 8000})),
            ("search", json!({"agent": "scout", "query": "Who drinks tea?", "kinds": [], "limit": 50})),
            ("search", json!({"agent": "scout", "query": Owner.canary(), "in": ["/"], "per_file": 20})),
            ("agents/scout/prompt", json!({"dry": true})),
            ("agents/scout/daily/get", json!({})),
            ("agents/scout/daily/list", json!({})),
            ("agents/scout/archives", json!({})),
        ] {
            let mut body = body;
            body.as_object_mut().unwrap().extend(who.as_object().unwrap().clone());
            let reply = filled.server.post(call, body.to_string());
            assert!(reply.status < 500, "{call} {body}: {}", reply.text());
            let shown =
                filled.shown_in(&reply.text(), call.ends_with("daily/list") || call.ends_with("archives"));
            let strange = shown.into_iter().filter(|place| *place != Open && Some(*place) != own);
            let strange: Vec<Place> = strange.collect();
            assert!(strange.is_empty(), "{call} {body} shows {strange:?}: {}", reply.text());
        }
    }
}
