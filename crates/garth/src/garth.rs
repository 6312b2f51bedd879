//! Handle on a data folder, where every request begins.

use std::path::Path;
use std::sync::Arc;

use garth_agent::Class;
use garth_engine::datadir::DataDirBuilder;
use garth_engine::engine::memory::MemoryFs;
use garth_engine::error::Result;
use garth_engine::{DataDir, Env, FileSystem};

use crate::ChatRequest;

/// Data folder of agents.
///
/// Each method names one thing about a chat and returns a [`ChatRequest`], which can name more. None of them
/// reads or writes anything. Clones share one folder.
#[derive(Clone, Debug)]
pub struct Garth {
    dir: DataDir,
}

impl From<DataDir> for Garth {
    /// Takes a folder that [`builder`] opened.
    fn from(dir: DataDir) -> Self {
        Self { dir }
    }
}

impl Garth {
    /// Returns the data folder itself, for administrators: accounts, API keys, backups, and the tree of an
    /// account.
    pub fn dir(&self) -> &DataDir {
        &self.dir
    }

    /// Begins a request. It names nothing yet: the account and the agent are `default`, and the agent's owner
    /// speaks.
    pub fn request(&self) -> ChatRequest {
        ChatRequest::new(self.dir.clone())
    }

    /// Begins a request in an account.
    pub fn account(&self, id: impl Into<String>) -> ChatRequest {
        self.request().account(id)
    }

    /// Begins a request to an agent.
    pub fn agent(&self, id: impl Into<String>) -> ChatRequest {
        self.request().agent(id)
    }

    /// Begins a request of a user.
    pub fn user(&self, id: impl Into<String>) -> ChatRequest {
        self.request().user(id)
    }

    /// Begins a request under a session key.
    pub fn key(&self, key: impl Into<String>) -> ChatRequest {
        self.request().key(key)
    }

    /// Begins a request in a chat.
    pub fn chat(&self, id: impl Into<String>) -> ChatRequest {
        self.request().chat(id)
    }

    /// Begins a request of a class.
    pub fn class(&self, class: Class) -> ChatRequest {
        self.request().class(class)
    }

    /// Begins a request in a session.
    pub fn session(&self, name: impl Into<String>) -> ChatRequest {
        self.request().session(name)
    }
}

/// Opens a data folder with default limits. Creates it if it does not exist.
///
/// # Errors
/// As [`DataDirBuilder::open`].
pub fn open(folder: impl AsRef<Path>) -> Result<Garth> {
    Ok(builder().open(folder.as_ref())?.into())
}

/// Returns a builder for a data folder with another clock or other limits.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let data: garth::Garth = garth::builder().writer_threads(2).open(folder)?.into();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn builder() -> DataDirBuilder {
    DataDir::builder(garth_agent::registry())
}

/// Returns an empty account in memory, with the rules of agents: for tests. It has no threads and no folder.
pub fn in_memory() -> Arc<dyn FileSystem> {
    Arc::new(MemoryFs::new(Env::system(), garth_agent::registry()))
}
