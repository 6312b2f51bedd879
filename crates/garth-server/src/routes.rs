//! Routes. Each request is looked up, admitted, parsed and answered by the table of routes, within the room
//! for answers. The modules below define the fields and the answer of each call.

mod agents;
mod call;
mod header;
mod identity;
mod kv;
mod media;
mod memories;
mod notes;
mod open;
mod recall;
pub mod reference;
mod respond;
mod retry;
mod route;
mod search;
mod served;
mod sessions;
#[cfg(test)]
mod span_tests;
mod table;
mod tree;
mod tree_calls;
mod twins;
#[cfg(test)]
mod write_tests;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts as _, Path, Query, Request, State};
use axum::http::Uri;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use garth_agent::Once;
use garth_engine::datadir::{Admitted, Scope};
use garth_engine::{AccountStore, DataDir};
use serde_json::Value;
use tracing::{Instrument as _, Level, Span};

use self::call::{Answering, Call};
use self::identity::Caller;
use self::respond::{json, refuse, with_key};
use self::retry::{Compared, Retry};
use self::route::{Length, Route, Run, SMALL_BODY};
use self::served::Served;
use self::table::{MEDIA_PATH, nearest_route, routes};
use crate::answers::{PAGE, is_long};
use crate::auth::authorize;
use crate::body::{BodyLimit, drain, read_body};
use crate::chat_model::ServedModel;
use crate::compute::compute;
use crate::embedder::ServedEmbedder;
use crate::errors::Refusal;
use crate::fields::{Field, Fields};
use crate::limits::Limits;
use crate::request::RequestId;

/// Arguments of a path, such as the agent, percent-decoded.
type Arguments = Vec<(String, String)>;

/// Returns the router of everything that is served.
pub(crate) fn router(
    data_dir: DataDir,
    (model, embedder): (Option<ServedModel>, Option<ServedEmbedder>),
    limits: Arc<Limits>,
) -> Router {
    router_of(Served { embedder, ..Served::new(data_dir, model, limits) })
}

fn router_of(served: Served) -> Router {
    let mut router = Router::new();
    for route in routes() {
        router = router.route(route.path, method(route));
    }
    router.fallback(no_route).with_state(served)
}

