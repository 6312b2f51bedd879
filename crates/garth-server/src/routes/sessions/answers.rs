//! Answers of the calls on sessions and transcripts.

use garth_agent::session::{ImportNote, Listed, Resolved, Skipped};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

/// Session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SessionAnswer {
    /// The session.
    pub(super) session: Listed,
}

/// Session that was created or changed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SessionWritten {
    /// Always true.
    pub(super) ok: bool,
    /// The session as it is now; `null` for a key that may not read.
    pub(super) session: Option<Listed>,
}

/// Current session of a session key.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct CurrentSession {
    /// Newest session of the key that has not ended; `null` if there is none.
    pub(super) session: Option<Listed>,
    /// True if the call created the session.
    pub(super) created: bool,
}

/// Result of an append.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct LinesAppended {
    /// Always true.
    pub(super) ok: bool,
    /// Ids of the messages that were sent, in their order. Those that the session had already are included.
    pub(super) messages: Vec<String>,
    /// Ids of the events that were sent, in their order. Those that the session had already are included.
    pub(super) events: Vec<String>,
    /// First and last line of the messages that were appended; `null` if the session had all of them.
    pub(super) lines: Option<[u64; 2]>,
    /// Sequence number of the commit; `null` if nothing was changed.
    pub(super) seq: Option<u64>,
}

/// Result of a retraction.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct LinesRetracted {
    /// Always true.
    pub(super) ok: bool,
    /// First and last line of the retracted messages.
    pub(super) lines: [u64; 2],
    /// Ids of the events that record the retraction; empty if all messages were retracted before.
    pub(super) events: Vec<String>,
    /// Sequence number of the commit.
    pub(super) seq: u64,
}

/// Page of messages or events.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct LinesPage {
    /// `messages` or `events`.
    pub(super) log: &'static str,
    /// Lines of the page, in their order.
    pub(super) items: Vec<SessionLine>,
    /// True if more lines follow. Missing on the last page.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_more: bool,
    /// Source of the next page, to be sent as `source`. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_source: Option<String>,
}

/// Message or event with its line.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SessionLine {
    /// Number of the line; the first is 1.
    pub(super) line: u64,
    /// Message or event as it is stored, an object.
    #[schemars(with = "serde_json::Value")]
    pub(super) value: Box<RawValue>,
}

/// Lines or file to which a source leads.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ResolvedSource {
    /// Source that always leads to the same place: lines by their numbers, or the path of a file.
    source: String,
    /// Name of the session that has the lines. Missing for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// `messages` or `events`. Missing for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<&'static str>,
    /// First and last line. Missing for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<[u64; 2]>,
    /// Byte range of the lines in the log: start and end. Missing for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<[u64; 2]>,
    /// Path of the file. Missing for lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Version of the file. Missing for lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    version_id: Option<String>,
    /// Size of the file in bytes. Missing for lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

impl ResolvedSource {
    /// Returns the answer for a source.
    pub(super) fn of(found: &Resolved) -> Self {
        let of_source = Self { source: found.fixed(), ..Self::default() };
        match found {
            Resolved::Lines { session, log, lines, bytes, .. } => Self {
                session: Some(session.clone()),
                log: Some(log.name()),
                lines: Some([*lines.start(), *lines.end()]),
                bytes: Some([bytes.start, bytes.end]),
                ..of_source
            },
            Resolved::File { shown, version, size, .. } => Self {
                path: Some(shown.to_string()),
                version_id: Some(version.to_string()),
                size: Some(*size),
                ..of_source
            },
            _ => of_source,
        }
    }
}

