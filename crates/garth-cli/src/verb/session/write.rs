//! Appends to a session, and takes messages back.

use std::io::Read as _;

use clap::{Args, ValueEnum};
use garth_agent::session::{Append as Lines, Draft, Role, Source, State, Usage};
use serde_json::json;

use crate::app::App;
use crate::fail::{Failure, Result};
use crate::verb::open::open;

/// Largest input, in bytes: what one append takes.
const MAX_INPUT: u64 = 16 << 20;

/// Append messages or events to a session, from standard input
///
/// With --role the input is the text of one message. Else it is JSON Lines: messages (role and content; id,
/// created_at, run, parent and native may be given), or with --events events (type, and whatever it says; id,
/// run and created_at may be given). All are one commit. Lines whose id is there already are not appended
/// again.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        echo 'Where is the parser?' | garth session append work --role user\n  \
        garth session append work < messages.jsonl\n  \
        echo '{\"type\":\"tool.started\",\"tool\":\"bash\"}' | garth session append work --events")]
pub(crate) struct Append {
    /// Which session
    name: String,
    /// The input is the text of one message of this role
    #[arg(long, value_enum, value_name = "ROLE", conflicts_with = "events")]
    role: Option<RoleArg>,
    /// The lines are events
    #[arg(long)]
    events: bool,
    /// The run that they are of, where they do not say it themselves
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Fail if the last message is not the one with this id
    #[arg(long, value_name = "ID", conflicts_with = "events")]
    after: Option<String>,
    /// Take an empty input, too: with --role it is an empty message
    #[arg(long)]
    allow_empty: bool,
    /// Set the state of the session as well
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// Count these tokens of prompts as used
    #[arg(long, value_name = "TOKENS")]
    input_tokens: Option<u64>,
    /// Count these tokens of answers as used
    #[arg(long, value_name = "TOKENS")]
    output_tokens: Option<u64>,
}

/// Who says the text.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum RoleArg {
    System,
    User,
    Assistant,
}

impl Append {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let text = stdin()?;
        let says_more = self.state.is_some() || self.input_tokens.or(self.output_tokens).is_some();
        let is_refused = self.role.is_some() || !says_more;
        if text.trim().is_empty() && is_refused && !self.allow_empty {
            let message =
                "standard input is empty: nothing is appended; --allow-empty appends it all the same";
            return Err(Failure::Usage(message.to_owned()));
        }
        let drafts = match self.role {
            Some(role) => {
                let role = match role {
                    RoleArg::System => Role::System,
                    RoleArg::User => Role::User,
                    RoleArg::Assistant => Role::Assistant,
                };
                vec![Draft::message(role, text.strip_suffix('\n').unwrap_or(&text))]
            }
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

/// The lines of JSON Lines; blank ones are none.
fn parsed(text: &str) -> Result<Vec<Draft>> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let draft = |(number, line): (usize, &str)| {
        Draft::parse(line).map_err(|error| Failure::Usage(format!("line {number} of the input {error}")))
    };
    lines.map(draft).collect()
}

fn stdin() -> Result<String> {
    let mut bytes = Vec::new();
    // one byte more tells what is too long
    std::io::stdin().lock().take(MAX_INPUT + 1).read_to_end(&mut bytes).map_err(Failure::stdio)?;
    if bytes.len() as u64 > MAX_INPUT {
        return Err(Failure::Usage(format!("one append has at most {MAX_INPUT} bytes; append it in parts")));
    }
    String::from_utf8(bytes).map_err(|_| Failure::Usage("what is appended is UTF-8".to_owned()))
}

/// Take messages back: models do not read them any more, the session keeps them
///
/// Which is said by a source: messages:A-B, the id of a message, ID..ID, tail:N for the last N that were not
/// taken back before, user:latest.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth session withdraw work tail:2 --reason regenerate")]
pub(crate) struct Withdraw {
    /// Which session
    name: String,
    /// Which messages
    source: Source,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Withdraw {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, true).await?;
        let done = open.sessions()?.withdraw(&self.name, &self.source, self.reason.as_deref()).await?;
        let lines = format!("messages:{}-{}", done.lines.start(), done.lines.end());
        let json = json!({"session": self.name, "lines": lines, "events": done.events, "seq": done.seq.0});
        match done.events.is_empty() {
            true => app.out.item(&json, format_args!("unchanged  {lines}, withdrawn before")),
            false => app.out.item(&json, format_args!("withdrawn  {lines}")),
        }
    }
}
