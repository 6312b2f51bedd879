//! Operations on a session's media when a reset archives the session. They are part of the reset's commit.

use std::collections::HashSet;

use super::Media;
use super::key::MEDIA;
use crate::boxed;
use garth_engine::error::{OptionalExt as _, Result};
use garth_engine::model::{At, Op, Remove, Seq};
use garth_engine::path::{TreePath, check_id};

/// Limit on the files that a reset moves or removes. The others stay where they are, and are found by their
/// keys.
const MAX_FILES: usize = if cfg!(test) { 40 } else { 10_000 };

/// Treatment of a media file by a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The file moves next to the archive.
    Moves,
    /// The file is removed.
    Goes,
}

impl Media<'_> {
    /// Returns the operations that move or remove the files of session `session_id` of an agent. Moved files
    /// go to `agents/{agent}/sessions/{session_id}/media`. The two fates apply to files whose UUIDs are in
    /// `referred`, and to all others. A file that came after `since` is not removed: the message that will
    /// refer to it may not be appended yet. Files of other sessions stay, even if they share the session key.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id; from the filesystem.
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
                // A file that an earlier reset moved is in its place already.
                Fate::Moves if path.is_within(&to) => continue,
                Fate::Moves => Op::rename(path.clone(), TreePath::from_row(to.key(), name)).with_parents(),
                Fate::Goes => Op::Remove { at: At::from(&path), what: Remove::Tree, missing_ok: true },
            });
        }
        Ok(ops)
    }
}
