//! Operations on a session's media when a reset archives the session, for the commit of the reset.

use std::collections::HashSet;

use super::Media;
use super::key::MEDIA;
use crate::boxed;
use garth_engine::error::{OptionalExt as _, Result};
use garth_engine::model::{At, Op, Remove, Seq};
use garth_engine::path::{TreePath, check_id};

/// Most files that a reset moves or removes. Those behind stay where they are, and are found by their keys.
const MAX_FILES: usize = if cfg!(test) { 40 } else { 10_000 };

/// What becomes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It moves beside the archive.
    Moves,
    /// It is removed.
    Goes,
}

impl Media<'_> {
    /// What moves and removes the files of the session `session_id` of an agent: to
    /// `agents/{agent}/sessions/{session_id}/media` whatever is to move. `of` tells what becomes of files
    /// whose UUIDs are in `referred`, and of all others, of which those that came after `since` stay: the
    /// message that will refer to one may not be said yet. Files of other sessions stay, whatever key they
    /// share.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no id; from the filesystem.
    #[boxed]
    #[doc(hidden)]
    pub async fn after_reset(
        &self,
        (agent, session_id): (&str, &str),
        referred: &HashSet<String>,
        [of_referred, of_others]: [Fate; 2],
        since: Seq,
    ) -> Result<Vec<Op>> {
        check_id("agent", agent)?;
        check_id("session", session_id)?;
        let to = TreePath::parse(&format!("/agents/{agent}/sessions/{session_id}/{MEDIA}"))?;
        let (places, _) = self.places_of(session_id, None, MAX_FILES).await?;
        let mut ops = Vec::new();
        for (id, path) in places {
            let fate = if referred.contains(&id) { of_referred } else { of_others };
            if fate == Fate::Goes && !referred.contains(&id) {
                let entry = self.fs.stat(&At::from(&path)).await.optional()?;
                if entry.is_none_or(|entry| entry.version.seq > since) {
                    continue;
                }
            }
            let Some(name) = path.name() else { continue };
            ops.push(match fate {
                Fate::Moves if path.is_within(&to) => continue,
                Fate::Moves => Op::rename(path.clone(), TreePath::from_row(to.key(), name)).with_parents(),
                Fate::Goes => Op::Remove { at: At::from(&path), what: Remove::Tree, missing_ok: true },
            });
        }
        Ok(ops)
    }
}
