//! Routes. Each request is looked up, admitted, parsed and answered by the table of routes, within the room
//! for answers. The modules below define the fields and the answer of each call.

mod admin;
mod agents;
mod batch;
pub(crate) mod call;
mod call_class;
pub(crate) mod client;
mod control;
mod cursor_tree;
mod fs;
mod header;
mod identity;
mod keyless;
mod kv;
mod log_within;
mod media;
mod media_type;
mod memories;
pub(crate) mod memory_tool;
mod nearest_route;
mod notes;
pub(crate) mod open;
pub mod openapi;
mod pages;
pub(crate) mod percent;
pub(crate) mod query;
mod range;
pub(crate) mod recall;
pub mod reference;
pub(crate) mod respond;
mod retry;
pub(crate) mod route;
mod search;
mod search_note;
pub(crate) mod served;
mod sessions;
#[cfg(test)]
mod span_tests;
mod table;
#[cfg(test)]
pub(crate) mod test_calls;
mod transfer;
pub(crate) mod tree;
pub(crate) mod tree_calls;
mod twins;
mod uploads;
#[cfg(test)]
mod write_tests;
pub(crate) mod wrong_keys;

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts as _, Path, Request, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use bytes::Bytes;
use garth_agent::access::{Credential, Reach};
use garth_engine::home::{Admitted, Scope};
use garth_engine::{AccountStore, Home};
use tokio::time::Instant;
use tracing::{Level, Span};

use self::call::{Answering, Call};
use self::call_class::{class_of, takes_turn};
use self::control::{ControlCall, ControlHandler};
use self::cursor_tree::tree_of;
use self::identity::{Caller, named_account};
use self::log_within::log_within;
use self::media_type::check_json;
use self::nearest_route::nearest_route;
use self::pages::add_pages;
use self::query::query;
use self::respond::{json, refuse, with_key};
use self::retry::{Compared, Retry};
use self::route::{Length, Route, Run, SMALL_BODY};
use self::served::{Served, SharedState};
use self::table::{MEDIA_PATH, alias, routes_by_path};
use self::transfer::check_head;
use self::tree::Tree;
use self::wrong_keys::delay;
use crate::answers::{PAGE, is_long};
use crate::auth::{Standing, authorize, bearer};
use crate::body::{BodyLimit, drain, read_body};
use crate::call_limits::CallLimits;
use crate::chat_model::ServedModel;
use crate::compute::compute;
use crate::embedder::ServedEmbedder;
use crate::errors::{Code, Refusal};
use crate::fields::{Field, Fields};
use crate::limits::Limits;
use crate::metrics::Routed;
use crate::operations::Operations;
use crate::rate_limit::{Allowance, CallClass};
use crate::request::{RequestId, StoredBytes};
use crate::stopping::Stopping;

/// Arguments of a path, such as the agent, percent-decoded.
type Arguments = Vec<(String, String)>;

/// Returns the state that all requests share.
pub(crate) fn new_state(
    home: Arc<dyn Home>,
    (model, embedder): (Option<ServedModel>, Option<ServedEmbedder>),
    (limits, calls): (Arc<Limits>, CallLimits),
    stopping: Stopping,
    operations: Arc<Operations>,
) -> Served {
    let (calls, served) = (Arc::new(calls), Served::new(home, model, limits));
    let compactions = served.compactions.clone().metrics(operations.metrics.clone());
    Served { embedder, calls, stopping, compactions, operations, ..served }
}

/// Returns the router of all routes.
pub(crate) fn router_of(served: Served) -> Router {
    let mut router = Router::new();
    for (path, routes) in routes_by_path() {
        let methods = methods(path, &routes);
        if let Some(alias) = alias(path) {
            router = router.route(alias, methods.clone());
        }
        router = router.route(path, methods);
    }
    add_pages(router).fallback(no_route).with_state(Arc::new(served))
}

