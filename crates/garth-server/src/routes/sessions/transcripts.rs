//! Transcripts over HTTP: import of a text, and paged export of messages.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use garth_agent::session::{Export, Import, ImportMode, Log, Resolved, Sessions, Source, TranscriptFormat};
use serde_json::value::{RawValue, to_raw_value};

use super::answers::{TranscriptImported, TranscriptPage};
use crate::errors::Refusal;
use crate::fields::{Kind, fields, flag, string, string_of, words};
use crate::routes::call::Call;
use crate::routes::respond::{Json, raw};

/// Formats of transcripts.
pub(in crate::routes) const FORMATS: Kind = words(&["garth", "pi", "openai", "anthropic", "markdown"]);

/// Modes of an import.
const MODES: Kind = words(&["whole", "part"]);

fields! {
    /// Imports a transcript: the complete conversation, of which new messages are appended, or a part of it.
    pub(crate) struct ImportFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Format of the transcript.
        format: Cow<'a, str> = FORMATS;
        /// Transcript.
        transcript: Cow<'a, str> = string();
        /// `whole`: the transcript begins with the first message of the session, and later messages are
        /// appended.
        /// `part`: its messages are appended. Default: `whole`, if the session has no messages; else
        /// required.
        mode: Option<Cow<'a, str>> = MODES;
        /// `true` retracts the messages of the session from the first one that differs from a whole
        /// transcript.
        rewind: bool = flag(), or false;
        /// Id of the last message that the caller knows; messages after it are a conflict. For `part`.
        after: Option<Cow<'a, str>> = string_of("id");
        /// `true` leaves out messages that cannot be read, and names them.
        skip_bad: bool = flag(), or false;
        /// `true` creates the session if there is none.
        create: bool = flag(), or false;
    }
}

/// Warning where a retry would append the same messages again.
const DOUBLES: &str =
    "a retry appends these messages again; send an Idempotency-Key, `after`, or messages with ids";

pub(in crate::routes) async fn import(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: ImportFields<'_>,
) -> Result<Json<TranscriptImported>, Refusal> {
    let mut import = Import::new(fields.format.parse()?, &fields.transcript);
    import.mode = fields.mode.as_deref().map(|mode| match mode {
        "part" => ImportMode::Part,
        _ => ImportMode::Whole,
    });
    (import.rewind, import.skip_bad, import.create) = (fields.rewind, fields.skip_bad, fields.create);
    import.after = fields.after.map(Cow::into_owned);
    let done = sessions.import(&fields.name, &import).await?;
    let ends =
        |lines: &Option<RangeInclusive<u64>>| lines.as_ref().map(|lines| [*lines.start(), *lines.end()]);
    Json::of(&TranscriptImported {
        ok: true,
        messages: done.messages,
        new: done.new,
        present: done.present,
        lines: ends(&done.lines),
        retracted: ends(&done.retracted),
        said_again: done.said_again,
        system_changed: done.system_changed,
        unknown_blocks: done.unknown_blocks,
        skipped: done.skipped,
        skipped_count: done.skipped_count,
        notes: done.notes,
        note_count: done.note_count,
        seq: done.seq.map(|seq| seq.0),
        warning: done.repeat_doubles.then_some(DOUBLES),
    })
}

fields! {
    /// Returns the messages of a session in the format of another tool.
    pub(crate) struct ExportFields<'a> {
        /// Name of the session.
        name: Cow<'a, str> = string_of("id");
        /// Format of the transcript.
        format: Cow<'a, str> = FORMATS;
        /// Messages to return. Default: all.
        source: Option<Cow<'a, str>> = string_of("source");
        /// `true` includes retracted messages.
        retracted: bool = flag(), or false;
    }
}

pub(in crate::routes) async fn export(
    sessions: &Sessions<'_>,
    _: &Call<'_>,
    fields: ExportFields<'_>,
) -> Result<Box<RawValue>, Refusal> {
    let format: TranscriptFormat = fields.format.parse()?;
    let mut export = Export::new(format);
    export.retracted = fields.retracted;
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
        // All messages so far. `next_source` keeps this end, so later messages do not prolong an export.
        None => export.lines = 1..=sessions.end(name, Log::Messages).await?.lines,
    }
    let page = sessions.export(&of, &export).await?;
    let next_source = page.next.map(|next| format!("{of}#messages:{next}-{}", export.lines.end()));
    // A message is passed on as stored, to the last digit. A section of Markdown is a string.
    let item = |item: &String| match format {
        TranscriptFormat::Markdown => to_raw_value(item).ok(),
        _ => serde_json::from_str(item).ok(),
    };
    let items = page.items.iter().filter_map(item).collect();
    raw(&TranscriptPage { format: format.as_str(), items, has_more: next_source.is_some(), next_source })
}
