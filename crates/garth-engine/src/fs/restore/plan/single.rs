//! Restore of a path that is no directory in one of the two states.

use std::collections::HashSet;

use super::{Holder, Planner, fits};
use crate::error::Result;
use crate::fs::FileSystem;
use crate::fs::restore::changes::RestoreAction;
use crate::fs::restore::diff::diff;
use crate::fs::restore::state::{self, Difference};
use crate::model::{At, Entry, Kind, Op, Precondition, Remove};

impl<F: FileSystem + ?Sized, P: FileSystem + ?Sized> Planner<'_, F, P> {
    /// Plans the restore of anything but a directory that still is one.
    pub(super) async fn single(&mut self, then: &Entry, there: Option<Entry>) -> Result<()> {
        self.plan.created = there.is_none();
        // A restore of one file fails if its content is no longer stored.
        if then.kind == Kind::File && there.as_ref().is_none_or(|there| there.etag != then.etag) {
            state::check_stored(self.past, self.top).await?;
        }
        if let Some(there) = there {
            let shared = there.nlink > 1;
            let same = then.ino == there.ino || fits(then, &there);
            let difference = match same {
                true => {
                    let found = state::compare(self.past, self.fs, self.top, then, &there, self.now).await?;
                    self.to_restore(found)
                }
                false => Difference::Content,
            };
            if same && difference == Difference::None {
                self.plan.unchanged = 1;
                return Ok(());
            }
            self.versions.insert(self.top.clone(), there.version);
            // A node with names elsewhere stays as it is; this name gets a node of its own.
            if same && !shared {
                self.change(self.top, there.ino, difference);
                self.plan.restored = 1;
                return Ok(());
            }
            let at = At::Path(self.top.clone());
            self.plan.ops.push(Op::Remove { at, what: Remove::Tree, missing_ok: false });
            self.note(self.top, RestoreAction::Removed);
            self.plan.removed = 1;
        } else {
            self.plan.preconditions.push((At::Path(self.top.clone()), Precondition::Absent));
        }
        self.note(self.top, RestoreAction::Created);
        self.plan.restored = 1;
        if then.kind == Kind::Directory {
            return self.new_directory(then).await;
        }
        // With parents: a directory above may have been removed as well.
        self.plan.ops.push(self.copy(self.top, true));
        Ok(())
    }

    /// Plans the restore of a directory where none is now.
    async fn new_directory(&mut self, then: &Entry) -> Result<()> {
        let diff = diff(self.past, self.fs, self.top, then.ino, None).await?;
        self.find_gone(&diff.past).await?;
        if self.gone.is_empty() {
            // One copy restores everything below; here it is only counted.
            self.plan.ops.push(self.copy(self.top, true));
            self.plan.restored += diff.past.len() as u64;
            return Ok(());
        }
        let (at, attrs) = (At::Path(self.top.clone()), state::attributes(then));
        self.plan.ops.push(Op::Mkdir { at, parents: true, attrs });
        self.holders.insert(then.ino, Holder::New(self.top.clone()));
        self.index(&diff, &HashSet::new());
        self.restore_names(&diff.past).await?;
        self.directory_states(then, None, &diff)
    }
}
