//! Tree that clones and open handles share, and reading it through a view.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::state::State;
use super::tree::View;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Author, Owner, Seq, Timestamp, Within};
use crate::rule::{Registry, Rules};

/// Tree of an account in memory, or a view of its past. Clones share one tree.
#[derive(Clone, Debug)]
pub struct MemoryFs {
    pub(super) env: Env,
    pub(super) state: Arc<RwLock<State>>,
    /// Commit that this is a view of, and the time by which it judges expiry; `None` for the present.
    pub(super) past: Option<(Seq, Timestamp)>,
    /// Shared with the other views and handles that keep the state of this one; `None` for the present.
    pub(super) hold: Option<Arc<()>>,
    /// Paths that the view reaches.
    pub(super) within: Arc<Within>,
    /// Paths in `within` that its commits cannot change.
    pub(super) read_only: Within,
    /// Owner of the view; `None` for the account itself.
    pub(super) owner: Option<Owner>,
    /// Author of its commits; takes precedence over that of a batch.
    pub(super) author: Author,
    /// Ids of the holders whose open handles it reaches: its own first, then those of the views it was
    /// joined with. 0 reaches all of them.
    pub(super) holders: Arc<[u64]>,
    /// Owners of the views that it was joined with.
    pub(super) joined: Vec<Option<Owner>>,
}

impl MemoryFs {
    /// Returns an empty tree with the rules and projections of `registry`.
    pub fn new(env: Env, registry: Registry) -> Self {
        let (state, within) = (Arc::new(RwLock::new(State::new(registry))), Arc::new(Within::everything()));
        let (author, holders, read_only) = (Author::default(), Arc::from([0]), Within::nothing());
        Self {
            env,
            state,
            past: None,
            hold: None,
            within,
            read_only,
            owner: None,
            author,
            holders,
            joined: Vec::new(),
        }
    }

    /// Replaces the rules.
    pub fn set_rules(&self, rules: Rules) {
        self.write().rules = rules;
    }

    /// Returns the rules in force.
    pub fn rules(&self) -> Rules {
        self.read().rules.clone()
    }

    pub(super) fn owner_key(&self) -> &str {
        self.owner.as_ref().map_or("", Owner::key)
    }

    // A lock that a panic has poisoned is used all the same: a commit is applied in one step at its end, so
    // a panic before that leaves the state as it was.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn read_view<T>(&self, read: impl FnOnce(&mut View<'_>) -> Result<T>) -> Result<T> {
        let state = self.read();
        let (seq, now) = self.past.unwrap_or_else(|| (state.head(), self.env.now()));
        // The past has no open handles: a node without a name was out of reach then.
        let holders: &[u64] = if self.past.is_none() { &self.holders } else { &[] };
        let owner = self.owner.as_ref();
        read(&mut View { state: &state, seq, now, holders, within: &self.within, owner })
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        match self.past {
            None => Ok(()),
            Some(_) => Err(Error::new(ErrorKind::ReadOnly, "the past cannot be changed")),
        }
    }
}
