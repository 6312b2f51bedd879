//! Images of a list: selects those that the provider accepts, the newest first, and puts a text in place of
//! each other one.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::image_limits::{ImageLimits, in_base64};
use super::parts::{Image, Part, Source, StepPart, Turn};
use crate::media::{
    ImageHeader, ImageType, MAX_MEDIA, MediaKey, bare, data_url, from_base64, standard_base64,
};
use crate::session::log::message::ImageSource;
use garth_engine::compute::working;
use garth_engine::text::secret::masked;

/// Text in place of an image that no longer exists, or is another session's: which of both is not said, to
/// reveal nothing of other sessions.
const GONE: &str = "[Image no longer available]";

/// Limit on the bytes of media in a list by the rules of [`ImageRules::Declared`].
const MAX_DECLARED: usize = MAX_MEDIA as usize;

/// MIME types that [`ImageRules::Declared`] accepts.
const DECLARED: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Rules by which a list takes images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageRules {
    /// By the type that the message declares, of any size. Packs built by these rules are built again by
    /// them, with the same bytes.
    Declared,
    /// By the content of the image and the limits of the provider.
    Checked,
}

/// Media file that messages of a list name.
#[derive(Clone, Debug)]
pub(crate) enum MediaImage {
    Gone,
    Read(Bytes),
    /// Size in bytes of a file that was not read, because it or the list is too large.
    Unread(u64),
}

/// Media files of a list, by key. Those that are not here are named.
pub(crate) type MediaImages = HashMap<MediaKey, MediaImage>;

/// Rules, limits and media for the images of a list.
#[derive(Clone, Copy)]
pub(crate) struct Images<'a> {
    pub(super) rules: ImageRules,
    pub(super) limits: ImageLimits,
    pub(super) media: &'a MediaImages,
}

impl ImageRules {
    /// Returns true if the content of media declared as this type is read.
    pub(crate) fn reads(self, mime_type: &str) -> bool {
        self == Self::Checked || DECLARED.contains(&&*bare(mime_type))
    }

    /// Returns the limits on the bytes of one media file and of all that are read for a list.
    pub(crate) fn read_limits(self, limits: &ImageLimits) -> (u64, u64) {
        let decoded = |base64: usize| (base64 / 4 * 3) as u64;
        match self {
            Self::Declared => (MAX_MEDIA, MAX_MEDIA),
            // Images that are read and then refused leave room for as many bytes of others.
            Self::Checked => (decoded(limits.image_bytes), 2 * decoded(limits.list_bytes)),
        }
    }
}

impl Image {
    pub(super) fn label(&self) -> String {
        label(&self.mime_type)
    }

    /// Returns the content in base64.
    pub(super) fn base64(&self) -> Cow<'_, str> {
        match &self.source {
            Source::Url(_) => Cow::Borrowed(""),
            Source::Base64(data) => Cow::Borrowed(data),
            Source::File(bytes) => {
                working(bytes.len());
                Cow::Owned(STANDARD.encode(bytes))
            }
        }
    }

    /// Returns the bytes that it takes in a list, in base64.
    fn bytes(&self) -> usize {
        match &self.source {
            Source::Url(_) => 0,
            Source::Base64(data) => data.len(),
            Source::File(bytes) => in_base64(bytes.len()),
        }
    }

    /// Returns the text in place of the image.
    fn refused(&self, why: &str) -> Part {
        let bytes = match &self.source {
            Source::Url(_) => None,
            Source::Base64(data) => Some(decoded_bytes(data)),
            Source::File(bytes) => Some(bytes.len()),
        };
        refused(&self.name, self.header.as_ref(), bytes, why)
    }
}

/// Returns the name of an image as a text.
pub(super) fn label(name: &str) -> String {
    format!("[image: {}]", masked(name))
}

/// Returns the text in place of an image: its name, its size, and why it is not in the list.
fn refused(name: &str, header: Option<&ImageHeader>, bytes: Option<usize>, why: &str) -> Part {
    let pixels = header.map(|header| format!("{}x{} pixels, ", header.width, header.height));
    let bytes = bytes.map(|bytes| format!("{bytes} bytes, ")).unwrap_or_default();
    let name = if name.is_empty() { "without a type" } else { name };
    Part::Text(format!("[image: {}, {}{bytes}{why}]", masked(name), pixels.unwrap_or_default()))
}

