//! Limits of providers on the images of a request. A request with an image beyond them is refused as a whole.

use super::format::Format;

/// Number of base64 characters that encode three bytes.
const GROUP: usize = 4;

/// Bytes of a request that are reserved for everything except images: text, tool definitions and the caller's
/// own messages. A pack with the maximum number of tokens has about 5 MB of text.
const BESIDE: usize = 8_000_000;

/// Limits of a provider on images.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageLimits {
    /// Limit on the bytes of an image, in base64.
    pub(crate) image_bytes: usize,
    /// Limit on the bytes of all images of a list, in base64.
    pub(crate) list_bytes: usize,
    /// Limit on the images of a list.
    pub(super) images: usize,
    /// Limit on the pixels of a side, in a list of at most `few` images.
    pub(super) side: u32,
    /// Number of images up to which `side` is the limit.
    pub(super) few: usize,
    /// Limit on the pixels of a side, in a list of more than `few` images.
    pub(super) side_of_many: u32,
    /// True if the provider accepts GIFs with more than one frame.
    pub(super) animated_gif: bool,
    /// True if tool results can contain images.
    pub(super) in_results: bool,
}

/// Limits of the Messages API.
///
/// Source: Claude Docs, page "Vision", section "General limits": 5 MB per image, which the API measures in
/// base64 (5,242,880 bytes); 8,000 x 8,000 pixels, and 2,000 x 2,000 in a request of more than 20 images; 100
/// images and 32 MB per request.
const ANTHROPIC: ImageLimits = ImageLimits {
    image_bytes: 5 << 20,
    list_bytes: 32_000_000 - BESIDE,
    images: 100,
    side: 8000,
    few: 20,
    side_of_many: 2000,
    animated_gif: true,
    in_results: true,
};

/// Limits of Chat Completions.
///
/// Source: OpenAI API documentation, page "Images and vision", section "Image input requirements": PNG, JPEG,
/// WebP and GIF without animation; 20 MB per image; 500 images and 50 MB per request. It has no limit on
/// pixels: larger images are scaled down.
const OPENAI: ImageLimits = ImageLimits {
    image_bytes: 20_000_000usize.div_ceil(3) * GROUP,
    list_bytes: 50_000_000 - BESIDE,
    images: 500,
    side: u32::MAX,
    few: 500,
    side_of_many: u32::MAX,
    animated_gif: false,
    in_results: false,
};

impl ImageLimits {
    /// Returns the limits for lists of a format.
    pub(crate) fn of(format: Format) -> Self {
        match format {
            Format::Anthropic => ANTHROPIC,
            Format::OpenAi => OPENAI,
        }
    }
}

/// Returns the length of `bytes` bytes in base64.
pub(crate) fn in_base64(bytes: usize) -> usize {
    bytes.div_ceil(3).saturating_mul(GROUP)
}
