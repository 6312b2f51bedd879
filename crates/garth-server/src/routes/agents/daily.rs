//! Daily memory over HTTP.

use std::borrow::Cow;

use garth_agent::workspace::{DailySection, Day, MAX_DAYS, Workspace};

use super::answers::{DailyAdded, DailyItem, DailyMemory, DailyPart};
use crate::errors::Refusal;
use crate::fields::{Page, fields, string, string_of};
use crate::routes::call::Call;
use crate::routes::respond::Json;
use crate::wire::ItemsPage;

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
) -> Result<Json<DailyAdded>, Refusal> {
    let done = workspace.add_daily(day(fields.day)?, &fields.text).await?;
    Json::of(&DailyAdded { ok: true, path: done.path.to_string(), seq: done.seq.0 })
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
) -> Result<Json<DailyMemory>, Refusal> {
    let day = match day(fields.day)? {
        Some(day) => day,
        None => workspace.day_of(call.env.now()).await?,
    };
    let parts = workspace.daily(day).await?;
    let part = |part: DailySection| DailyPart { class: part.class, text: part.text };
    let parts = parts.map(|parts| parts.into_iter().map(part).collect());
    Json::of(&DailyMemory { day: day.to_string(), parts })
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
) -> Result<Json<ItemsPage<DailyItem>>, Refusal> {
    // The position of a page is a day.
    let (days, next) =
        workspace.list_daily(day(fields.page.cursor.map(Cow::Owned))?, fields.page.limit).await?;
    let items = days.iter().map(|day| DailyItem { day: day.day.to_string(), bytes: day.bytes }).collect();
    let next = next.map(|next| next.to_string());
    Json::of(&ItemsPage::new(items, next.as_deref(), &call.fields))
}

fn day(text: Option<Cow<'_, str>>) -> Result<Option<Day>, Refusal> {
    Ok(text.map(|day| day.parse::<Day>()).transpose()?)
}
