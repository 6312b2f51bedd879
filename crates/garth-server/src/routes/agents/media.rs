//! Media of a session: their list, and their removal. Their bytes have routes of their own.

use std::borrow::Cow;

use garth::agent::media::{MAX_LISTED, Media, MediaKey};
use serde_json::{Value, json};

use crate::errors::Refusal;
use crate::fields::{Page, fields, string_of};
use crate::routes::call::Call;
use crate::routes::media::{check_agent, item};

/// Media of a page unless the call names a limit.
const DEFAULT_LISTED: usize = 100;

fields! {
    /// Lists the media of a session.
    pub(crate) struct ListFields<'a> {
        /// Session key, or the UUID of a session that has none.
        session_key: Cow<'a, str> = string_of("session key");
        ..page: Page<'a, MAX_LISTED, DEFAULT_LISTED>;
    }
}

pub(in crate::routes) async fn list(
    media: &Media<'_>,
    call: &Call<'_>,
    fields: ListFields<'_>,
) -> Result<Value, Refusal> {
    check_agent(&call.caller.agent, &fields.session_key)?;
    let page = fields.page;
    let (found, next) = media.list(&fields.session_key, page.cursor.as_deref(), page.limit).await?;
    let items: Vec<Value> = found.iter().map(item).collect();
    Ok(match next {
        Some(next) => json!({"items": items, "has_more": true, "next_cursor": next}),
        None => json!({"items": items}),
    })
}

fields! {
    /// Deletes a media file.
    pub(crate) struct DeleteFields<'a> {
        /// Key of the file, as a list returns it.
        key: Cow<'a, str> = string_of("media key");
    }
}

pub(in crate::routes) async fn delete(
    media: &Media<'_>,
    call: &Call<'_>,
    fields: DeleteFields<'_>,
) -> Result<Value, Refusal> {
    let key: MediaKey = fields.key.parse()?;
    check_agent(&call.caller.agent, key.session_key())?;
    Ok(json!({"ok": true, "seq": media.remove(&key).await?.0}))
}
