//! Record of an upgrade in `/.garth`: the list of its decisions.

use serde::{Deserialize, Serialize};

use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::{FileSystem, SYSTEM};
use garth_engine::model::{Batch, Op};
use garth_engine::path::TreePath;

/// Version of the upgrade.
const VERSION: u64 = 1;

/// Name of the record in `/.garth`.
const RECORD: &str = "access.json";

/// Limit on the decisions in the record; more are only counted.
const MAX_KEPT: usize = 1000;

/// Limit on the bytes of the record, 1 MiB.
pub(crate) const MAX_RECORD: usize = 1 << 20;

/// Decisions of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Upgrade {
    /// Version of the upgrade.
    version: u64,
    /// Decisions, each a sentence.
    pub decided: Vec<String>,
    /// Number of decisions that are not listed.
    #[serde(default)]
    pub unlisted: u64,
}

impl Default for Upgrade {
    fn default() -> Self {
        Self { version: VERSION, decided: Vec::new(), unlisted: 0 }
    }
}

impl Upgrade {
    /// Adds a decision to the record.
    pub(super) fn note(&mut self, decision: String) {
        if self.decided.len() < MAX_KEPT {
            self.decided.push(decision);
        } else {
            self.unlisted += 1;
        }
    }

    /// Returns true if the text of a record is of this version or a later one.
    pub(crate) fn is_done(record: Option<&[u8]>) -> bool {
        let known = record.and_then(|text| serde_json::from_slice::<Self>(text).ok());
        known.is_some_and(|known| known.version >= VERSION)
    }
}

/// Returns the path of the record.
pub(crate) fn record() -> Result<TreePath> {
    Ok(TreePath::parse(&format!("{SYSTEM}/{RECORD}"))?)
}

/// Commits operations of an upgrade and returns true. If a user's file is in the way, notes the error in the
/// record and returns false, so that the rest of the account is still upgraded.
pub(super) async fn commit_or_note(
    fs: &dyn FileSystem,
    ops: Vec<Op>,
    what: &str,
    upgrade: &mut Upgrade,
) -> Result<bool> {
    match commit(fs, ops, what).await {
        // One misplaced file must not deny access to the complete account.
        Err(error) if is_in_the_way(&error) => {
            upgrade.note(format!("could not {what}: {error}"));
            Ok(false)
        }
        done => done.map(|()| true),
    }
}

/// Returns true for errors about the place of a file, with which a repeat would also fail.
fn is_in_the_way(error: &Error) -> bool {
    let kinds = [
        ErrorKind::AlreadyExists,
        ErrorKind::NotADirectory,
        ErrorKind::IsADirectory,
        ErrorKind::NotPermitted,
        ErrorKind::SymlinkLoop,
        ErrorKind::NameTooLong,
    ];
    kinds.into_iter().any(|kind| error.is(kind))
}

/// Commits operations of an upgrade.
pub(super) async fn commit(fs: &dyn FileSystem, ops: Vec<Op>, what: &str) -> Result<()> {
    if ops.is_empty() {
        return Ok(());
    }
    match fs.commit(Batch::new(ops).message(what).by_garth()).await {
        Err(error) if error.is(ErrorKind::Conflict) => Err(Error::new(
            ErrorKind::WouldBlock,
            "other writers keep changing the account during its upgrade; try again",
        )),
        done => done.map(drop),
    }
}
