//! Turns of a list and their parts, in the terms that all providers share.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::media::ImageHeader;

/// A turn of one role; that of a model includes the results of its calls. No text is empty.
pub(super) enum Turn {
    System(String),
    User(Vec<Part>),
    Step(Vec<StepPart>),
}

/// A part of a message of the user, or of the output of a tool.
pub(super) enum Part {
    Text(String),
    Image(Image),
}

/// A part of a turn of the model.
pub(super) enum StepPart {
    Text(String),
    Thought { text: String, signature: String },
    Redacted(String),
    Call(Call),
}

/// A call with its result.
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Arguments,
    pub(super) error: bool,
    pub(super) result: Vec<Part>,
}

/// The arguments of a call.
pub(super) enum Arguments {
    /// An object, as it was written.
    Object(Box<RawValue>),
    Text(String),
}

/// An image of a list.
pub(super) struct Image {
    /// Name of the media file, or type.
    pub(super) name: String,
    pub(super) mime_type: String,
    pub(super) source: Source,
    /// Header; `None` for an image at a URL, and where the content was not examined.
    pub(super) header: Option<ImageHeader>,
}

/// Location of the bytes of an image.
pub(super) enum Source {
    Url(String),
    Base64(String),
    File(Bytes),
}
