//! Random requests over `/mcp`: every tool with random arguments, resources with odd URIs, prompts and
//! skills.

use garth_testkit::data::random::Random;
use garth_testkit::proof::{Broken, Proven, hold};
use serde_json::{Map, Value, json};

use super::client::{Answer, Server};
use super::requests::{Ask, MEMORY_PATHS, MOMENTS, PATHS, text};
use super::world::World;
use crate::mcp_messages::{Lifecycle, Message};

/// Codes of errors that the requests of this proof must not get: a failure of the server, and headers that do
/// not equal the message.
const WRONG: [i64; 2] = [-32603, -32020];
/// Names below the paths of the world.
const BELOW: [&str; 9] = [
    "",
    "",
    "",
    "/messages.jsonl",
    "/events/tea.md",
    "/cases/tea.md",
    "/tea/SKILL.md",
    "/plan.json",
    "/faq/one.json",
];
const GLOBS: [&str; 7] =
    ["**", "/**/*.md", "/.agent/**", "/.user/session/*/*.jsonl", "/ctx/**", "/chats/**", "/*"];
const EXPRESSIONS: [&str; 3] = ["tea", "kanarie[0-9]+", "."];
const LISTS: [&str; 6] = [
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "prompts/list",
    "skills/list",
    "server/discover",
];
const SKILL_URIS: [&str; 9] = [
    "skill://tea/SKILL.md",
    "skill://%74ea/SKILL.md",
    "skill://tea",
    "skill://tea/../../MEMORY.md",
    "skill://tea/%2e%2e/%2e%2e/MEMORY.md",
    "skill://tea/..%2f..%2fMEMORY.md",
    "skill://../MEMORY.md",
    "skill:///.agent/MEMORY.md",
    "skill://tea/SKILL.md/../../../kv/plan.json",
];

/// Tool as `tools/list` describes it.
pub(super) struct Tool {
    name: String,
    /// True if it changes something.
    writes: bool,
    /// Schemas of the arguments by name.
    arguments: Map<String, Value>,
    required: Vec<Value>,
}

impl Tool {
    /// Returns true for the tool whose commands read and write.
    fn has_commands(&self) -> bool {
        self.arguments.contains_key("command")
    }
}

/// Returns all tools of a server.
///
/// # Errors
/// An answer without tools.
pub(super) fn tools(server: &Server, key: &str) -> Proven<Vec<Tool>> {
    let message = Message::new(Lifecycle::Stateless, "tools/list", json!({}));
    let target = "/mcp?agent=scout&user=ann&tools=all";
    let answer = server.send_with("POST", target, (key, &message.headers), &message.body)?;
    let body: Value = serde_json::from_str(&answer.text).unwrap_or_default();
    let tool = |tool: &Value| {
        Some(Tool {
            name: tool["name"].as_str()?.to_owned(),
            writes: tool["annotations"]["readOnlyHint"] != true,
            arguments: tool["inputSchema"]["properties"].as_object()?.clone(),
            required: tool["inputSchema"]["required"].as_array().cloned().unwrap_or_default(),
        })
    };
    let listed = body["result"]["tools"].as_array();
    let tools: Option<Vec<Tool>> = listed.and_then(|listed| listed.iter().map(tool).collect());
    let tools = tools.filter(|tools| !tools.is_empty());
    tools.ok_or_else(|| Broken::because(format!("tools/list is answered by `{:.300}`", answer.text)))
}

/// Request before it has a lifecycle and an address.
struct Asked {
    method: &'static str,
    params: Value,
    /// Tool or method.
    name: String,
    /// True if the address permits no writes.
    read_only: bool,
}

impl Asked {
    fn of(method: &'static str, params: Value) -> Self {
        Self { method, params, name: method.to_owned(), read_only: false }
    }
}

/// Returns a random request. With `dry`, tools that store something are called in a way that forbids it.
pub(super) fn any(random: &mut Random, tools: &[Tool], world: &World, dry: bool) -> Ask {
    let asked = match random.below(20) {
        0 | 1 => Asked::of("resources/read", json!({"uri": uri(random, world)})),
        2 => Asked::of("resources/read", json!({"uri": random.pick(&SKILL_URIS)})),
        3 => Asked::of("skills/get", json!({"uri": random.pick(&SKILL_URIS)})),
        4 => Asked::of("prompts/get", json!({"name": "workspace"})),
        5 | 6 => {
            let cursor = random.one_in(20).then(|| random.pick(&["a", "AA", "skill://tea/SKILL.md"]));
            let params = cursor.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
            Asked::of(random.pick(&LISTS), params)
        }
        _ => call(random, tools, world, dry),
    };
    let target = address(random, world, asked.read_only);
    let message = Message::new(random.pick(&Lifecycle::ALL), asked.method, asked.params);
    let Message { headers, body } = message;
    Ask { method: "POST", target, headers, body, name: Some(asked.name), elsewhere: false }
}

/// Returns true for a result that is not an error of a tool.
///
/// # Errors
/// Failures of the server, and of the headers of this proof.
pub(super) fn is_answered(answer: &Answer) -> Proven<bool> {
    let body: Value = serde_json::from_str(&answer.text).unwrap_or_default();
    let code = body["error"]["code"].as_i64();
    hold(code.is_none_or(|code| !WRONG.contains(&code)), || answer.text.clone())?;
    let (result, is_error) = (&body["result"], body["result"]["isError"] == true);
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    hold(!(is_error && text.contains("(INTERNAL")), || text.to_owned())?;
    Ok(result.is_object() && !is_error)
}

