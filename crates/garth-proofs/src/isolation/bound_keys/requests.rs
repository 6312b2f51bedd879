//! Random requests over every route of the table, with random values in fields of each kind.

use garth_server::reference::{BodyReference, CallReference, FieldReference};
use garth_testkit::data::random::Random;
use serde_json::{Map, Value, json};

use super::world::{AGENTS, World};

const USERS: [&str; 5] = ["ann", "bob", "cy", "default", ":slack:channel:C1"];
const CHATS: [&str; 5] = ["trip", "ann", "bob", ":slack:channel:C1", "new"];
const KEYS: [&str; 8] = [
    "agent:scout:main",
    "agent:scout:slack:channel:C1",
    "agent:scout:slack:channel:C1:thread:1",
    "agent:scout:slack:channel:C2",
    "agent:scout:slack:dm:U7",
    "agent:scout:slack:dm:U9",
    "agent:other:main",
    "agent:scout:dm:bob",
];
/// Paths of files and directories, also those of the account.
pub(super) const PATHS: [&str; 14] = [
    "/",
    "/note.md",
    "/.agent/MEMORY.md",
    "/.agent/kv/plan.json",
    "/.agent/kv/faq",
    "/.agent/memory",
    "/.user",
    "/.user/session",
    "/ctx/users/ann/memories",
    "/ctx/users/bob/memories",
    "/agents/scout/MEMORY.md",
    "/agents/other/kv/plan.json",
    "/users/bob/agents/scout/session/bob-one/messages.jsonl",
    "/chats/trip/note.md",
];
/// Paths of the memory tool.
pub(super) const MEMORY_PATHS: [&str; 7] = [
    "/memories",
    "/memories/2026-01-27.md",
    "/memories/new.md",
    "/memories/../session",
    "/memories/%2e%2e/session",
    "/memories/..\\..\\other",
    "/.agent/MEMORY.md",
];
const KEY_PATHS: [&str; 6] = ["/plan", "/faq/one", "/faq/new", "/", "/**", "/../other/plan"];
/// Points in time.
pub(super) const MOMENTS: [&str; 4] = ["0", "40", "a-snapshot", "1h"];

/// Request to the server.
pub(super) struct Ask {
    pub(super) method: &'static str,
    pub(super) target: String,
    /// Further headers, each with its line break.
    pub(super) headers: String,
    pub(super) body: String,
    /// Tool or method over `/mcp`, whose answers are counted.
    pub(super) name: Option<String>,
    /// True if the call may change what other sessions derived from its messages.
    pub(super) elsewhere: bool,
}

/// Returns a random request. With `dry`, calls that store something are asked to store nothing.
pub(super) fn any(random: &mut Random, calls: &[CallReference], world: &World, dry: bool) -> Ask {
    let any = |random: &mut Random| &calls[random.below(calls.len() as u64) as usize];
    let mut call = any(random);
    // No bound key may administer, which needs few tries.
    if call.path.starts_with("/v1/admin/") && !random.one_in(8) {
        call = any(random);
    }
    let mut fields = Map::new();
    for field in &call.fields {
        // Names of the caller are mostly left out, so that the key supplies them.
        let is_sent = match field.name {
            "dry" if dry => true,
            "cursor" => random.one_in(20),
            "agent" => random.one_in(3),
            _ if field.required => !random.one_in(20),
            "query" | "question" | "kinds" => true,
            // One of several fields with an address, of which a request has one.
            "path" | "file_text" | "old_path" | "new_path" => !random.one_in(8),
            _ => random.one_in(8),
        };
        if is_sent {
            let value = if field.name == "dry" && dry { json!(true) } else { value(random, field, world) };
            fields.insert(field.name.to_owned(), value);
        }
    }
    let path = filled(random, call.path, world);
    let (target, body) = match call.body {
        BodyReference::Json => (path, Value::from(fields).to_string()),
        BodyReference::Bytes => (format!("{path}?{}", query(&fields)), "bytes".to_owned()),
        _ => (format!("{path}?{}", query(&fields)), String::new()),
    };
    let elsewhere = ["/v1/sessions/retract", "/v1/sessions/import"].contains(&call.path);
    Ask { method: call.method, target, headers: String::new(), body, name: None, elsewhere }
}

