//! Images in appended messages. In a session with a session key they are moved to files of their own, and the
//! messages name these.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::draft::Draft;
use super::message::{Block, ImageSource, Message};
use crate::boxed;
use crate::ids::random_uuid;
use crate::media::{CreatedMedia, InlineImage, Media, MediaKey, SessionlessMedia, Stored, extract_images};
use crate::session::handle::Sessions;
use crate::session::store::meta::Meta;
use garth_engine::error::{Error, Result};
use garth_engine::model::{Body, Op};

/// Bytes of images that one commit holds in memory, 4 MiB; further ones are staged.
const HELD: usize = 4 << 20;

/// Images that were moved out of messages, by the ids of these.
#[derive(Debug, Default)]
pub(crate) struct ExtractedImages {
    /// UUID of the session whose messages they are.
    session_id: String,
    of_messages: BTreeMap<String, MessageImages>,
}

#[derive(Debug)]
struct MessageImages {
    /// Content that names the files instead.
    content: Box<RawValue>,
    files: Vec<InlineImage>,
}

impl ExtractedImages {
    /// Returns true if a stored line has the fields of a draft, once its images are files.
    pub(crate) fn is_said_by(&self, id: &str, given: &Draft, line: &str) -> bool {
        let taking = self.of_messages.get(id);
        taking.is_some_and(|taking| given.clone().with("content", &taking.content).is_said_by(line))
    }
}

impl<'a> Sessions<'a> {
    /// Returns the media that the sessions of this handle have.
    pub(crate) fn media(&self) -> Media<'a> {
        let media = Media::new(self.fs).env(self.env.clone()).author(self.author.clone());
        match (&self.places, self.home()) {
            (Some(_), Ok(home)) => media.of_sessions(home, self.sessionless_media()),
            _ => media,
        }
    }

    /// Returns the media without a session that the handle sees if it is of the class `main`.
    fn sessionless_media(&self) -> SessionlessMedia {
        // Files that belong to the agent, and to no session, are no part of a single session.
        if self.has_one_session() {
            return SessionlessMedia::Hidden;
        }
        let agent = self.agent.clone();
        if !self.has_own_archives() {
            return SessionlessMedia::OfAgent(agent);
        }
        // As of archives, an owner with such a key sees none of other audiences.
        match self.access_policy() {
            Some(policy) => {
                let (audience, policy) = (self.user.clone(), Arc::clone(policy));
                SessionlessMedia::OfAudience { agent, audience, policy }
            }
            None => SessionlessMedia::Hidden,
        }
    }

    /// Copies a media file that the handle sees to a session, whose messages may then show it. The content is
    /// shared.
    ///
    /// # Errors
    /// `NotFound` for a file or session that does not exist or is not visible; from the filesystem.
    #[boxed]
    #[doc(hidden)]
    pub async fn copy_media(&self, session: &str, key: &MediaKey) -> Result<Stored> {
        let media = self.media().once(self.once.clone());
        let copy = async {
            let (stored, (_, meta)) = (media.get(key).await?, self.meta(session).await?);
            let of = (meta.session_key.as_deref().unwrap_or(&meta.id), &*meta.id);
            let (ops, key) = media.copy_ops(&stored, of, &random_uuid(&self.env)?)?;
            let batch = self.batch(session, ops, "copy media to session")?;
            self.once.commit(self.fs, batch, CreatedMedia::pending(key)).await
        };
        media.made(self.once.run(copy).await?).await
    }

    /// Moves the images out of messages, if the session has a session key and this view reaches its media.
    /// `meta.json` is read unless it is known.
    ///
    /// # Errors
    /// `TooLarge` for an image above the limit; `NotFound`.
    pub(crate) async fn extract_images(
        &self,
        (session, known): (&str, Option<&Meta>),
        ids: &[String],
        drafts: &mut [Draft],
    ) -> Result<ExtractedImages> {
        let mut pictures = ExtractedImages::default();
        // Most messages have no image: neither they nor `meta.json` have to be read.
        let has_some = |draft: &Draft| draft.raw("content").is_some_and(|content| content.contains("image"));
        if !drafts.iter().any(has_some) {
            return Ok(pictures);
        }
        let meta = match known {
            Some(meta) => meta.clone(),
            None => self.meta(session).await?.1,
        };
        // Media are stored under the session key. Without one, images stay in the messages.
        let Some(key) = meta.session_key else { return Ok(pictures) };
        pictures.session_id.clone_from(&meta.id);
        for (number, (id, draft)) in (1..).zip(ids.iter().zip(drafts)) {
            let Some(content) = draft.value("content") else { continue };
            let of_message =
                |error: Error| Error::new(error.kind(), format!("message {number}: {}", error.message()));
            if let Some((content, files)) =
                extract_images((&key, &meta.id), id, content).map_err(of_message)?
            {
                *draft = draft.clone().with("content", &content);
                pictures.of_messages.insert(id.clone(), MessageImages { content, files });
            }
        }
        Ok(pictures)
    }

    /// Returns the writes of the images of new messages.
    pub(crate) async fn image_ops(&self, pictures: &ExtractedImages, new: &[Draft]) -> Result<Vec<Op>> {
        let (mut ops, mut held) = (Vec::new(), 0);
        for draft in new {
            let taking = draft.text("id").and_then(|id| pictures.of_messages.get(&id));
            for file in taking.iter().flat_map(|taking| &taking.files) {
                held += file.bytes.len();
                let body = match held <= HELD {
                    true => Body::Bytes(file.bytes.clone()),
                    false => {
                        // Staged bytes are not held in memory, and do not count.
                        held -= file.bytes.len();
                        let mut upload = self.fs.stage(&file.key.path().into()).await?;
                        upload.write(file.bytes.clone()).await?;
                        Body::Staged(upload.finish().await?)
                    }
                };
                ops.push(file.op(&self.env, &pictures.session_id, body));
            }
        }
        Ok(ops)
    }

    /// Returns the UUIDs of the media that the messages of a session refer to, retracted ones left out.
    ///
    /// # Errors
    /// `NotFound`; from the filesystem.
    #[boxed]
    #[doc(hidden)]
    pub async fn media_referred(&self, session: &str) -> Result<HashSet<String>> {
        let (mut found, mut select) = (HashSet::new(), super::lines::Select::messages(1..=u64::MAX));
        loop {
            let page = self.lines(session, &select).await?;
            media_referred(page.items.iter().map(|line| line.text.as_str()), &mut found);
            match page.next {
                Some(next) => select.lines = next..=u64::MAX,
                None => return Ok(found),
            }
            crate::retry::yield_now().await;
        }
    }
}

