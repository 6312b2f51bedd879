//! Puts stored media back into messages that leave a session, where the format has a place for images.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::format::TranscriptFormat;
use crate::media::{Hydrator, MediaBytes, MediaKey};
use crate::session::handle::Sessions;
use crate::session::log::draft::Role;
use crate::session::log::message::{Block, ImageSource, Message};
use garth_engine::compute::working;
use garth_engine::error::Result;
use garth_engine::model::MAX_INLINE_BODY;

/// Bytes of the images of consecutive messages that are written as one: as many as an import takes.
pub(super) const MAX_BYTES: u64 = MAX_INLINE_BODY as u64 / 4 * 3;

impl Sessions<'_> {
    /// Replaces the media that messages of a session name by their bytes. Returns false if they name none. A
    /// text takes the place of a file that is deleted, belongs to another session, or has more bytes than are
    /// `left`.
    ///
    /// # Errors
    /// From the filesystem.
    pub(super) async fn hydrate(
        &self,
        session: &str,
        format: TranscriptFormat,
        messages: &mut [(u64, Message)],
        left: &mut u64,
    ) -> Result<bool> {
        let mut images = Vec::new();
        for (_, message) in messages {
            let is_user = message.role == Role::User;
            for block in &mut message.content {
                match (format, block) {
                    (TranscriptFormat::Anthropic, Block::ToolResult { content, .. }) => {
                        images.extend(content.iter_mut().filter(|block| key_of(block).is_some()));
                    }
                    (TranscriptFormat::Anthropic | TranscriptFormat::OpenAi, block) if is_user => {
                        images.extend(Some(block).filter(|block| key_of(block).is_some()));
                    }
                    _ => {}
                }
            }
        }
        if images.is_empty() {
            return Ok(false);
        }
        let (own, media, hydrator) =
            (self.with_parents(session).await?, self.media(), Hydrator::with_budget(0));
        for image in images {
            let Some(key) = key_of(image) else { continue };
            let why = match hydrator.read(("", &key), &media, &own, *left).await? {
                Some(MediaBytes::Read(bytes)) => {
                    *left -= bytes.len() as u64;
                    working(bytes.len());
                    if let Block::Image { source, .. } = image {
                        *source = ImageSource::Data(STANDARD.encode(&bytes));
                    }
                    continue;
                }
                Some(MediaBytes::Larger(bytes)) => format!("{bytes} bytes, has no room in the message"),
                None => "is no longer available".to_owned(),
            };
            *image = Block::Text(format!("[image: {key}, {why}]"));
        }
        Ok(true)
    }
}

/// Returns the media that an image names.
fn key_of(block: &Block) -> Option<MediaKey> {
    match block {
        Block::Image { source: ImageSource::Path(path), .. } => path.parse().ok(),
        _ => None,
    }
}
