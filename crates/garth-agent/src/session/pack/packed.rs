//! A pack that was built, in each of its forms.

use std::collections::BTreeMap;

use super::layers::Part;
use super::manifest::{Digest, Pack};
use super::window::RenderedWindow;
use crate::session::log::message::Message;
use crate::session::provider::{Format, ImageRules, MediaImages, list_with};
use crate::small_file::sha256;
use garth_engine::text::secret::Judgement;

/// A pack that was built.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Packed {
    /// Description: the parts, with their sources.
    pub pack: Pack,
    /// `pack.md`: the pack as text.
    pub markdown: String,
    /// Files before the messages.
    pub(super) system: String,
    pub(super) messages: Vec<Message>,
    /// Texts after the messages: results of children, expanded references.
    pub(super) after: Vec<String>,
    /// Media files that its messages name and that could be read.
    pub(super) media: MediaImages,
}

impl Packed {
    /// Returns the pack as the body of a request to a provider: a JSON object with `messages`, for Anthropic
    /// also `system`.
    pub fn list(&self, format: Format) -> String {
        let images = (self.image_rules(), &self.media);
        let judgement = self.pack.judgement().unwrap_or(Judgement::CURRENT);
        // Masks secrets by the rules with which the pack was built, or a replay would differ from it.
        judgement.during(|| list_with(format, images, (&self.system, &self.messages, &self.after)))
    }

    /// Returns the rules by which message lists of this pack include images. A pack keeps the rules with
    /// which it was built, so that it can be rebuilt byte for byte.
    pub(super) fn image_rules(&self) -> ImageRules {
        if self.pack.images == 0 { ImageRules::Declared } else { ImageRules::Checked }
    }

    /// Puts a pack together from its parts. Returns its stable prefix, its complete text, and the pack
    /// itself, whose description is still empty.
    pub(super) fn of(front: &[Part], messages: RenderedWindow, behind: &[Part]) -> (String, String, Self) {
        let system: String = front.iter().map(|part| part.text.as_str()).collect();
        let stays = format!("{system}{}", messages.text);
        let after: Vec<String> = behind.iter().map(|part| part.text.clone()).collect();
        let markdown = format!("{stays}{}", after.concat());
        let packed = Self {
            pack: Pack::empty(),
            markdown: markdown.clone(),
            system,
            messages: messages.messages,
            after,
            media: MediaImages::new(),
        };
        (stays, markdown, packed)
    }

    /// Returns the digest of each form, by the name of the form.
    pub(super) fn forms(&self) -> BTreeMap<String, Digest> {
        let digest = |text: &str| Digest { bytes: text.len() as u64, sha256: sha256(text.as_bytes()) };
        let lists = [Format::OpenAi, Format::Anthropic].map(|of| (of.to_string(), digest(&self.list(of))));
        lists.into_iter().chain([("markdown".to_owned(), digest(&self.markdown))]).collect()
    }
}
