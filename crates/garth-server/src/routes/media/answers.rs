//! Answers of the calls on media files.

use std::collections::BTreeMap;

use garth_agent::media::Stored;
use schemars::JsonSchema;
use serde::Serialize;

/// Media file.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct MediaItem {
    /// Key by which messages refer to the file: `media/{session_key}/{file}`.
    key: String,
    /// Path of the file in the account.
    path: String,
    /// Size in bytes.
    size: u64,
    /// MIME type as it was sent; `null` if the stored file has none.
    content_type: Option<String>,
    /// Custom metadata of the file, without that of garth.
    metadata: BTreeMap<String, String>,
}

impl MediaItem {
    /// Returns the answer for a media file.
    pub(in crate::routes) fn of(stored: &Stored) -> Self {
        let attributes = &stored.entry.attributes;
        // Internal metadata of garth.
        let shown = attributes.metadata.iter().filter(|(name, _)| !name.starts_with("garth."));
        Self {
            key: stored.key.to_string(),
            path: stored.path.to_string(),
            size: stored.entry.size,
            content_type: attributes.content_type.clone(),
            metadata: shown.map(|(name, value)| (name.clone(), value.clone())).collect(),
        }
    }
}

/// Media file that was stored.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct MediaStored {
    /// Always true.
    pub(in crate::routes) ok: bool,
    /// The media file.
    pub(in crate::routes) media: MediaItem,
}

/// Media file that was copied to a session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct MediaCopied {
    /// Always true.
    pub(in crate::routes) ok: bool,
    /// Key of the copy, by which messages of the session refer to it.
    pub(in crate::routes) key: String,
    /// The copy; `null` for a key that may not read.
    pub(in crate::routes) media: Option<MediaItem>,
}

/// Result of the deletion of a media file.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct MediaDeleted {
    /// Always true.
    pub(in crate::routes) ok: bool,
    /// Sequence number of the commit.
    pub(in crate::routes) seq: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::respond::text;

    const ALL: &str = concat!(
        r#"{"content_type":"image/png","key":"media/s/a.png","metadata":{"a":"1","b":"2"},"#,
        r#""path":"/media/s/a.png","size":9}"#,
    );

    fn item() -> MediaItem {
        MediaItem {
            key: "media/s/a.png".to_owned(),
            path: "/media/s/a.png".to_owned(),
            size: 9,
            content_type: Some("image/png".to_owned()),
            metadata: ["b", "a"].into_iter().zip(["2", "1"]).map(|(n, v)| (n.into(), v.into())).collect(),
        }
    }

    #[test]
    fn media_files_are_answered_with_their_metadata() {
        assert_eq!(text(&MediaStored { ok: true, media: item() }), format!(r#"{{"media":{ALL},"ok":true}}"#));
        let bare = MediaItem { content_type: None, metadata: BTreeMap::new(), ..item() };
        assert_eq!(
            text(&bare),
            concat!(
                r#"{"content_type":null,"key":"media/s/a.png","metadata":{},"#,
                r#""path":"/media/s/a.png","size":9}"#
            )
        );
    }

    #[test]
    fn copies_and_deletions_are_answered() {
        let copied = |media| text(&MediaCopied { ok: true, key: "k".to_owned(), media });
        assert_eq!(copied(Some(item())), format!(r#"{{"key":"k","media":{ALL},"ok":true}}"#));
        assert_eq!(copied(None), r#"{"key":"k","media":null,"ok":true}"#);
        assert_eq!(text(&MediaDeleted { ok: true, seq: 3 }), r#"{"ok":true,"seq":3}"#);
    }
}
