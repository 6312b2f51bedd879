//! Transcripts over HTTP: a text comes in, its messages go out page by page.

use garth::agent::session::{Export, Log, Resolved, Sessions, Source, TranscriptFormat};
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::session_name;
use crate::errors::Refusal;
use crate::fields::Fields;
use crate::routes::call::Call;
use crate::routes::respond::raw;

fn format(fields: &Fields<'_>) -> Result<TranscriptFormat, Refusal> {
    Ok(fields.required_text("format")?.parse()?)
}

pub(in crate::routes) async fn import(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let transcript = fields.required_text("transcript")?;
    let done = sessions.import(&name, format(fields)?, &transcript).await?;
    let lines = done.lines.as_ref().map(|lines| [*lines.start(), *lines.end()]);
    let seq = done.seq.map(|seq| seq.0);
    raw(&json!({"ok": true, "messages": done.messages, "new": done.new, "lines": lines, "seq": seq}))
}

#[derive(Serialize)]
struct Page {
    format: &'static str,
    items: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_source: Option<String>,
}

pub(in crate::routes) async fn export(
    sessions: &Sessions<'_>,
    call: &Call<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let (fields, name) = (&call.fields, session_name(call)?);
    let format = format(fields)?;
    let mut export = Export::new(format);
    export.withdrawn = fields.flag("withdrawn")?.unwrap_or(false);
    let mut of = name.clone().into_owned();
    match fields.text("source")? {
        Some(source) => {
            let source: Source = source.parse()?;
            let Resolved::Lines { session, log: Log::Messages, lines, .. } =
                sessions.resolve(&name, &source).await?
            else {
                return Err(Refusal::validation("\"source\" must lead to lines of messages"));
            };
            (of, export.lines) = (session, lines);
        }
        // all of it
        None => export.lines = 1..=sessions.end(&name, Log::Messages).await?.lines,
    }
    let page = sessions.export(&of, &export).await?;
    let next_source = page.next.map(|next| format!("{of}#messages:{next}-{}", export.lines.end()));
    // a message is JSON as it is, to the last digit; a section of Markdown is a string
    let item = |item: &String| match format {
        TranscriptFormat::Markdown => to_raw_value(item).ok(),
        _ => serde_json::from_str(item).ok(),
    };
    let items = page.items.iter().filter_map(item).collect();
    raw(&Page { format: format.as_str(), items, has_more: next_source.is_some(), next_source })
}
