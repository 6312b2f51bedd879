//! Media in a reset: files that the archive refers to are moved next to it, or removed by the policy.

use super::archive::StagedArchive;
use super::handle::Workspace;
use crate::media::{Fate, MediaKey};
use crate::session::{CloseTarget, Sessions};
use crate::settings::{MediaPolicy, Settings};
use garth_engine::error::Result;
use garth_engine::model::{Op, Seq};

impl Workspace<'_> {
    /// Returns the operations that move or remove the media of a closed session. Media that came after
    /// `since` are not removed.
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
}
