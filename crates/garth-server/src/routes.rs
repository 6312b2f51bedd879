//! The routes: who may call what, and how much of an answer is held. `table` lists them; the files below say
//! what each call takes and answers.

mod agents;
mod call;
mod kv;
mod media;
mod nodes;
mod recall;
mod respond;
mod served;
mod sessions;
mod table;
mod workspace;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts as _, Path, Request, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use garth::DataDir;
use garth::datadir::Admitted;

use self::call::Call;
use self::respond::{json, not_get, not_post, refuse, with_key};
use self::served::Served;
use self::table::{ROUTES, Route, key_value_calls};
use crate::answers::{PAGE, is_long};
use crate::auth::authorize;
use crate::chat_model::ServedModel;
use crate::errors::Refusal;
use crate::fields::Fields;
use crate::limits::{drain, read_body};

/// Returns the router of everything that is served.
pub(crate) fn router(data_dir: DataDir, model: Option<ServedModel>) -> Router {
    let mut router = Router::new().route("/healthz", get(healthz).fallback(not_get));
    for route in ROUTES {
        router = router.route(route.path, method(route));
    }
    media::routes(router).fallback(no_route).with_state(Served::new(data_dir, model))
}

fn method(route: &'static Route) -> MethodRouter<Served> {
    let handler = move |State(served): State<Served>, request: Request| async move {
        let (mut head, mut body) = request.into_parts();
        let agent = match route.names_agent() {
            true => Path::<String>::from_request_parts(&mut head, &()).await.map(|agent| agent.0),
            false => Ok(String::new()),
        };
        let agent = agent.unwrap_or_default();
        let admitted = match authorize(&served.data_dir, &head.headers, route.scope).await {
            Ok(admitted) => admitted,
            Err(refusal) => {
                drain(&head.headers, body);
                return refusal.into_response();
            }
        };
        let answered = bounded(&served, &admitted, route, (&head, &agent), &mut body).await;
        drain(&head.headers, body);
        with_key(answered.map(json).into_response(), &admitted)
    };
    post(handler).fallback(not_post)
}

async fn healthz() -> Response {
    json(Bytes::from_static(br#"{"ok":true}"#))
}

async fn no_route(request: Request) -> Refusal {
    refuse(request, Refusal::no_route(&key_value_calls()))
}

/// Answers a request within the room that there is for answers.
async fn bounded(
    served: &Served,
    admitted: &Admitted,
    route: &Route,
    (head, agent): (&Parts, &str),
    body: &mut Body,
) -> Result<Bytes, Refusal> {
    let body = read_body(&head.headers, body).await?;
    let account = &admitted.key().account;
    let answer = || answer(served, admitted, route, (head, agent), &body);
    if route.is_long {
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
    // Read again rather than held while it waits: only reads give long answers.
    drop(answered);
    let room = served.answers.room(account, PAGE).await?;
    Ok(room.hold(answer().await?))
}

async fn answer(
    served: &Served,
    admitted: &Admitted,
    route: &Route,
    (head, agent): (&Parts, &str),
    body: &Bytes,
) -> Result<Bytes, Refusal> {
    let account = served.tree(admitted).await?;
    let call = Call {
        path: route.path,
        writes: route.writes,
        agent,
        head,
        body,
        fields: Fields::parse(body)?,
        account: &account,
        key: admitted.key(),
        env: served.data_dir.env(),
        model: served.model.as_ref(),
        compactions: &served.compactions,
        hydrator: &served.hydrator,
        prompts: &served.prompts,
    };
    route.answer(&call).await
}
