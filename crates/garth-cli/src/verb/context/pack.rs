//! `garth context pack`: the context window of a session.

use clap::{Args, ValueEnum};
use garth_agent::media::Hydrator;
use garth_agent::session::{Format, PackOptions, Packed, Sessions};

use crate::app::App;
use crate::fail::Result;
use crate::size::parse_tokens;
use crate::verb::open::open;

/// Build the context of a session for the next model call, within a token budget
///
/// Prints the pack: pinned files, derived files (summary, facts, decisions, todo, references), recent
/// messages, and results of children. Consecutive packs share a prefix, so that the provider's prompt cache
/// keeps working: derived files and the first message stay the same until the messages no longer fit. Then
/// the pack starts at a later message.
///
/// The pack is saved as context/pack.md, and the list of its parts as context/pack.json, from which `garth
/// context replay` rebuilds it. With --json, prints pack.json instead of the pack.
///
/// If the last user message and the unfinished step do not fit, long tool results are shortened. If that is
/// not enough, the command fails with exit code 6 and names the smallest possible budget.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth context pack work --budget 32k\n  \
        garth context pack work --format openai --tool-tokens 1200 --output-tokens 4k")]
pub(crate) struct Pack {
    /// Name of the session
    name: String,
    /// Token limit for everything, reserved tokens included; 0 means no limit [default: the session's
    /// context/budget, else the context window of its model, else no limit]
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    budget: Option<u64>,
    /// Tokens to reserve for the system prompt
    #[arg(long, default_value = "0", value_name = "TOKENS", value_parser = parse_tokens)]
    prompt_tokens: u64,
    /// Tokens to reserve for tool definitions
    #[arg(long, default_value = "0", value_name = "TOKENS", value_parser = parse_tokens)]
    tool_tokens: u64,
    /// Tokens to reserve for the model's answer
    #[arg(long, default_value = "0", value_name = "TOKENS", value_parser = parse_tokens)]
    output_tokens: u64,
    /// Start a new prefix: take the derived files as they are now, and leave a part of the budget free
    #[arg(long)]
    fresh: bool,
    /// Include the content of this entry of context/refs.jsonl (repeatable)
    #[arg(long, value_name = "ID")]
    expand: Vec<String>,
    /// Output format: text, or the message list of a provider
    #[arg(long, value_enum, default_value_t = PackFormat::Markdown)]
    format: PackFormat,
    /// Print the pack without saving it
    #[arg(long)]
    dry_run: bool,
}

/// Output format of a pack.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum PackFormat {
    Markdown,
    Openai,
    Anthropic,
}

impl PackFormat {
    /// Returns the provider of a message list; `None` for text.
    fn list(self) -> Option<Format> {
        match self {
            Self::Markdown => None,
            Self::Openai => Some(Format::OpenAi),
            Self::Anthropic => Some(Format::Anthropic),
        }
    }
}

impl Pack {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let mut options = PackOptions::default();
        (options.budget, options.fresh, options.dry) = (self.budget, self.fresh, self.dry_run);
        options.reserved.prompt_tokens = self.prompt_tokens;
        options.reserved.tool_tokens = self.tool_tokens;
        options.reserved.output_tokens = self.output_tokens;
        options.expand = self.expand;
        let open = open(app, !self.dry_run).await?;
        let sessions = open.sessions()?;
        let packed = sessions.pack(&self.name, &options).await?;
        print(app, &sessions, &packed, self.format).await
    }
}

/// Prints a pack in a format, or with `--json` its manifest.
pub(super) async fn print(
    app: &mut App,
    sessions: &Sessions<'_>,
    packed: &Packed,
    format: PackFormat,
) -> Result {
    if app.out.is_json() {
        return app.out.item(&packed.pack, "");
    }
    let Some(format) = format.list() else { return app.out.bytes(packed.markdown.as_bytes()) };
    let packed = sessions.hydrated(packed, format, &Hydrator::default(), &app.global.account).await?;
    app.out.bytes((packed.list(format) + "\n").as_bytes())
}
