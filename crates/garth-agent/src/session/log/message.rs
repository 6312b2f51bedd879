//! A stored message: its role, and its blocks. `docs/specs/sessions.md` describes the format.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::draft::Role;
use garth_engine::compute::{go_on, working};
use garth_engine::error::{Error, Result};

/// A message. Its content is as it was given, to the last digit of arguments.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// Id.
    pub id: String,
    /// Role of its author.
    pub role: Role,
    /// User who said it, where several may speak.
    pub from: Option<String>,
    /// Run that it belongs to.
    pub run: Option<String>,
    /// Id of the message that it follows.
    pub parent: Option<String>,
    /// Time; RFC 3339.
    pub created_at: String,
    /// Line with its native form.
    pub native: Option<Native>,
    /// Content; text is one block.
    #[serde(deserialize_with = "content::<_, Block>")]
    pub content: Vec<Block>,
    /// True once its texts were searched for secrets and none was found: masking leaves them as they are.
    #[serde(skip)]
    pub(crate) is_plain: bool,
}

/// A line of `native/{format}.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Native {
    /// Name of the file, without its extension.
    pub format: String,
    /// Line number; the first is 1.
    pub line: u64,
}

/// A content block of a message.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Flat<Content>")]
pub enum Block {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// MIME type, such as `image/png`.
        mime_type: String,
        /// Source of the image.
        source: ImageSource,
    },
    /// Reasoning of a model.
    Reasoning {
        /// Text.
        text: Option<String>,
        /// Signature of the provider.
        signature: Option<String>,
        /// Encrypted reasoning, which only the provider can read.
        redacted: Option<String>,
    },
    /// A tool call.
    ToolCall {
        /// Id, which its result names.
        id: String,
        /// Name of the tool.
        name: String,
        /// Arguments as JSON, as they were written: an object, or a string if the model gave no object.
        arguments: Box<RawValue>,
    },
    /// The result of a tool call.
    ToolResult {
        /// Id of the call.
        call_id: String,
        /// Name of the tool.
        name: Option<String>,
        /// True if the tool failed.
        error: bool,
        /// Texts and images.
        content: Vec<Block>,
    },
}

/// Source of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// Base64 in the message.
    Data(String),
    /// A URL.
    Url(String),
    /// Path of a file in the tree.
    Path(String),
}

impl Message {
    /// Parses a line of `messages.jsonl`.
    ///
    /// # Errors
    /// `InvalidArgument` for a line that is not a message; `TimedOut` as [`go_on`].
    pub fn parse(line: &str) -> Result<Self> {
        working(line.len());
        go_on()?;
        serde_json::from_str(line).map_err(|error| Error::invalid(format!("is not a message: {error}")))
    }

    /// Returns the ids of its tool calls.
    pub fn calls(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolCall { id, .. } => Some(id.as_str()),
            _ => None,
        })
    }

    /// Returns the id of the call whose result it has.
    pub fn result_of(&self) -> Option<&str> {
        self.content.iter().find_map(|block| match block {
            Block::ToolResult { call_id, .. } => Some(call_id.as_str()),
            _ => None,
        })
    }

    /// Returns the number of bytes of it that are shown as text.
    pub(crate) fn shown_bytes(&self) -> usize {
        bytes_of(&self.content)
    }

    /// Returns its texts, separated by blank lines.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

fn bytes_of(blocks: &[Block]) -> usize {
    let of = |block: &Block| match block {
        Block::Text(text) => text.len(),
        Block::Reasoning { text, .. } => text.as_ref().map_or(0, String::len),
        Block::ToolCall { arguments, .. } => arguments.get().len(),
        Block::ToolResult { content, .. } => bytes_of(content),
        Block::Image { .. } => 0,
    };
    blocks.iter().map(of).sum()
}

