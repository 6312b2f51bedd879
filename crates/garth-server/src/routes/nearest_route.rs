//! Suggestion of a route for a path that has none. A wrong suggestion costs more than none, so words count
//! more than letters, and a call that removes is suggested only for a path that is nearly its own.

use garth_agent::nearest::edits;

use super::route::{Method, Route};
use super::table::routes;

/// Longest path in bytes that is compared. A longer one is not mistyped, and comparing it would take time.
const LONGEST: usize = 200;

/// Words of a path, each with a word of routes that means the same.
const SYNONYMS: [(&str, &str); 20] = [
    ("cat", "fetch"),
    ("delete", "remove"),
    ("file", "fs"),
    ("files", "fs"),
    ("get", "fetch"),
    ("incr", "increment"),
    ("ls", "list"),
    ("make", "create"),
    ("mget", "get-many"),
    ("mset", "put-many"),
    ("mv", "move"),
    ("new", "create"),
    ("read", "fetch"),
    ("remove", "delete"),
    ("rename", "move"),
    ("rm", "delete"),
    ("save", "put"),
    ("store", "put"),
    ("write", "commit"),
    ("write", "put"),
];

/// Last words of the paths of calls that remove something.
const REMOVING: [&str; 9] =
    ["collect", "delete", "discard", "forget", "gc", "remove", "reset", "retract", "revoke"];

/// Difference of a path from that of a route. The least one is that of the most similar route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Difference {
    /// Differences of words: 1 for a synonym, 2 for each letter that was inserted, removed or replaced.
    words: usize,
    /// Words of the route that the path lacks.
    missing: usize,
}

/// Returns the name of the route that replaces `path`, or of the most similar one if there is any.
pub(super) fn nearest_route(path: &str) -> Option<String> {
    if let Some(successor) = successor(path) {
        return Some(successor);
    }
    if path.len() > LONGEST {
        return None;
    }
    let path = path.to_lowercase();
    let asked = segments(&path);
    let similar = routes().filter_map(|route| {
        let difference = difference(&asked, &segments(route.path), true)?;
        is_meant(&asked, route, difference).then_some((difference, route))
    });
    similar.min_by_key(|(difference, _)| *difference).map(|(_, route)| route.name())
}