/// Adds the UUIDs of the media that lines of messages refer to. Invalid lines refer to none.
pub fn media_referred<'l>(lines: impl IntoIterator<Item = &'l str>, found: &mut HashSet<String>) {
    // A search of the text spares most lines from being parsed.
    for line in lines.into_iter().filter(|line| line.contains("image")) {
        let Ok(message) = Message::parse(line) else { continue };
        let keys = message.content.iter().flat_map(keys_of);
        found.extend(keys.map(|key| key.id().to_owned()));
    }
}

/// Returns the media that a block, or a block inside it, refers to.
fn keys_of(block: &Block) -> Vec<MediaKey> {
    match block {
        Block::Image { source: ImageSource::Path(path), .. } => path.parse().into_iter().collect(),
        Block::ToolResult { content, .. } => content.iter().flat_map(keys_of).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_refer_to_media_of_their_images() {
        let id = |n: u64| format!("01234567-89ab-4def-8123-{n:012}");
        let image = |path: &str| format!(r#"{{"type":"image","mime_type":"image/png","path":"{path}"}}"#);
        let line = |role: &str, content: &str| {
            format!(r#"{{"id":"m","role":"{role}","created_at":"","content":{content}}}"#)
        };
        let key = |n: u64| format!("media/k/{}.png", id(n));
        let lines = [
            line("user", &format!("[{},{}]", image(&key(1)), image("/pictures/cat.png"))),
            line(
                "tool",
                &format!(r#"[{{"type":"tool_result","call_id":"c","content":[{}]}}]"#, image(&key(2))),
            ),
            line("user", &format!(r#""image {}""#, key(3))),
            "no message: image".to_owned(),
        ];
        let mut found = HashSet::new();
        media_referred(lines.iter().map(String::as_str), &mut found);
        assert_eq!(found, HashSet::from([id(1), id(2)]));
    }
}
