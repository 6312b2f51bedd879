//! The database as a home: accounts, keys and trees, which any number of servers share.
//!
//! Nothing is cached that another server may change, except that a tree stays open for a while. Each
//! transaction has `garth.account` set to 0, and so sees the tables of accounts and keys; those of an account
//! are written only while it is created and deleted. Times are those of the database, so that servers need no
//! equal clocks.
//!
//! - `accounts`, `requests`, `deletions`: accounts, from their creation to their end;
//! - `keys`, `new_keys`: API keys;
//! - `background`: work that a server does by itself on the accounts of all servers.

mod accounts;
mod background;
mod deletions;
mod keys;
mod new_keys;
mod requests;
mod shared;
mod transaction;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use garth_engine::home::open_trees::OpenTrees;
use garth_engine::home::{
    Account, AccountRequest, Admitted, ApiKey, Hasher, Home, KeyOwner, KeysPage, Mark, NewKey, Rotated,
    Rotation, Secret, StoredSize, account_gone,
};
use garth_engine::model::Listing;
use garth_engine::rule::Registry;
use garth_engine::stats::HomeStats;
use garth_engine::{AccountStore, Env, Result};

use self::accounts::Found;
pub use self::background::Background;
use self::shared::Shared;
use crate::client::Pool;
use crate::holds::Instance;
use crate::schema;
use crate::store::PgStore;
use crate::uploads::collect;

/// Trees that stay open while nobody uses them.
const OPEN_TREES: usize = 1000;
/// Time between two ticks that do something.
const TICK: Duration = Duration::from_secs(60);

/// Home in a PostgreSQL database. Any executor may poll its calls. Clones share the connections.
#[derive(Clone)]
pub struct PgHome {
    shared: Arc<Shared>,
}

impl PgHome {
    /// Opens the home in a database, with at most `connections` connections. Creates the tables in a database
    /// that has none; the role must own the database then.
    ///
    /// # Errors
    /// As [`Pool::connect`] and [`schema::create`].
    pub async fn connect(url: &str, connections: usize, env: Env, registry: Registry) -> Result<Self> {
        let pool = Pool::connect(url, connections).await?;
        let conn = pool.connection().await?;
        let created = schema::create(&conn, &env).await;
        let hasher = conn.settle(created).await?;
        Self::of(pool, env, registry, hasher).await
    }

    /// Opens the home in a database that has its tables, and creates none.
    ///
    /// # Errors
    /// `NotFound` if the database has no tables of garth; as [`Pool::connect`] and [`schema::check`].
    pub async fn connect_existing(
        url: &str,
        connections: usize,
        env: Env,
        registry: Registry,
    ) -> Result<Self> {
        let pool = Pool::connect(url, connections).await?;
        let conn = pool.connection().await?;
        let checked = schema::check(&conn).await;
        let hasher = conn.settle(checked).await?;
        Self::of(pool, env, registry, hasher).await
    }

    async fn of(pool: Arc<Pool>, env: Env, registry: Registry, hasher: Hasher) -> Result<Self> {
        // The state of a connection is in the database or in the client, so that no tree turns unsound.
        let trees = OpenTrees::new(OPEN_TREES, |_| true);
        let (next_removal, indexing) = (Mutex::default(), Arc::default());
        let next_tick = Mutex::new(Some(env.instant() + TICK));
        let instance = Instance::start(Arc::clone(&pool), env.clone()).await?;
        Ok(Self {
            shared: Arc::new(Shared {
                pool,
                env,
                registry,
                hasher,
                trees,
                instance,
                next_removal,
                next_tick,
                indexing,
            }),
        })
    }

    /// Returns the background work of a server on the accounts of the database.
    ///
    /// # Errors
    /// `Unavailable` if the system has no random bytes.
    pub fn background(&self) -> Result<Background> {
        Background::new(Arc::clone(&self.shared))
    }

    /// Removes uploads whose leases have ended, and renews the leases of this server on what it holds open,
    /// both once a minute: call it every second. Leases are renewed without it as well, as long as the home
    /// or one of its trees is used. If they are not for minutes, open nodes without a name and views of the
    /// past fail with `Unavailable`.
    ///
    /// # Errors
    /// As [`renew_leases`](Self::renew_leases). A later call tries again.
    pub async fn tick(&self) -> Result<()> {
        self.shared.tick().await
    }

    /// Does the work of a [`tick`](Self::tick) now.
    ///
    /// # Errors
    /// Errors of the database.
    pub async fn renew_leases(&self) -> Result<()> {
        self.shared.renew_leases().await
    }

    /// Runs a call that changes data. It runs to its end even if this future is dropped.
    async fn to_its_end<T: Send + 'static, F>(&self, call: impl FnOnce(Arc<Shared>) -> F + Send) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.shared.pool.run(call(Arc::clone(&self.shared))).await
    }
}

impl Shared {
    async fn tick(self: &Arc<Self>) -> Result<()> {
        if self.is_tick() { self.renew_leases().await } else { Ok(()) }
    }

    async fn renew_leases(self: &Arc<Self>) -> Result<()> {
        let home = Arc::clone(self);
        let renewed = async move {
            home.instance.renew().await?;
            home.collect_uploads().await
        };
        self.pool.run(renewed).await
    }

