//! The routes: who may ask what, and how much of an answer is held. What each one takes and answers is in the
//! files below.

mod agents;
mod kv;
mod media;
mod nodes;
mod recall;
mod sessions;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts as _, Path, Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use garth::agent::media::Hydrator;
use garth::agent::workspace::PromptCache;
use garth::datadir::{Admitted, ApiKey, Scope};
use garth::{AccountStore, DataDir, Env, ErrorKind};

use crate::answers::{Answers, PAGE, is_long};
use crate::auth::authorize;
use crate::chat_model::ServedModel;
use crate::compaction::Compactions;
use crate::errors::Refusal;
use crate::limits::{drain, read_body};
use crate::request::KeyId;

/// What requests are answered from.
#[derive(Clone)]
struct Served {
    data_dir: DataDir,
    answers: Arc<Answers>,
    model: Option<ServedModel>,
    compactions: Compactions,
    hydrator: Arc<Hydrator>,
    prompts: Arc<PromptCache>,
}

/// A route.
#[derive(Clone, Copy, Debug)]
enum Call {
    Kv(kv::Call),
    Nodes(nodes::Call),
    Sessions(sessions::Call),
    Agents(agents::Call),
    Recall,
}

impl Call {
    fn all() -> impl Iterator<Item = Self> {
        kv::Call::ALL
            .into_iter()
            .map(Self::Kv)
            .chain(nodes::Call::ALL.into_iter().map(Self::Nodes))
            .chain(sessions::Call::ALL.into_iter().map(Self::Sessions))
            .chain(agents::Call::ALL.into_iter().map(Self::Agents))
            .chain([Self::Recall])
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Kv(call) => call.path(),
            Self::Nodes(call) => call.path(),
            Self::Sessions(call) => call.path(),
            Self::Agents(call) => call.path(),
            Self::Recall => recall::PATH,
        }
    }

    /// The scope it takes.
    const fn scope(self) -> Scope {
        match self {
            Self::Kv(call) => call.scope(),
            Self::Nodes(call) => call.scope(),
            Self::Sessions(call) => call.scope(),
            Self::Agents(call) => call.scope(),
            Self::Recall => Scope::SearchRead,
        }
    }

    /// Whether its answers may be long.
    const fn is_long(self) -> bool {
        match self {
            Self::Kv(call) => call.is_long(),
            Self::Nodes(call) => call.is_long(),
            Self::Sessions(call) => call.is_long(),
            Self::Agents(call) => call.is_long(),
            Self::Recall => true,
        }
    }
}

/// Everything that is served.
pub(crate) fn router(data_dir: DataDir, model: Option<ServedModel>) -> Router {
    let (answers, compactions) = (Arc::new(Answers::new()), Compactions::new());
    let (hydrator, prompts) = <(Arc<Hydrator>, Arc<PromptCache>)>::default();
    let served = Served { data_dir, answers, model, compactions, hydrator, prompts };
    let mut router = Router::new().route("/healthz", get(healthz).fallback(not_get));
    for call in Call::all() {
        router = router.route(call.path(), route(call));
    }
    media::routes(router).fallback(no_route).with_state(served)
}

fn route(call: Call) -> MethodRouter<Served> {
    let handler = move |State(served): State<Served>, request: Request| async move {
        let (mut head, mut body) = request.into_parts();
        if let Call::Agents(_) = call {
            let agent = Path::<String>::from_request_parts(&mut head, &()).await;
            head.extensions.insert(Agent(agent.map(|agent| agent.0).unwrap_or_default()));
        }
        let (key, answered) = match authorize(&served.data_dir, &head.headers, call.scope()).await {
            Ok(admitted) => {
                let answered = bounded(&served, &admitted, call, &head, &mut body).await;
                (Some(KeyId(admitted.key().id.clone())), answered)
            }
            Err(refusal) => (None, Err(refusal)),
        };
        drain(&head.headers, body);
        let mut response = answered.map(json).into_response();
        if let Some(key) = key {
            response.extensions_mut().insert(key);
        }
        response
    };
    post(handler).fallback(not_post)
}

