//! `garth session`: what was said and done in an agent's sessions, which only grows.

mod child;
mod compact;
mod context;
mod item;
mod lines;
mod pack;
mod publish;
mod reset;
mod swap;
mod transcript;
mod write;
mod wrote;

use clap::{Args, Subcommand};
use garth_agent::session::{Change, Create, List, Listed, MAX_LISTED, SessionKey, State};

use self::child::Child;
use self::compact::Compact;
use self::context::{Derive, Pin, Why};
use self::item::item;
use self::lines::{Events, Messages, Resolve};
use self::pack::{Compare, Pack, Replay};
use self::publish::Publish;
pub(super) use self::reset::allowance;
use self::reset::{Archives, Reset};
use self::swap::{Dedup, Gc, Swap};
use self::transcript::{Export, Import};
use self::write::{Append, Withdraw};
use self::wrote::Wrote;
use super::open::open;
use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};

/// Create, list, read and continue the sessions of an agent with its audience
///
/// A session is the directory /users/AUDIENCE/agents/AGENT/session/NAME. --agent with --user or --key say
/// whose sessions; without both they are those of the agent's owner. Each change is one commit. With --json
/// one object per session: name, state, cwd, created_at, updated_at, meta (as in meta.json).
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth session create work --title 'Fix the parser'\n  \
        echo 'Where is the parser?' | garth session append work --role user\n  \
        garth session messages work tail:10")]
pub(crate) struct Session {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Make a session with all of its files
    #[command(after_help = "Example:\n  garth session create work --model claude --context-window 200000")]
    Create(CreateArgs),
    /// List sessions by name
    #[command(visible_alias = "ls", after_help = "Example:\n  garth session list --state active")]
    List {
        /// Only in this state: active, idle, done, error or cancelled
        #[arg(long, value_name = "STATE")]
        state: Option<State>,
        /// Show at most this many
        #[arg(short = 'n', long, value_name = "COUNT")]
        limit: Option<usize>,
    },
    /// Show what is known of a session
    #[command(after_help = "Example:\n  garth session show work --json")]
    Show {
        /// Which session
        name: String,
    },
    /// Show the session that goes on under a key
    #[command(after_help = "Example:\n  garth session current agent:scout:main --create")]
    Current {
        /// The session key, such as agent:scout:main
        key: SessionKey,
        /// Make one if there is none; reset it first if the agent's settings.json says that it is due
        #[arg(long)]
        create: bool,
    },
    /// Set the state of a session, where it works, its title or its model
    #[command(after_help = "Example:\n  garth session set work --state done --title 'The parser, fixed'")]
    Set(SetArgs),
    Append(Append),
    Messages(Messages),
    Events(Events),
    Withdraw(Withdraw),
    Resolve(Resolve),
    Import(Import),
    Export(Export),
    Derive(Derive),
    Why(Why),
    Pin(Pin),
    Compact(Compact),
    Pack(Pack),
    Replay(Replay),
    Compare(Compare),
    Swap(Swap),
    Dedup(Dedup),
    Child(Child),
    Gc(Gc),
    Wrote(Wrote),
    Publish(Publish),
    Reset(Reset),
    Archives(Archives),
}

#[derive(Args, Debug)]
struct CreateArgs {
    /// Its name: the name of its directory
    name: String,
    /// What it is about
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The model that answers
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// How many tokens the model takes
    #[arg(long, value_name = "TOKENS")]
    context_window: Option<u64>,
    /// Where it works: an absolute path
    #[arg(long, default_value = "/", value_name = "PATH")]
    cwd: String,
}

#[derive(Args, Debug)]
struct SetArgs {
    /// Which session
    name: String,
    /// active, idle, done, error or cancelled
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// Where it works: an absolute path
    #[arg(long, value_name = "PATH")]
    cwd: Option<String>,
    /// What it is about; the empty text takes the title away
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The model that answers; the empty text takes it away
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// How many tokens the model takes; 0 takes that away
    #[arg(long, value_name = "TOKENS")]
    context_window: Option<u64>,
    /// How many tokens its packs have; 0: no limit; none: what the model takes
    #[arg(long, value_name = "TOKENS", value_parser = budget)]
    budget: Option<Budget>,
}

/// The tokens of packs, or what the model takes.
#[derive(Clone, Copy, Debug)]
struct Budget(Option<u64>);

fn budget(text: &str) -> std::result::Result<Budget, String> {
    match text {
        "none" => Ok(Budget(None)),
        number => number
            .parse()
            .map(|tokens| Budget(Some(tokens)))
            .map_err(|_| "write a number of tokens, 0 or none".to_owned()),
    }
}

