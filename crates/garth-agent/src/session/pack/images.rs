//! Reads the images of a pack that goes to a provider: where a message names a file of media, the provider
//! gets its bytes.

use super::packed::Packed;
use crate::boxed;
use crate::media::{Hydrator, MediaBytes, MediaKey};
use crate::session::handle::Sessions;
use crate::session::log::draft::Role;
use crate::session::log::message::{Block, ImageSource};
use crate::session::provider::{Format, ImageLimits, ImageRules, MediaImage};
use garth_engine::error::Result;

/// Parents of a session whose media its messages may show.
const MAX_PARENTS: usize = 16;

impl Sessions<'_> {
    /// Returns a pack with its images, for lists of a format. `pack.md` still names the files. `account` is
    /// the name of the account in the hydrator. Images beyond the limits of the provider are not read.
    ///
    /// # Errors
    /// From the filesystem.
    #[boxed]
    #[doc(hidden)]
    pub async fn hydrated(
        &self,
        packed: &Packed,
        format: Format,
        hydrator: &Hydrator,
        account: &str,
    ) -> Result<Packed> {
        let mut packed = packed.clone();
        let rules = packed.image_rules();
        let (most, mut left) = rules.read_limits(&ImageLimits::of(format));
        let (own, media) = (self.with_parents(&packed.pack.session).await?, self.media());
        // Images from a model are not read: providers only get their names.
        let shown = packed.messages.iter().filter(|message| matches!(message.role, Role::User | Role::Tool));
        // The newest come first: they are read before the limit is reached.
        for key in shown.rev().flat_map(|message| keys(&message.content, rules)) {
            if packed.media.contains_key(&key) {
                continue;
            }
            let found = match hydrator.read((account, &key), &media, &own, most.min(left)).await? {
                None => MediaImage::Gone,
                Some(MediaBytes::Larger(bytes)) => MediaImage::Unread(bytes),
                Some(MediaBytes::Read(bytes)) => {
                    left -= bytes.len() as u64;
                    MediaImage::Read(bytes)
                }
            };
            packed.media.insert(key, found);
        }
        Ok(packed)
    }

    /// Returns the UUIDs of a session and of its parents: of the sessions whose media its messages may show.
    pub(crate) async fn with_parents(&self, session: &str) -> Result<Vec<String>> {
        let (mut ids, mut of) = (Vec::new(), Some((self.agent.clone(), session.to_owned())));
        while let Some((agent, session)) = of.take().filter(|_| ids.len() < MAX_PARENTS) {
            let Some((_, meta)) = self.of_agent(&agent).meta_if_there(&session).await? else { break };
            of = meta.parent().map(|(agent, session)| (agent.to_owned(), session.to_owned()));
            ids.push(meta.id);
        }
        Ok(ids)
    }
}

/// Returns the media that are images, the last first.
fn keys(content: &[Block], rules: ImageRules) -> Vec<MediaKey> {
    let of = |block: &Block| match block {
        Block::ToolResult { content, .. } => keys(content, rules),
        Block::Image { mime_type, source: ImageSource::Path(path) } if rules.reads(mime_type) => {
            path.parse().into_iter().collect()
        }
        _ => Vec::new(),
    };
    content.iter().rev().flat_map(of).collect()
}