async fn healthz() -> Response {
    json(Bytes::from_static(br#"{"ok":true}"#))
}

async fn no_route(request: Request) -> Refusal {
    refuse(request, Refusal::no_route())
}

async fn not_get(request: Request) -> Refusal {
    refuse(request, Refusal::wrong_method("GET, HEAD"))
}

async fn not_post(request: Request) -> Refusal {
    refuse(request, Refusal::wrong_method("POST"))
}

fn refuse(request: Request, refusal: Refusal) -> Refusal {
    let (head, body) = request.into_parts();
    drain(&head.headers, body);
    refusal
}

fn json(body: Bytes) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

/// Answers a request within the room that there is for answers.
async fn bounded(
    served: &Served,
    admitted: &Admitted,
    call: Call,
    head: &Parts,
    body: &mut Body,
) -> Result<Bytes, Refusal> {
    let body = read_body(&head.headers, body).await?;
    let account = &admitted.key().account;
    let answer = || answer(served, admitted, call, head, &body);
    if call.is_long() {
        let room = served.answers.room(account, PAGE).await?;
        return Ok(room.hold(answer().await?));
    }
    let answered = answer().await?;
    if !is_long(&answered) {
        return Ok(answered);
    }
    if let Some(room) = served.answers.room_now(account, answered.len()) {
        return Ok(room.hold(answered));
    }
    // rather asked again than held while it waits; long answers are those of reads
    drop(answered);
    let room = served.answers.room(account, PAGE).await?;
    Ok(room.hold(answer().await?))
}

async fn answer(
    served: &Served,
    admitted: &Admitted,
    call: Call,
    head: &Parts,
    body: &Bytes,
) -> Result<Bytes, Refusal> {
    let tree = match served.data_dir.tree_of(admitted).await {
        Err(error) if error.is(ErrorKind::NotFound) => return Err(Refusal::unauthorized()), // deleted just now
        tree => tree?,
    };
    let (env, model) = (served.data_dir.env(), served.model.as_ref());
    let (compactions, hydrator, prompts) = (&served.compactions, &*served.hydrator, &*served.prompts);
    let caller = Caller { account: &tree, key: admitted.key(), env, model, compactions, hydrator, prompts };
    match call {
        Call::Kv(call) => kv::answer(&caller, call, head, body).await,
        Call::Nodes(call) => nodes::answer(&caller, call, body).await,
        Call::Sessions(call) => sessions::answer(&caller, call, body).await,
        Call::Agents(call) => {
            let agent = head.extensions.get::<Agent>().map_or("", |agent| &agent.0);
            agents::answer(&caller, call, agent, body).await
        }
        Call::Recall => recall::answer(&caller, body).await,
    }
}

/// The agent that a path names.
#[derive(Clone, Debug)]
struct Agent(String);

/// Who makes a request, and on which tree.
struct Caller<'a> {
    account: &'a Arc<dyn AccountStore>,
    key: &'a ApiKey,
    env: &'a Env,
    /// The language model, if one is set.
    model: Option<&'a ServedModel>,
    compactions: &'a Compactions,
    /// What was read of media lately.
    hydrator: &'a Hydrator,
    /// What is known of texts that were in prompts lately.
    prompts: &'a PromptCache,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_specification_has_a_section_for_each_of_its_routes_and_names_their_scopes() {
        let kv = kv::Call::ALL.map(Call::Kv);
        let nodes = nodes::Call::ALL.map(Call::Nodes);
        let sessions = sessions::Call::ALL.map(Call::Sessions);
        let agents = agents::Call::ALL.map(Call::Agents);
        for (specification, calls) in [
            (include_str!("../../../docs/specs/kv-api.md"), kv.as_slice()),
            (include_str!("../../../docs/specs/nodes.md"), &nodes),
            (include_str!("../../../docs/specs/sessions.md"), &sessions),
            (include_str!("../../../docs/specs/workspace-http.md"), &agents),
        ] {
            let sections = specification.lines().filter_map(|line| line.strip_prefix("### POST "));
            assert!(sections.eq(calls.iter().map(|call| call.path())));
            for call in calls {
                let scope = format!("| `{}` |", call.scope().as_str());
                let row = specification.lines().find(|line| line.starts_with(&scope)).unwrap();
                assert!(row.contains(&format!("`{}`", call.path())), "{row}");
            }
        }
    }
}
