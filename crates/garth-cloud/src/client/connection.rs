//! A connection, driven by a task of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::lock::Mutex;
use garth_engine::Result;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, NoTls, Statement};

use super::errors::failed;

/// Connection to the database.
pub struct Connection {
    client: Client,
    /// Statements that were prepared, by their text; `None` if statements are unnamed, as poolers need.
    prepared: Option<Mutex<HashMap<String, Statement>>>,
    trips: AtomicU64,
    statements: AtomicU64,
}

impl Connection {
    /// Connects, without TLS. With `prepare`, each statement is prepared once, which takes a round trip and
    /// which a pooler of transactions may not allow. Must be called on a runtime of tokio, which then drives
    /// the connection.
    ///
    /// # Errors
    /// `Unavailable` if the server cannot be reached.
    pub async fn connect(config: &Config, prepare: bool) -> Result<Self> {
        let (client, driver) = config.connect(NoTls).await.map_err(failed)?;
        // It ends with the client. Errors are returned to the statements under way.
        tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "a connection to the database ended");
            }
        });
        let prepared = prepare.then(Mutex::default);
        Ok(Self { client, prepared, trips: AtomicU64::new(0), statements: AtomicU64::new(0) })
    }

    /// Returns the number of round trips so far, apart from those that prepare statements.
    pub fn trips(&self) -> u64 {
        self.trips.load(Ordering::Relaxed)
    }

    /// Returns the number of statements so far.
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Returns true once the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn count(&self, statements: usize) {
        self.trips.fetch_add(1, Ordering::Relaxed);
        self.statements.fetch_add(statements as u64, Ordering::Relaxed);
    }

    /// Returns the prepared statement of a text; `None` if statements are unnamed.
    pub(super) async fn prepared(&self, sql: &str, types: &[Type]) -> Result<Option<Statement>> {
        let Some(known) = &self.prepared else { return Ok(None) };
        let mut known = known.lock().await;
        if let Some(statement) = known.get(sql) {
            return Ok(Some(statement.clone()));
        }
        let statement = self.client.prepare_typed(sql, types).await.map_err(failed)?;
        known.insert(sql.to_owned(), statement.clone());
        Ok(Some(statement))
    }
}