/// Returns a call of a random tool.
fn call(random: &mut Random, tools: &[Tool], world: &World, dry: bool) -> Asked {
    let any = |random: &mut Random| &tools[random.below(tools.len() as u64) as usize];
    let mut tool = any(random);
    // Refused in a dry account, which needs few tries.
    if dry && tool.writes && !tool.has_commands() && !random.one_in(4) {
        tool = any(random);
    }
    let arguments = arguments(random, tool, world, dry);
    Asked {
        method: "tools/call",
        params: json!({"name": tool.name, "arguments": arguments}),
        name: tool.name.clone(),
        read_only: match dry {
            // The only command of a dry account reads.
            true => tool.writes && !tool.has_commands(),
            false => random.one_in(12),
        },
    }
}

fn arguments(random: &mut Random, tool: &Tool, world: &World, dry: bool) -> Value {
    let mut arguments = Map::new();
    for (name, schema) in &tool.arguments {
        let is_required = tool.required.iter().any(|required| required == name);
        let is_sent = match name.as_str() {
            _ if is_required => !random.one_in(20),
            // Each command needs some of the others, and ignores the rest.
            _ if tool.has_commands() => !random.one_in(8),
            "cursor" | "after" | "before" | "version" | "if_version" => random.one_in(8),
            "path" | "uri" | "text" => random.one_in(2),
            _ => random.one_in(3),
        };
        if is_sent {
            let value = match name.as_str() {
                "command" if dry => json!("view"),
                name => value(random, &tool.name, (name, schema), world),
            };
            arguments.insert(name.clone(), value);
        }
    }
    arguments.into()
}

/// Returns a random value of an argument.
fn value(random: &mut Random, tool: &str, (name, schema): (&str, &Value), world: &World) -> Value {
    if let Some(words) = schema["enum"].as_array() {
        return random.pick(words);
    }
    match schema["type"].as_str().unwrap_or_default() {
        "integer" if name == "budget" => json!(100 + random.below(1_000)),
        "integer" => json!(1 + random.below(30)),
        "boolean" => json!(random.one_in(2)),
        "array" if name == "view_range" => json!([1 + random.below(3), -1]),
        "array" => json!(["tea"]),
        _ => json!(text_of(random, tool, name, world)),
    }
}

/// Returns a random text for an argument of this name.
fn text_of(random: &mut Random, tool: &str, name: &str, world: &World) -> String {
    let pick = |random: &mut Random, from: &[&str]| random.pick(from).to_owned();
    match (tool, name) {
        ("memory", "path" | "old_path" | "new_path") => pick(random, &MEMORY_PATHS),
        (_, "path" | "from") => path(random, world),
        (_, "to") if random.one_in(2) => format!("/.user/new-{}.md", random.below(1_000)),
        (_, "to") => path(random, world),
        (_, "uri") => text(random, "uri", "uri", world),
        ("glob", "pattern") => pick(random, &GLOBS),
        (_, "pattern") => pick(random, &EXPRESSIONS),
        (_, "include") => "*.md".to_owned(),
        (_, "at") if random.one_in(2) => pick(random, &MOMENTS),
        (_, "if_version") if random.one_in(3) => "none".to_owned(),
        (_, "at" | "before" | "if_version" | "version") => {
            format!("ver_{:x}-{:x}", 1 + random.below(200), 1 + random.below(200))
        }
        (_, "after" | "cursor") => pick(random, &["a", "AA", "ann-one"]),
        ("remember" | "forget", "text") => format!("Cup {} of tea is green.", random.below(8)),
        // Every text of the world has this word.
        _ => "tea".to_owned(),
    }
}

/// Returns a path of the world in a random spelling: as the trees of those who see it have it, or as the
/// account has it.
fn path(random: &mut Random, world: &World) -> String {
    let path = if random.one_in(3) {
        random.pick(&PATHS).to_owned()
    } else {
        let paths = random.pick(&world.places).paths();
        format!("{}{}", random.pick(&paths), random.pick(&BELOW))
    };
    match random.below(12) {
        0 => format!("/.agent/..{path}"),
        1 => format!("/.user/../..{path}"),
        2 => format!("/.user/session/../.././{path}"),
        3 => path.trim_start_matches('/').to_owned(),
        4 => format!("{path}/.."),
        _ => path,
    }
}

/// Returns the URI of a file, or a text like one.
fn uri(random: &mut Random, world: &World) -> String {
    let path = path(random, world);
    match random.below(10) {
        0 => format!("garth:///%2e%2e{path}"),
        1 => format!("garth:///.agent/%2E%2E{path}"),
        2 => format!("garth:///.user%2f..%2f..{path}"),
        3 => format!("garth://{}{path}", world.account),
        4 => format!("file://{path}"),
        5 => format!("garth:{path}"),
        _ => format!("garth://{path}"),
    }
}

/// Returns the address of a client. Names are mostly left out, so that the key supplies them.
fn address(random: &mut Random, world: &World, read_only: bool) -> String {
    let mut address = "/mcp?tools=all".to_owned();
    for (name, of, chances) in [
        ("agent", "", 5),
        ("user", "", 6),
        ("key", "session key", 12),
        ("chat", "", 8),
        ("session", "id", 8),
        ("class", "class", 6),
    ] {
        if random.one_in(chances) {
            address += &format!("&{name}={}", text(random, name, of, world));
        }
    }
    if read_only {
        address += "&read_only=true";
    }
    address
}
