//! The system prompt of an imported transcript, after it has changed. The messages with the previous prompt
//! are retracted. The current prompt is a file of the session, with which packs and exports begin.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::export::anew;
use super::format::TranscriptFormat;
use super::given::in_format;
use crate::session::handle::Sessions;
use crate::session::log::message::Message;
use crate::session::store::files::SYSTEM_PROMPT;
use garth_engine::error::{OptionalExt as _, Result};
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::Timestamp;

/// Returns the text of a system prompt whose messages have these contents. Blank parts are left out.
pub(super) fn text_of(contents: &[Box<RawValue>]) -> String {
    let texts = contents.iter().filter_map(|content| serde_json::from_str(content.get()).ok());
    let texts = texts.flat_map(texts_in).filter(|text| !text.trim().is_empty());
    texts.collect::<Vec<_>>().join("\n\n")
}

fn texts_in(content: Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| Some(block.get("text")?.as_str()?.to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns a system prompt as an export and import in a format would return it: without text that the format
/// cannot represent, such as blank lines at the end.
pub(super) fn in_transcript(format: TranscriptFormat, text: &str) -> Result<Option<String>> {
    let written = anew(format, &[(1, message(text, Timestamp::default())?)]).pop();
    let read = written.and_then(|written| in_format(format, &written));
    Ok(read.and_then(|draft| draft.value("content").map(|content| text_of(&[content.to_owned()]))))
}

fn message(text: &str, created_at: Timestamp) -> Result<Message> {
    let created_at = created_at.to_rfc3339();
    let line = json!({"id": "msg-system", "role": "system", "created_at": created_at, "content": text});
    Message::parse(&line.to_string())
}

impl Sessions<'_> {
    /// Returns the system prompt from the file of the newest session of a chain that has one.
    pub(super) async fn known_system(&self, chain: &[String]) -> Result<Option<String>> {
        // A session after a reset has no file of its own until the prompt changes again.
        for name in chain.iter().rev() {
            let text = self.fs.read_to_string(&self.file(name, SYSTEM_PROMPT)?).await.optional()?;
            if text.is_some() {
                return Ok(text);
            }
        }
        Ok(None)
    }

    /// Returns the current system prompt as a message, if it differs from the one that the session began
    /// with.
    pub(super) async fn system_message(&self, session: &str) -> Result<Option<Message>> {
        let file = self.file(session, SYSTEM_PROMPT)?;
        let Some(text) = self.fs.read_to_string(&file).await.optional()? else { return Ok(None) };
        message(&text, self.fs.stat(&(&file).into()).await?.mtime).map(Some)
    }
}
