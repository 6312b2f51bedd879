//! Media in a reset: files that the archive refers to are moved next to it, or removed by the policy.

use super::archive::{ENDING, SESSION_ID, StagedArchive, part_of};
use super::handle::Workspace;
use crate::media::{Fate, MediaKey};
use crate::session::{CloseTarget, Meta, Sessions};
use crate::settings::{MediaPolicy, Settings};
use garth_engine::error::Result;
use garth_engine::model::{FindQuery, Op, Seq};
use garth_engine::path::TreePath;

impl Workspace<'_> {
    /// Returns the operations that move or remove the media of a closed session. Media that came after
    /// `since` are not removed, and none of an id that several sessions or archives have.
    pub(super) async fn media_ops(
        &self,
        sessions: &Sessions<'_>,
        closed: &CloseTarget,
        written: Option<&StagedArchive>,
        settings: &Settings,
        since: Seq,
    ) -> Result<Vec<Op>> {
        let (name, meta) = (&closed.listed.name, &closed.listed.meta);
        let media = sessions.media();
        // Most sessions have none.
        if media.list(&meta.id, None, 1).await?.0.is_empty() {
            return Ok(Vec::new());
        }
        // Files belong to an id, which a copied session shares with the original. The messages of this
        // session do not name the files that only the other one refers to.
        if sessions.shares_id(name, &meta.id).await? || self.has_foreign_archive(sessions, meta).await? {
            return Ok(Vec::new());
        }
        let of_referred = match settings.reset.media {
            MediaPolicy::Keep => Fate::Moves,
            MediaPolicy::Delete => Fate::Goes,
        };
        let of_others = match settings.reset.media {
            // A parent may refer to any of them.
            MediaPolicy::Keep if meta.other.contains_key("parent") => Fate::Moves,
            MediaPolicy::Keep | MediaPolicy::Delete => Fate::Goes,
        };
        // A message in a foreign form is archived in that form, with its images inline. Then only the lines
        // of the session refer to the files.
        let mut referred = sessions.media_referred(name).await?;
        let archived = written.iter().flat_map(|written| &written.media);
        let keys = archived.filter_map(|key| key.parse::<MediaKey>().ok());
        referred.extend(keys.map(|key| key.id().to_owned()));
        media.after_reset((&meta.agent, &meta.id), &referred, [of_referred, of_others], since).await
    }

    /// Returns true if an archive has the messages of another session with the same id, which was copied and
    /// may be gone. It refers to the same media.
    async fn has_foreign_archive(&self, sessions: &Sessions<'_>, meta: &Meta) -> Result<bool> {
        let is_foreign = |path: &TreePath| {
            let name = path.name().and_then(|name| name.strip_suffix(ENDING));
            // A part has messages that the archive has as well.
            name.is_some_and(|name| part_of(name).is_none()) && meta.archive.as_deref() != Some(path.as_str())
        };
        let agents = TreePath::from_row("", "agents");
        let mut query = FindQuery::metadata(SESSION_ID, &meta.id).within(agents);
        loop {
            let found = sessions.whole().find(&query).await?;
            if found.items.iter().any(|item| is_foreign(&item.path)) {
                return Ok(true);
            }
            let Some(next) = found.next else { return Ok(false) };
            query = query.after(next);
        }
    }
}
