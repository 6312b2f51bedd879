//! `garth agent prompt`: the system prompt of an agent, now or in the past.

mod diff;
mod inputs;

use clap::{Args, Subcommand, ValueEnum};
use garth_agent::session::Format;
use garth_agent::workspace::Prompt as Built;
use serde_json::json;

use self::diff::Diff;
pub(crate) use self::inputs::InputArgs;
use super::named::name_agent;
use crate::app::App;
use crate::fail::Result;
use crate::verb::open::open;

/// Print the system prompt of an agent, built from its workspace
///
/// --user, --key and --class determine the audience, on which the content of the prompt depends. With
/// --session, prints the prompt of that session, and records it as an event of the session. With --at,
/// rebuilds the prompt that the session got at that time, with its inputs. Without a session, or if none was
/// built, --host, --runtime and --clock set the inputs.
///
/// With --json, or --format json, prints one object: agent, class, bootstrap, seq, tokens, bytes, sha256,
/// stable, inputs, parts, text; event if an event recorded it, replayed if it was rebuilt.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        garth agent prompt scout\n  \
        garth agent prompt scout --user ann --session work --format anthropic\n  \
        garth agent prompt scout --user ann --session work --at 7d --format markdown\n  \
        garth agent prompt scout --host '{\"id\":\"laptop\",\"os\":\"linux\"}' --runtime Channel=mail\n  \
        garth agent prompt scout --key agent:scout:slack:channel:C1"
)]
pub(crate) struct Prompt {
    #[command(subcommand)]
    action: Option<Action>,
    /// Name of the agent [default: that of --agent]
    name: Option<String>,
    /// Print the prompt of this time: a sequence, a snapshot, a time or an age
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    at: Option<String>,
    #[command(flatten)]
    inputs: InputArgs,
    /// Output format: the text alone, a report with the manifest, the system part of a request to a
    /// provider, or JSON
    #[arg(long, value_enum, default_value_t = PromptFormat::Text)]
    format: PromptFormat,
    /// Record no event in the session
    #[arg(long)]
    dry_run: bool,
}

#[derive(Subcommand, Debug)]
enum Action {
    Diff(Diff),
}

/// Output format of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PromptFormat {
    Text,
    Markdown,
    Openai,
    Anthropic,
    Json,
}

impl Prompt {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        if let Some(Action::Diff(diff)) = self.action {
            return diff.run(app).await;
        }
        name_agent(app, self.name)?;
        let open = open(app, false).await?;
        let mut options = open.options();
        options.dry = self.dry_run;
        options.inputs = self.inputs.read()?;
        if let Some(text) = &self.at {
            options.at = Some(app.moment(open.fs(), text).await?);
        }
        let built = open.workspace()?.prompt(&options).await?;
        print(app, &built, self.format)
    }
}

fn print(app: &mut App, built: &Built, format: PromptFormat) -> Result {
    if app.out.is_json() || format == PromptFormat::Json {
        let mut json = built.manifest();
        json["text"] = json!(built.text);
        return match app.out.is_json() {
            true => app.out.item(&json, ""),
            false => app.out.bytes(format!("{json:#}\n").as_bytes()),
        };
    }
    let text = match format {
        PromptFormat::Markdown => built.report(),
        PromptFormat::Openai => built.list(Format::OpenAi) + "\n",
        PromptFormat::Anthropic => built.list(Format::Anthropic) + "\n",
        PromptFormat::Text | PromptFormat::Json => format!("{}\n", built.text),
    };
    app.out.bytes(text.as_bytes())
}
