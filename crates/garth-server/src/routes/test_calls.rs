//! Server for tests of handlers that no route of the table has. They run with real keys and trees, and within
//! the limits of calls.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use garth_engine::env::ManualClock;
use garth_engine::home::{NewKey, Scope};
use garth_engine::model::Timestamp;
use garth_engine::{AccountStore, DataDir, Env};
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tempfile::TempDir;

use super::call::Call;
use super::methods;
use super::route::{Length, Method, Route, Run};
use super::served::Served;
use super::tree::Tree;
use crate::errors::Refusal;
use crate::fields::Field;

/// Account of the server.
pub(crate) const ACCOUNT: &str = "acme";
/// Time at which the clock of the server begins: 2026-01-27T00:00:00Z.
const BEGIN: Timestamp = Timestamp(1_769_472_000_000_000_000);

/// Handler of a test; its answer is JSON.
pub(crate) type TestHandler = for<'a> fn(&'a Call<'a>) -> BoxFuture<'a, Result<Bytes, Refusal>>;

/// Call that only a test makes.
pub(crate) struct TestCall {
    pub(crate) path: &'static str,
    pub(crate) scopes: &'static [Scope],
    pub(crate) tree: Tree,
    pub(crate) fields: &'static [&'static [Field]],
    pub(crate) run: TestHandler,
}

/// Server with one account.
pub(crate) struct TestServer {
    served: Served,
    _clock: ManualClock,
    _folder: TempDir,
}

impl TestServer {
    /// Starts a server.
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (env, clock) = Env::manual(BEGIN);
        let data = DataDir::builder(garth_agent::registry()).env(env).open(folder.path()).unwrap();
        data.create_account(ACCOUNT).await.unwrap();
        let served = Served::new(Arc::new(data), None, Arc::default());
        Self { served, _clock: clock, _folder: folder }
    }

    /// Returns the account.
    pub(crate) async fn account(&self) -> Arc<dyn AccountStore> {
        self.served.home.open(ACCOUNT).await.unwrap()
    }

    /// Creates a key of the account, and returns its secret. `bind` changes the key before.
    pub(crate) async fn key(&self, scopes: &[Scope], bind: impl FnOnce(&mut NewKey)) -> String {
        let mut key = NewKey::new(Some(ACCOUNT), scopes);
        bind(&mut key);
        self.served.home.issue_key(key).await.unwrap().1.reveal().to_owned()
    }

    /// Makes a call at the address `at`, which matches the path of the call.
    pub(crate) async fn call(
        &self,
        key: &str,
        (at, call): (&str, &TestCall),
        body: &Value,
    ) -> Result<Value, Refusal> {
        let route: &'static Route = Box::leak(Box::new(Route {
            method: Method::Post,
            path: call.path,
            summary: "Call of a test.",
            scopes: call.scopes,
            tree: call.tree,
            own_fields: call.fields,
            headers: &[],
            answer: None,
            run: Run::Read(Length::Short, call.run),
        }));
        let app: Router = Router::new()
            .route(call.path, methods(call.path, &[route]))
            .with_state(Arc::new(self.served.clone()));
        let request = hyper::Request::post(at)
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()));
        let answered = TowerToHyperService::new(app).call(request.unwrap()).await;
        let mut response = answered.unwrap_or_else(|never| match never {});
        if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
            return Err(refusal);
        }
        let answer = response.into_body().collect().await.unwrap().to_bytes();
        Ok(serde_json::from_slice(&answer).unwrap())
    }
}
