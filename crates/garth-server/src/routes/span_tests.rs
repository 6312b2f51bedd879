//! Tests the log of a request: its events name account, agent, user and session, and contain none of its
//! content.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use futures::FutureExt as _;
use garth_engine::home::{NewKey, Scope};
use garth_engine::{DataDir, Env};
use garth_testkit::logs::{Logged, all_text, capture, logged};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};

use super::call::{Answering, Call};
use super::route::{Length, Method, Route, Run};
use super::served::Served;
use super::sessions::CreateFields;
use super::tree::Tree;
use super::{methods, router_of};
use crate::errors::Refusal;
use crate::fields::FieldGroup as _;
use crate::limits::Limits;

const CONTENT: &str = "the canary of a message";

/// Returns a route that logs a warning and fails.
const fn failing(path: &'static str, length: Length) -> Route {
    fn fail<'a>(call: &'a Call<'a>) -> Answering<'a> {
        async move {
            tracing::warn!("warning of {}", call.key.share());
            Err(Refusal::internal().because(format!("cause of {}", call.key.share())))
        }
        .boxed()
    }
    Route {
        method: Method::Post,
        path,
        summary: "Fails.",
        scopes: &[Scope::MemoryRead],
        tree: Tree::Sessions,
        own_fields: CreateFields::FIELDS,
        headers: &[],
        answer: None,
        run: Run::Read(length, fail),
    }
}

/// Route that runs on the thread that reads the request.
static PASSED: Route = failing("/v1/passed", Length::Passed);
/// Route that runs on the threads that compute.
static COMPUTED: Route = failing("/v1/computed", Length::Short);

async fn post(served: &Served, key: &str, route: &'static Route, body: &Value) {
    let state = Arc::new(served.clone());
    let app: Router = Router::new().route(route.path, methods(route.path, &[route])).with_state(state);
    let request = hyper::Request::post(route.path)
        .header("authorization", format!("Bearer {key}"))
        .body(Body::from(body.to_string()));
    let response = TowerToHyperService::new(app).call(request.unwrap()).await;
    let response = response.unwrap_or_else(|never| match never {});
    assert_eq!(response.status(), 500);
}

async fn post_to(served: &Served, key: &str, path: &str, body: &Value) -> u16 {
    let request = hyper::Request::post(path)
        .header("authorization", format!("Bearer {key}"))
        .body(Body::from(body.to_string()));
    let response = TowerToHyperService::new(router_of(served.clone())).call(request.unwrap()).await;
    response.unwrap_or_else(|never| match never {}).status().as_u16()
}

fn one(text: &str) -> Logged {
    let mut events = logged(text);
    assert_eq!(events.len(), 1, "{text}: {events:?}");
    events.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn request_log_names_account_agent_user_session() {
    capture();
    let folder = tempfile::tempdir().unwrap();
    let data: DataDir =
        DataDir::open(&folder.path().join("data"), Env::system(), garth_agent::registry()).unwrap();
    let served = Served::new(Arc::new(data.clone()), None, Arc::new(Limits::default()));
    let mut keys = Vec::new();
    for (route, account) in [
        (&PASSED, "passed-one"),
        (&COMPUTED, "computed-one"),
        (&PASSED, "passed-two"),
        (&COMPUTED, "computed-two"),
    ] {
        data.create_account(account).await.unwrap();
        let (_, secret) = data.control().create_key(account, "test", &[Scope::Admin]).await.unwrap();
        let body = json!({"agent": "scout", "user": "ann", "name": account, "title": CONTENT});
        post(&served, secret.reveal(), route, &body).await;
        // A call that passes a few bytes on creates its span only if it fails.
        let texts = if route.computes() { &["warning", "cause"][..] } else { &["cause"] };
        for text in texts {
            let event = one(&format!("{text} of {account}"));
            let (name, _) = event.spans.last().unwrap();
            assert_eq!(*name, "request");
            let field = |name: &str| event.field(name).map(str::to_owned);
            let named = ["account", "agent", "user", "session"].map(field);
            assert_eq!(named, [account, "scout", "ann", account].map(|name| Some(name.to_owned())));
        }
        keys.push(secret.reveal().to_owned());
    }
    let (_, secret) = data.control().issue_key(NewKey::new(None, &[Scope::Admin])).await.unwrap();
    post(&served, secret.reveal(), &PASSED, &json!({"agent": "scout", "user": "eve", "name": "none"})).await;
    let mut of_operator = logged("cause of ");
    of_operator.retain(|event| event.field("account").is_none());
    assert_eq!(of_operator.len(), 1, "{of_operator:?}");
    keys.push(secret.reveal().to_owned());
    let all = all_text();
    for secret in keys.iter().map(String::as_str).chain([CONTENT]) {
        assert!(!all.contains(secret), "{all}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_names_the_account_that_an_operator_reads() {
    capture();
    let folder = tempfile::tempdir().unwrap();
    let open = || DataDir::open(&folder.path().join("data"), Env::system(), garth_agent::registry()).unwrap();
    let data: DataDir = open();
    let accounts = ["unread-one", "unread-two", "unread-three"];
    for account in accounts {
        let stored = data.create_account(account).await.unwrap().folder;
        // Elsewhere, because the data folder may still have it open.
        std::fs::rename(data.folder().join("accounts").join(stored), folder.path().join(account)).unwrap();
    }
    let new = NewKey::new(None, &[Scope::Admin]);
    let (_, secret) = data.control().issue_key(new).await.unwrap();
    let served = Served::new(Arc::new(open()), None, Arc::new(Limits::default()));
    let post = async |call: &str, body: Value| post_to(&served, secret.reveal(), call, &body).await;
    let of_item = json!({"items": [{"path": "/accounts/unread-two/f"}]});
    assert_eq!(post("/v1/tree/list", json!({"path": "/accounts/unread-one"})).await, 500);
    assert_eq!(post("/v1/tree/fetch-many", of_item).await, 200);
    assert_eq!(post("/v1/admin/rules/list", json!({"account": "unread-three"})).await, 500);
    for account in accounts {
        let is_of_it = |event: &Logged| {
            event.field("account") == Some(account) && event.spans.iter().any(|(name, _)| *name == "request")
        };
        let events: Vec<Logged> =
            logged("the account's database is missing").into_iter().filter(is_of_it).collect();
        assert_eq!(events.len(), 1, "{account}: {events:?}");
    }
}
