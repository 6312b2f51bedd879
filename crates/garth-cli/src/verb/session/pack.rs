//! Packs: what a model gets of a session, now or then.

use clap::{Args, ValueEnum};
use garth_agent::media::Hydrator;
use garth_agent::session::{Difference, Format, Item, PackOptions, Packed, Sessions};
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::verb::open::open;

/// Build what a model gets of a session now, within a budget of tokens
///
/// Prints the pack: pinned files, derived files, recent messages, results of children. It is kept as
/// context/pack.md, and what it is made of as context/pack.json. With --json that object is printed instead.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth session pack work --budget 32000\n  \
        garth session pack work --form openai --tool-tokens 1200 --output-tokens 4000")]
pub(crate) struct Pack {
    /// Which session
    name: String,
    /// Tokens for all [default: context/budget, else the context window of the model; 0: no limit]
    #[arg(long, value_name = "TOKENS")]
    budget: Option<u64>,
    /// Tokens of it that what comes before the pack takes
    #[arg(long, default_value_t = 0, value_name = "TOKENS")]
    prompt_tokens: u64,
    /// Tokens of it that definitions of tools take
    #[arg(long, default_value_t = 0, value_name = "TOKENS")]
    tool_tokens: u64,
    /// Tokens of it that are for the answer
    #[arg(long, default_value_t = 0, value_name = "TOKENS")]
    output_tokens: u64,
    /// Build a new pack: derived files as they are now, and all messages or a quarter of the budget free
    #[arg(long)]
    fresh: bool,
    /// Put in the content of this entry of context/refs.jsonl; may be repeated
    #[arg(long, value_name = "ID")]
    expand: Vec<String>,
    /// As text, or as the list of messages of a provider
    #[arg(long, value_enum, default_value_t = Form::Markdown)]
    form: Form,
    /// Write nothing
    #[arg(long)]
    dry_run: bool,
}

/// In which form.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    Markdown,
    Openai,
    Anthropic,
}

impl Form {
    /// Returns the provider whose list it is.
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
        print(app, &sessions, &packed, self.form).await
    }
}

async fn print(app: &mut App, sessions: &Sessions<'_>, packed: &Packed, form: Form) -> Result {
    if app.out.is_json() {
        return app.out.item(&packed.pack, "");
    }
    let Some(format) = form.list() else { return app.out.bytes(packed.markdown.as_bytes()) };
    let packed = sessions.hydrated(packed, format, &Hydrator::default(), &app.global.account).await?;
    app.out.bytes((packed.list(format) + "\n").as_bytes())
}

/// Build the same pack again, byte for byte
///
/// Of the last pack, or with --of the one that there was at a moment: a sequence, a version of
/// context/pack.json, a time, an age. What it was made of is read as it was then.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth session replay work --of '1h'")]
pub(crate) struct Replay {
    /// Which session
    name: String,
    /// The pack that there was at this moment
    #[arg(long, value_name = "MOMENT")]
    of: Option<String>,
    /// As text, or as the list of messages of a provider
    #[arg(long, value_enum, default_value_t = Form::Markdown)]
    form: Form,
}

impl Replay {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, false).await?;
        let at = match &self.of {
            Some(text) => Some(app.moment(open.fs(), text).await?),
            None => None,
        };
        let sessions = open.sessions()?;
        let packed = sessions.replay(&self.name, at.as_ref()).await?;
        print(app, &sessions, &packed, self.form).await
    }
}

/// Compare two packs: what entered, what left, and what it costs
///
/// The first is the one at a moment, the second the last, or the one at --to. With --json one object:
/// entered, left, changed, tokens, bytes, common_bytes (what a model's cache keeps).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth session compare work yesterday")]
pub(crate) struct Compare {
    /// Which session
    name: String,
    /// The moment of the first
    from: String,
    /// The moment of the second
    #[arg(long, value_name = "MOMENT")]
    to: Option<String>,
}

impl Compare {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, false).await?;
        let from = app.moment(open.fs(), &self.from).await?;
        let to = match &self.to {
            Some(text) => Some(app.moment(open.fs(), text).await?),
            None => None,
        };
        let sessions = open.sessions()?;
        let before = sessions.replay(&self.name, Some(&from)).await?;
        let difference = sessions.replay(&self.name, to.as_ref()).await?.since(&before);
        let Difference { entered, left, changed, tokens, bytes, common_bytes, .. } = &difference;
        let both: Vec<_> = changed.iter().map(|one| json!({"from": one.from, "to": one.to})).collect();
        let json = json!({
            "entered": entered, "left": left, "changed": both, "tokens": tokens, "bytes": bytes,
            "common_bytes": common_bytes,
        });
        let named = |item: &Item| {
            let range = item.range.as_ref().map_or(String::new(), |range| format!(" {range}"));
            format!("{} {}{range}", item.kind, item.source)
        };
        let mut shown: Vec<String> =
            entered.iter().map(|item| format!("+ {}  {} tokens", named(item), item.tokens)).collect();
        shown.extend(left.iter().map(|item| format!("- {}  {} tokens", named(item), item.tokens)));
        shown.extend(
            changed
                .iter()
                .map(|one| format!("~ {}  {} to {} tokens", named(&one.to), one.from.tokens, one.to.tokens)),
        );
        shown.push(format!(
            "tokens {} to {}, bytes {} to {}, the first {common_bytes} the same",
            tokens[0], tokens[1], bytes[0], bytes[1]
        ));
        let shown: Vec<String> = shown.iter().map(|line| escaped(line).to_string()).collect();
        app.out.item(&json, shown.join("\n"))
    }
}
