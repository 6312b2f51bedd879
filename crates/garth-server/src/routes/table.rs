//! The table of routes: each call with its path, the scope that it takes, and the function that answers it.
//! Requests are looked up, admitted and answered by this table alone. (Media as they are have routes of
//! their own, `media`.)

use bytes::Bytes;
use garth::datadir::Scope;

use super::call::Call;
use super::respond::IntoBody as _;
use super::{agents, kv, nodes, recall, sessions};
use crate::errors::Refusal;

/// Route of one call.
pub(super) struct Route {
    pub(super) path: &'static str,
    /// Scope that the key of a caller must have.
    pub(super) scope: Scope,
    pub(super) writes: bool,
    /// True if answers may be long: they wait for room before they are made.
    pub(super) is_long: bool,
    handler: Handler,
}

/// Function that answers a call, by what it is given besides the call.
#[derive(Clone, Copy)]
enum Handler {
    /// Key-value API of the account.
    Kv(kv::Handler),
    /// Context nodes of the account, or those that an agent reaches in a chat.
    Nodes(nodes::Handler),
    /// Sessions of an agent with a user.
    Sessions(sessions::Handler),
    /// Workspace of the agent in the path.
    Workspace(agents::Handler),
    /// Tree of the account.
    Account(recall::Handler),
}

const READS: bool = false;
const WRITES: bool = true;
const SHORT: bool = false;
const LONG: bool = true;

macro_rules! routes {
    ($($path:literal $scope:ident $writes:ident $is_long:ident $of:ident($answer:path);)*) => {
        &[$(Route {
            path: $path,
            scope: Scope::$scope,
            writes: $writes,
            is_long: $is_long,
            handler: Handler::$of(|of, call| Box::pin(async move { Ok($answer(of, call).await?.into_body()) })),
        }),*]
    };
}

