//! Facts that reads through gates look up once.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::engine::planner::{Key, NameRow};
use crate::engine::relational::reads::open_entries::OpenEntries;

/// Facts about gated directories that a read looks up once.
#[derive(Debug, Default)]
pub struct GatedFacts {
    /// Names of the directories.
    pub(crate) names: OnceCell<Vec<NameRow>>,
    /// Number of hidden rows that were passed.
    pub(crate) passed: Cell<usize>,
    /// Entries that may pass a gate, by the index of the gate.
    pub(crate) open: RefCell<BTreeMap<usize, Option<Rc<OpenEntries>>>>,
}

/// Effect of gates on a row of a listing or walk of the newest state.
pub(crate) enum Passing {
    Shown,
    /// The row is hidden. The next one may be visible.
    Hidden,
    /// The row is hidden, and so are all rows up to this directory and name.
    HiddenTo(Key),
}