fn method(route: &'static Route) -> MethodRouter<Served> {
    let handler = move |State(served): State<Served>, request: Request| serve(served, route, request);
    let router = match route.run {
        Run::Health => get(async || json(Bytes::from_static(br#"{"ok":true}"#))),
        Run::Download(_) => get(handler),
        Run::Read(..) | Run::Write(..) | Run::Upload(_) => post(handler),
    };
    router.fallback(async |State(served): State<Served>, request: Request| {
        refuse(&served.limits, request, Refusal::wrong_method(route.allow()))
    })
}

async fn no_route(State(served): State<Served>, request: Request) -> Refusal {
    let nearest = nearest_route(request.uri().path());
    refuse(&served.limits, request, Refusal::no_route(nearest.as_deref()))
}

/// Admits a request to a route, and answers it.
async fn serve(served: Served, route: &'static Route, request: Request) -> Response {
    let (mut head, mut body) = request.into_parts();
    let admitted = match authorize(&served.data_dir, &head.headers, route.scopes).await {
        Ok(admitted) => admitted,
        Err(refusal) => {
            drain(&served.limits, &head.headers, body);
            return refusal.into_response();
        }
    };
    let answered = match arguments(&mut head).await {
        Ok(arguments) => {
            let request =
                Admission { served: &served, admitted: &admitted, route, arguments: &arguments, head: &head };
            let answered = request.answer(&mut body).await;
            answered.map_err(|refusal| request.logged(refusal, &Caller::default()))
        }
        Err(refusal) => Err(refusal),
    };
    drain(&served.limits, &head.headers, body);
    let answered = answered.map_err(|refusal| {
        // A refusal may quote what is stored, for example in a conflict.
        let may_read = !route.writes() || admitted.key().allows(Scope::MemoryRead);
        if may_read { refusal } else { refusal.without_content() }
    });
    with_key(answered.into_response(), &admitted)
}

async fn arguments(head: &mut Parts) -> Result<Arguments, Refusal> {
    let arguments = Path::<Arguments>::from_request_parts(head, &()).await;
    Ok(arguments.map_err(|_| Refusal::validation("the path must be percent-encoded UTF-8"))?.0)
}

/// Request whose key has the scopes of its route.
#[derive(Clone, Copy)]
struct Admission<'a> {
    served: &'a Served,
    admitted: &'a Admitted,
    route: &'static Route,
    arguments: &'a Arguments,
    head: &'a Parts,
}

impl<'a> Admission<'a> {
    async fn answer(self, body: &mut Body) -> Result<Response, Refusal> {
        // The account is opened after the body has arrived, so that slow clients do not keep it open.
        match self.route.run {
            Run::Read(..) | Run::Write(..) => {
                self.refuse_query()?;
                let body = read_body(&self.head.headers, body, self.body_limit()).await?;
                self.answer_off_workers(body).await.map(json)
            }
            Run::Upload(handler) => {
                // The handler reads the body, so the fields are in the query.
                let (query, account) = (query(&self.head.uri)?, self.served.tree(self.admitted).await?);
                let call = self.call(&account, &query, &[])?;
                let span = self.span(&call.caller);
                let stored = async {
                    let call = call.begin_before_body().await?;
                    self.write(Length::Short, handler(call, self.head, body)).await.map(json)
                };
                log_within(span, stored).await
            }
            Run::Download(handler) => {
                let (query, account) = (query(&self.head.uri)?, self.served.tree(self.admitted).await?);
                let call = self.call(&account, &query, &[])?;
                log_within(self.span(&call.caller), handler(&call, self.head)).await
            }
            Run::Health => Err(Refusal::internal().because("health needs no key")),
        }
    }

    fn body_limit(&self) -> BodyLimit<'_> {
        let (limits, account) = (&*self.served.limits, &self.admitted.key().account);
        let instead = self.route.takes_messages().then_some(MEDIA_PATH);
        BodyLimit { max: self.route.max_body(limits), instead, room: &self.served.bodies, account, limits }
    }

    /// Answers a JSON call on the threads that compute, unless it only passes a few bytes on: then changing
    /// the thread would take longer than the call.
    async fn answer_off_workers(self, body: Bytes) -> Result<Bytes, Refusal> {
        if !self.route.computes() && body.len() <= SMALL_BODY {
            return self.answer_here(&body).await;
        }
        let route = self.route;
        // The work runs on another thread, so it owns its data.
        let (served, admitted) = (self.served.clone(), self.admitted.clone());
        let (arguments, head, bytes) = (self.arguments.clone(), self.head.clone(), body.len());
        let work = async move {
            let (served, admitted, arguments, head) = (&served, &admitted, &arguments, &head);
            Admission { served, admitted, route, arguments, head }.answer_here(&body).await
        };
        compute(self.served.data_dir.env(), &self.admitted.key().account, bytes, work).await?
    }

    async fn answer_here(self, body: &Bytes) -> Result<Bytes, Refusal> {
        let account = self.served.tree(self.admitted).await?;
        let call = self.call(&account, body, body)?;
        // Creating a span takes 5% of the time of a small read. A call that only passes a few bytes on and
        // logs nothing meanwhile gets one only if it fails, or at level `DEBUG`.
        let is_watched = self.route.computes() || tracing::enabled!(Level::DEBUG);
        let span = is_watched.then(|| self.span(&call.caller));
        let answering = async {
            match self.route.run {
                Run::Read(length, handler) => self.read(length, || handler(&call)).await,
                Run::Write(length, handler) => {
                    let call = call.begin(&self.served.twins).await?;
                    self.write(length, handler(call)).await
                }
                Run::Upload(_) | Run::Download(_) | Run::Health => {
                    Err(Refusal::internal().because("the call is not in JSON"))
                }
            }
        };
        if let Some(span) = span {
            return log_within(span, answering).await;
        }
        answering.await.map_err(|refusal| {
            // `call` was moved into the write, so it is parsed again, for the log only.
            match refusal.has_cause().then(|| self.call(&account, body, body)) {
                Some(Ok(call)) => self.logged(refusal, &call.caller),
                Some(Err(_)) => self.logged(refusal, &Caller::default()),
                None => refusal,
            }
        })
    }

    /// Returns the span of the request. Everything logged for it carries its id, account, agent, user and
    /// session, never content or a secret. Its level is `ERROR`, so that every filter that shows an event
    /// shows its span.
    fn span(self, caller: &Caller<'_>) -> Span {
        let id = self.head.extensions.get::<RequestId>().map(tracing::field::display);
        let account = &*self.admitted.key().account;
        let agent = Some(&*caller.agent).filter(|agent| !agent.is_empty()).or(caller.agent_id.as_deref());
        let (user, session) = (caller.user.as_deref(), caller.session_name());
        let session = session.as_deref();
        tracing::error_span!("request", id, account, agent, user, session)
    }

    /// Logs the cause of a failure that is not the client's fault.
    fn logged(self, mut refusal: Refusal, caller: &Caller<'_>) -> Refusal {
        if refusal.has_cause() {
            self.span(caller).in_scope(|| refusal.log());
        }
        refusal
    }

    /// Parses a request. `fields` is a JSON object, `body` the bytes that the client sent.
    fn call<'c>(
        self,
        account: &'c Arc<dyn AccountStore>,
        fields: &'c [u8],
        body: &[u8],
    ) -> Result<Call<'c>, Refusal>
    where
        'a: 'c,
    {
        let (served, route, arguments) = (self.served, self.route, self.arguments);
        let declared: Vec<&[Field]> = route.field_groups().collect();
        let fields = Fields::parse((route.path, arguments), fields, &declared)?;
        let retry = match route.writes() {
            true => {
                let headers = route.headers;
                let compared = Compared { path: route.path, arguments, fields: &fields, headers, body };
                Retry::read(&self.head.headers, &compared, served.data_dir.env().now())?
            }
            false => None,
        };
        Ok(Call {
            tree: route.tree,
            caller: Caller::read(route.tree, arguments, &fields)?,
            fields,
            arguments,
            retry,
            once: Once::default(),
            turn: None,
            account,
            key: self.admitted.key(),
            env: served.data_dir.env(),
            model: served.model.as_ref(),
            embedder: served.embedder.as_ref(),
            vectors: &served.vectors,
            answers: &served.answers,
            recalls: &served.recalls,
            model_calls: &served.model_calls,
            compactions: &served.compactions,
            limits: &served.limits,
            hydrator: &served.hydrator,
            prompts: &served.prompts,
            sealing_key: &served.sealing_key,
        })
    }

    /// Refuses a query. The fields belong into the body; in a query they would be ignored, and seem to work.
    fn refuse_query(self) -> Result<(), Refusal> {
        match self.head.uri.query() {
            None | Some("") => Ok(()),
            Some(_) => Err(Refusal::validation("this call takes no query; send its fields in the body")),
        }
    }

    /// Runs a read, within the room for answers.
    async fn read<'c>(self, length: Length, run: impl Fn() -> Answering<'c>) -> Result<Bytes, Refusal> {
        let (answers, account) = (&self.served.answers, &self.admitted.key().account);
        if length == Length::Long {
            // A long answer is built only when there is room for it.
            let room = answers.answer(account, PAGE).await?;
            return Ok(room.hold(run().await?));
        }
        let answer = run().await?;
        // An answer of `Own` is in its room already.
        if length == Length::Own || !is_long(&answer) {
            return Ok(answer);
        }
        if let Some(room) = answers.room_now(account, answer.len()) {
            return Ok(room.hold(answer));
        }
        // Discarded and read again: answers that wait for room would themselves take memory without a bound.
        drop(answer);
        let room = answers.answer(account, PAGE).await?;
        Ok(room.hold(run().await?))
    }

    /// Runs a write, given as a future, once. Room for a long answer is taken before it runs: a committed
    /// write must be answered, whether there is room or not.
    async fn write(self, length: Length, run: Answering<'_>) -> Result<Bytes, Refusal> {
        let (answers, account) = (&self.served.answers, &self.admitted.key().account);
        let room = match length {
            Length::Long => Some(answers.answer(account, PAGE).await?),
            Length::Passed | Length::Short | Length::Waiting | Length::Model | Length::Own => None,
        };
        let answer = run.await?;
        // An answer of `Own` is in its room already.
        if length == Length::Own {
            return Ok(answer);
        }
        let room = room.or_else(|| answers.room_now(account, answer.len()).filter(|_| is_long(&answer)));
        Ok(match room {
            Some(room) => room.hold(answer),
            None => answer,
        })
    }
}

/// Runs the handler of a request within its span, and logs the cause of a failure there.
async fn log_within<T>(
    span: Span,
    answering: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    let answering = async {
        answering.await.map_err(|mut refusal| {
            refusal.log();
            refusal
        })
    };
    answering.instrument(span).await
}

/// Returns the fields of a query as a JSON object of strings.
fn query(uri: &Uri) -> Result<Vec<u8>, Refusal> {
    let Query(pairs) = Query::<Arguments>::try_from_uri(uri)
        .map_err(|_| Refusal::validation("the query must be percent-encoded: name=value, joined by &"))?;
    // As JSON strings, which escape names and values.
    let fields =
        pairs.into_iter().map(|(name, value)| format!("{}:{}", Value::from(name), Value::from(value)));
    Ok(format!("{{{}}}", fields.collect::<Vec<_>>().join(",")).into_bytes())
}