/// Result of an import.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct TranscriptImported {
    /// Always true.
    pub(super) ok: bool,
    /// Number of messages in the transcript that were read; `skipped_count` counts the others.
    pub(super) messages: u64,
    /// Number of these that were new, at least in part.
    pub(super) new: u64,
    /// Number of these that the session had already.
    pub(super) present: u64,
    /// First and last line that were appended; `null` if nothing was. A message of the transcript can have
    /// several lines.
    pub(super) lines: Option<[u64; 2]>,
    /// First and last line that were retracted; `null` if nothing was.
    pub(super) retracted: Option<[u64; 2]>,
    /// Line of a retracted message that the transcript contains after the last common message, and that was
    /// therefore appended again; `null` if there is none.
    pub(super) said_again: Option<u64>,
    /// True if the system prompt has changed.
    pub(super) system_changed: bool,
    /// Number of blocks of the new messages that a session cannot store. Placeholders replace them.
    pub(super) unknown_blocks: u64,
    /// Messages of the transcript that were left out, the first 100 of them.
    pub(super) skipped: Vec<Skipped>,
    /// Number of all messages that were left out.
    pub(super) skipped_count: u64,
    /// Notes on messages that may have been misread, the first 100 of them.
    pub(super) notes: Vec<ImportNote>,
    /// Number of all notes.
    pub(super) note_count: u64,
    /// Sequence number of the last commit; `null` if nothing was new.
    pub(super) seq: Option<u64>,
    /// Warning for people. Only if a retry would append the same messages again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warning: Option<&'static str>,
}

/// Page of a transcript.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct TranscriptPage {
    /// Format of the messages.
    pub(super) format: &'static str,
    /// Messages of the page in the format, each an object; for `markdown` each a string.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub(super) items: Vec<Box<RawValue>>,
    /// True if more messages follow. Missing on the last page.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_more: bool,
    /// Source of the next page, to be sent as `source`. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_source: Option<String>,
}

#[cfg(test)]
mod tests {
    use garth_agent::session::Log;
    use garth_engine::TreePath;
    use garth_engine::model::{Ino, Seq, VersionId};

    use super::*;
    use crate::fields::Fields;
    use crate::routes::respond::{raw, text};
    use crate::wire::ItemsPage;

    /// Session as the answers contain it.
    const SESSION: &str = concat!(
        r#"{"created_at":"2026-01-27T00:00:00.000Z","cwd":"/","meta":{"agent":"scout","class":"main","#,
        r#""id":"u1","name":"work","usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3},"user":"ann"},"#,
        r#""name":"work","state":"idle","updated_at":"2026-01-27T00:00:01.000Z"}"#,
    );

    fn session() -> Listed {
        serde_json::from_str(SESSION).unwrap()
    }