impl Images<'_> {
    /// Returns an image as a part of a message of the user or of a result, or the text in its place.
    pub(super) fn part(&self, mime_type: &str, source: &ImageSource) -> Part {
        match self.rules {
            ImageRules::Declared => self.declared(mime_type, source),
            ImageRules::Checked => self.checked(mime_type, source),
        }
    }

    fn checked(&self, mime_type: &str, source: &ImageSource) -> Part {
        let (mime_type, data) = match source {
            ImageSource::Data(data) => (mime_type, data.as_str()),
            ImageSource::Url(url) => match data_url(url) {
                Some((mime_type, data)) => (mime_type, data),
                None if is_web(url.trim()) => return Part::Image(elsewhere(mime_type, url.trim())),
                None => return refused(mime_type, None, None, "is at no web address that can be shown"),
            },
            ImageSource::Path(path) => return self.media_file(path),
        };
        // In base64 three bytes become four: a decoded copy of more than the limit is not made.
        if data.len() > self.limits.image_bytes {
            return refused(mime_type, None, Some(decoded_bytes(data)), &self.too_large());
        }
        working(data.len());
        match from_base64(data) {
            Some(bytes) => {
                let source = Source::Base64(standard_base64(data, &bytes).into_owned());
                self.of_content(mime_type, &bytes, source)
            }
            None => refused(mime_type, None, Some(data.len()), "is no base64"),
        }
    }

    fn media_file(&self, path: &str) -> Part {
        match path.parse().ok().and_then(|key: MediaKey| self.media.get(&key)) {
            None => Part::Text(label(path)),
            Some(MediaImage::Gone) => Part::Text(GONE.to_owned()),
            Some(MediaImage::Read(bytes)) => self.of_content(path, bytes, Source::File(bytes.clone())),
            // It was not read because it, or the list, was too large. Its size shows which.
            Some(MediaImage::Unread(bytes)) => {
                let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
                let is_large = in_base64(bytes) > self.limits.image_bytes;
                let why = if is_large { self.too_large() } else { FULL.to_owned() };
                refused(path, None, Some(bytes), &why)
            }
        }
    }

    /// Judges an image by its content.
    fn of_content(&self, name: &str, bytes: &[u8], source: Source) -> Part {
        working(bytes.len());
        // Only the header is read: a decoder can take far more memory and time than the size of the file
        // suggests.
        let Some(header) = ImageHeader::read(bytes) else {
            return refused(name, None, Some(bytes.len()), "is no PNG, JPEG, GIF or WebP image");
        };
        let mime_type = header.image_type.mime_type().to_owned();
        let image = Image { name: name.to_owned(), mime_type, source, header: Some(header) };
        let limits = &self.limits;
        if image.bytes() > limits.image_bytes {
            return image.refused(&self.too_large());
        }
        if header.longer_side() > limits.side {
            return image.refused(&format!("has a side of more than {} pixels", limits.side));
        }
        if header.animated && header.image_type == ImageType::Gif && !limits.animated_gif {
            return image.refused("is animated");
        }
        Part::Image(image)
    }

    fn too_large(&self) -> String {
        format!("has more than {} bytes in base64", self.limits.image_bytes)
    }

    fn declared(&self, mime_type: &str, source: &ImageSource) -> Part {
        let image = |mime_type: &str, source: Source| {
            let mime_type = mime_type.to_owned();
            Image { name: mime_type.clone(), mime_type, source, header: None }
        };
        let (of, data) = match source {
            ImageSource::Data(data) => (mime_type, data.as_str()),
            ImageSource::Url(url) => {
                match url.strip_prefix("data:").and_then(|url| url.split_once(";base64,")) {
                    Some(found) => found,
                    None if is_plain(url) => return Part::Image(elsewhere(mime_type, url)),
                    None => return Part::Text(label(mime_type)),
                }
            }
            ImageSource::Path(path) => {
                let key: Option<MediaKey> = path.parse().ok();
                return match key.filter(|_| self.rules.reads(mime_type)).and_then(|key| self.media.get(&key))
                {
                    Some(MediaImage::Gone) => Part::Text(GONE.to_owned()),
                    Some(MediaImage::Read(bytes)) => {
                        let image = image(&bare(mime_type), Source::File(bytes.clone()));
                        Part::Image(Image { name: path.clone(), ..image })
                    }
                    Some(MediaImage::Unread(_)) | None => Part::Text(label(path)),
                };
            }
        };
        working(data.len());
        // These rules stay as they were, with their faults: older packs are built again by them, byte for
        // byte.
        let is_taken = DECLARED.contains(&of) && !data.is_empty() && STANDARD.decode(data).is_ok();
        match is_taken {
            true => Part::Image(image(of, Source::Base64(data.to_owned()))),
            false => Part::Text(label(mime_type)),
        }
    }

    /// Replaces the images that a list has no room for by texts, the oldest first.
    pub(super) fn fit(&self, turns: &mut [Turn]) {
        let mut room = Room { images: self, count: 0, bytes: 0, has_large: false, full: false };
        // From the end: the newest images are what the model is asked about.
        for turn in turns.iter_mut().rev() {
            match turn {
                Turn::System(_) => {}
                Turn::User(parts) => room.fit_all(parts),
                Turn::Step(said) => {
                    for said in said.iter_mut().rev() {
                        let StepPart::Call(call) = said else { continue };
                        // Images of results that a provider only gets by name need no room.
                        if self.rules == ImageRules::Declared || self.limits.in_results && !call.error {
                            room.fit_all(&mut call.result);
                        }
                    }
                }
            }
        }
    }
}