    /// Returns true once a minute.
    fn is_tick(&self) -> bool {
        let now = self.env.instant();
        let mut next = self.next_tick.lock().unwrap_or_else(PoisonError::into_inner);
        let is_tick = next.is_none_or(|next| now >= next);
        if is_tick {
            *next = Some(now + TICK);
        }
        is_tick
    }

    /// Removes uploads whose leases have ended, of the accounts that have received some here.
    async fn collect_uploads(&self) -> Result<()> {
        for holds in self.instance.open() {
            if holds.take_uploads()
                && let Err(error) = collect(&holds, None).await
            {
                holds.set_uploads(true);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns the tree of an account that was found.
    async fn tree(&self, found: &Found) -> Result<Arc<PgStore>> {
        let folder = &found.account.folder;
        if let Some(tree) = self.trees.kept(folder) {
            return Ok(tree);
        }
        // Waited for without a thread: an account that is slow to open must not delay others.
        let mut turn = self.trees.turn(folder).await;
        if let Some(tree) = self.trees.held(folder, &mut turn)? {
            return Ok(tree);
        }
        let tree = PgStore::of(&self.instance, found.number, self.registry.clone());
        let tree = tree.without_system().await?;
        Ok(self.trees.put(folder, &mut turn, tree))
    }
}

impl fmt::Debug for PgHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgHome").finish_non_exhaustive()
    }
}

#[async_trait]
impl Home for PgHome {
    fn env(&self) -> &Env {
        &self.shared.env
    }

    fn place(&self) -> String {
        self.shared.pool.place()
    }

    fn sealing_key(&self) -> [u8; 32] {
        self.shared.hasher.sealing_key()
    }

    async fn accounts(&self, after: &str, limit: usize) -> Result<Vec<Account>> {
        self.shared.accounts(after, limit).await
    }

    async fn account(&self, id: &str) -> Result<Account> {
        Ok(self.shared.active(id).await?.account)
    }

    async fn create_account(&self, id: &str) -> Result<Account> {
        let id = id.to_owned();
        self.to_its_end(|home| async move { home.create_account(&id).await }).await
    }

    async fn create_account_once(&self, id: &str, request: &AccountRequest) -> Result<(Account, bool)> {
        let (id, request) = (id.to_owned(), request.clone());
        self.to_its_end(|home| async move { home.create_account_once(&id, &request).await }).await
    }

    async fn delete_account(&self, id: &str) -> Result<()> {
        let id = id.to_owned();
        self.to_its_end(|home| async move { home.delete_account(&id).await }).await
    }

    async fn delete_account_once(&self, id: &str, request: &AccountRequest) -> Result<bool> {
        let (id, request) = (id.to_owned(), request.clone());
        self.to_its_end(|home| async move { home.delete_account_once(&id, &request).await }).await
    }

    async fn finish_deletion(&self, id: &str) -> Result<bool> {
        let id = id.to_owned();
        self.to_its_end(|home| async move { home.finish_deletion(&id).await }).await
    }

    async fn continue_deletions(&self) -> Result<()> {
        Shared::continue_deletions(&self.shared).await
    }

    async fn open(&self, id: &str) -> Result<Arc<dyn AccountStore>> {
        let found = self.shared.active(id).await?;
        Ok(self.shared.tree(&found).await?)
    }

    async fn admit(&self, token: &str) -> Result<Option<Admitted>> {
        self.shared.admit(token).await
    }

    async fn open_admitted(&self, admitted: &Admitted) -> Result<Arc<dyn AccountStore>> {
        let (account, folder) = admitted.account()?;
        if let Some(tree) = self.shared.trees.kept(folder) {
            return Ok(tree);
        }
        match self.shared.active(account).await? {
            found if found.account.folder == folder => Ok(self.shared.tree(&found).await?),
            _ => Err(account_gone()),
        }
    }

    async fn keys(&self, owner: &KeyOwner, page: &KeysPage) -> Result<Listing<ApiKey>> {
        self.shared.keys(owner, page).await
    }

    async fn count_keys(&self, owner: &KeyOwner) -> Result<u64> {
        self.shared.count_keys(owner).await
    }

    async fn issue_key(&self, new: NewKey) -> Result<(ApiKey, Secret)> {
        self.to_its_end(|home| async move { home.issue_key(&new).await }).await
    }

    async fn rotate_key(&self, owner: &KeyOwner, id: &str, rotation: Rotation) -> Result<Rotated> {
        let (owner, id) = (owner.clone(), id.to_owned());
        self.to_its_end(|home| async move { home.rotate_key(&owner, &id, &rotation).await }).await
    }

    async fn revoke_key(&self, owner: &KeyOwner, id: &str) -> Result<ApiKey> {
        let (owner, id) = (owner.clone(), id.to_owned());
        self.to_its_end(|home| async move { home.revoke_key(&owner, &id).await }).await
    }

    async fn marks(&self, accounts: Vec<Account>) -> Result<Vec<Mark>> {
        self.shared.marks(&accounts).await
    }

    async fn size(&self, account: &Account) -> Result<StoredSize> {
        self.shared.size(account).await
    }

    fn stats(&self) -> HomeStats {
        let mut stats = HomeStats::default();
        self.shared.pool.read_into(&mut stats);
        self.shared.env.read_into(&mut stats);
        self.shared.indexing.read_into(&mut stats.index);
        self.shared.instance.read_into(&mut stats);
        stats.open_accounts = u64::try_from(self.shared.trees.names().len()).unwrap_or(u64::MAX);
        stats
    }
}
