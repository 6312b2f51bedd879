//! Operations on a session's media when a reset archives the session, for the commit of the reset.

use std::collections::HashSet;

use super::Media;
use super::key::{MEDIA, MediaKey, check_session_key, directory};
use crate::boxed;
use garth_engine::error::{OptionalExt as _, Result};
use garth_engine::model::{At, Entry, MAX_PAGE, Op, Page, Precondition, Remove, Seq};
use garth_engine::path::{TreePath, check_id};

/// Most files that are looked at one by one: of more all are kept, with their directory.
const MAX_FILES: usize = if cfg!(test) { 40 } else { 50_000 };

/// What becomes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It moves beside the archive.
    Moves,
    /// It stays where it is: another session has the same key, or it came just now.
    Stays,
    /// It is removed.
    Goes,
}

/// The media of a session, as they were seen.
struct Seen {
    dir: TreePath,
    /// Whether there are more than are looked at.
    many: bool,
    names: Vec<(String, Fate)>,
}

impl Media<'_> {
    /// What moves and removes the media of a session whose archive is that of `session_id`: to
    /// `agents/{agent}/sessions/{session_id}/media` whatever is to move. `of` tells what becomes of files
    /// whose UUIDs are in `referred`, and of all others, of which those that came after `since` stay: the
    /// message that will refer to one may not be said yet. If media come or go before the commit, it fails
    /// with `Conflict`.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no session key or id; from the filesystem.
    #[boxed]
    pub async fn after_reset(
        &self,
        session_key: &str,
        (agent, session_id): (&str, &str),
        referred: &HashSet<String>,
        [of_referred, of_others]: [Fate; 2],
        since: Seq,
    ) -> Result<(Vec<Op>, Vec<(At, Precondition)>)> {
        check_session_key(session_key)?;
        check_id("agent", agent)?;
        check_id("session", session_id)?;
        let dir = directory(session_key);
        let Some(there) = self.fs.stat(&At::from(&dir)).await.optional()?.filter(Entry::is_dir) else {
            return Ok((Vec::new(), Vec::new()));
        };
        // what changes its names from here on makes another version of it
        let mut conditions = vec![(At::from(&dir), Precondition::Version(there.version))];
        let to = TreePath::parse(&format!("/agents/{agent}/sessions/{session_id}/{MEDIA}"))?;
        let fate = |name: &str, entry: Option<&Entry>| {
            let key = MediaKey::of_name(session_key, name);
            let is_late = entry.is_some_and(|entry| entry.version.seq > since);
            match key.is_some_and(|key| referred.contains(key.id())) {
                true => of_referred,
                false if of_others == Fate::Goes && is_late => Fate::Stays,
                false => of_others,
            }
        };
        let seen = self.seen(dir, fate).await?;
        let is_free = self.fs.stat(&At::from(&to)).await.optional()?.is_none();
        let ops = match is_free {
            true => {
                conditions.push((At::from(&to), Precondition::Absent));
                seen.together(&to).unwrap_or_else(|| seen.one_by_one(&to))
            }
            false => seen.one_by_one(&to),
        };
        Ok((ops, conditions))
    }

    async fn seen(&self, dir: TreePath, fate: impl Fn(&str, Option<&Entry>) -> Fate) -> Result<Seen> {
        let (mut page, mut names) = (Page::default().limit(MAX_PAGE).with_entries(), Vec::new());
        loop {
            let listing = self.fs.list(&At::from(&dir), &page).await?;
            page.after = listing.items.last().map(|item| item.name.clone());
            names.extend(listing.items.iter().map(|item| {
                let name = item.name.as_str();
                (name.to_owned(), fate(name, item.entry.as_deref()))
            }));
            let many = names.len() > MAX_FILES;
            if many || !listing.more {
                return Ok(Seen { dir, many, names });
            }
        }
    }
}

impl Seen {
    /// The whole directory moves, where that is all, or there is too much in it; what is to go is removed
    /// there, if that is less to do.
    fn together(&self, to: &TreePath) -> Option<Vec<Op>> {
        let count = |fate: Fate| self.names.iter().filter(|(_, of)| *of == fate).count();
        let (moves, stay, go) = (count(Fate::Moves), count(Fate::Stays), count(Fate::Goes));
        let is_all = moves > 0 && stay == 0 && go < moves;
        if !self.many && !is_all {
            return None;
        }
        let mut ops = vec![Op::rename(self.dir.clone(), to.clone()).no_replace().with_parents()];
        if !self.many {
            let gone = self.names.iter().filter(|(_, fate)| *fate == Fate::Goes);
            ops.extend(gone.map(|(name, _)| Op::remove_tree(TreePath::from_row(to.key(), name))));
        }
        Some(ops)
    }

    fn one_by_one(&self, to: &TreePath) -> Vec<Op> {
        let mut ops = Vec::new();
        let stay = self.many || self.names.iter().any(|(_, fate)| *fate == Fate::Stays);
        for (name, fate) in &self.names {
            let from = TreePath::from_row(self.dir.key(), name);
            match fate {
                Fate::Moves => {
                    ops.push(Op::rename(from, TreePath::from_row(to.key(), name)).with_parents());
                }
                Fate::Goes if stay => {
                    ops.push(Op::Remove { at: At::from(&from), what: Remove::Tree, missing_ok: true });
                }
                Fate::Goes | Fate::Stays => {}
            }
        }
        if !stay {
            ops.push(Op::remove_tree(self.dir.clone()));
        }
        ops
    }
}
