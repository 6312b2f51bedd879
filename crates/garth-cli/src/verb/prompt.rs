//! `garth prompt`: what an agent's model gets of its workspace, now or then.

mod diff;
mod inputs;

use clap::{Args, Subcommand, ValueEnum};
use garth_agent::session::Format;
use garth_agent::workspace::Prompt as Built;
use serde_json::json;

use self::diff::Diff;
pub(crate) use self::inputs::InputArgs;
use super::open::open;
use crate::app::App;
use crate::fail::Result;

/// Print what an agent's model gets of its workspace before the messages
///
/// --agent says whose workspace; --user, --key and --class say who listens, which decides what is in it. With
/// --session it is for that session, whose events tell that it was built. With --at it is the prompt that the
/// session got then, built again with what the caller said then; without a session, or where none was built,
/// --host, --runtime or --clock say that. With --json, or --format json, one object: agent, class, bootstrap,
/// seq, tokens, bytes, sha256, stable, inputs, parts,
/// text; event where it was told, replayed where it was built again.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        garth prompt --agent scout\n  \
        garth prompt --agent scout --user ann --session work --format anthropic\n  \
        garth prompt --agent scout --user ann --session work --at 7d --format markdown\n  \
        garth prompt --host '{\"id\":\"laptop\",\"os\":\"linux\"}' --runtime Channel=mail\n  \
        garth prompt --agent scout --key agent:scout:slack:channel:C1"
)]
pub(crate) struct Prompt {
    #[command(subcommand)]
    action: Option<Action>,
    /// As it was: a sequence, a snapshot, a time, an age
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    at: Option<String>,
    #[command(flatten)]
    inputs: InputArgs,
    /// As the text alone, as a report with the manifest, as the system part of a request to a provider, or as
    /// JSON
    #[arg(long, value_enum, default_value_t = Form::Text)]
    format: Form,
    /// Do not tell the session
    #[arg(long, visible_alias = "dry-run")]
    dry: bool,
}

#[derive(Subcommand, Debug)]
enum Action {
    Diff(Diff),
}

/// In which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
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
        let open = open(app, false).await?;
        let mut options = open.options();
        options.dry = self.dry;
        options.inputs = self.inputs.read()?;
        if let Some(text) = &self.at {
            options.at = Some(app.moment(open.fs(), text).await?);
        }
        let built = open.workspace()?.prompt(&options).await?;
        print(app, &built, self.format)
    }
}

fn print(app: &mut App, built: &Built, form: Form) -> Result {
    if app.out.is_json() || form == Form::Json {
        let mut json = built.manifest();
        json["text"] = json!(built.text);
        return match app.out.is_json() {
            true => app.out.item(&json, ""),
            false => app.out.bytes(format!("{json:#}\n").as_bytes()),
        };
    }
    let text = match form {
        Form::Markdown => built.report(),
        Form::Openai => built.list(Format::OpenAi) + "\n",
        Form::Anthropic => built.list(Format::Anthropic) + "\n",
        Form::Text | Form::Json => format!("{}\n", built.text),
    };
    app.out.bytes(text.as_bytes())
}
