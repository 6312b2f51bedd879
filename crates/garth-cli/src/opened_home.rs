//! The home that a command works on, opened at its first use.

use std::cell::OnceCell;
use std::sync::Arc;

use garth_cloud::home::{Background, PgHome};
use garth_engine::datadir::DataDirBuilder;
use garth_engine::{Env, Home};

use crate::config::Storage;
use crate::data_folder;
use crate::fail::{Failure, Result};
use crate::location::Location;

/// Most connections of a command to a database. A server has an option for them.
const CONNECTIONS: usize = 4;

/// Home of a command, and the limits with which it is opened.
pub(crate) struct OpenedHome {
    /// Builder that opens a data folder.
    builder: DataDirBuilder,
    /// Most connections to a database.
    connections: usize,
    home: OnceCell<Arc<dyn Home>>,
    /// Home again, if it is a database.
    postgres: OnceCell<PgHome>,
}

impl OpenedHome {
    pub(crate) fn new(env: &Env) -> Self {
        Self::of(data_folder::builder().env(env.clone()), CONNECTIONS)
    }

    /// Returns a home that is opened with the limits of a server.
    pub(crate) fn within(storage: &Storage, env: &Env) -> Self {
        let builder = data_folder::builder().env(env.clone()).open_trees(storage.open_trees);
        let builder = builder.idle_connections(storage.idle_connections).read_time(storage.read_time);
        let builder = builder.writer_threads(storage.writer_threads).reader_threads(storage.reader_threads);
        Self::of(builder.collecting(storage.collecting), storage.postgres_connections)
    }

    fn of(builder: DataDirBuilder, connections: usize) -> Self {
        Self { builder, connections, home: OnceCell::new(), postgres: OnceCell::new() }
    }

    /// Opens the home, which must exist: only a first write creates it.
    pub(crate) async fn existing(&self, at: &Location, env: &Env) -> Result<Arc<dyn Home>> {
        if let Some(home) = self.home.get() {
            return Ok(Arc::clone(home));
        }
        match at {
            Location::Folder(folder) => {
                let home = data_folder::open(folder, self.builder.clone())?;
                Ok(self.keep(Arc::new(home)))
            }
            // In a box, because the futures of all commands contain this one.
            Location::Database(database) => {
                let home = Box::pin(database.open(env, self.connections, false)).await?;
                Ok(self.keep_database(home))
            }
        }
    }

    /// Opens the home. Creates it with the account `default` if it is missing.
    pub(crate) async fn existing_or_new(&self, at: &Location, env: &Env) -> Result<Arc<dyn Home>> {
        if let Some(home) = self.home.get() {
            return Ok(Arc::clone(home));
        }
        match at {
            Location::Folder(folder) => {
                let home = data_folder::open_or_create(folder, self.builder.clone()).await?;
                Ok(self.keep(Arc::new(home)))
            }
            Location::Database(database) => {
                let home = Box::pin(database.open(env, self.connections, true)).await?;
                data_folder::create_first_account(&home).await.map_err(Failure::of_home(&home))?;
                Ok(self.keep_database(home))
            }
        }
    }

    /// Returns the background work on the accounts of a database that is open; `None` for a data folder,
    /// which does its own.
    pub(crate) fn background(&self) -> Result<Option<Background>> {
        Ok(self.postgres.get().map(PgHome::background).transpose()?)
    }

    fn keep_database(&self, home: PgHome) -> Arc<dyn Home> {
        let home = self.postgres.get_or_init(|| home).clone();
        self.keep(Arc::new(home))
    }

    fn keep(&self, home: Arc<dyn Home>) -> Arc<dyn Home> {
        Arc::clone(self.home.get_or_init(|| home))
    }
}