/// Routes, in the order of the specifications.
pub(super) static ROUTES: &[Route] = routes! {
    "/v1/put"                                MemoryWrite  WRITES  SHORT  Kv(kv::put);
    "/v1/get"                                MemoryRead   READS   SHORT  Kv(kv::get);
    "/v1/delete"                             MemoryWrite  WRITES  SHORT  Kv(kv::delete);
    "/v1/list"                               MemoryRead   READS   SHORT  Kv(kv::list);
    "/v1/glob"                               MemoryRead   READS   SHORT  Kv(kv::glob);
    "/v1/history"                            MemoryRead   READS   LONG   Kv(kv::history);
    "/v1/search"                             SearchRead   READS   LONG   Kv(kv::search);

    "/v1/nodes/put"                          MemoryWrite  WRITES  SHORT  Nodes(nodes::put);
    "/v1/nodes/get"                          MemoryRead   READS   LONG   Nodes(nodes::get);
    "/v1/nodes/exists"                       MemoryRead   READS   SHORT  Nodes(nodes::exists);
    "/v1/nodes/list"                         MemoryRead   READS   LONG   Nodes(nodes::list);
    "/v1/nodes/tag"                          MemoryWrite  WRITES  SHORT  Nodes(nodes::tag);
    "/v1/nodes/relate"                       MemoryWrite  WRITES  SHORT  Nodes(nodes::relate);
    "/v1/nodes/unrelate"                     MemoryWrite  WRITES  SHORT  Nodes(nodes::unrelate);
    "/v1/nodes/relations"                    MemoryRead   READS   LONG   Nodes(nodes::relations);
    "/v1/nodes/move"                         MemoryWrite  WRITES  SHORT  Nodes(nodes::move_to);
    "/v1/nodes/delete"                       MemoryWrite  WRITES  SHORT  Nodes(nodes::delete);

    "/v1/sessions/create"                    MemoryWrite  WRITES  SHORT  Sessions(sessions::create);
    "/v1/sessions/get"                       MemoryRead   READS   SHORT  Sessions(sessions::get);
    "/v1/sessions/list"                      MemoryRead   READS   LONG   Sessions(sessions::list);
    "/v1/sessions/current"                   MemoryWrite  WRITES  SHORT  Sessions(sessions::current);
    "/v1/sessions/set"                       MemoryWrite  WRITES  SHORT  Sessions(sessions::set);
    "/v1/sessions/append"                    MemoryWrite  WRITES  SHORT  Sessions(sessions::append);
    "/v1/sessions/lines"                     MemoryRead   READS   LONG   Sessions(sessions::lines);
    "/v1/sessions/withdraw"                  MemoryWrite  WRITES  SHORT  Sessions(sessions::withdraw);
    "/v1/sessions/resolve"                   MemoryRead   READS   SHORT  Sessions(sessions::resolve);
    "/v1/sessions/import"                    MemoryWrite  WRITES  SHORT  Sessions(sessions::transcripts::import);
    "/v1/sessions/export"                    MemoryRead   READS   LONG   Sessions(sessions::transcripts::export);
    "/v1/sessions/derive"                    MemoryWrite  WRITES  SHORT  Sessions(sessions::context::derive);
    "/v1/sessions/why"                       MemoryRead   READS   SHORT  Sessions(sessions::context::why);
    "/v1/sessions/pin"                       MemoryWrite  WRITES  SHORT  Sessions(sessions::context::pin);
    "/v1/sessions/compact"                   MemoryWrite  WRITES  SHORT  Sessions(sessions::context::compact);
    "/v1/sessions/pack"                      MemoryWrite  WRITES  LONG   Sessions(sessions::context::pack);
    "/v1/sessions/replay"                    MemoryRead   READS   LONG   Sessions(sessions::context::replay);
    "/v1/sessions/compare"                   MemoryRead   READS   SHORT  Sessions(sessions::context::compare);
    "/v1/sessions/swap-out"                  MemoryWrite  WRITES  SHORT  Sessions(sessions::context::swap_out);
    "/v1/sessions/swap-in"                   MemoryWrite  WRITES  SHORT  Sessions(sessions::context::swap_in);
    "/v1/sessions/swapped"                   MemoryRead   READS   SHORT  Sessions(sessions::context::swapped);
    "/v1/sessions/dedup"                     MemoryWrite  WRITES  SHORT  Sessions(sessions::context::dedup);
    "/v1/sessions/spawn"                     MemoryWrite  WRITES  SHORT  Sessions(sessions::context::spawn);
    "/v1/sessions/children"                  MemoryRead   READS   SHORT  Sessions(sessions::context::children);
    "/v1/sessions/set-child"                 MemoryWrite  WRITES  SHORT  Sessions(sessions::context::set_child);
    "/v1/sessions/collect"                   MemoryWrite  WRITES  SHORT  Sessions(sessions::context::collect);
    "/v1/sessions/wrote"                     MemoryRead   READS   SHORT  Sessions(sessions::context::wrote);
    "/v1/sessions/publish"                   MemoryWrite  WRITES  SHORT  Sessions(sessions::publish);

    // A prompt leaves an event with its session.
    "/v1/agents/{agent}/prompt"              MemoryWrite  WRITES  LONG   Workspace(agents::prompt::build);
    "/v1/agents/{agent}/prompt/compare"      MemoryRead   READS   LONG   Workspace(agents::prompt::compare);
    "/v1/agents/{agent}/memory/add"          MemoryWrite  WRITES  SHORT  Workspace(agents::memory::add);
    "/v1/agents/{agent}/memory/get"          MemoryRead   READS   LONG   Workspace(agents::memory::get);
    "/v1/agents/{agent}/memory/days"         MemoryRead   READS   LONG   Workspace(agents::memory::days);
    "/v1/agents/{agent}/reset"               MemoryWrite  WRITES  SHORT  Workspace(agents::archives::reset);
    "/v1/agents/{agent}/archives"            MemoryRead   READS   LONG   Workspace(agents::archives::list);
    "/v1/agents/{agent}/transcript"          MemoryRead   READS   LONG   Workspace(agents::archives::transcript);
    "/v1/agents/{agent}/media/list"          MemoryRead   READS   LONG   Workspace(agents::media::list);
    "/v1/agents/{agent}/media/delete"        MemoryWrite  WRITES  SHORT  Workspace(agents::media::delete);
    "/v1/agents/{agent}/skills/list"         MemoryRead   READS   LONG   Workspace(agents::skills::list);
    "/v1/agents/{agent}/skills/get"          MemoryRead   READS   LONG   Workspace(agents::skills::get);
    "/v1/agents/{agent}/skills/read"         MemoryRead   READS   LONG   Workspace(agents::skills::read);
    "/v1/agents/{agent}/skills/write"        MemoryWrite  WRITES  LONG   Workspace(agents::skills::write);
    "/v1/agents/{agent}/skills/edit"         MemoryWrite  WRITES  LONG   Workspace(agents::skills::edit);
    "/v1/agents/{agent}/skills/install"      MemoryWrite  WRITES  LONG   Workspace(agents::skills::install);
    "/v1/agents/{agent}/skills/publish"      MemoryWrite  WRITES  LONG   Workspace(agents::skills::publish);

    "/v1/recall"                             SearchRead   READS   LONG   Account(recall::recall);
};

