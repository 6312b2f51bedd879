//! Accounts of a private server, as storage under test.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::executor::block_on;
use garth_cloud::home::PgHome;
use garth_engine::env::ManualClock;
use garth_engine::rule::{Registry, sample};
use garth_engine::{AccountStore, Env, Home, Result};
use garth_testkit::postgres::{Clock, Cluster};
use garth_testkit::proof::{Broken, Proven, Storage};
use garth_testkit::subject::{GRACE, Instance, Subject};

/// Connections of a home: fewer than the clients of most proofs, so that they wait for each other.
const CONNECTIONS: usize = 8;

/// Database of a private server in memory. The server ends when it is dropped.
#[derive(Debug)]
pub struct Database {
    cluster: Cluster,
    clock: Clock,
    /// Accounts that are named by a folder.
    named: Mutex<HashMap<PathBuf, String>>,
    created: AtomicU64,
}

impl Database {
    /// Starts a server and creates the tables.
    ///
    /// # Errors
    /// If PostgreSQL is not installed or does not start; errors of the database.
    pub fn start() -> Proven<Arc<Self>> {
        let cluster = Cluster::in_memory().map_err(Broken::because)?;
        drop(block_on(home_at(&cluster, Env::system(), sample::registry()))?);
        let clock = cluster.clock().map_err(Broken::because)?;
        Ok(Arc::new(Self { cluster, clock, named: Mutex::default(), created: AtomicU64::new(0) }))
    }

    /// Returns the server.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Opens the home, as a server process of its own.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn home(&self, env: Env, registry: Registry) -> Result<PgHome> {
        home_at(&self.cluster, env, registry).await
    }

    /// Creates an account and returns its id and number. Its time follows `clock`, or is the real time.
    ///
    /// # Errors
    /// Errors of the database.
    ///
    /// # Panics
    /// If the account has no number.
    pub async fn new_account(
        &self,
        clock: Option<&ManualClock>,
        registry: Registry,
    ) -> Result<(String, i64)> {
        let id = format!("account-{}", self.created.fetch_add(1, Ordering::Relaxed));
        self.home(Env::system(), registry).await?.create_account(&id).await?;
        let number = self.number(&id);
        if let Some(clock) = clock {
            self.clock.follow_account(number, clock);
        }
        Ok((id, number))
    }

    /// Creates an account whose time follows `clock`, or is the real time, and opens it.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn account(
        &self,
        (env, clock): (Env, Option<&ManualClock>),
        registry: Registry,
    ) -> Result<Arc<dyn AccountStore>> {
        let (id, _) = self.new_account(clock, registry.clone()).await?;
        self.home(env, registry).await?.open(&id).await
    }

    /// Returns a subject on a new account.
    ///
    /// # Panics
    /// If the account cannot be created or opened.
    pub async fn subject(self: &Arc<Self>) -> Subject {
        let (env, clock) = Subject::clock();
        let (id, _) =
            self.new_account(Some(&clock), sample::registry()).await.expect("an account is created");
        let database = Arc::clone(self);
        let open = move || {
            let (database, env, id) = (Arc::clone(&database), env.clone(), id.clone());
            async move {
                let home = database.home(env, sample::registry()).await.expect("a home is opened");
                home.open(&id).await.expect("the account is opened")
            }
        };
        // Another instance, as in another process.
        let collect = open.clone();
        let first = Instance::of_account(open().await);
        Subject {
            reopen: Some(Box::new(move || {
                let opening = open();
                Box::pin(async move { Instance::of_account(opening.await) })
            })),
            collect: Some(Box::new(move || {
                let opening = collect();
                Box::pin(async move { opening.await.gc(GRACE).await.map(drop) })
            })),
            keep: Box::new(Arc::clone(self)),
            ..Subject::new(first, clock)
        }
    }

    /// Returns the number of an account in the tables.
    fn number(&self, id: &str) -> i64 {
        let sql = format!("SET garth.account = '0'; SELECT account FROM garth.account WHERE id = '{id}'");
        let number = self.cluster.psql(&self.cluster.socket_url(), &sql);
        number.expect("the account is there").parse().expect("a number")
    }
}

impl Storage for Database {
    fn account(&self, folder: &Path) -> Proven<Arc<dyn AccountStore>> {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let id = match named.get(folder) {
            Some(id) => id.clone(),
            None => {
                let (id, _) = block_on(self.new_account(None, sample::registry()))?;
                named.insert(folder.to_owned(), id.clone());
                id
            }
        };
        let home = block_on(self.home(Env::system(), sample::registry()))?;
        Ok(block_on(home.open(&id))?)
    }

    fn home(&self, _folder: &Path, registry: Registry) -> Proven<Arc<dyn Home>> {
        Ok(Arc::new(block_on(home_at(&self.cluster, Env::system(), registry))?))
    }
}

async fn home_at(cluster: &Cluster, env: Env, registry: Registry) -> Result<PgHome> {
    PgHome::connect(&cluster.socket_url(), CONNECTIONS, env, registry).await
}
