//! Files whose past content is no longer stored, because the retention of their path class keeps less. They
//! stay as they are, and do not make the restore of a directory fail.

use super::Planner;
use crate::compute::go_on;
use crate::error::{ErrorKind, Result};
use crate::fs::FileSystem;
use crate::fs::restore::diff::{Item, Key};
use crate::fs::restore::state::NO_BYTES;
use crate::model::{At, Ino, Kind, MAX_PAGE};
use crate::path::TreePath;

impl<F: FileSystem + ?Sized, P: FileSystem + ?Sized> Planner<'_, F, P> {
    /// Finds the past files that do not exist below the path now, and whose content is no longer stored.
    /// `judge` finds those that exist.
    pub(super) async fn find_gone(&mut self, past: &[Item]) -> Result<()> {
        let is_missing =
            |item: &&Item| item.entry.kind == Kind::File && !self.entries.contains_key(&item.ino());
        let missing: Vec<&Item> = past.iter().filter(is_missing).collect();
        let mut rest = &missing[..];
        while !rest.is_empty() {
            go_on()?;
            let some = &rest[..rest.len().min(MAX_PAGE)];
            let asked: Vec<_> = some.iter().map(|item| (At::from(&item.path), NO_BYTES)).collect();
            let answers = self.past.fetch_many(&asked).await?.items;
            // Attributes may fill an answer before all files are in it.
            rest = &rest[answers.len()..];
            for (item, answer) in some.iter().zip(answers) {
                match answer {
                    Err(error) if error.is(ErrorKind::Gone) => {
                        self.gone.insert(item.ino());
                    }
                    answer => drop(answer?),
                }
            }
        }
        Ok(())
    }

    /// Leaves a past name without its file. Another file that has the name now, given as `there`, stays,
    /// unless it gets a past name itself.
    pub(super) fn leave(&mut self, there: Option<(&Key, Ino)>) {
        let Some((key, ino)) = there else { return };
        let is_file = self.entries.get(&ino).is_some_and(|there| there.entry.kind == Kind::File);
        if is_file && !self.wanted.contains(&ino) {
            self.drop_name(key);
            self.held.insert(ino);
        }
    }

    /// Adds a name to the report of those whose files had content that is no longer stored.
    pub(super) fn note_gone(&mut self, path: &TreePath) {
        self.plan.gone_paths.push(path.clone());
    }
}
