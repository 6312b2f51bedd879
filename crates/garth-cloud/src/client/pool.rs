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
use tracing::Instrument as _;

use super::address::{config_of, place};
use super::connection::Connection;
use super::pipe::Pipe;
use super::server::check_server;

/// Threads that drive the connections and run calls that must not end early.
const WORKERS: usize = 2;
/// Limit on the time that a call waits for a connection.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Pool of connections to one database. Its threads end when it is dropped.
pub struct Pool {
    config: Config,
    limit: usize,
    /// A permit for each connection that may be in use. They are given in the order of the calls.
    permits: Arc<Semaphore>,
    /// Idle connections, the one that was used last at the end.
    idle: Mutex<Vec<Connection>>,
    waiting: Arc<QueueRecorder>,
    /// Permits of work in the background, so that connections are left for calls.
    background: Arc<Semaphore>,
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
    ///   of the URL set `garth.fsync_elsewhere` to `on`, a role with `synchronous_commit=off`, or a database
    ///   whose encoding is not UTF-8.
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
            background: Arc::new(Semaphore::new((limit / 4).max(1))),
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

    /// Returns a permit for work in the background, which holds it to its end; `None` while enough of it is
    /// going on.
    pub fn background(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.background).try_acquire_owned().ok()
    }

    /// Returns the most connections that may be open.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the URL of the database without user, password and options, to show it.
    pub fn place(&self) -> String {
        place(&self.config)
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
