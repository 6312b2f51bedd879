//! A bounded pool of connections, and the threads that drive them.

use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{Either, select};
use garth_engine::stats::{HomeStats, QueueRecorder};
use garth_engine::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tracing::Instrument as _;

use super::connection::Connection;
use super::pipe::Pipe;
use super::server::check_server;

/// Threads that drive the connections and run calls that must not end early.
const WORKERS: usize = 2;
/// Limit on the time that a call waits for a connection.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Limit on the time to connect to a host, unless the URL has another one.
const LONGEST_CONNECT: Duration = Duration::from_secs(10);
/// Time without an answer after which the network is probed, so that a lost server is noticed.
const PROBE_AFTER: Duration = Duration::from_secs(30);
/// Time that sent bytes may stay without acknowledgement.
const LONGEST_SILENCE: Duration = Duration::from_secs(20);

/// Pool of connections to one database. Its threads end when it is dropped.
pub struct Pool {
    config: Config,
    limit: usize,
    /// A permit for each connection that may be in use. They are given in the order of the calls.
    permits: Arc<Semaphore>,
    /// Idle connections, the one that was used last at the end.
    idle: Mutex<Vec<Connection>>,
    waiting: Arc<QueueRecorder>,
    handle: Handle,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

/// Connection of a pool, in use by one call. Dropping it closes the connection, and the server rolls its
/// transaction back; [`release`](Self::release) gives it back.
pub struct PooledConnection {
    conn: Connection,
    pool: Arc<Pool>,
    /// Dropped after the connection, so that there are never more connections than permits.
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    /// Creates a pool of at most `limit` connections, and checks the server and the role on the first one.
    /// Every other connection is checked as well when it is opened. TLS is not supported.
    ///
    /// # Errors
    /// - `InvalidArgument` for a URL that cannot be parsed; `Unsupported` if it requires TLS.
    /// - `Unsupported` for a server before PostgreSQL 15, one that runs with `fsync=off`, unless the options
    ///   of the URL set `garth.fsync_elsewhere` to `on`, or a database whose encoding is not UTF-8.
    /// - `ReadOnly` for a standby.
    /// - `AccessDenied` for a role that row-level security does not bind, or that the server refuses.
    /// - `Unavailable` if the server cannot be reached, or the system provides no thread.
    pub async fn connect(url: &str, limit: usize) -> Result<Arc<Self>> {
        let config = config_of(url)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("garth-postgres")
            .enable_all()
            .build()
            .map_err(|e| {
                Error::new(ErrorKind::Unavailable, "the system provides no thread").with_source(e)
            })?;
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        let pool = Arc::new(Self {
            config,
            limit,
            permits: Arc::new(Semaphore::new(limit)),
            idle: Mutex::default(),
            waiting: QueueRecorder::new(),
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        });
        pool.connection().await?.release();
        Ok(pool)
    }

    /// Returns an idle connection, or opens one. Waits while all connections are in use, in the order of the
    /// calls.
    ///
    /// # Errors
    /// `WouldBlock` after 30 seconds of waiting; as [`Pool::connect`] for a new connection.
    pub async fn connection(self: &Arc<Self>) -> Result<PooledConnection> {
        let permit = self.permit().await?;
        if let Some(conn) = self.take_idle() {
            return Ok(PooledConnection { conn, pool: Arc::clone(self), _permit: permit });
        }
        let pool = Arc::clone(self);
        // The permit goes along: a caller that is dropped must not free it before the connection is closed.
        self.run(async move {
            let conn = Connection::connect(&pool.config, false).await?;
            check_server(&conn).await?;
            Ok(PooledConnection { conn, pool, _permit: permit })
        })
        .await
    }