/// Reason of an image for which the newer ones leave no room.
const FULL: &str = "newer images fill the list";

/// Images and bytes that a list holds so far, filled from its end.
struct Room<'a> {
    images: &'a Images<'a>,
    count: usize,
    bytes: usize,
    /// True if an image is too large for a list of many, or of unknown size.
    has_large: bool,
    /// True if an image found no room for its bytes: none before it gets any.
    full: bool,
}

impl Room<'_> {
    fn fit_all(&mut self, parts: &mut [Part]) {
        match self.images.rules {
            // Within a message these rules prefer the first.
            ImageRules::Declared => parts.iter_mut().for_each(|part| self.fit(part)),
            ImageRules::Checked => parts.iter_mut().rev().for_each(|part| self.fit(part)),
        }
    }

    fn fit(&mut self, part: &mut Part) {
        let Part::Image(image) = part else { return };
        let refused = match self.images.rules {
            ImageRules::Declared => self.full_of_media(image).then(|| Part::Text(label(&image.name))),
            ImageRules::Checked => self.refusal(image).map(|why| image.refused(&why)),
        };
        if let Some(refused) = refused {
            *part = refused;
        }
    }

    /// Returns the reason why a list has no room for an image, or counts the image.
    fn refusal(&mut self, image: &Image) -> Option<String> {
        let limits = &self.images.limits;
        // An image elsewhere has no known size, and counts as a large one.
        let is_large = image.header.is_none_or(|header| header.longer_side() > limits.side_of_many);
        let (bytes, has_large) = (self.bytes + image.bytes(), self.has_large || is_large);
        // Once an image has no room, older and smaller ones get none either: the images that are left are
        // then all newer than those that are named.
        self.full |= bytes > limits.list_bytes;
        if self.full {
            return Some(FULL.to_owned());
        }
        if self.count == limits.images {
            return Some(format!("{} newer images are the most of a list", limits.images));
        }
        // The API takes no long side in a list of many images: a large one that is in the list already keeps
        // it short.
        if self.count >= limits.few && has_large {
            let (few, side) = (limits.few, limits.side_of_many);
            return Some(format!(
                "a list of more than {few} images has none with a side above {side} pixels"
            ));
        }
        (self.bytes, self.has_large, self.count) = (bytes, has_large, self.count + 1);
        None
    }

    /// Returns true if the list has no room for a media file by [`ImageRules::Declared`].
    fn full_of_media(&mut self, image: &Image) -> bool {
        let Source::File(file) = &image.source else { return false };
        self.full |= self.bytes + file.len() > MAX_DECLARED;
        self.bytes += if self.full { 0 } else { file.len() };
        self.full
    }
}

fn elsewhere(mime_type: &str, url: &str) -> Image {
    let (mime_type, source) = (mime_type.to_owned(), Source::Url(url.to_owned()));
    Image { name: url.to_owned(), mime_type, source, header: None }
}

/// Returns the number of bytes that a base64 text encodes.
fn decoded_bytes(base64: &str) -> usize {
    let padding = base64.bytes().rev().take(2).filter(|byte| *byte == b'=').count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}

/// Returns true for a web address that holds no secret, whatever the case of its scheme.
fn is_web(url: &str) -> bool {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme).unwrap_or_default();
    is_plain(&format!("{}{}", scheme.to_ascii_lowercase(), &url[scheme.len()..]))
}

/// Returns true for the URL of a web page that holds no secret.
fn is_plain(url: &str) -> bool {
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    is_web && !url.contains(|c: char| c.is_whitespace() || c.is_control()) && masked(url) == url
}