/// Returns the router of the methods of one path.
fn methods(path: &'static str, routes: &[&'static Route]) -> MethodRouter<SharedState> {
    let mut router = MethodRouter::new();
    for route in routes.iter().copied() {
        let (filter, class) = (route.method.filter(), class_of(route));
        router = match route.run {
            Run::Keyless(handler, _) => {
                router.on(filter, move |State(served): State<SharedState>, request: Request| async move {
                    routed(path, handler(served, request).await)
                })
            }
            Run::Download(_)
            | Run::Read(..)
            | Run::Write(..)
            | Run::Upload(_)
            | Run::ReadControl(_)
            | Run::WriteControl(_) => {
                router.on(filter, move |State(served): State<SharedState>, request: Request| async move {
                    routed(path, serve(served, (route, class), request).await)
                })
            }
        };
    }
    let allow = routes.iter().map(|route| route.method.allow()).collect::<Vec<_>>().join(", ");
    router.fallback(move |State(served): State<SharedState>, request: Request| async move {
        routed(path, refuse(&served.limits, request, Refusal::wrong_method(allow)).into_response())
    })
}

/// Names the route of a response, for the metrics.
fn routed(path: &'static str, mut response: Response) -> Response {
    response.extensions_mut().insert(Routed(path));
    response
}

async fn no_route(State(served): State<SharedState>, request: Request) -> Refusal {
    let nearest = nearest_route(request.uri().path());
    refuse(&served.limits, request, Refusal::no_route(nearest.as_deref()))
}

/// Admits a request to a route, and answers it.
async fn serve(
    served: SharedState,
    (route, class): (&'static Route, Option<CallClass>),
    request: Request,
) -> Response {
    let (mut head, mut body) = request.into_parts();
    // Before the look-up, so that its time counts as passed.
    let looked = Instant::now();
    let admitted = match authorize(&*served.home, &head.headers, route.scopes).await {
        Ok(admitted) => admitted,
        Err(denied) => {
            drain(&served.limits, &head.headers, body);
            delay(&served, &denied, &head).await;
            return denied.refusal.into_response();
        }
    };
    let allowance = served.calls.count(&admitted.key().id, class, served.home.env().now());
    let answered = match allowance.as_ref().map_or(Ok(()), Allowance::check) {
        Ok(()) => answer((&served, &admitted, looked), route, &mut head, &mut body).await,
        Err(refusal) => Err(refusal),
    };
    drain(&served.limits, &head.headers, body);
    let answered = answered.map_err(|refusal| {
        // A refusal may quote what is stored, for example in a conflict.
        let may_read = !route.writes() || admitted.key().allows(route.tree.read_scope());
        if may_read { refusal } else { refusal.without_content(route.tree.read_scope().as_str()) }
    });
    let mut response = with_key(answered.into_response(), &admitted);
    if let Some(allowance) = allowance {
        allowance.write(response.headers_mut());
    }
    response
}

/// Answers an admitted request. `looked` is a time before the key was admitted.
async fn answer(
    (served, admitted, looked): (&SharedState, &Admitted, Instant),
    route: &'static Route,
    head: &mut Parts,
    body: &mut Body,
) -> Result<Response, Refusal> {
    let arguments = arguments(head).await?;
    let (arguments, head) = (&arguments, &*head);
    let request = Admission { served, admitted, route, arguments, head, looked };
    let answered = request.answer(body).await;
    answered.map_err(|refusal| request.logged(refusal, &Caller::default()))
}

async fn arguments(head: &mut Parts) -> Result<Arguments, Refusal> {
    let arguments = Path::<Arguments>::from_request_parts(head, &()).await;
    let message = "the path of the address must be percent-encoded UTF-8";
    Ok(arguments.map_err(|_| Refusal::new(Code::InvalidPath, message))?.0)
}

/// Request whose key has the scopes of its route.
#[derive(Clone, Copy)]
struct Admission<'a> {
    served: &'a SharedState,
    admitted: &'a Admitted,
    route: &'static Route,
    arguments: &'a Arguments,
    head: &'a Parts,
    /// Time before the key was admitted.
    looked: Instant,
}