/// Returns the parts of a path, without the version of the API.
fn segments(path: &str) -> Vec<&str> {
    let mut segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let is_version = |segment: &&str| {
        let number = segment.strip_prefix('v');
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if segments.first().is_some_and(is_version) {
        segments.remove(0);
    }
    segments
}

/// Returns true if a path with this difference may stand for the route.
fn is_meant(asked: &[&str], route: &Route, difference: Difference) -> bool {
    let Difference { words, missing } = difference;
    let last = segments(route.path).into_iter().rfind(|segment| !is_argument(segment));
    let removes = route.method == Method::Delete || last.is_some_and(|last| REMOVING.contains(&last));
    let is_near = (words <= 2 && missing == 0) || (words == 0 && asked.len() > 1);
    !asked.is_empty() && missing <= asked.len() && (!removes || is_near)
}

/// Returns the difference of a path from that of a route, from their ends. Each part of the path must be like
/// one of the route, in their order. `is_last`: the last word of the route must be in the path.
fn difference(asked: &[&str], known: &[&str], is_last: bool) -> Option<Difference> {
    let Some((last, before)) = known.split_last() else {
        return asked.is_empty().then(Difference::default);
    };
    let without_last = || difference(asked, before, is_last && is_argument(last));
    let (word, asked_before) = match asked.split_last() {
        Some((word, asked_before)) => (*word, asked_before),
        None if is_last => return None,
        None => {
            let missing = known.iter().filter(|segment| !is_argument(segment)).count();
            return Some(Difference { words: 0, missing });
        }
    };
    if is_argument(last) {
        // The path of a file is the rest of the path. It may be left out, as the agent before a word may.
        let is_rest = last.starts_with("{*");
        let left_out = (is_rest || !is_last).then(without_last).flatten();
        // An argument is any text, so the word before it must be there.
        let taken = difference(asked_before, before, true);
        let more = is_rest.then(|| difference(asked_before, known, is_last)).flatten();
        return [left_out, taken, more].into_iter().flatten().min();
    }
    let found = word_difference(word, last).and_then(|words| {
        let before = difference(asked_before, before, false)?;
        Some(Difference { words: before.words + words, ..before })
    });
    let left_out = without_last().filter(|_| !is_last);
    let left_out = left_out.map(|before| Difference { missing: before.missing + 1, ..before });
    [found, left_out].into_iter().flatten().min()
}

/// Returns true for a part of the path of a route that stands for any text.
fn is_argument(segment: &str) -> bool {
    segment.starts_with('{')
}

/// Returns the difference of two words; `None` unless one is a synonym, or most letters are the same.
fn word_difference(word: &str, known: &str) -> Option<usize> {
    if word == known {
        return Some(0);
    }
    if SYNONYMS.contains(&(word, known)) {
        return Some(1);
    }
    let edits = edits(word, known);
    (3 * edits <= word.chars().count().max(known.len())).then_some(2 * edits)
}

/// Returns the name of the route that replaces a path of an earlier version.
fn successor(path: &str) -> Option<String> {
    let below = |prefix: &str| path.strip_prefix("/v1/").and_then(|path| path.strip_prefix(prefix));
    let now = match (below("nodes/"), below("sessions/"), below("agents/")) {
        (Some(call), ..) => format!("/v1/memories/{call}"),
        (_, Some("withdraw"), _) => "/v1/sessions/retract".to_owned(),
        (_, Some("wrote"), _) => "/v1/sessions/provenance".to_owned(),
        (_, Some("collect"), _) => "/v1/context/gc".to_owned(),
        (_, Some(call), _) => format!("/v1/context/{call}"),
        (.., Some(call)) => match call.split_once("/memory/")?.1 {
            "days" => "/v1/agents/{agent}/daily/list".to_owned(),
            call => format!("/v1/agents/{{agent}}/daily/{call}"),
        },
        _ => return None,
    };
    // Not every such path was a route, so only existing successors are named.
    routes().find(|route| route.path == now).map(Route::name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_routes_by_words_before_letters() {
        for (path, route) in [
            ("/v1/prompt", "POST /v1/agents/{agent}/prompt"),
            ("/v1/pack", "POST /v1/context/pack"),
            ("/v1/append", "POST /v1/sessions/append"),
            ("/v1/keys/create", "POST /v1/admin/keys/create"),
            ("/v1/keys/revoke", "POST /v1/admin/keys/revoke"),
            ("/v1/tree/read", "POST /v1/tree/fetch"),
            ("/v1/tree/ls", "POST /v1/tree/list"),
            ("/v1/tree/write", "POST /v1/tree/commit"),
            ("/v1/fs", "GET /v1/fs/{path}"),
            ("/v1/files/notes/a.md", "GET /v1/fs/{path}"),
            ("/v1/write", "POST /v1/put"),
            ("/v1/read", "POST /v1/tree/fetch"),
            ("/v1/grep", "POST /v1/tree/grep"),
            ("/v1/skills/list", "POST /v1/agents/{agent}/skills/list"),
            ("/v1/agents/scout/promt", "POST /v1/agents/{agent}/prompt"),
            ("/v1/memories/remove", "POST /v1/memories/delete"),
            ("/v1/forgot", "POST /v1/forget"),
            ("/v1/delet", "POST /v1/delete"),
            ("/v1/mset", "POST /v1/put-many"),
            ("/v1/mget", "POST /v1/get-many"),
            ("/v1/incr", "POST /v1/increment"),
            ("/v2/Put/", "POST /v1/put"),
            ("/put", "POST /v1/put"),
            ("/health", "GET /healthz"),
        ] {
            assert_eq!(nearest_route(path).as_deref(), Some(route), "{path}");
        }
    }

    #[test]
    fn suggests_nothing_for_other_paths() {
        for path in ["/", "/v1", "/favicon.ico", "/v1/nothing", "/v1/completely/other/things", "/v1/put/a/b"]
        {
            assert_eq!(nearest_route(path), None, "{path}");
        }
        assert_eq!(nearest_route(&format!("/v1/put{}", "/a".repeat(LONGEST))), None);
    }

    #[test]
    fn removing_calls_are_suggested_for_their_own_paths_alone() {
        for path in ["/v1/prompt", "/v1/reset", "/v1/revoke", "/v1/gc", "/v1/format", "/v1/tree/remove"] {
            let suggested = nearest_route(path).unwrap_or_default();
            let last = suggested.rsplit('/').next().unwrap_or_default();
            assert!(!REMOVING.contains(&last) && !suggested.starts_with("DELETE"), "{path}: {suggested}");
        }
        for route in routes().filter(|route| route.method == Method::Post) {
            let mistyped = format!("{}x", route.path.replace("{agent}", "scout"));
            assert_eq!(nearest_route(&mistyped), Some(route.name()), "{mistyped}");
        }
    }
}
