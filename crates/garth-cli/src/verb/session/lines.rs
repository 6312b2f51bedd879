//! `garth session messages`, `events` and `resolve`: lines of a session.

use clap::Args;
use garth_agent::session::{Line, Log, Resolved, Select, Source};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::verb::open::{Open, open};

/// Show the messages of a session
///
/// Retracted messages are left out. With --json, prints one object per message: line, and message as stored.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth session messages work\n  \
        garth session messages work tail:10\n  \
        garth session messages work 12-18 --retracted --json")]
pub(crate) struct Messages {
    /// Name of the session
    name: String,
    /// Messages to show: 12-18, an id, ID..ID, tail:N, user:latest or tool:ID [default: all]
    source: Option<String>,
    /// Show retracted messages, too
    #[arg(long)]
    retracted: bool,
}

/// Show the events of a session
///
/// With --json, prints one object per event: line, and event as stored.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth session events work 1-20")]
pub(crate) struct Events {
    /// Name of the session
    name: String,
    /// Events to show: 12-18, an id or ID..ID [default: all]
    source: Option<String>,
}

/// Resolve a source to lines or a file
///
/// With --json, prints one object: for lines source (with fixed line numbers), session, log, lines, bytes;
/// for a file source, path, version_id, size.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth session resolve work user:latest")]
pub(crate) struct Resolve {
    /// Name of the session
    name: String,
    /// Source, such as user:latest, tail:3, tool:ID or a path
    source: Source,
}

impl Messages {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, false).await?;
        show(app, &open, (&self.name, Log::Messages), self.source.as_deref(), self.retracted).await
    }
}

impl Events {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, false).await?;
        show(app, &open, (&self.name, Log::Events), self.source.as_deref(), true).await
    }
}

async fn show(
    app: &mut App,
    open: &Open,
    (session, log): (&str, Log),
    source: Option<&str>,
    retracted: bool,
) -> Result {
    let sessions = open.sessions()?;
    let (mut select, name) = match log {
        Log::Messages => (Select::messages(1..=u64::MAX), "messages"),
        Log::Events => (Select::events(1..=u64::MAX), "events"),
    };
    if retracted {
        select = select.with_retracted();
    }
    let mut of = session.to_owned();
    if let Some(text) = source {
        match sessions.resolve(session, &source_of(name, text)?).await? {
            Resolved::Lines { session, log: found, lines, .. } if found == log => {
                (of, select.lines) = (session, lines);
            }
            _ => return Err(Failure::Usage(format!("{text}: does not resolve to {name}"))),
        }
    } else {
        // Fails if the session does not exist.
        sessions.get(session).await?;
    }
    loop {
        let page = sessions.lines(&of, &select).await?;
        for line in &page.items {
            print(app, log, line)?;
        }
        match page.next {
            Some(next) => select.lines = next..=*select.lines.end(),
            None => return Ok(()),
        }
    }
}

/// Parses a source. Line numbers alone are lines of `log`.
pub(crate) fn source_of(log: &str, text: &str) -> Result<Source> {
    let is_bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    Ok(if is_bare { format!("{log}:{text}").parse()? } else { text.parse()? })
}

#[derive(Serialize)]
struct ShownLine<'a> {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a RawValue>,
}

fn print(app: &mut App, log: Log, line: &Line) -> Result {
    // A line that is not JSON is shown without its fields.
    let value: Value = serde_json::from_str(&line.text).unwrap_or(Value::Null);
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    // The line as stored, to the last digit.
    let kept: Box<RawValue> = serde_json::from_str(&line.text).unwrap_or_default();
    let (message, event) = match log {
        Log::Messages => (Some(&*kept), None),
        Log::Events => (None, Some(&*kept)),
    };
    let json = ShownLine { line: line.number, message, event };
    match log {
        Log::Messages => {
            let shown =
                format!("{:>6}  {}  {:<9}  {}", line.number, text("created_at"), text("role"), said(&value));
            app.out.item(&json, escaped(&shown))
        }
        Log::Events => {
            let source = text("source");
            let shown = format!("{:>6}  {}  {}  {source}", line.number, text("created_at"), text("type"));
            app.out.item(&json, escaped(shown.trim_end()))
        }
    }
}

/// Returns the content of a message on one line; for an event, the complete line.
pub(crate) fn said_in(line: &str) -> String {
    let value: Value = serde_json::from_str(line).unwrap_or(Value::Null);
    let said = said(&value);
    if said.is_empty() { line.to_owned() } else { said }
}

/// Returns the content of a message on one line.
fn said(message: &Value) -> String {
    let text =
        |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let block = |block: &Value| match text(block, "type").as_str() {
        "text" => text(block, "text"),
        "tool_call" => format!("[calls {} {}]", text(block, "name"), text(block, "id")),
        "tool_result" => format!("[result of {}] {}", text(block, "call_id"), said(block)),
        kind => format!("[{kind}]"),
    };
    let whole = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => blocks.iter().map(block).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    };
    whole.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Resolve {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, false).await?;
        let found = open.sessions()?.resolve(&self.name, &self.source).await?;
        let mut fixed = found.fixed();
        // Without options that name a tree, paths are those of the account.
        if let Resolved::File { path, .. } = &found
            && open.is_at_root()
        {
            fixed = path.to_string();
        }
        let (json, shown) = match found {
            Resolved::Lines { session, log, lines, bytes } => {
                let json = json!({
                    "source": fixed, "session": session, "log": log.name(), "lines": [lines.start(), lines.end()],
                    "bytes": [bytes.start, bytes.end],
                });
                (json, format!("{fixed}  bytes {}-{}", bytes.start, bytes.end))
            }
            Resolved::File { version, size, .. } => {
                let json = json!({
                    "source": fixed, "path": fixed, "version_id": version.to_string(), "size": size,
                });
                (json, format!("{fixed}  {size} bytes"))
            }
            _ => {
                return Err(Failure::Usage(
                    "the source resolves to something that this command cannot show".to_owned(),
                ));
            }
        };
        app.out.item(&json, escaped(&shown))
    }
}
