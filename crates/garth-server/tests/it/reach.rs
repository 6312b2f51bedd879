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
use super::events::Events;

/// Head of the table of calls and callers, in the order of [`ASKERS`].
const BY_CALLER: &str =
    "| call | owner | user | channel | nobody | key of another agent |\n|---|---|---|---|---|---|\n";

/// Head of the table of calls whose reach a bound key changes, in the order of [`BOUND`].
const BY_BINDING: &str = "| call | owner | user | channel | session |\n|---|---|---|---|---|\n";

/// Bindings whose reach is compared: the asker that each one fixes, and its JSON.
const BOUND: [(Asker, &str); 4] = [
    (Asker::Owner, r#"{"agent":"scout","user":"ann"}"#),
    (Asker::User, r#"{"agent":"scout","user":"bob"}"#),
    (Asker::Channel, r#"{"key":"agent:scout:slack:channel:C1"}"#),
    (Asker::User, r#"{"agent":"scout","user":"bob","session":"user-chat"}"#),
];

/// Returns the rows of a table: a call, and a word for each column.
fn table(head: &str) -> Vec<(String, Vec<String>)> {
    let page = include_str!("../../../../docs/specs/http-scopes.md");
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
        "no" | "none" => BTreeSet::new(),
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

/// Returns the calls that take a key.
fn calls() -> Vec<CallReference> {
    reference::calls().into_iter().filter(|call| !call.scopes.is_empty()).collect()
}

fn name(call: &CallReference) -> String {
    format!("{} {}", call.method, call.path)
}

/// Returns the fields for a bound key. It fixes all names; only the call that takes nothing but a session
/// key has to name one.
fn who_is_bound(asker: Asker, call: &CallReference) -> Value {
    match who(asker, call).get("key") {
        Some(key) if short(call) == "sessions/current" => json!({"key": key}),
        _ => json!({}),
    }
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
    // Here, the field names an agent to create, not one that asks.
    if has("agent_id") && short(call) != "agents" {
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

/// Returns the places that an asker reaches by a call: with a key that fixes its names, or by naming them.
fn reached(filled: &Filled, call: &CallReference, asker: Asker, bound: Option<&str>) -> BTreeSet<Place> {
    let key = bound.unwrap_or(&filled.server.key);
    let who = |asker, call| if bound.is_some() { who_is_bound(asker, call) } else { who(asker, call) };
    if call.method == "DELETE" {
        filled.leave_files();
    }
    if short(call).starts_with("tree/") {
        // The owner has deleted it by then.
        filled.restore_skill();
    }
    let (mut reached, before) = (BTreeSet::new(), filled.head());
    let mut note = |to: Place, names: bool, asked: &str, reply: &crate::it::harness::Reply| {
        let mut text = String::from_utf8_lossy(&reply.body).into_owned();
        if reply.status >= 400 {
            // The path of an error is the one that the request named.
            let error = &reply.json()["error"];
            let named = error["path"].as_str().filter(|path| asked.contains(*path));
            text = named.map_or_else(|| text.clone(), |path| text.replace(path, ""));
        }
        assert!(reply.status < 500, "{} {asker:?} {to:?}: {text}", call.path);
        let is_there = !text.contains("\"exists\":false") && !text.contains("\"items\":[]");
        reached.extend((names && reply.status == 200 && is_there).then_some(to));
        reached.extend(filled.shown_in(&text, matches!(short(call), "daily/list" | "archives")));
    };
    let user = who(asker, call)["user"].as_str().map(|user| format!("user={user}"));
    let path = call.path.trim_start_matches("/v1/").replace("{agent}", "scout");
    let query = || -> Vec<String> {
        let query = who(asker, call);
        let pairs = query.as_object().unwrap().iter();
        pairs.map(|(name, value)| format!("{name}={}", value.as_str().unwrap())).collect()
    };
    match call.body {
        _ if short(call) == "tree/changes/stream" => {
            let query = format!("?since=0&{}", query().join("&"));
            note(Owner, false, "", &Events::reply(&filled.server, key, &query));
        }
        _ if short(call).starts_with("fs/") || short(call) == "uploads" => {
            let query = query();
            let headers = format!("authorization: Bearer {key}\r\n");
            let body: &[u8] = if matches!(call.body, BodyReference::Bytes) { b"x" } else { b"" };
            for file in files(call) {
                let target = call.path.replace("{*path}", file.trim_start_matches('/'));
                let target = format!("{target}?{}", query.join("&"));
                note(Owner, false, &target, &filled.server.request(call.method, &target, &headers, body));
            }
        }
        BodyReference::Json => {
            for ask in asks(call, asker, filled) {
                let mut body = who(asker, call);
                body.as_object_mut().unwrap().extend(ask.body.as_object().unwrap().clone());
                let asked = body.to_string();
                note(ask.to, ask.names, &asked, &filled.server.post_as(key, &path, asked.clone()));
            }
        }
        BodyReference::Bytes => {
            for place in SESSIONS.into_iter().filter(|place| is_asked_of_media("put", asker, *place)) {
                let session = place.key().unwrap_or(&filled.ids[&place]);
                let query = [Some(format!("session_key={session}")), user.clone()];
                let query = query.into_iter().flatten().collect::<Vec<_>>().join("&");
                note(place, true, "", &filled.upload_as(key, &path, &query, "x"));
            }
        }
        _ => {
            for place in SESSIONS.into_iter().filter(|place| is_asked_of_media("read", asker, *place)) {
                let headers = format!("authorization: Bearer {key}\r\n");
                let query = user.as_ref().map_or_else(String::new, |user| format!("?{user}"));
                let target = format!("/v1/agents/scout/{}{query}", filled.media[&place][0]);
                note(place, true, "", &filled.server.request("GET", &target, &headers, b""));
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
    let (calls, table) = (calls(), table(BY_CALLER));
    let listed: Vec<&String> = table.iter().map(|(call, _)| call).collect();
    assert_eq!(listed, calls.iter().map(name).collect::<Vec<_>>().iter().collect::<Vec<_>>());
    let mut wrong = Vec::new();
    for (column, asker) in ASKERS.into_iter().enumerate() {
        let filled = Filled::start();
        for (call, (_, cells)) in calls.iter().zip(&table) {
            let (found, meant) = (reached(&filled, call, asker, None), meant(&cells[column], asker, call));
            if found != meant {
                let word = &cells[column];
                wrong.push(format!("{} as {asker:?}: {word} means {meant:?}, reached {found:?}", name(call)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn bound_keys_reach_places_of_the_binding_table() {
    let (by_caller, by_binding) = (table(BY_CALLER), table(BY_BINDING));
    let row = |table: &[(String, Vec<String>)], call: &CallReference| {
        table.iter().find(|(listed, _)| *listed == name(call)).map(|(_, cells)| cells.clone())
    };
    let calls = calls();
    for (listed, _) in &by_binding {
        assert!(calls.iter().any(|call| name(call) == *listed), "{listed} is no call");
    }
    let mut wrong = Vec::new();
    for (column, (asker, binding)) in BOUND.into_iter().enumerate() {
        let filled = Filled::start();
        let key = filled.server.bound_key(&serde_json::from_str(binding).unwrap());
        for call in &calls {
            // A call that the second table does not list reaches what its asker does by names.
            let as_named = ASKERS.iter().position(|named| *named == asker).unwrap();
            let word = match row(&by_binding, call) {
                Some(cells) => cells[column].clone(),
                None => row(&by_caller, call).unwrap()[as_named].clone(),
            };
            let (found, meant) = (reached(&filled, call, asker, Some(&key)), meant(&word, asker, call));
            if found != meant {
                wrong.push(format!("{} {binding}: {word} means {meant:?}, reached {found:?}", name(call)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn read_only_key_changes_no_place() {
    let filled = Filled::start();
    let binding = json!({"agent": "scout", "user": "ann", "read_only": true});
    filled.leave_files();
    let (key, before) = (filled.server.bound_key(&binding), filled.head());
    let mut read = BTreeSet::new();
    for call in calls() {
        read.extend(reached(&filled, &call, Asker::Owner, Some(&key)));
    }
    assert_eq!(filled.head(), before);
    assert!(read.contains(&Owner) && read.contains(&Closed), "{read:?}");
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
