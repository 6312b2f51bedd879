//! Attributes of a media file. They name the file's session and UUID, so that it is found after a move.

use super::key::MediaKey;
use garth_engine::env::Env;
use garth_engine::model::SetAttrs;

/// Custom metadata: UUID of the file, by which it is found wherever it was moved.
pub(super) const ID: &str = "garth.media";
/// Custom metadata: session key.
pub(super) const SESSION_KEY: &str = "sessionKey";
/// Custom metadata: name of the file where it came from.
const FILE_NAME: &str = "originalFilename";
/// Custom metadata: time of the upload, in milliseconds since 1970.
const UPLOADED_AT: &str = "uploadedAt";

/// Returns the attributes of a new media file.
pub(super) fn attributes(env: &Env, key: &MediaKey, mime_type: &str, name: &str) -> SetAttrs {
    let now = (env.now().0.div_euclid(1_000_000)).to_string();
    SetAttrs::new()
        .content_type(mime_type)
        .metadata(FILE_NAME, name)
        .metadata(UPLOADED_AT, now)
        .metadata(SESSION_KEY, key.session_key())
        .metadata(ID, key.id())
}
