//! `garth session append`: messages and events.

use clap::{Args, ValueEnum};
use garth_agent::session::{Append as Lines, Draft, Role, State, Usage};
use serde_json::json;

use crate::app::App;
use crate::fail::{Failure, Result};
use crate::host_text::argument_or_stdin;
use crate::size::parse_tokens;
use crate::verb::open::open;

/// Limit on the input of one append in bytes.
const MAX_INPUT: usize = 16 << 20;

/// Append messages or events to a session
///
/// TEXT is one message, of the role user unless --role names another. Without TEXT, standard input is read:
/// with --role as the text of one message, else as JSON Lines. A line is a message (role and content;
/// optional: id, created_at, run, parent, native). With --events, TEXT or standard input is JSON Lines of
/// events (type and any other field; optional: id, run, created_at).
///
/// All lines are appended in one commit. A line whose id exists in the session is skipped.
///
/// With --json, prints one object: session, messages, events, lines, seq.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth session append work 'Where is the parser?'\n  \
        garth session append work 'In src/parser.rs.' --role assistant\n  \
        garth session append work < messages.jsonl\n  \
        garth session append work --events '{\"type\":\"tool.started\",\"tool\":\"bash\"}'")]
pub(crate) struct Append {
    /// Name of the session
    name: String,
    /// Text of one message, or with --events JSON Lines; - or nothing reads standard input
    text: Option<String>,
    /// Append the text as one message of this role
    #[arg(long, value_enum, value_name = "ROLE", conflicts_with = "events")]
    role: Option<RoleArg>,
    /// Append events
    #[arg(long)]
    events: bool,
    /// Run of the lines that name none
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Fail unless this is the id of the last message
    #[arg(long, value_name = "ID", conflicts_with = "events")]
    after: Option<String>,
    /// Accept empty input; with --role it is an empty message
    #[arg(long)]
    allow_empty: bool,
    /// Set the state of the session, too
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// Add these prompt tokens to the usage of the session
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    input_tokens: Option<u64>,
    /// Add these answer tokens to the usage of the session
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    output_tokens: Option<u64>,
}

/// Role of a message given as text.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum RoleArg {
    System,
    User,
    Assistant,
}

impl Append {
    /// Returns the role of the message whose text is the input; `None` for JSON Lines.
    fn role(&self) -> Option<Role> {
        match self.role {
            Some(RoleArg::System) => Some(Role::System),
            Some(RoleArg::User) => Some(Role::User),
            Some(RoleArg::Assistant) => Some(Role::Assistant),
            None => {
                // JSON in an argument stays a text: a program that passes on what a person typed would
                // otherwise let him write messages of any role.
                self.text.as_deref().filter(|text| *text != "-" && !self.events)?;
                Some(Role::User)
            }
        }
    }

    pub(crate) async fn run(self, app: &mut App) -> Result {
        let role = self.role();
        let is_argument = self.text.as_deref().is_some_and(|text| text != "-");
        let text = argument_or_stdin(self.text, MAX_INPUT, "input of an append")?;
        let sets_more = self.state.is_some() || self.input_tokens.or(self.output_tokens).is_some();
        // JSON Lines may be empty if an option sets something else.
        let is_refused = role.is_some() || !sets_more;
        if text.trim().is_empty() && is_refused && !self.allow_empty {
            let input = if is_argument { "the text" } else { "standard input" };
            let message = format!("{input} is empty, and nothing was appended; --allow-empty appends it");
            return Err(Failure::Usage(message));
        }
        let drafts = match role {
            // The line feed at the end of piped text is not part of the message.
            Some(role) => vec![Draft::message(role, text.strip_suffix('\n').unwrap_or(&text))],
            None => parsed(&text)?,
        };
        let mut append = if self.events { Lines::events(drafts) } else { Lines::messages(drafts) };
        (append.run, append.after, append.state) = (self.run, self.after, self.state);
        if self.input_tokens.or(self.output_tokens).is_some() {
            let [input_tokens, output_tokens] =
                [self.input_tokens, self.output_tokens].map(Option::unwrap_or_default);
            append.usage = Some(Usage { input_tokens, output_tokens, total_tokens: 0 });
        }
        let open = open(app, true).await?;
        let done = open.sessions()?.append(&self.name, &append).await?;
        let lines = done.lines.as_ref().map(|lines| format!("messages:{}-{}", lines.start(), lines.end()));
        let json = json!({
            "session": self.name, "messages": done.messages, "events": done.events, "lines": lines,
            "seq": done.seq.map(|seq| seq.0),
        });
        let ids = done.messages.iter().chain(&done.events);
        let said = if done.seq.is_some() { "appended" } else { "unchanged" };
        let text = ids.map(|id| format!("{said}  {id}")).collect::<Vec<_>>().join("\n");
        if text.is_empty() && !app.out.is_json() { Ok(()) } else { app.out.item(&json, text) }
    }
}

/// Parses JSON Lines, and skips blank lines.
fn parsed(text: &str) -> Result<Vec<Draft>> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let draft = |(number, line): (usize, &str)| {
        Draft::parse(line).map_err(|error| Failure::Usage(format!("line {number} of the input {error}")))
    };
    lines.map(draft).collect()
}
