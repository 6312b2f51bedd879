//! Resets, the archives that they create, and transcripts of sessions and archives.

use std::borrow::Cow;

use bytes::Bytes;
use garth_agent::session::{Export, TranscriptFormat};
use garth_agent::workspace::{Archive, Extraction, Reset, Workspace};
use serde_json::value::to_raw_value;

use super::answers::{AgentTranscriptPage, SessionReset};
use crate::chat_model::ServedModel;
use crate::errors::Refusal;
use crate::fields::{MAX_INTEGER, Page, fields, flag, integer, string_of};
use crate::routes::call::Call;
use crate::routes::respond::Json;
use crate::routes::sessions::transcripts::FORMATS;
use crate::wire::ItemsPage;

/// Limit on the archives of a page.
const MAX_ARCHIVES: usize = 1000;
/// Archives of a page unless the call sets a limit.
const DEFAULT_ARCHIVES: usize = 100;

fields! {
    /// Resets a session: archives its messages and begins the next session.
    pub(crate) struct ResetFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Name of the next session. Default: made from the name.
        next: Option<Cow<'a, str>> = string_of("id");
        /// `true` resets the session only if the settings of the agent say that it is due.
        if_due: bool = flag(), or false;
        /// `true` asks the model of the server what to remember. Default: `true` if a model is configured.
        by_model: Option<bool> = flag();
    }
}

pub(in crate::routes) async fn reset(
    workspace: &Workspace<'_>,
    call: &Call<'_>,
    fields: ResetFields<'_>,
) -> Result<Json<SessionReset>, Refusal> {
    let model = call.model_to_ask(fields.by_model).await?;
    let allowance = ServedModel::allowance(model.as_ref(), &**call.reach.for_garth()?, call.env).await?;
    let asking = ServedModel::asking(model.as_ref(), allowance.as_ref());
    let mut how = Reset::default().name(fields.next.map(Cow::into_owned)).asking(asking);
    how.if_due = fields.if_due;
    let done = workspace.reset(workspace.audience(), &fields.name, &how).await?;
    let Some(done) = done else { return Json::of(&SessionReset::Kept { ok: true, reset: false }) };
    let (memory, job) = match done.memory {
        Extraction::Added(path) => (Some(path.to_string()), None),
        Extraction::Later(job) => (None, Some(job)),
        _ => (None, None),
    };
    Json::of(&SessionReset::Reset {
        ok: true,
        reset: true,
        archive: done.archive.map(|path| path.to_string()),
        messages: done.messages,
        next: call.stored(Box::new(done.next)),
        memory,
        job,
        seq: done.seq.0,
    })
}

fields! {
    /// Lists the archives of sessions that were reset.
    pub(crate) struct ListFields<'a> {
        ..page: Page<MAX_ARCHIVES, DEFAULT_ARCHIVES>;
    }
}

pub(in crate::routes) async fn list(
    workspace: &Workspace<'_>,
    call: &Call<'_>,
    fields: ListFields<'_>,
) -> Result<Json<ItemsPage<Archive>>, Refusal> {
    let (found, next) = workspace.archives(fields.page.cursor.as_deref(), fields.page.limit).await?;
    Json::of(&ItemsPage::new(found, next.as_deref(), &call.fields))
}

fields! {
    /// Returns the messages of a session or an archive.
    pub(crate) struct TranscriptFields<'a> {
        /// Name of a session, or id of an archive.
        name: Cow<'a, str> = string_of("id");
        /// Format of the messages.
        format: Cow<'a, str> = FORMATS;
        /// First line.
        first_line: u64 = integer(1, MAX_INTEGER), or 1;
        /// Last line. Default: the end.
        last_line: Option<u64> = integer(1, MAX_INTEGER);
        /// `true` includes retracted messages.
        retracted: bool = flag(), or false;
    }
}

pub(in crate::routes) async fn transcript(
    workspace: &Workspace<'_>,
    _: &Call<'_>,
    fields: TranscriptFields<'_>,
) -> Result<Bytes, Refusal> {
    let format: TranscriptFormat = fields.format.parse()?;
    let (first, last) = (fields.first_line, fields.last_line.unwrap_or(u64::MAX));
    if last < first {
        return Err(Refusal::validation("\"last_line\" must not be before \"first_line\""));
    }
    let mut export = Export::new(format).lines(first..=last);
    export.retracted = fields.retracted;
    let page = workspace.transcript(workspace.audience(), &fields.name, &export).await?;
    // A message is passed on as stored, to the last digit. A section of Markdown is a string.
    let item = |item: &String| match format {
        TranscriptFormat::Markdown => to_raw_value(item).ok(),
        _ => serde_json::from_str(item).ok(),
    };
    let items = page.items.iter().filter_map(item).collect();
    let page = AgentTranscriptPage {
        format: format.as_str(),
        items,
        has_more: page.next.is_some(),
        next_line: page.next,
    };
    let text =
        serde_json::to_string(&page).map_err(|_| Refusal::validation("the answer is not valid JSON"))?;
    Ok(Bytes::from(text))
}
