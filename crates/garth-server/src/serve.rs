//! Accepting connections, and graceful shutdown: nothing new is accepted, and requests in flight are
//! finished.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use garth_engine::Home;
use rmcp::ServerHandler;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::call_limits::CallLimits;
use crate::chat_model::ServedModel;
use crate::connection;
use crate::embedder::ServedEmbedder;
use crate::limits::Limits;
use crate::mcp;
use crate::metrics::{Metrics, MetricsAccess};
use crate::operations::Operations;
use crate::request::{Context, Peer};
use crate::routes::served::SharedState;
use crate::routes::{new_state, router_of};
use crate::site::{Hosts, Origins, Site};
use crate::stopping::Stopping;

/// Pause when the system cannot accept a connection, for lack of files or memory.
const PAUSE: Duration = Duration::from_millis(50);

/// Options of a server. By default, it has no access log, no language model, no embedding service, and the
/// default limits. A server that listens on loopback only then answers under the names of loopback only and
/// does not limit calls; any other one answers under any name and limits them. Pages of other sites may not
/// call it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    access_log: bool,
    model: Option<ServedModel>,
    embedder: Option<ServedEmbedder>,
    limits: Limits,
    limit_calls: Option<bool>,
    hosts: Option<Hosts>,
    origins: Origins,
    metrics: Metrics,
    metrics_access: MetricsAccess,
}

impl Options {
    /// Enables the access log: a `tracing` event of level `INFO` and target `garth_server::access` for each
    /// request, with `request_id`, `key` (id of the API key, or `-`), `method`, `path` (without query),
    /// `status`, `bytes` (of the response body) and `duration_us` (from the head of the request to the
    /// response).
    #[must_use]
    pub fn access_log(self, access_log: bool) -> Self {
        Self { access_log, ..self }
    }

    /// Sets the limits. Default: [`Limits::default`].
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets whether the limits on calls of a key in a minute and on calls of an account at once apply.
    /// `None`, the default: unless every socket is on loopback.
    #[must_use]
    pub fn limit_calls(self, limit_calls: Option<bool>) -> Self {
        Self { limit_calls, ..self }
    }

    /// Sets the names that the header `Host` may have. `None`, the default: those of loopback if every socket
    /// is on loopback, otherwise any.
    #[must_use]
    pub fn hosts(self, hosts: Option<Hosts>) -> Self {
        Self { hosts, ..self }
    }

    /// Sets the origins of pages that may call the server, besides its own.
    #[must_use]
    pub fn origins(self, origins: Origins) -> Self {
        Self { origins, ..self }
    }

    /// Sets the metrics that count the work of the server, and the access to `GET /metrics`. Default: metrics
    /// of its own that everyone may read.
    #[must_use]
    pub fn metrics(self, metrics: Metrics, access: MetricsAccess) -> Self {
        Self { metrics, metrics_access: access, ..self }
    }

    /// Sets the language model for compaction.
    #[must_use]
    pub fn model(self, model: Option<ServedModel>) -> Self {
        Self { model, ..self }
    }

    /// Sets the embedding service for recalls.
    #[must_use]
    pub fn embedder(self, embedder: Option<ServedEmbedder>) -> Self {
        Self { embedder, ..self }
    }
}

/// Serves a home on these sockets until `shutdown` completes. `GET /readyz` fails from then on. After
/// `stop_delay` the sockets are closed, and requests that have begun are finished within their limits;
/// those that last longer than `stop_grace` are cut off.
///
/// # Errors
/// `InvalidInput`: there is no socket. A connection that cannot be accepted is only logged.
pub async fn serve(
    home: Arc<dyn Home>,
    listeners: Vec<TcpListener>,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_routes(home, listeners, options, mcp::router, shutdown).await
}

/// Serves as [`serve`] does, but answers the Model Context Protocol by another handler. The conformance suite
/// of the protocol needs tools, resources and prompts of its own, and tests the transport with them.
///
/// # Errors
/// As [`serve`].
#[doc(hidden)]
pub async fn serve_mcp_handler(
    home: Arc<dyn Home>,
    listeners: Vec<TcpListener>,
    options: Options,
    handler: impl ServerHandler + Clone,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let mcp = move |served| mcp::router_of(served, handler);
    serve_routes(home, listeners, options, mcp, shutdown).await
}

/// Serves a home with these routes of the Model Context Protocol.
async fn serve_routes(
    home: Arc<dyn Home>,
    listeners: Vec<TcpListener>,
    options: Options,
    mcp: impl FnOnce(SharedState) -> Router,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    if listeners.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no socket to serve on"));
    }
    let limits = Arc::new(options.limits);
    let (env, access_log) = (home.env().clone(), options.access_log);
    let is_local = listeners.iter().all(is_on_loopback);
    let calls = match options.limit_calls.unwrap_or(!is_local) {
        true => CallLimits::enforcing(&limits),
        false => CallLimits::default(),
    };
    let hosts = options.hosts.unwrap_or_else(|| if is_local { Hosts::loopback() } else { Hosts::any() });
    let cors = options.origins.cors();
    let site = Arc::new(Site { hosts, origins: options.origins });
    let metrics = options.metrics;
    let context = Context { env, access_log, limits: Arc::clone(&limits), site, metrics: metrics.clone() };
    let (stop, stopping) = watch::channel(false);
    let mut loops = JoinSet::new();
    let access = options.metrics_access;
    let operations = Operations { metrics: metrics.clone(), access, ..Operations::default() };
    let operations = Arc::new(operations);
    let model = options.model.map(|model| metrics.model(model));
    let embedder = options.embedder.map(|embedder| metrics.embedder(embedder));
    let (limited, told) = ((Arc::clone(&limits), calls), Stopping::new(stopping.clone()));
    let served = new_state(home, (model, embedder), limited, told, Arc::clone(&operations));
    let app = router_of(served.clone()).merge(mcp(Arc::new(served)));
    let app = match cors {
        Some(cors) => app.layer(cors),
        None => app,
    };
    for listener in listeners {
        loops.spawn(accept(listener, app.clone(), context.clone(), stopping.clone()));
    }
    shutdown.await;
    operations.readiness.stop();
    sleep(limits.stop_delay).await;
    stop.send_replace(true);
    // Each loop ends with its last connection.
    let ended = async { while loops.join_next().await.is_some() {} };
    if timeout(limits.stop_grace, ended).await.is_err() {
        tracing::warn!("requests in flight were cut off, because they lasted longer than stop_grace");
        // The end of a loop drops its connections.
        loops.shutdown().await;
    }
    Ok(())
}

/// Returns true if only this machine can connect to the socket.
fn is_on_loopback(listener: &TcpListener) -> bool {
    listener.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback())
}

async fn accept(listener: TcpListener, app: Router, context: Context, mut stopping: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = connection::told_to_stop(&mut stopping) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    let client = (stream, Peer(address.ip()));
                    let served = connection::run(client, app.clone(), context.clone(), stopping.clone());
                    let env = context.env.clone();
                    connections.spawn(async move { env.serving(served).await });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(PAUSE).await;
                }
            },
            // Finished connections are removed here, or the set would grow for as long as the server runs.
            Some(_) = connections.join_next() => {}
        }
    }
    // Closed first, so that clients are refused at once while requests in flight are finished.
    drop(listener);
    while connections.join_next().await.is_some() {}
}
