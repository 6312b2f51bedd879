//! Accepting connections, and ending well: once told to stop nothing new is taken, and what is in flight is
//! finished.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use garth_engine::DataDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::chat_model::ServedModel;
use crate::connection;
use crate::limits::Limits;
use crate::request::Context;
use crate::routes::router;

/// How long to wait when the system has no more connections to give (open files, memory).
const PAUSE: Duration = Duration::from_millis(50);

/// What an operator can choose. [`Options::default`] serves without an access log and without a
/// language model, within the default limits.
#[derive(Clone, Debug, Default)]
pub struct Options {
    access_log: bool,
    model: Option<ServedModel>,
    limits: Limits,
}

impl Options {
    /// Whether each request leaves a line in the log: a `tracing` event of level `INFO` and target
    /// `garth_server::access` with `request_id`, `key` (the id of the API key, or `-`), `method`, `path`
    /// (without query), `status`, `bytes` (of the answer's body) and `duration_us` (from the head of the
    /// request to the answer).
    #[must_use]
    pub fn access_log(self, access_log: bool) -> Self {
        Self { access_log, ..self }
    }

    /// Serves within these limits. Default: [`Limits::default`].
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The language model that compaction asks.
    #[must_use]
    pub fn model(self, model: Option<ServedModel>) -> Self {
        Self { model, ..self }
    }
}

/// Serves a data folder on these sockets until `shutdown` ends. Then requests that have begun are answered;
/// each takes as long as its limits let it, so this returns in bounded time.
///
/// # Errors
/// `InvalidInput` without a socket. A connection that cannot be accepted is logged, and no error.
pub async fn serve(
    data_dir: DataDir,
    listeners: Vec<TcpListener>,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    if listeners.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no socket to serve on"));
    }
    let limits = Arc::new(options.limits);
    let (env, access_log) = (data_dir.env().clone(), options.access_log);
    let context = Context { env, access_log, limits: Arc::clone(&limits) };
    let (stop, stopping) = watch::channel(false);
    let mut loops = JoinSet::new();
    let app = router(data_dir, options.model, limits);
    for listener in listeners {
        loops.spawn(accept(listener, app.clone(), context.clone(), stopping.clone()));
    }
    shutdown.await;
    stop.send_replace(true);
    while loops.join_next().await.is_some() {}
    Ok(())
}

async fn accept(listener: TcpListener, app: Router, context: Context, mut stopping: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = connection::told_to_stop(&mut stopping) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let served = connection::run(stream, app.clone(), context.clone(), stopping.clone());
                    let env = context.env.clone();
                    connections.spawn(async move { env.serving(served).await });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}
