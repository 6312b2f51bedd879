//! What a reset does with media: those that the archive refers to stay, with a name.

use super::archive::StagedArchive;
use super::handle::Workspace;
use crate::media::{Fate, MediaKey};
use crate::session::{CloseTarget, Sessions};
use crate::settings::{MediaPolicy, Settings};
use garth_engine::error::Result;
use garth_engine::model::{Op, Seq};

impl Workspace<'_> {
    /// What moves or removes the media of a session that is put away, which began after `since`.
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
        // most sessions have none
        if media.list(&meta.id, None, 1).await?.0.is_empty() {
            return Ok(Vec::new());
        }
        let of_referred = match settings.reset.media {
            MediaPolicy::Keep => Fate::Moves,
            MediaPolicy::Delete => Fate::Goes,
        };
        let of_others = match settings.reset.media {
            // a parent may refer to any of them
            MediaPolicy::Keep if meta.other.contains_key("parent") => Fate::Moves,
            MediaPolicy::Keep | MediaPolicy::Delete => Fate::Goes,
        };
        // a message that came from elsewhere is archived as it came, with its pictures in it
        let mut referred = sessions.media_referred(name).await?;
        let archived = written.iter().flat_map(|written| &written.media);
        let keys = archived.filter_map(|key| key.parse::<MediaKey>().ok());
        referred.extend(keys.map(|key| key.id().to_owned()));
        media.after_reset((&meta.agent, &meta.id), &referred, [of_referred, of_others], since).await
    }
}