impl Route {
    /// Answers a call.
    pub(super) async fn answer(&self, call: &Call<'_>) -> Result<Bytes, Refusal> {
        match self.handler {
            Handler::Kv(handler) => kv::answer(call, handler).await,
            Handler::Nodes(handler) => nodes::answer(call, handler).await,
            Handler::Sessions(handler) => sessions::answer(call, handler).await,
            Handler::Workspace(handler) => agents::answer(call, handler).await,
            Handler::Account(handler) => handler(call.account, call).await,
        }
    }

    /// Returns true if the path names an agent.
    pub(super) const fn names_agent(&self) -> bool {
        matches!(self.handler, Handler::Workspace(_))
    }
}

/// Returns the names of the calls of the key-value API, separated by commas.
pub(super) fn key_value_calls() -> String {
    let calls = ROUTES.iter().filter(|route| matches!(route.handler, Handler::Kv(_)));
    let names: Vec<&str> = calls.map(|route| route.path.trim_start_matches("/v1/")).collect();
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_specification_has_a_section_for_each_of_its_routes_and_names_their_scopes() {
        let calls = |of: fn(&Handler) -> bool| ROUTES.iter().filter(move |route| of(&route.handler));
        for (specification, calls) in [
            (
                include_str!("../../../../docs/specs/kv-api.md"),
                calls(|handler| matches!(handler, Handler::Kv(_))),
            ),
            (
                include_str!("../../../../docs/specs/nodes.md"),
                calls(|handler| matches!(handler, Handler::Nodes(_))),
            ),
            (
                include_str!("../../../../docs/specs/sessions.md"),
                calls(|handler| matches!(handler, Handler::Sessions(_))),
            ),
            (
                include_str!("../../../../docs/specs/workspace-http.md"),
                calls(|handler| matches!(handler, Handler::Workspace(_))),
            ),
        ] {
            let sections = specification.lines().filter_map(|line| line.strip_prefix("### POST "));
            assert!(sections.eq(calls.clone().map(|call| call.path)));
            for call in calls {
                let scope = format!("| `{}` |", call.scope.as_str());
                let row = specification.lines().find(|line| line.starts_with(&scope)).unwrap();
                assert!(row.contains(&format!("`{}`", call.path)), "{row}");
            }
        }
    }

    #[test]
    fn only_a_key_that_may_write_reaches_a_route_that_writes() {
        for route in ROUTES {
            assert_eq!(route.writes, route.scope == Scope::MemoryWrite, "{}", route.path);
        }
    }
}
