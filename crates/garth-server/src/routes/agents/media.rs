//! Which media a session has, and their removal. Their bytes have routes of their own.

use garth::agent::media::{MAX_LISTED, Media, MediaKey};
use garth::model::Author;
use serde_json::{Value, json};

use super::super::Caller;
use super::super::media::{check_agent, item};
use crate::errors::Refusal;
use crate::fields::Fields;

pub(super) async fn list(caller: &Caller<'_>, agent: &str, fields: &Fields<'_>) -> Result<Value, Refusal> {
    let session_key = fields.required_text("session_key")?;
    check_agent(agent, &session_key)?;
    let limit = fields.integer("limit", 1, MAX_LISTED as u64)?;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(100);
    let cursor = fields.text("cursor")?;
    let media = Media::new(&**caller.account, caller.env.clone());
    let (found, next) = media.list(&session_key, cursor.as_deref(), limit).await?;
    let items: Vec<Value> = found.iter().map(item).collect();
    Ok(match next {
        Some(next) => json!({"items": items, "has_more": true, "next_cursor": next}),
        None => json!({"items": items}),
    })
}

pub(super) async fn delete(caller: &Caller<'_>, agent: &str, fields: &Fields<'_>) -> Result<Value, Refusal> {
    let key: MediaKey = fields.required_text("key")?.parse()?;
    check_agent(agent, key.session_key())?;
    let author = Author::agent(agent).with_key(&caller.key.id);
    let media = Media::new(&**caller.account, caller.env.clone()).author(author);
    Ok(json!({"ok": true, "seq": media.remove(&key).await?.0}))
}
