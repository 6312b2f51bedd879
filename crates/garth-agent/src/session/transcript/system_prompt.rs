//! The system prompt of an imported transcript, after it has changed. The messages that had the prompt before
//! are withdrawn; the current one is a file of the session, with which packs and exports begin.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::session::handle::Sessions;
use crate::session::log::message::Message;
use crate::session::store::files::SYSTEM_PROMPT;
use garth_engine::error::{OptionalExt as _, Result};
use garth_engine::fs::FileSystemExt as _;

/// Returns the text of a system prompt whose messages have these contents.
pub(super) fn text_of(contents: &[Box<RawValue>]) -> String {
    let texts = contents.iter().filter_map(|content| serde_json::from_str(content.get()).ok());
    texts.flat_map(texts_in).collect::<Vec<_>>().join("\n\n")
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

impl Sessions<'_> {
    /// Returns the current system prompt as a message, if it is another than the one that the session began
    /// with.
    pub(super) async fn system_message(&self, session: &str) -> Result<Option<Message>> {
        let file = self.file(session, SYSTEM_PROMPT)?;
        let Some(text) = self.fs.read_to_string(&file).await.optional()? else { return Ok(None) };
        let created_at = self.fs.stat(&(&file).into()).await?.mtime.to_rfc3339();
        let line = json!({"id": "msg-system", "role": "system", "created_at": created_at, "content": text});
        Message::parse(&line.to_string()).map(Some)
    }
}
