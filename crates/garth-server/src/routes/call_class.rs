//! Class of a call, by which its key is limited.

use garth_engine::home::Scope;

use super::route::{Length, Route, Run};
use crate::rate_limit::CallClass;

/// Calls that read or compute much for a short request, besides those that need `search:read`.
const SEARCHES: [&str; 22] = [
    "/v1/glob",
    "/v1/sessions/import",
    "/v1/sessions/export",
    "/v1/context/pack",
    "/v1/context/compact",
    "/v1/context/compare",
    "/v1/context/replay",
    "/v1/context/gc",
    "/v1/agents/{agent}/prompt",
    "/v1/agents/{agent}/prompt/compare",
    "/v1/agents/{agent}/reset",
    "/v1/agents/{agent}/transcript",
    "/v1/tree/find",
    "/v1/tree/grep",
    "/v1/tree/glob",
    "/v1/tree/diff",
    "/v1/tree/du",
    "/v1/tree/restore",
    "/v1/admin/overlays/diff",
    "/v1/admin/accounts/collect",
    "/v1/admin/accounts/check",
    "/v1/admin/accounts/reindex",
];

/// Returns the class of a call; `None` for calls without a key.
pub(super) fn class_of(route: &Route) -> Option<CallClass> {
    let searches = route.scopes.contains(&Scope::SearchRead) || SEARCHES.contains(&route.path);
    match route.run {
        Run::Keyless(..) => None,
        _ if searches => Some(CallClass::Search),
        _ if route.writes() => Some(CallClass::Write),
        _ => Some(CallClass::Read),
    }
}

/// Call that may wait for a change, as a client of `consumers`.
const CHANGES: &str = "/v1/tree/changes";

/// Returns true if the call takes a turn among the calls of its account. Calls that mostly wait take none:
/// for a commit or a change, for the bytes of a file, which have room of their own, or for the language
/// model, where they have turns of their own.
pub(super) fn takes_turn(route: &Route) -> bool {
    let waits = matches!(route.run, Run::Read(Length::Waiting, _) | Run::Upload(_) | Run::Download(_));
    !waits && route.path != CHANGES && !route.asks_model()
}

#[cfg(test)]
mod tests {
    use super::super::table::routes;
    use super::*;

    fn class(path: &str) -> Option<CallClass> {
        class_of(routes().find(|route| route.path == path).unwrap())
    }

    #[test]
    fn each_call_has_a_class() {
        for path in SEARCHES {
            assert_eq!(class(path), Some(CallClass::Search), "{path}");
        }
        assert_eq!(class("/v1/search"), Some(CallClass::Search));
        assert_eq!(class("/v1/recall"), Some(CallClass::Search));
        assert_eq!(class("/v1/put"), Some(CallClass::Write));
        assert_eq!(class("/v1/uploads"), Some(CallClass::Write));
        assert_eq!(class("/v1/get"), Some(CallClass::Read));
        assert_eq!(class("/v1/tree/wait"), Some(CallClass::Read));
        assert_eq!(class("/healthz"), None);
        let without: Vec<&str> = routes().filter(|route| class_of(route).is_none()).map(|r| r.path).collect();
        assert_eq!(without, ["/healthz", "/readyz", "/metrics"]);
    }

    #[test]
    fn calls_that_mostly_wait_take_no_turn() {
        let is_transfer = |route: &&Route| matches!(route.run, Run::Upload(_) | Run::Download(_));
        assert!(!routes().filter(is_transfer).any(takes_turn));
        let others = routes().filter(|route| !is_transfer(route) && !takes_turn(route));
        let waiting: Vec<&str> = others.map(|route| route.path).collect();
        let due = ["/v1/context/compact", "/v1/agents/{agent}/reset", "/v1/tree/wait", CHANGES];
        assert_eq!(waiting, due);
    }
}