    fn json(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn sessions_are_answered_with_their_metadata() {
        assert_eq!(text(&SessionAnswer { session: session() }), format!(r#"{{"session":{SESSION}}}"#));
        let written = |session| text(&SessionWritten { ok: true, session });
        assert_eq!(written(Some(session())), format!(r#"{{"ok":true,"session":{SESSION}}}"#));
        assert_eq!(written(None), r#"{"ok":true,"session":null}"#);
        let current = |session, created| text(&CurrentSession { session, created });
        assert_eq!(current(Some(session()), true), format!(r#"{{"created":true,"session":{SESSION}}}"#));
        assert_eq!(current(None, false), r#"{"created":false,"session":null}"#);
    }

    #[test]
    fn last_page_names_no_cursor() {
        let request = Fields::parse(("/v1/sessions/list", &[]), b"{}", &[]).unwrap();
        let page = |next| text(&ItemsPage::new(vec![session()], next, &request));
        assert_eq!(page(None), format!(r#"{{"items":[{SESSION}]}}"#));
        let cursor = request.cursor_of("work");
        let first = format!(r#"{{"has_more":true,"items":[{SESSION}],"next_cursor":"{cursor}"}}"#);
        assert_eq!(page(Some("work")), first);
    }

    #[test]
    fn optional_metadata_is_left_out_or_answered() {
        let optional = concat!(
            r#""archive":"/a","compacted_to":3,"context_window":4,"finished_at":"t","last_input_tokens":5,"#,
            r#""last_part":6,"model":"m","next":"n","note":{"b":1},"previous":"p","session_key":"k","#,
            r#""title":"t","#,
        );
        let all = SESSION.replacen(r#""usage""#, &format!(r#"{optional}"usage""#), 1);
        let session: Listed = serde_json::from_str(&all).unwrap();
        let sorted: serde_json::Value = serde_json::from_str(&all).unwrap();
        assert_eq!(text(&session), sorted.to_string());
    }

    #[test]
    fn appends_and_retractions_name_lines_and_commit() {
        let ids = || vec!["m1".to_owned()];
        let appended =
            |lines, seq| LinesAppended { ok: true, messages: ids(), events: Vec::new(), lines, seq };
        assert_eq!(
            text(&appended(Some([3, 4]), Some(9))),
            r#"{"events":[],"lines":[3,4],"messages":["m1"],"ok":true,"seq":9}"#
        );
        assert_eq!(
            text(&appended(None, None)),
            r#"{"events":[],"lines":null,"messages":["m1"],"ok":true,"seq":null}"#
        );
        let retracted = LinesRetracted { ok: true, lines: [1, 2], events: ids(), seq: 7 };
        assert_eq!(text(&retracted), r#"{"events":["m1"],"lines":[1,2],"ok":true,"seq":7}"#);
    }

    #[test]
    fn lines_are_passed_on_to_the_last_digit() {
        let items = vec![SessionLine { line: 1, value: json(r#"{"n":1.10}"#) }];
        let page = LinesPage { log: "messages", items, has_more: true, next_source: Some("s".to_owned()) };
        assert_eq!(
            raw(&page).unwrap().get(),
            r#"{"log":"messages","items":[{"line":1,"value":{"n":1.10}}],"has_more":true,"next_source":"s"}"#
        );
        let page = LinesPage { log: "events", items: Vec::new(), has_more: false, next_source: None };
        assert_eq!(raw(&page).unwrap().get(), r#"{"log":"events","items":[]}"#);
    }

    #[test]
    fn sources_lead_to_lines_or_a_file() {
        let (session, log) = ("work".to_owned(), Log::Messages);
        let lines = Resolved::Lines { session, log, lines: 1..=2, bytes: 0..90 };
        assert_eq!(
            text(&ResolvedSource::of(&lines)),
            concat!(
                r#"{"bytes":[0,90],"lines":[1,2],"log":"messages","session":"work","#,
                r#""source":"work#messages:1-2"}"#
            )
        );
        let path = TreePath::parse("/a.md").unwrap();
        let version = VersionId { seq: Seq(1), ino: Ino(2) };
        let file = Resolved::File { path: path.clone(), shown: path, version, size: 5 };
        assert_eq!(
            text(&ResolvedSource::of(&file)),
            format!(r#"{{"path":"/a.md","size":5,"source":"/a.md","version_id":"{version}"}}"#)
        );
    }

    #[test]
    fn imports_are_counted() {
        let imported = |lines, seq, warning| TranscriptImported {
            ok: true,
            messages: 3,
            new: 2,
            present: 1,
            lines,
            retracted: lines,
            said_again: seq,
            system_changed: false,
            unknown_blocks: 0,
            skipped: Vec::new(),
            skipped_count: 0,
            notes: Vec::new(),
            note_count: 0,
            seq,
            warning,
        };
        assert_eq!(
            text(&imported(Some([2, 3]), Some(9), Some("w"))),
            concat!(
                r#"{"lines":[2,3],"messages":3,"new":2,"note_count":0,"notes":[],"ok":true,"present":1,"#,
                r#""retracted":[2,3],"said_again":9,"seq":9,"skipped":[],"skipped_count":0,"#,
                r#""system_changed":false,"unknown_blocks":0,"warning":"w"}"#
            )
        );
        assert_eq!(
            text(&imported(None, None, None)),
            concat!(
                r#"{"lines":null,"messages":3,"new":2,"note_count":0,"notes":[],"ok":true,"present":1,"#,
                r#""retracted":null,"said_again":null,"seq":null,"skipped":[],"skipped_count":0,"#,
                r#""system_changed":false,"unknown_blocks":0}"#
            )
        );
    }

    #[test]
    fn transcripts_are_pages_of_one_format() {
        let page = |items, next_source: Option<String>| {
            raw(&TranscriptPage { format: "pi", items, has_more: next_source.is_some(), next_source })
                .unwrap()
        };
        assert_eq!(
            page(vec![json("{\"a\":1e2}")], Some("s".to_owned())).get(),
            r#"{"format":"pi","items":[{"a":1e2}],"has_more":true,"next_source":"s"}"#
        );
        assert_eq!(page(Vec::new(), None).get(), r#"{"format":"pi","items":[]}"#);
    }
}