/// Content of a tool result.
#[derive(Default, Deserialize)]
#[serde(transparent)]
struct Content(#[serde(deserialize_with = "content::<_, Part>")] Vec<Block>);

/// A block in a result. Blocks inside it are not read: results do not nest.
#[derive(Deserialize)]
#[serde(from = "Flat<IgnoredAny>")]
struct Part(Block);

/// A block as it is stored.
#[derive(Deserialize)]
struct Flat<C> {
    #[serde(rename = "type")]
    kind: Kind,
    text: Option<String>,
    mime_type: Option<String>,
    data: Option<String>,
    url: Option<String>,
    path: Option<String>,
    signature: Option<String>,
    redacted: Option<String>,
    id: Option<String>,
    name: Option<String>,
    arguments: Option<Box<RawValue>>,
    call_id: Option<String>,
    #[serde(default)]
    error: bool,
    #[serde(default)]
    content: C,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Text,
    Image,
    Reasoning,
    ToolCall,
    ToolResult,
}

impl From<Part> for Block {
    fn from(part: Part) -> Self {
        part.0
    }
}

impl From<Flat<IgnoredAny>> for Part {
    fn from(flat: Flat<IgnoredAny>) -> Self {
        // Blocks inside are skipped: following results within results would overflow the stack.
        Self(Block::of(flat, |_| Vec::new()))
    }
}

impl From<Flat<Content>> for Block {
    fn from(flat: Flat<Content>) -> Self {
        Self::of(flat, |content| content.0)
    }
}

impl Block {
    // The rule of the log refuses a block that lacks a field of its type: the defaults are for lines that
    // were written in spite of it.
    fn of<C>(flat: Flat<C>, content: impl FnOnce(C) -> Vec<Self>) -> Self {
        match flat.kind {
            Kind::Text => Self::Text(flat.text.unwrap_or_default()),
            Kind::Image => {
                let source = match (flat.data, flat.url) {
                    (Some(data), _) => ImageSource::Data(data),
                    (None, Some(url)) => ImageSource::Url(url),
                    (None, None) => ImageSource::Path(flat.path.unwrap_or_default()),
                };
                Self::Image { mime_type: flat.mime_type.unwrap_or_default(), source }
            }
            Kind::Reasoning => {
                Self::Reasoning { text: flat.text, signature: flat.signature, redacted: flat.redacted }
            }
            Kind::ToolCall => Self::ToolCall {
                id: flat.id.unwrap_or_default(),
                name: flat.name.unwrap_or_default(),
                arguments: flat.arguments.unwrap_or_else(|| RawValue::NULL.to_owned()),
            },
            Kind::ToolResult => Self::ToolResult {
                call_id: flat.call_id.unwrap_or_default(),
                name: flat.name,
                error: flat.error,
                content: content(flat.content),
            },
        }
    }
}

/// Deserializes text, or blocks.
fn content<'de, D, B>(deserializer: D) -> Result<Vec<Block>, D::Error>
where
    D: serde::Deserializer<'de>,
    B: DeserializeOwned + Into<Block>,
{
    // Raw: an untagged enum would buffer the content, and arguments would not keep the text they were given
    // as.
    let raw = <&RawValue>::deserialize(deserializer)?;
    let read = match raw.get().starts_with('"') {
        true => serde_json::from_str(raw.get()).map(|text| vec![Block::Text(text)]),
        false => serde_json::from_str::<Vec<B>>(raw.get())
            .map(|blocks| blocks.into_iter().map(Into::into).collect()),
    };
    read.map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_kind_of_block() {
        let line = r#"{"id":"msg-1","role":"assistant","created_at":"2026-01-27T09:30:00Z","run":"r",
            "native":{"format":"openai","line":3},"content":[{"type":"reasoning","text":"so","signature":"s"},
            {"type":"text","text":"a"},{"type":"image","mime_type":"image/png","url":"https://x"},
            {"type":"tool_call","id":"c","name":"bash","arguments":{"n": 1.0}},{"type":"text","text":"b"}]}"#;
        let message = Message::parse(line).unwrap();
        assert_eq!((message.role, message.text().as_str()), (Role::Assistant, "a\n\nb"));
        assert_eq!(message.calls().collect::<Vec<_>>(), ["c"]);
        assert_eq!(message.native, Some(Native { format: "openai".into(), line: 3 }));
        let exact = message.content.iter().any(
            |block| matches!(block, Block::ToolCall { arguments, .. } if arguments.get() == r#"{"n": 1.0}"#),
        );
        assert!(exact && message.result_of().is_none());
    }

    #[test]
    fn parses_results_of_text_or_blocks() {
        for content in [r#""out""#, r#"[{"type":"text","text":"out"}]"#] {
            let line = format!(
                r#"{{"id":"msg-1","role":"tool","created_at":"2026-01-27T09:30:00Z",
                    "content":[{{"type":"tool_result","call_id":"c","content":{content}}}]}}"#
            );
            let message = Message::parse(&line).unwrap();
            assert_eq!(message.result_of(), Some("c"));
            let out = matches!(&*message.content, [Block::ToolResult { content, error: false, .. }]
                if matches!(&**content, [Block::Text(text)] if text == "out"));
            assert!(out);
        }
        assert!(Message::parse("{}").is_err() && Message::parse("[").is_err());
    }

    #[test]
    fn results_within_results_are_not_followed() {
        let (open, depth) = (r#"[{"type":"tool_result","call_id":"c","content":"#, 20_000);
        let line = format!(
            r#"{{"id":"msg-1","role":"tool","created_at":"2026-01-27T09:30:00Z","content":{}"out"{}}}"#,
            open.repeat(depth),
            "}]".repeat(depth),
        );
        let message = Message::parse(&line).unwrap();
        assert_eq!(message.result_of(), Some("c"));
        let inner = matches!(&*message.content, [Block::ToolResult { content, .. }]
            if matches!(&**content, [Block::ToolResult { content, .. }] if content.is_empty()));
        assert!(inner);
    }
}