/// Returns a path with its arguments.
fn filled(random: &mut Random, path: &str, world: &World) -> String {
    let arguments = path.split('/').map(|part| match part {
        "{agent}" => random.pick(&AGENTS).to_owned(),
        "{session_key}" | "{file}" => {
            // The middle and the end of the key of a media file.
            let key = random.pick(&world.media);
            let mut parts = key.split('/').skip(if part == "{file}" { 2 } else { 1 });
            parts.next().unwrap_or("none").to_owned()
        }
        part if part.starts_with('{') => random.pick(&PATHS).trim_start_matches('/').to_owned(),
        part => part.to_owned(),
    });
    arguments.collect::<Vec<_>>().join("/")
}

fn query(fields: &Map<String, Value>) -> String {
    let pairs = fields.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={}", text.replace('%', "%25").replace(' ', "+")),
        value => format!("{name}={}", value.to_string().replace(['"', ' '], "")),
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// Returns a random value of a field.
fn value(random: &mut Random, field: &FieldReference, world: &World) -> Value {
    if !field.words.is_empty() {
        return json!(random.pick(&field.words));
    }
    match field.r#type {
        "string" => json!(text(random, field.name, field.of, world)),
        "integer" => {
            let least = field.bounds.as_ref().and_then(|(least, _)| least.as_u64()).unwrap_or_default();
            json!(least + random.below(40))
        }
        "number" => json!(0.5),
        "boolean" => json!(random.one_in(2)),
        "array" if field.items == "string" => {
            json!([text(random, field.name, field.of, world)])
        }
        "array" => match field.name {
            "messages" => json!([{"role": "user", "content": "More tea."}]),
            "decisions" => {
                let source = text(random, "source", "source", world);
                json!([{"id": "d2", "decision": "Drink tea.", "source": source}])
            }
            "ops" => {
                let path = random.pick(&PATHS);
                let of_batch = json!({"op": "write", "path": path, "text": "tea", "parents": true});
                let of_tree =
                    json!({"write": {"at": {"path": path}, "body": {"bytes": "dGVh"}, "parents": true}});
                json!([if random.one_in(2) { of_batch } else { of_tree }])
            }
            "view_range" => json!([1 + random.below(3), -1]),
            "items" if field.of == "values" => {
                json!([{"path": random.pick(&KEY_PATHS), "value": "tea", "searchable": true}])
            }
            "items" => json!([{"path": random.pick(&PATHS)}, {"path": random.pick(&PATHS)}]),
            _ => json!([]),
        },
        "object" => json!({}),
        _ => json!("tea"),
    }
}

/// Returns a random text for a field of this name and content.
pub(super) fn text(random: &mut Random, name: &str, of: &str, world: &World) -> String {
    let pick = |random: &mut Random, from: &[&str]| random.pick(from).to_owned();
    match (name, of) {
        ("agent" | "agent_id" | "child_agent", _) => pick(random, &AGENTS),
        ("user", _) => pick(random, &USERS),
        ("chat", _) => pick(random, &CHATS),
        (_, "class") | ("class", _) => pick(random, &["main", "dm", "group"]),
        ("session_key", _) if random.one_in(2) => random.pick(&world.ids),
        (_, "session key") => pick(random, &KEYS),
        (_, "media key") => random.pick(&world.media),
        ("name" | "session", "id") => match random.below(8) {
            0 => random.pick(&world.ids),
            1 => "new".to_owned(),
            _ => random.pick(&world.sessions),
        },
        ("id" | "next" | "child_session", _) => pick(random, &["d1", "d2", "c1", "new"]),
        (_, "uri" | "URI prefix") => match random.below(6) {
            0 => format!("ctx://{}/users/bob", world.account),
            1 => format!("ctx://{}/agents/scout/memories/cases/new", world.account),
            _ => random.pick(&world.uris),
        },
        (_, "key path" | "key pattern") => pick(random, &KEY_PATHS),
        (_, "moment") | ("at", _) => pick(random, &MOMENTS),
        (_, "memory path") => pick(random, &MEMORY_PATHS),
        (_, "path") => pick(random, &PATHS),
        (_, "kind") => pick(random, &["values", "files", "messages", "memories"]),
        (_, "source") => match random.below(4) {
            0 => pick(random, &PATHS),
            1 => "tail:2".to_owned(),
            2 => "messages:1".to_owned(),
            _ => format!("{}#messages:1", random.pick(&world.sessions)),
        },
        (_, "day") => "2026-01-27".to_owned(),
        (_, "cursor") => pick(random, &["ann-one", "AA", "0-0"]),
        // Every text of the world has this word.
        _ => "tea".to_owned(),
    }
}
