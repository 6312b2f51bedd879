//! Daily memory over HTTP.

use std::borrow::Cow;

use garth_agent::workspace::{Day, MAX_DAYS, Workspace};
use serde_json::{Value, json};

use crate::errors::Refusal;
use crate::fields::{Page, fields, string, string_of};
use crate::routes::call::Call;

fields! {
    /// Adds a text to the memory of a day.
    pub(crate) struct AddFields<'a> {
        /// Text, Markdown.
        text: Cow<'a, str> = string();
        /// Day, such as 2026-01-31. Default: today.
        day: Option<Cow<'a, str>> = string_of("day");
    }
}

pub(in crate::routes) async fn add(
    workspace: &Workspace<'_>,
    _: &Call<'_>,
    fields: AddFields<'_>,
) -> Result<Value, Refusal> {
    let done = workspace.add_daily(day(fields.day)?, &fields.text).await?;
    Ok(json!({"ok": true, "path": done.path.as_str(), "seq": done.seq.0}))
}

fields! {
    /// Returns the memory of a day.
    pub(crate) struct GetFields<'a> {
        /// Day, such as 2026-01-31. Default: today.
        day: Option<Cow<'a, str>> = string_of("day");
    }
}

pub(in crate::routes) async fn get(
    workspace: &Workspace<'_>,
    call: &Call<'_>,
    fields: GetFields<'_>,
) -> Result<Value, Refusal> {
    let day = match day(fields.day)? {
        Some(day) => day,
        None => workspace.day_of(call.env.now()).await?,
    };
    let parts = workspace.daily(day).await?;
    let parts = parts.map(|parts| {
        parts.iter().map(|part| json!({"class": part.class, "text": part.text})).collect::<Vec<_>>()
    });
    Ok(json!({"day": day.to_string(), "parts": parts}))
}

fields! {
    /// Lists the days that have a memory.
    pub(crate) struct ListFields<'a> {
        ..page: Page<MAX_DAYS, MAX_DAYS>;
    }
}

pub(in crate::routes) async fn list(
    workspace: &Workspace<'_>,
    call: &Call<'_>,
    fields: ListFields<'_>,
) -> Result<Value, Refusal> {
    // The position of a page is a day.
    let (days, next) =
        workspace.list_daily(day(fields.page.cursor.map(Cow::Owned))?, fields.page.limit).await?;
    let items: Vec<Value> =
        days.iter().map(|day| json!({"day": day.day.to_string(), "bytes": day.bytes})).collect();
    Ok(call.fields.page(items, next.map(|next| next.to_string()).as_deref()))
}

fn day(text: Option<Cow<'_, str>>) -> Result<Option<Day>, Refusal> {
    Ok(text.map(|day| day.parse::<Day>()).transpose()?)
}
