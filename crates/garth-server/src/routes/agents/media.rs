//! Media of a session: their list, and their removal. Their bytes have routes of their own.

use garth::agent::media::{MAX_LISTED, Media, MediaKey};
use garth::agent::workspace::Workspace;
use garth::model::Author;
use serde_json::{Value, json};

use crate::errors::Refusal;
use crate::routes::call::Call;
use crate::routes::media::{check_agent, item};

pub(in crate::routes) async fn list(_: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let session_key = call.fields.required_text("session_key")?;
    check_agent(call.agent, &session_key)?;
    let limit = call.fields.integer("limit", 1, MAX_LISTED as u64)?;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(100);
    let cursor = call.fields.text("cursor")?;
    let media = Media::new(&**call.account, call.env.clone());
    let (found, next) = media.list(&session_key, cursor.as_deref(), limit).await?;
    let items: Vec<Value> = found.iter().map(item).collect();
    Ok(match next {
        Some(next) => json!({"items": items, "has_more": true, "next_cursor": next}),
        None => json!({"items": items}),
    })
}

pub(in crate::routes) async fn delete(_: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let key: MediaKey = call.fields.required_text("key")?.parse()?;
    check_agent(call.agent, key.session_key())?;
    let author = Author::agent(call.agent).with_key(&call.key.id);
    let media = Media::new(&**call.account, call.env.clone()).author(author);
    Ok(json!({"ok": true, "seq": media.remove(&key).await?.0}))
}
