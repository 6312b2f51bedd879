//! Accepting connections, and ending well: once told to stop nothing new is taken, and what is in flight is finished.

use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use garth::{DataDir, Env};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::connection;
use crate::routes::router;

/// How long to wait when the system has no more connections to give (open files, memory).
const PAUSE: Duration = Duration::from_millis(50);

/// Serves a data folder on these sockets until `shutdown` ends. Then requests that have begun are answered; each takes
/// as long as its limits let it, so this returns in bounded time.
///
/// # Errors
/// `InvalidInput` without a socket. A connection that cannot be accepted is logged, and no error.
pub async fn serve(
    home: DataDir,
    listeners: Vec<TcpListener>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    if listeners.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no socket to serve on"));
    }
    let env = home.env().clone();
    let app = router(home);
    let (stop, stopping) = watch::channel(false);
    let mut loops = JoinSet::new();
    for listener in listeners {
        loops.spawn(accept(listener, app.clone(), env.clone(), stopping.clone()));
    }
    shutdown.await;
    stop.send_replace(true);
    while loops.join_next().await.is_some() {}
    Ok(())
}

async fn accept(listener: TcpListener, app: Router, env: Env, mut stopping: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = told_to_stop(&mut stopping) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection::run(stream, app.clone(), env.clone(), stopping.clone()));
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

/// Ends once `serve` is told to stop.
pub(crate) async fn told_to_stop(stopping: &mut watch::Receiver<bool>) {
    // An error means that `serve` itself is gone, which is the same.
    stopping.wait_for(|stop| *stop).await.ok();
}
