//! Confinement of a handle: the paths it reaches, its owner, and the nodes without a name that it holds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::engine::relational::gates::Gates;
use crate::engine::relational::open_nodes::OpenNodes;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Author, Batch, Confinement, Owner, Within};
use crate::path::{MAX_PATH, TreePath};
use crate::rule::{Rules, foresee};
use crate::threads::lock::lock;

/// Part of the tree that a handle reaches, with the owner and author of its commits.
#[derive(Debug)]
pub struct Reach {
    /// Paths in reach.
    pub within: Within,
    /// Directories of which only some entries are in reach.
    pub gates: Arc<Gates>,
    /// Paths in reach that its commits must not change.
    read_only: Within,
    /// Owner of snapshots, commit ids, idempotency keys and staged bodies; `None` for the account.
    pub owner: Option<Owner>,
    /// Author of its commits. Its fields take precedence over those of a batch.
    author: Author,
    /// True if rules do not apply to its commits.
    overrides: bool,
    /// Open handles of each node that came from this handle; `None` if it reaches every node that the
    /// instance holds open.
    held: Option<Mutex<HashMap<u64, usize>>>,
    /// The handles that were joined to this one.
    joined: Vec<Arc<Self>>,
}

impl Reach {
    /// Returns the reach of the complete account.
    pub fn everything() -> Self {
        Self::of(Within::everything(), None)
    }

    /// Returns a reach of some paths, as the account itself.
    pub fn account(within: Within) -> Self {
        Self::of(within, None)
    }

    /// Returns the same reach, with permission to override rules.
    pub fn overriding(&self) -> Self {
        Self {
            overrides: true,
            author: self.author.clone(),
            gates: Arc::clone(&self.gates),
            read_only: self.read_only.clone(),
            ..Self::of(self.within.clone(), self.owner.clone())
        }
    }

    fn of(within: Within, owner: Option<Owner>) -> Self {
        // A confined handle reaches nodes without a name only through its own open handles.
        let held = owner.as_ref().map(|_| Mutex::default());
        let (read_only, author, joined) = (Within::nothing(), Author::default(), Vec::new());
        Self { within, gates: Arc::default(), read_only, owner, author, overrides: false, held, joined }
    }

    /// Returns the key of the owner; empty for the account.
    pub fn owner_key(&self) -> &str {
        self.owner.as_ref().map_or("", Owner::key)
    }

    /// Returns a part of this reach.
    ///
    /// # Errors
    /// `NameTooLong` for a top with a path longer than [`MAX_PATH`]; `TooLarge` for an owner that is too
    /// long.
    pub fn confined(&self, to: &Confinement) -> Result<Self> {
        if to.within.tops().iter().any(|top| top.as_str().len() > MAX_PATH) {
            let message = format!("the root of a view has a path of at most {MAX_PATH} bytes");
            return Err(Error::new(ErrorKind::NameTooLong, message));
        }
        let owner = to.owner.inside(self.owner.as_ref())?;
        // A field that the outer handle sets cannot be changed from inside.
        let author = self.author.clone().or(&to.author);
        let (overrides, read_only) = (self.overrides, self.read_only.union(&to.read_only));
        // A view of a view reaches only paths that both reach.
        let within = self.within.intersect(&to.within);
        let gates = self.gates.with(&to.gates);
        Ok(Self { author, overrides, read_only, gates, ..Self::of(within, Some(owner)) })
    }

    /// Returns the union of the reaches of two handles, with the owner and author of the first.
    pub fn joined(self: &Arc<Self>, with: &Arc<Self>) -> Self {
        Self {
            within: self.within.union(&with.within),
            // Those of both, so that joining opens no gate.
            gates: self.gates.joined(&with.gates),
            read_only: self.read_only.union(&with.read_only),
            author: self.author.clone(),
            overrides: self.overrides,
            // Open handles stay with the handle that counted them.
            joined: vec![Arc::clone(self), Arc::clone(with)],
            ..Self::of(Within::nothing(), self.owner.clone())
        }
    }

    /// Returns the owners of the joined handles.
    fn owners(&self) -> Vec<Option<Owner>> {
        let own = |reach: &Arc<Self>| [vec![reach.owner.clone()], reach.owners()].concat();
        self.joined.iter().flat_map(own).collect()
    }

    /// Fails for a path that commits of this reach cannot write, by the reach itself or by a rule, if the
    /// file will have at least `size` bytes.
    ///
    /// # Errors
    /// `AccessDenied` for a read-only path; the error of the rule otherwise.
    pub fn check_write(&self, path: &TreePath, size: u64, rules: &Rules) -> Result<()> {
        if self.read_only.contains(path) {
            return Err(Error::at(ErrorKind::AccessDenied, path, "is read-only here"));
        }
        if self.overrides { Ok(()) } else { foresee(rules, path, size, &self.author) }
    }

    /// Confines a batch to this reach.
    ///
    /// # Errors
    /// `TooLarge` for an owner that is too long.
    pub fn confine(&self, batch: Batch) -> Result<Batch> {
        let owner = match &batch.owner {
            Some(owner) => Some(owner.inside(self.owner.as_ref())?),
            None => self.owner.clone(),
        };
        let author = self.author.clone().or(&batch.author);
        let overrides_rules = self.overrides || batch.overrides_rules;
        let batch = batch.inside(&self.within, &self.read_only);
        Ok(Batch { owner, author, overrides_rules, joined: self.owners(), ..batch })
    }

    /// Counts a handle that is opened.
    pub fn hold(&self, ino: u64, open: &OpenNodes) {
        open.add(ino);
        if let Some(held) = &self.held {
            *lock(held).entry(ino).or_default() += 1;
        }
    }

    /// Counts a handle that is closed. Returns true if the instance must release a lease now.
    pub fn release(&self, ino: u64, open: &OpenNodes) -> bool {
        if let Some(held) = &self.held {
            let mut held = lock(held);
            if let Some(count) = held.get_mut(&ino) {
                *count -= 1;
                if *count == 0 {
                    held.remove(&ino);
                }
            }
        }
        open.remove(ino)
    }

    /// Returns true if a node is in reach by its inode even without a name.
    pub fn holds(&self, ino: u64, open: &OpenNodes) -> bool {
        self.counts(ino, open) && !open.is_lost(ino)
    }

    /// Returns true if a handle of this reach holds a node open.
    fn counts(&self, ino: u64, open: &OpenNodes) -> bool {
        let own = match &self.held {
            Some(held) => lock(held).contains_key(&ino),
            None => open.is_open(ino),
        };
        // Each of the joined handles keeps its own count.
        own || self.joined.iter().any(|reach| reach.counts(ino, open))
    }
}