impl<'a> Admission<'a> {
    async fn answer(self, body: &mut Body) -> Result<Response, Refusal> {
        // The account is opened after a JSON body has arrived, so that slow clients do not keep it open.
        match self.route.run {
            Run::Read(..) | Run::Write(..) | Run::ReadControl(_) | Run::WriteControl(_) => {
                self.refuse_query()?;
                check_json(&self.head.headers)?;
                let body = read_body(&self.head.headers, body, self.body_limit()).await?;
                // Held until the answer is ready. It is taken after the body has arrived: clients that send
                // slowly would hold the turns of all other callers of the account.
                let _turn = match takes_turn(self.route) {
                    true => self.served.calls.turn(self.admitted.key().share()).await?,
                    false => None,
                };
                self.answer_off_workers(body).await.map(json)
            }
            Run::Upload(handler) => {
                check_head(&self.head.headers, self.route.headers)?;
                // The handler reads the body, so the fields are in the query.
                let query = query(&self.head.uri, self.route)?;
                let call = self.call(&query, &[]).await?;
                let span = self.span(&call.caller);
                let stored = async {
                    let call = call.begin_before_body().await?;
                    handler(call, self.head, body).await.map_err(|refusal| self.named(refusal))
                };
                log_within(span, stored).await
            }
            Run::Download(handler) => {
                let query = query(&self.head.uri, self.route)?;
                let call = self.call(&query, &[]).await?;
                let answer = log_within(self.span(&call.caller), handler(&call, self.head)).await;
                let mut answer = answer.map_err(|refusal| self.named(refusal))?;
                answer.extensions_mut().insert(StoredBytes);
                Ok(answer)
            }
            Run::Keyless(..) => Err(Refusal::internal().because("this call needs no key")),
        }
    }

