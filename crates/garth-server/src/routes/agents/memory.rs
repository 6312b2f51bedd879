//! Daily memory over HTTP.

use garth::agent::workspace::{Day, MAX_DAYS, Workspace};
use serde_json::{Value, json};

use crate::errors::Refusal;
use crate::fields::Fields;
use crate::routes::call::Call;

pub(in crate::routes) async fn add(workspace: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let done = workspace.remember(day(&call.fields)?, &call.fields.required_text("text")?).await?;
    Ok(json!({"ok": true, "path": done.path.as_str(), "seq": done.seq.0}))
}

pub(in crate::routes) async fn get(workspace: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let day = match day(&call.fields)? {
        Some(day) => day,
        None => workspace.day_of(call.env.now()).await?,
    };
    let parts = workspace.memory(day).await?;
    let parts = parts.map(|parts| {
        parts.iter().map(|part| json!({"class": part.class, "text": part.text})).collect::<Vec<_>>()
    });
    Ok(json!({"day": day.to_string(), "parts": parts}))
}

pub(in crate::routes) async fn days(workspace: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let after = call.fields.text("cursor")?.map(|day| day.parse::<Day>()).transpose()?;
    let limit = call.fields.integer("limit", 1, MAX_DAYS as u64)?;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(MAX_DAYS);
    let (days, next) = workspace.days(after, limit).await?;
    let items: Vec<Value> =
        days.iter().map(|day| json!({"day": day.day.to_string(), "bytes": day.bytes})).collect();
    Ok(match next {
        Some(next) => json!({"items": items, "has_more": true, "next_cursor": next.to_string()}),
        None => json!({"items": items}),
    })
}

fn day(fields: &Fields<'_>) -> Result<Option<Day>, Refusal> {
    Ok(fields.text("day")?.map(|day| day.parse::<Day>()).transpose()?)
}