    /// Runs a call on the threads of the pool. It runs to its end even if this future is dropped after it was
    /// polled once.
    ///
    /// # Errors
    /// Errors of the call.
    pub async fn run<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match self.handle.spawn(call.in_current_span()).await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Error::new(ErrorKind::Unavailable, "the connections were closed")),
            },
        }
    }

    /// Runs a call as [`run`](Self::run) does, and returns at once.
    pub fn run_later(&self, call: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(call.in_current_span()));
    }

    /// Returns the URL of the database without user, password and options, to show it.
    pub fn place(&self) -> String {
        let ports = self.config.get_ports();
        let hosts = self.config.get_hosts().iter().enumerate().map(|(at, host)| {
            let host = match host {
                Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
                Host::Tcp(name) => name.clone(),
                Host::Unix(folder) => folder.display().to_string(),
            };
            // One port may be that of all hosts.
            match ports.get(at).or(ports.first()) {
                Some(port) => format!("{host}:{port}"),
                None => host,
            }
        });
        let hosts: Vec<String> = hosts.collect();
        // The name of the role is that of the database by default.
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("postgresql://{}/{database}", hosts.join(","))
    }

    /// Adds the counts of connections and of calls that wait for one to `stats`.
    pub fn read_into(&self, stats: &mut HomeStats) {
        let idle = self.idle().len();
        let used = self.limit.saturating_sub(self.permits.available_permits());
        stats.queues.push(self.waiting.read("connection"));
        stats.connections += u64::try_from(idle + used).unwrap_or(u64::MAX);
        stats.idle_connections += u64::try_from(idle).unwrap_or(u64::MAX);
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        // Fails while anybody waits, so that nobody is overtaken.
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        let waiting = self.waiting.enter();
        let timer = self.handle.spawn(async { tokio::time::sleep(LONGEST_WAIT).await });
        let stop = timer.abort_handle();
        let queued = pin!(Arc::clone(&self.permits).acquire_owned());
        let acquired = select(queued, timer).await;
        stop.abort();
        match acquired {
            Either::Left((Ok(permit), _)) => {
                waiting.end();
                Ok(permit)
            }
            Either::Left((Err(_), _)) | Either::Right(_) => {
                let message = "all connections to the database are in use; try again, or allow more";
                Err(Error::new(ErrorKind::WouldBlock, message))
            }
        }
    }

    /// Takes the connection that was used last. Those that the server has closed are dropped.
    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle();
        while let Some(conn) = idle.pop() {
            if !conn.is_closed() {
                return Some(conn);
            }
        }
        None
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PooledConnection {
    /// Gives the connection back. It must have no open transaction.
    pub fn release(self) {
        if !self.conn.is_closed() {
            self.pool.idle().push(self.conn);
        }
    }

    /// Ends a call: gives the connection back after a success, and after an error if the transaction can be
    /// rolled back. Returns the result.
    ///
    /// # Errors
    /// The error of the call.
    pub async fn settle<T>(self, result: Result<T>) -> Result<T> {
        if result.is_ok() {
            self.release();
            return result;
        }
        let mut pipe = Pipe::new(&self.conn);
        pipe.simple("ROLLBACK");
        if !self.conn.is_closed() && pipe.run().await.is_ok() {
            self.release();
        }
        result
    }
}

impl Deref for PooledConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.conn
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The last call may end on one of these threads, which cannot wait for themselves.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl fmt::Debug for PooledConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledConnection").finish_non_exhaustive()
    }
}

/// Parses a URL. Errors repeat nothing of it: it may have a password.
fn config_of(url: &str) -> Result<Config> {
    let invalid = |_| {
        Error::invalid(
            "the URL of the database is not valid; write it as postgresql://USER@HOST:PORT/DATABASE",
        )
    };
    let mut config: Config = url.parse().map_err(invalid)?;
    if config.get_ssl_mode() == SslMode::Require {
        let message = "TLS to the database is not supported; connect through a proxy on this machine, and \
            remove `sslmode` from the URL";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    // After a failover, the first host that answers may be a standby.
    let takes_any = config.get_target_session_attrs() == TargetSessionAttrs::Any;
    if takes_any && config.get_hosts().len() > 1 {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(LONGEST_CONNECT);
    }
    config.keepalives_idle(PROBE_AFTER).keepalives_interval(PROBE_AFTER / 3).keepalives_retries(3);
    config.tcp_user_timeout(LONGEST_SILENCE);
    if config.get_application_name().is_none() {
        config.application_name("garth");
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_require_tls_are_refused() {
        let error = config_of("postgresql://garth@localhost/garth?sslmode=require").unwrap_err();
        assert!(error.is(ErrorKind::Unsupported), "{error}");
        config_of("postgresql://garth@localhost/garth?sslmode=prefer").unwrap();
    }

    #[test]
    fn one_of_several_hosts_must_be_the_primary() {
        let attrs = |url: &str| config_of(url).unwrap().get_target_session_attrs();
        assert_eq!(attrs("postgresql://garth@one/garth"), TargetSessionAttrs::Any);
        assert_eq!(attrs("postgresql://garth@one,two/garth"), TargetSessionAttrs::ReadWrite);
    }

    #[test]
    fn error_of_a_url_repeats_nothing_of_it() {
        for url in [
            concat!("postgresql://garth", ":hidden", "@localhost:port/garth"),
            "hidden",
            "postgresql://hidden?hidden=1",
        ] {
            let error = config_of(url).unwrap_err();
            assert!(error.is(ErrorKind::InvalidArgument), "{error}");
            assert!(!format!("{error} {error:?}").contains("hidden"), "{error:?}");
        }
    }
}
