//! Names in the description: of operations, which become names of functions in generated clients, and tags.

use crate::routes::route::{Method, Route, Run};
use crate::routes::tree::Tree;

/// Tags with their meanings, in the order of the reference. The description names those that are in use.
pub(super) const TAGS: [(&str, &str); 16] = [
    ("kv", "Keys and values of an agent."),
    ("search", "Search over values, files, messages and memories."),
    ("notes", "Facts that are stored or deleted in one step."),
    ("memories", "Memories, addressed by URI."),
    ("memory_tool", "Memory tool of Claude models."),
    ("sessions", "Sessions and transcripts."),
    ("context", "Context windows of sessions."),
    ("agents", "Workspaces of agents: prompts, daily notes, resets, media and skills."),
    ("recall", "Sources relevant to a question, for a model."),
    ("tree", "Files of a tree, call by call."),
    ("batch", "Several operations on files in one commit."),
    ("fs", "Bytes of files."),
    ("uploads", "Content for a later commit."),
    ("admin", "Administration of accounts, keys, rules, quotas, retention, overlays and snapshots."),
    ("changes", "Changes as they are committed."),
    ("service", "State of the service."),
];

/// Returns the tag of a call.
pub(super) fn tag(route: &Route) -> &'static str {
    if !route.path.starts_with("/v1/") {
        return "service";
    }
    let first = words(route).into_iter().next().unwrap_or_default();
    let first = if matches!(&*first, "remember" | "forget") { "notes".to_owned() } else { first };
    TAGS.iter().map(|(name, _)| *name).find(|name| *name == first).unwrap_or("service")
}

/// Returns the id of the operation: the words of its path, and the method unless it is a call in JSON.
pub(super) fn operation_id(route: &Route) -> String {
    let mut words = words(route);
    let method = match (route.method, &route.run) {
        (_, Run::Keyless(..)) | (Method::Post, Run::Read(..) | Run::Write(..)) => None,
        (Method::Post, Run::ReadControl(_) | Run::WriteControl(_)) => None,
        // An upload to a path that has no method `PUT`.
        (Method::Post | Method::Put, _) => Some("put"),
        (Method::Get, _) => Some("get"),
        (Method::Patch, _) => Some("patch"),
        (Method::Delete, _) => Some("delete"),
    };
    words.extend(method.map(str::to_owned));
    words.join("_")
}

/// Returns the words of a path without its version and arguments. Keys and values have no word of their own
/// in the path, and get one.
fn words(route: &Route) -> Vec<String> {
    let family = (route.tree == Tree::KeyValues).then(|| "kv".to_owned());
    let segments = route
        .path
        .split('/')
        .filter(|segment| !segment.is_empty() && *segment != "v1" && !segment.starts_with('{'));
    family.into_iter().chain(segments.map(|segment| segment.replace(['-', '.'], "_"))).collect()
}

/// Returns a path in the form of OpenAPI, where an argument stands for one segment.
pub(super) fn template(path: &str) -> String {
    path.replace("{*", "{")
}

/// Returns the name of the schema of a request: `KvPutRequest` for `kv_put`.
pub(super) fn request_name(operation: &str) -> String {
    let mut name = String::new();
    for word in operation.split('_') {
        let mut chars = word.chars();
        name.extend(chars.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(chars.as_str());
    }
    name + "Request"
}