impl Session {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self.action {
            Action::Create(args) => args.run(app).await,
            Action::List { state, limit } => list(app, state, limit.unwrap_or(usize::MAX)).await,
            Action::Show { name } => {
                let found = open(app, false).await?.sessions()?.get(&name).await?;
                app.out.item(&item(&found), details(&found))
            }
            Action::Current { key, create } => {
                if app.global.chat.session_key.as_ref().is_some_and(|named| *named != key) {
                    return Err(Failure::Usage("--key: name the key once".into()));
                }
                app.global.chat.session_key = Some(key.clone());
                let open = open(app, create).await?;
                let sessions = open.sessions()?;
                let found = match create {
                    // one that is due by the agent's settings is reset first
                    true => {
                        let (create, reset) = (Create::new(""), garth_agent::workspace::Reset::default());
                        let workspace = open.workspace()?;
                        let current = workspace.current(open.user(), &key, Some(&create), &reset).await?;
                        current.map(|current| current.session)
                    }
                    false => sessions.current(&key).await?,
                };
                let Some(found) = found else {
                    let message = format!("{key}: no session goes on under this key; --create makes one");
                    return Err(Failure::Tree(garth_engine::Error::new(
                        garth_engine::ErrorKind::NotFound,
                        message,
                    )));
                };
                app.out.item(&item(&found), line(&found))
            }
            Action::Set(args) => args.run(app).await,
            Action::Append(verb) => verb.run(app).await,
            Action::Messages(verb) => verb.run(app).await,
            Action::Events(verb) => verb.run(app).await,
            Action::Withdraw(verb) => verb.run(app).await,
            Action::Resolve(verb) => verb.run(app).await,
            Action::Import(verb) => verb.run(app).await,
            Action::Export(verb) => verb.run(app).await,
            Action::Derive(verb) => verb.run(app).await,
            Action::Why(verb) => verb.run(app).await,
            Action::Pin(verb) => verb.run(app).await,
            Action::Compact(verb) => verb.run(app).await,
            Action::Pack(verb) => verb.run(app).await,
            Action::Replay(verb) => verb.run(app).await,
            Action::Compare(verb) => verb.run(app).await,
            Action::Swap(verb) => verb.run(app).await,
            Action::Dedup(verb) => verb.run(app).await,
            Action::Child(verb) => verb.run(app).await,
            Action::Gc(verb) => verb.run(app).await,
            Action::Wrote(verb) => verb.run(app).await,
            Action::Publish(verb) => verb.run(app).await,
            Action::Reset(verb) => verb.run(app).await,
            Action::Archives(verb) => verb.run(app).await,
        }
    }
}

impl CreateArgs {
    async fn run(self, app: &mut App) -> Result {
        let open = open(app, true).await?;
        let mut create = Create::new(self.name).cwd(self.cwd);
        create.title = self.title;
        (create.model, create.context_window) = (self.model, self.context_window);
        let made = open.sessions()?.create(&create).await?;
        app.out.item(&item(&made), format_args!("created  {}", escaped(&made.name)))
    }
}

impl SetArgs {
    async fn run(self, app: &mut App) -> Result {
        let mut change = Change::default();
        (change.state, change.cwd, change.title) = (self.state, self.cwd, self.title);
        (change.model, change.context_window) = (self.model, self.context_window);
        change.budget = self.budget.map(|budget| budget.0);
        if change == Change::default() {
            let options = "--state, --cwd, --title, --model, --context-window, --budget";
            return Err(Failure::Usage(format!("say what to set: {options}")));
        }
        let set = open(app, true).await?.sessions()?.set(&self.name, &change).await?;
        app.out.item(&item(&set), line(&set))
    }
}

async fn list(app: &mut App, state: Option<State>, mut left: usize) -> Result {
    let open = open(app, false).await?;
    let sessions = open.sessions()?;
    let (mut list, mut is_empty) = (List::default(), left > 0);
    list.state = state;
    while left > 0 {
        list.limit = left.min(MAX_LISTED);
        let (found, next) = sessions.list(&list).await?;
        for session in &found {
            app.out.item(&item(session), line(session))?;
        }
        left -= found.len();
        is_empty &= found.is_empty();
        match next {
            Some(next) => list.after = Some(next),
            None => break,
        }
    }
    if is_empty {
        let (agent, user) = (escaped(&app.global.agent), escaped(open.user()));
        let state = state.map_or(String::new(), |state| format!(" in the state {state}"));
        app.out.warn(format_args!(
            "agent {agent} has no sessions with user {user}{state}; --agent and --user list those of others"
        ));
    }
    Ok(())
}

fn line(session: &Listed) -> String {
    let title = session.meta.title.as_ref().map_or(String::new(), |title| format!("  {title}"));
    let state = session.state.as_str();
    escaped(&format!("{state:<9} {}  {}{title}", session.updated_at, session.name)).to_string()
}

fn details(session: &Listed) -> String {
    let meta = &session.meta;
    let usage = meta.usage.total_tokens;
    let known = [
        ("name", Some(session.name.clone())),
        ("id", Some(meta.id.clone())),
        ("title", meta.title.clone()),
        ("state", Some(session.state.to_string())),
        ("class", Some(meta.class.to_string())),
        ("key", meta.session_key.clone()),
        ("cwd", Some(session.cwd.clone())),
        ("model", meta.model.clone()),
        ("window", meta.context_window.map(|tokens| tokens.to_string())),
        ("tokens", (usage > 0).then(|| usage.to_string())),
        ("created", Some(session.created_at.clone())),
        ("updated", Some(session.updated_at.clone())),
    ];
    let lines = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let lines = lines.map(|(name, value)| escaped(&format!("{name:<8} {value}")).to_string());
    lines.collect::<Vec<_>>().join("\n")
}
