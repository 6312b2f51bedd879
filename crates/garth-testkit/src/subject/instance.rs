//! Instance of a filesystem under test, with the account whose rules, quotas and retention apply to it.

use std::sync::Arc;

use garth_engine::engine::memory::MemoryFs;
use garth_engine::{AccountStore, FileSystem};

/// One opened instance of a filesystem under test.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The filesystem.
    pub fs: Arc<dyn FileSystem>,
    /// Account whose paths the filesystem has.
    pub store: Store,
}

/// Account of a subject. Without it, a model run can neither set nor compare rules, quotas and the retention,
/// so each subject has to say whether it has one.
#[derive(Clone, Debug)]
pub enum Store {
    /// Account of a storage engine.
    Account(Arc<dyn AccountStore>),
    /// The memory engine. It has no checked way to set a rule, so none are set there.
    Memory(Arc<MemoryFs>),
    /// No account: a view, whose paths are not those of the account below it, or a folder.
    Absent,
}

impl Instance {
    /// Returns an instance that shows a complete account.
    pub fn of_account(store: Arc<dyn AccountStore>) -> Self {
        Self { fs: Arc::<dyn AccountStore>::clone(&store), store: Store::Account(store) }
    }

    /// Returns an instance that shows the complete memory engine.
    pub fn of_memory(memory: MemoryFs) -> Self {
        let memory = Arc::new(memory);
        Self { fs: Arc::<MemoryFs>::clone(&memory), store: Store::Memory(memory) }
    }

    /// Returns an instance that has no account.
    pub fn without_account(fs: Arc<dyn FileSystem>) -> Self {
        Self { fs, store: Store::Absent }
    }
}
