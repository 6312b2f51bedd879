//! Attributes of a media file. They name the file's session and UUID, so that it is found after a move.

use super::key::MediaKey;
use garth_engine::env::Env;
use garth_engine::model::SetAttrs;

/// Custom metadata: UUID of the file, by which it is found after a move.
pub(super) const ID: &str = "garth.media";
/// Custom metadata: session key.
pub(super) const SESSION_KEY: &str = "sessionKey";
/// Custom metadata: original file name.
pub(super) const FILE_NAME: &str = "originalFilename";
/// Custom metadata: time of the upload, in milliseconds since 1970.
const UPLOADED_AT: &str = "uploadedAt";

/// Custom metadata: session that owns the file, and the file's UUID. See [`of_session`].
pub(super) const OF: &str = "garth.session";

/// Returns the value of [`OF`] for a file of a session. With an empty `file_id` it is the common prefix of
/// all its files.
pub(super) fn of_session(session_id: &str, file_id: &str) -> String {
    format!("{session_id}/{file_id}")
}

/// Returns the attribute that assigns a media file to a session.
pub(crate) fn media_attrs(session_id: &str, file_id: &str) -> SetAttrs {
    SetAttrs::new().metadata(OF, of_session(session_id, file_id))
}

/// Returns the attributes of a new media file.
pub(super) fn attributes(
    env: &Env,
    key: &MediaKey,
    session_id: Option<&str>,
    (mime_type, name): (&str, &str),
) -> SetAttrs {
    let now = (env.now().0.div_euclid(1_000_000)).to_string();
    let attrs = match session_id {
        Some(session_id) => SetAttrs::new().metadata(OF, of_session(session_id, key.id())),
        None => SetAttrs::new(),
    };
    attrs
        .content_type(mime_type)
        .metadata(FILE_NAME, name)
        .metadata(UPLOADED_AT, now)
        .metadata(SESSION_KEY, key.session_key())
        .metadata(ID, key.id())
}
