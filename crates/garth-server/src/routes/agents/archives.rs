//! Resets, the archives that they leave, and transcripts of sessions and archives.

use bytes::Bytes;
use garth::TreePath;
use garth::agent::session::{Export, TranscriptFormat};
use garth::agent::workspace::{Held, Reset, Workspace};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::chat_model::ServedModel;
use crate::errors::Refusal;
use crate::routes::call::Call;
use crate::routes::sessions::item;

/// Limit on the archives of a page.
const MAX_ARCHIVES: u64 = 1000;

pub(in crate::routes) async fn reset(workspace: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let fields = &call.fields;
    let model = match fields.flag("by_model")? {
        Some(true) if call.model.is_none() => {
            return Err(Refusal::validation("no model is set: start the server with --model-endpoint"));
        }
        Some(false) => None,
        _ => call.model,
    };
    let allowance = ServedModel::allowance(model, &**call.account, call.env).await?;
    let next = fields.text("next")?.map(std::borrow::Cow::into_owned);
    let mut how = Reset::default().name(next).asking(ServedModel::asking(model, allowance.as_ref()));
    how.if_due = fields.flag("if_due")?.unwrap_or(false);
    let done = workspace.reset(&fields.required_text("user")?, &fields.required_text("name")?, &how).await?;
    let Some(done) = done else { return Ok(json!({"ok": true, "reset": false})) };
    let (memory, job) = match &done.memory {
        Held::Added(path) => (Some(path.as_str()), None),
        Held::Later(job) => (None, Some(job.as_str())),
        _ => (None, None),
    };
    Ok(json!({
        "ok": true, "reset": true, "archive": done.archive.as_ref().map(TreePath::as_str),
        "messages": done.messages, "next": item(&done.next), "memory": memory, "job": job,
        "seq": done.seq.0,
    }))
}

pub(in crate::routes) async fn list(workspace: &Workspace<'_>, call: &Call<'_>) -> Result<Value, Refusal> {
    let fields = &call.fields;
    let limit = fields.integer("limit", 1, MAX_ARCHIVES)?.unwrap_or(100);
    let cursor = fields.text("cursor")?;
    let limit = usize::try_from(limit).unwrap_or(1);
    let (found, next) = workspace.archives(cursor.as_deref(), limit).await?;
    let shown = found.iter().map(|archive| {
        json!({
            "session_id": archive.session_id, "path": archive.path.as_str(), "size": archive.size,
            "metadata": archive.metadata,
        })
    });
    let items: Vec<Value> = shown.collect();
    Ok(match next {
        Some(next) => json!({"items": items, "has_more": true, "next_cursor": next}),
        None => json!({"items": items}),
    })
}

#[derive(Serialize)]
struct Page {
    format: &'static str,
    items: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_line: Option<u64>,
}

pub(in crate::routes) async fn transcript(
    workspace: &Workspace<'_>,
    call: &Call<'_>,
) -> Result<Bytes, Refusal> {
    let fields = &call.fields;
    let format: TranscriptFormat = fields.required_text("format")?.parse()?;
    let first = fields.integer("first_line", 1, u64::MAX)?.unwrap_or(1);
    let last = fields.integer("last_line", 1, u64::MAX)?.unwrap_or(u64::MAX);
    if last < first {
        return Err(Refusal::validation("\"last_line\" must not be before \"first_line\""));
    }
    let mut export = Export::new(format).lines(first..=last);
    export.withdrawn = fields.flag("withdrawn")?.unwrap_or(false);
    let page =
        workspace.transcript(&fields.required_text("user")?, &fields.required_text("name")?, &export).await?;
    // a message is JSON as it is, to the last digit; a section of Markdown is a string
    let item = |item: &String| match format {
        TranscriptFormat::Markdown => to_raw_value(item).ok(),
        _ => serde_json::from_str(item).ok(),
    };
    let items = page.items.iter().filter_map(item).collect();
    let page = Page { format: format.as_str(), items, has_more: page.next.is_some(), next_line: page.next };
    let text = serde_json::to_string(&page).map_err(|_| Refusal::validation("the answer is no JSON"))?;
    Ok(Bytes::from(text))
}
