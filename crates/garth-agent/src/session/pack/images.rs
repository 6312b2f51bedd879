//! Puts images into a pack that goes to a provider: where a message names a file of media, the provider gets
//! its bytes.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::packed::Packed;
use crate::boxed;
use crate::media::{Hydrator, MAX_MEDIA, MediaKey, bare};
use crate::session::handle::Sessions;
use crate::session::log::draft::Role;
use crate::session::log::message::{Block, ImageSource, Message};
use crate::session::provider::is_taken;
use garth_engine::compute::working;
use garth_engine::error::{ErrorKind, Result};

/// Text in place of an image that no longer exists, or is another session's: which of both is not told.
const GONE: &str = "[Image no longer available]";

/// Parents of a session whose media its messages may show.
const MAX_PARENTS: usize = 16;

/// Limit on the bytes of images in one list, the newest first; the others remain names. It fits any single
/// image, and in base64 it is more than providers accept in one call.
const MAX_HYDRATED: usize = MAX_MEDIA as usize;

impl Sessions<'_> {
    /// Returns a pack with its images, for a provider. `pack.md` still names the files. `account` is the name
    /// of the account in the hydrator. A text stands for an image that no longer exists.
    ///
    /// # Errors
    /// From the filesystem.
    #[boxed]
    pub async fn hydrated(&self, packed: &Packed, hydrator: &Hydrator, account: &str) -> Result<Packed> {
        let mut packed = packed.clone();
        let (own, mut left) = (self.with_parents(&packed.pack.session).await?, MAX_HYDRATED);
        for message in packed.messages.iter_mut().rev() {
            self.hydrate(message, (hydrator, account), &own, &mut left).await?;
        }
        Ok(packed)
    }

    /// Returns the UUIDs of a session and of its parents: of the sessions whose media its messages may show.
    async fn with_parents(&self, session: &str) -> Result<Vec<String>> {
        let (mut ids, mut of) = (Vec::new(), Some((self.agent.clone(), session.to_owned())));
        while let Some((agent, session)) = of.take().filter(|_| ids.len() < MAX_PARENTS) {
            let Some((_, meta)) = self.of_agent(&agent).meta_if_there(&session).await? else { break };
            of = meta.parent().map(|(agent, session)| (agent.to_owned(), session.to_owned()));
            ids.push(meta.id);
        }
        Ok(ids)
    }

    async fn hydrate(
        &self,
        message: &mut Message,
        (hydrator, account): (&Hydrator, &str),
        own: &[String],
        left: &mut usize,
    ) -> Result<()> {
        // of pictures that a model gave, providers are told the names
        if !matches!(message.role, Role::User | Role::Tool) {
            return Ok(());
        }
        let (media, mut found, mut room) = (self.media(), HashMap::new(), *left);
        for key in pictures(&message.content) {
            if room == 0 || found.contains_key(&key) {
                continue;
            }
            let bytes = match hydrator.bytes(account, &media, &key, own).await {
                // no picture that a message had
                Err(error) if error.is(ErrorKind::TooLarge) => continue,
                bytes => bytes?,
            };
            room = bytes.as_ref().map_or(Some(room), |bytes| room.checked_sub(bytes.len())).unwrap_or(0);
            found.insert(key, bytes);
        }
        put(&mut message.content, &found, left);
        Ok(())
    }
}

/// Returns the media that are images of types that providers accept.
fn pictures(content: &[Block]) -> Vec<MediaKey> {
    content
        .iter()
        .flat_map(|block| picture(block).map_or_else(|| pictures(within(block)), |key| vec![key]))
        .collect()
}

fn within(block: &Block) -> &[Block] {
    match block {
        Block::ToolResult { content, .. } => content,
        _ => &[],
    }
}

fn picture(block: &Block) -> Option<MediaKey> {
    match block {
        Block::Image { mime_type, source: ImageSource::Path(path) } if is_taken(&bare(mime_type)) => {
            path.parse().ok()
        }
        _ => None,
    }
}

/// Replaces each name of an image by its bytes.
fn put(content: &mut [Block], found: &HashMap<MediaKey, Option<Bytes>>, left: &mut usize) {
    for block in content {
        let what = picture(block).and_then(|key| found.get(&key));
        match (what, &mut *block) {
            (Some(Some(bytes)), Block::Image { mime_type, source }) => {
                // behind one that has no place there is none for those before it either
                let fits = left.checked_sub(bytes.len());
                *left = fits.unwrap_or(0);
                if fits.is_some() {
                    working(bytes.len());
                    (*mime_type, *source) = (bare(mime_type), ImageSource::Data(STANDARD.encode(bytes)));
                }
            }
            (Some(None), _) => *block = Block::Text(GONE.to_owned()),
            (_, Block::ToolResult { content, .. }) => put(content, found, left),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "media/k/01234567-89ab-4def-8123-456789abcdef.png";

    fn image(path: &str, mime_type: &str) -> Block {
        Block::Image { mime_type: mime_type.to_owned(), source: ImageSource::Path(path.to_owned()) }
    }

    #[test]
    fn what_is_found_is_put_in_each_time_until_there_is_no_room() {
        let found = HashMap::from([(KEY.parse().unwrap(), Some(Bytes::from_static(b"hi!!")))]);
        let mut content =
            vec![image(KEY, "image/PNG; a=b"), image("/cat.png", "image/png"), image(KEY, "image/png")];
        let mut left = 7;
        put(&mut content, &found, &mut left);
        let sources: Vec<_> = content
            .iter()
            .map(|block| match block {
                Block::Image { mime_type, source } => (mime_type.as_str(), source.clone()),
                other => panic!("{other:?}"),
            })
            .collect();
        let path = |path: &str| ImageSource::Path(path.to_owned());
        let due = [
            ("image/png", ImageSource::Data("aGkhIQ==".to_owned())),
            ("image/png", path("/cat.png")),
            ("image/png", path(KEY)),
        ];
        assert_eq!((sources, left), (due.to_vec(), 0));
    }

    #[test]
    fn what_is_gone_becomes_a_text_in_results_too() {
        let found = HashMap::from([(KEY.parse().unwrap(), None)]);
        let content = vec![image(KEY, "image/png"), image(KEY, "image/svg+xml")];
        let mut result =
            vec![Block::ToolResult { call_id: "c".to_owned(), name: None, error: false, content }];
        assert_eq!(pictures(&result), [KEY.parse().unwrap()]);
        put(&mut result, &found, &mut 10);
        let Block::ToolResult { content, .. } = &result[0] else { panic!() };
        // of what no provider takes the name stays
        assert!(
            matches!(&**content, [Block::Text(text), Block::Image { .. }] if text == "[Image no longer available]")
        );
    }
}