    fn body_limit(&self) -> BodyLimit<'_> {
        let (limits, account) = (&*self.served.limits, self.admitted.key().share());
        let instead = self.route.takes_messages().then_some(MEDIA_PATH);
        BodyLimit { max: self.route.max_body(limits), instead, room: &self.served.bodies, account, limits }
    }

    /// Answers a JSON call on the threads that compute, unless it only passes a few bytes on: then changing
    /// the thread would take longer than the call.
    async fn answer_off_workers(self, body: Bytes) -> Result<Bytes, Refusal> {
        if !self.route.computes() && body.len() <= SMALL_BODY {
            return self.answer_here(&body).await;
        }
        let (route, looked) = (self.route, self.looked);
        // The work runs on another thread, so it owns its data.
        let (served, admitted) = (Arc::clone(self.served), self.admitted.clone());
        let (arguments, head, bytes) = (self.arguments.clone(), self.head.clone(), body.len());
        let work = async move {
            let (served, admitted, arguments, head) = (&served, &admitted, &arguments, &head);
            Admission { served, admitted, route, arguments, head, looked }.answer_here(&body).await
        };
        compute(self.served.home.env(), self.admitted.key().share(), bytes, work).await?
    }

    /// Returns the key of the request, to look it up again.
    fn standing(self) -> Standing<'a> {
        Standing::new(&self.served.home, &self.head.headers, self.admitted, self.looked)
    }

    async fn answer_here(self, body: &Bytes) -> Result<Bytes, Refusal> {
        // The body, the turn of the call or that on the threads that compute may have come late.
        self.standing().renew().await?;
        if let Run::ReadControl(handler) | Run::WriteControl(handler) = self.route.run {
            return log_within(self.span(&Caller::default()), self.answer_control(handler, body)).await;
        }
        let call = self.call(body, body).await?;
        // Creating a span takes 5% of the time of a small read. A call that only passes a few bytes on and
        // logs nothing meanwhile gets one only if it fails, or at level `DEBUG`.
        let is_watched = self.route.computes() || tracing::enabled!(Level::DEBUG);
        let span = is_watched.then(|| self.span(&call.caller));
        let answering = async {
            let answered = match self.route.run {
                Run::Read(length, handler) => self.read(length, || handler(&call)).await,
                Run::Write(length, handler) => {
                    let call = call.begin(&self.served.twins).await?;
                    self.write(length, handler(call)).await
                }
                Run::Upload(_)
                | Run::Download(_)
                | Run::ReadControl(_)
                | Run::WriteControl(_)
                | Run::Keyless(..) => Err(Refusal::internal().because("the call is not in JSON")),
            };
            answered.map_err(|refusal| self.named(refusal))
        };
        if let Some(span) = span {
            return log_within(span, answering).await;
        }
        answering.await.map_err(|refusal| {
            // `call` was moved into the write, so its caller is parsed again, for the log only.
            match refusal.has_cause().then(|| self.caller(body)) {
                Some(Ok(caller)) => self.logged(refusal, &caller),
                Some(Err(_)) => self.logged(refusal, &Caller::default()),
                None => refusal,
            }
        })
    }

    /// Answers a call on the control data, which opens no tree.
    async fn answer_control(self, handler: ControlHandler, body: &Bytes) -> Result<Bytes, Refusal> {
        let declared: Vec<&[Field]> = self.route.field_groups().collect();
        let fields = Fields::parse((self.route.path, self.arguments), body, &declared)?;
        let (retry, key) = (self.retry(&fields, body)?, self.admitted.key());
        let fields = fields.of_tree(Cow::Borrowed(self.admitted.tree()));
        if !key.binding.is_free() {
            // No bound key has the scope `admin`; this holds also if one was stored by other means.
            return Err(Refusal::bound_key());
        }
        // Authenticated by it.
        let token = bearer(&self.head.headers).unwrap_or_default();
        let (admitted, home) = (self.admitted, &*self.served.home);
        let call = ControlCall { fields, admitted, retry, token, home };
        match self.route.writes() {
            true => self.write(Length::Short, handler(&call)).await,
            false => self.read(Length::Long, || handler(&call)).await,
        }
    }

    /// Names the path that a refusal of a call on files is about, for a key that may read. The path has no
    /// links, so it shows the target of one. Other calls name files by other names than paths of their tree.
    fn named(self, refusal: Refusal) -> Refusal {
        let (tree, key) = (self.route.tree, self.admitted.key());
        match tree == Tree::Files && key.allows(tree.read_scope()) {
            true => refusal.naming_path(),
            false => refusal,
        }
    }

    /// Returns the idempotency key of a write, if it has one. `body` are the bytes that the client sent.
    fn retry(self, fields: &Fields<'_>, body: &[u8]) -> Result<Option<Retry>, Refusal> {
        let Self { served, route, arguments, .. } = self;
        if !route.writes() {
            return Ok(None);
        }
        let (method, path, headers) = (route.method.as_str(), route.path, route.headers);
        let compared = Compared { method, path, arguments, fields, headers, body };
        Retry::read(&self.head.headers, &compared, served.home.env().now())
    }

    /// Returns the span of the request. Everything logged for it carries its id, account, agent, user and
    /// session, never content or a secret. Its level is `ERROR`, so that every filter that shows an event
    /// shows its span. A key of the data folder has no account: failures name the one that was read.
    fn span(self, caller: &Caller<'_>) -> Span {
        let id = self.head.extensions.get::<RequestId>().map(tracing::field::display);
        let Some(account) = self.admitted.key().account.as_deref() else {
            return tracing::error_span!("request", id);
        };
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

    /// Parses the fields of a request, a JSON object.
    fn fields<'c>(self, fields: &'c [u8]) -> Result<Fields<'c>, Refusal>
    where
        'a: 'c,
    {
        let binding = &self.admitted.key().binding;
        let declared: Vec<&[Field]> = self.route.field_groups_for(binding).collect();
        Fields::parse((self.route.path, self.arguments), fields, &declared)
    }

    /// Returns the reach of a request. The caller takes over the names that the key fixes.
    fn reach(
        self,
        account: Option<Arc<dyn AccountStore>>,
        caller: &mut Caller<'_>,
    ) -> Result<Reach, Refusal> {
        let (key, tree) = (self.admitted.key(), self.route.tree);
        let is_admin = key.allows(Scope::Admin);
        let credential = Credential { id: &key.id, binding: &key.binding, is_admin };
        let (env, opens) = (self.served.home.env(), account.is_some());
        let reach = Reach::new(account, env, credential, tree.family(), caller.asked())?
            .in_overlay(caller.overlay.as_deref())?;
        if let Some(request) = reach.request().filter(|_| reach.is_bound()) {
            caller.complete(tree, &key.binding, request)?;
        }
        // What an identity reaches takes several reads to open. The account itself takes none.
        if !opens || reach.request().is_none() {
            return Ok(reach);
        }
        Ok(reach.kept_in(&self.served.trees, self.admitted.tree()))
    }

    /// Parses the caller of a request, without its account.
    fn caller<'c>(self, fields: &'c [u8]) -> Result<Caller<'c>, Refusal>
    where
        'a: 'c,
    {
        let (fields, binding) = (self.fields(fields)?, &self.admitted.key().binding);
        let mut caller = Caller::read(self.route.tree, binding, self.arguments, &fields)?;
        self.reach(None, &mut caller)?;
        Ok(caller)
    }

    /// Returns the account that a request names, if it names one; else that of the key, which is `None` for a
    /// key of the data folder.
    async fn account(
        self,
        own: Option<Arc<dyn AccountStore>>,
        named: Option<&str>,
    ) -> Result<Option<Arc<dyn AccountStore>>, Refusal> {
        match (&self.admitted.key().account, named) {
            (Some(own), Some(named)) if own != named => Err(Refusal::other_account(own)),
            (None, Some(named)) => {
                let opened = self.served.tree_named(named).await;
                Ok(Some(opened.map_err(|error| Refusal::from(error).of_account(named))?))
            }
            _ => Ok(own),
        }
    }

    /// Parses a request and opens its account. `fields` is a JSON object, `body` the bytes that the client
    /// sent.
    async fn call<'c>(self, fields: &'c [u8], body: &[u8]) -> Result<Call<'c>, Refusal>
    where
        'a: 'c,
    {
        let (served, route, arguments) = (self.served, self.route, self.arguments);
        let own = match self.admitted.key().account {
            Some(_) => Some(served.tree(self.admitted).await?),
            None => None,
        };
        let fields = self.fields(fields)?;
        let named = named_account(route.tree, &fields)?.map(Cow::into_owned);
        let account = self.account(own, named.as_deref()).await?;
        let retry = self.retry(&fields, body)?;
        let tree = tree_of(&*served.home, self.admitted, route.tree, &fields).await?;
        let fields = fields.of_tree(tree);
        let key = self.admitted.key();
        let mut caller = Caller::read(route.tree, &key.binding, arguments, &fields)?;
        let reach = self.reach(account, &mut caller)?;
        // Operators only read.
        let reach = if route.writes() { reach } else { reach.reading(&served.home) };
        let call = Call::new(served, (key, self.standing()), (route.tree, caller, reach), fields);
        Ok(Call { arguments, retry, ..call })
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
        let (answers, account) = (&self.served.answers, self.admitted.key().share());
        if length == Length::Long {
            // A long answer is built only when there is room for it.
            let room = answers.answer(account, PAGE).await?;
            self.standing().renew().await?;
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
        self.standing().renew().await?;
        Ok(room.hold(run().await?))
    }

    /// Runs a write, given as a future, once. Room for a long answer is taken before it runs: a committed
    /// write must be answered, whether there is room or not.
    async fn write(self, length: Length, run: Answering<'_>) -> Result<Bytes, Refusal> {
        let (answers, account) = (&self.served.answers, self.admitted.key().share());
        let room = match length {
            Length::Long => Some(answers.answer(account, PAGE).await?),
            Length::Passed | Length::Short | Length::Waiting | Length::Model | Length::Own => None,
        };
        // It may have waited for room, or for its turn among equal requests.
        self.standing().renew().await?;
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
