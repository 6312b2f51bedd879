//! Media of a session: listing, removal and copies. Their bytes have routes of their own.

use std::borrow::Cow;

use garth_agent::media::{MAX_LISTED, MediaKey};

use crate::errors::Refusal;
use crate::fields::{Page, fields, string_of};
use crate::routes::call::Call;
use crate::routes::media::answers::{MediaCopied, MediaDeleted, MediaItem};
use crate::routes::open::Opened;
use crate::routes::respond::Json;
use crate::wire::ItemsPage;

/// Media of a page unless the call sets a limit.
const DEFAULT_LISTED: usize = 100;

fields! {
    /// Lists the media of a session.
    pub(crate) struct ListFields<'a> {
        /// Session key, or the UUID of a session that has none.
        session_key: Cow<'a, str> = string_of("session key");
        ..page: Page<MAX_LISTED, DEFAULT_LISTED>;
    }
}

pub(in crate::routes) async fn list(
    opened: &Opened<'_>,
    call: &Call<'_>,
    fields: ListFields<'_>,
) -> Result<Json<ItemsPage<MediaItem>>, Refusal> {
    let page = fields.page;
    let session = opened.sessions()?.by_media_key(&fields.session_key).await?;
    let (found, next) = opened.media()?.list(&session.meta.id, page.cursor.as_deref(), page.limit).await?;
    let items = found.iter().map(MediaItem::of).collect();
    Json::of(&ItemsPage::new(items, next.as_deref(), &call.fields))
}

fields! {
    /// Deletes a media file.
    pub(crate) struct DeleteFields<'a> {
        /// Key of the file, as a list returns it.
        key: Cow<'a, str> = string_of("media key");
    }
}

pub(in crate::routes) async fn delete(
    opened: &Opened<'_>,
    _: &Call<'_>,
    fields: DeleteFields<'_>,
) -> Result<Json<MediaDeleted>, Refusal> {
    let key: MediaKey = fields.key.parse()?;
    Json::of(&MediaDeleted { ok: true, seq: opened.media()?.remove(&key).await?.0 })
}

fields! {
    /// Copies a media file to a session, whose messages may then show it.
    pub(crate) struct CopyFields<'a> {
        /// Key of the file, as a list returns it.
        key: Cow<'a, str> = string_of("media key");
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
    }
}

pub(in crate::routes) async fn copy(
    opened: &Opened<'_>,
    call: &Call<'_>,
    fields: CopyFields<'_>,
) -> Result<Json<MediaCopied>, Refusal> {
    let stored = opened.sessions()?.copy_media(&fields.name, &fields.key.parse()?).await?;
    let key = stored.key.to_string();
    Json::of(&MediaCopied { ok: true, key, media: call.stored(MediaItem::of(&stored)) })
}
