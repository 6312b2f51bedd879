//! Transcripts over HTTP: a text comes in, its messages go out page by page.

use std::borrow::Cow;

use garth::agent::session::{Export, Log, Resolved, Sessions, Source, TranscriptFormat};
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::errors::Refusal;
use crate::fields::{Kind, fields, flag, string, string_of, words};
use crate::routes::call::Call;
use crate::routes::respond::raw;

/// Formats of transcripts.
pub(in crate::routes) const FORMATS: Kind = words(&["garth", "pi", "openai", "anthropic", "markdown"]);

fields! {
    /// Appends the messages of a transcript that the session does not have yet.
    pub(crate) struct ImportFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Format of the transcript.
        format: Cow<'a, str> = FORMATS;
        /// Transcript.
        transcript: Cow<'a, str> = string();
    }
}

pub(in crate::routes) async fn import(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: ImportFields<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let done = sessions.import(&fields.name, fields.format.parse()?, &fields.transcript).await?;
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

fields! {
    /// Returns the messages of a session in the format of others.
    pub(crate) struct ExportFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Format of the transcript.
        format: Cow<'a, str> = FORMATS;
        /// Messages to return. Default: all.
        source: Option<Cow<'a, str>> = string_of("source");
        /// `true` includes messages that were withdrawn.
        withdrawn: bool = flag(), or false;
    }
}

pub(in crate::routes) async fn export(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: ExportFields<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let format: TranscriptFormat = fields.format.parse()?;
    let mut export = Export::new(format);
    export.withdrawn = fields.withdrawn;
    let name = &*fields.name;
    let mut of = name.to_owned();
    match fields.source {
        Some(source) => {
            let source: Source = source.parse()?;
            let Resolved::Lines { session, log: Log::Messages, lines, .. } =
                sessions.resolve(name, &source).await?
            else {
                return Err(Refusal::validation("\"source\" must lead to lines of messages"));
            };
            (of, export.lines) = (session, lines);
        }
        // all of it
        None => export.lines = 1..=sessions.end(name, Log::Messages).await?.lines,
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
