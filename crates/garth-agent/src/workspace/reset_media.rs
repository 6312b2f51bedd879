//! What a reset does with media: those that the archive refers to stay, with a name.

use super::archive::StagedArchive;
use super::handle::Workspace;
use super::settings::{MediaPolicy, Settings};
use crate::media::{Fate, Media, MediaKey};
use crate::registry::projections;
use crate::registry::projections::sessions::open_key;
use crate::session::{CloseTarget, Sessions};
use garth_engine::error::Result;
use garth_engine::model::{At, FindQuery, Op, Precondition, Seq};

impl Workspace<'_> {
    /// What moves or removes the media of a session that is put away, which began after `since`. If some come
    /// or go meanwhile, the commit fails with `Conflict`.
    pub(super) async fn media_ops(
        &self,
        sessions: &Sessions<'_>,
        closed: &CloseTarget,
        written: Option<&StagedArchive>,
        settings: &Settings,
        since: Seq,
    ) -> Result<(Vec<Op>, Vec<(At, Precondition)>)> {
        let (name, meta) = (&closed.listed.name, &closed.listed.meta);
        let media = Media::new(self.fs, self.env.clone());
        let key = meta.session_key.as_ref().unwrap_or(&meta.id);
        // most sessions have none
        if !media.has_some(key).await? {
            return Ok((Vec::new(), Vec::new()));
        }
        let of_referred = match settings.reset.media {
            MediaPolicy::Keep => Fate::Moves,
            MediaPolicy::Delete => Fate::Goes,
        };
        let of_others = match (settings.reset.media, self.is_shared(sessions, closed).await?) {
            (_, true) => Fate::Stays,
            // a parent may refer to any of them
            (MediaPolicy::Keep, false) if meta.other.contains_key("parent") => Fate::Moves,
            (MediaPolicy::Keep | MediaPolicy::Delete, false) => Fate::Goes,
        };
        // a message that came from elsewhere is archived as it came, with its pictures in it
        let mut referred = sessions.media_referred(name).await?;
        let archived = written.iter().flat_map(|written| &written.media);
        let keys = archived.filter_map(|key| key.parse::<MediaKey>().ok());
        referred.extend(keys.map(|key| key.id().to_owned()));
        media.after_reset(key, (&meta.agent, &meta.id), &referred, [of_referred, of_others], since).await
    }

    /// Whether another session that goes on has the same key, and so the same media.
    async fn is_shared(&self, sessions: &Sessions<'_>, closed: &CloseTarget) -> Result<bool> {
        let Some(key) = &closed.listed.meta.session_key else { return Ok(false) };
        let own = sessions.directory(&closed.listed.name)?;
        let query = FindQuery::new(projections::SESSION).equal(&open_key(key)).limit(2);
        let found = self.fs.find(&query).await?;
        Ok(found.next.is_some() || found.items.iter().any(|item| item.path.parent().as_ref() != Some(&own)))
    }
}
