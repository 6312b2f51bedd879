//! `garth session`: append-only conversations of an agent.

mod append;
mod archive;
mod files;
mod item;
mod lines;
mod retract;
mod rm;
mod transcript;

use clap::{Args, Subcommand};
use garth_agent::session::{Change, Create, List, Listed, MAX_LISTED, SessionKey, State};

use self::append::Append;
use self::archive::{Archive, Archives};
use self::files::Files;
use self::item::item;
use self::lines::{Events, Messages, Resolve};
pub(crate) use self::lines::{said_in, source_of};
use self::retract::Retract;
use self::rm::Rm;
use self::transcript::{Export, Import};
use super::open::open;
use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::size::{parse_count, parse_tokens};

/// Store conversations: create, append, read, import, export and archive sessions
///
/// A session is the directory /users/AUDIENCE/agents/AGENT/session/NAME. --agent with --user or --key selects
/// the audience; without both it is the owner of the agent. Each change is one commit. `garth context` builds
/// the context for a model from a session.
///
/// With --json, prints one object per session: name, state, cwd, created_at, updated_at, meta (as in
/// meta.json).
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth session create work --title 'Fix the parser'\n  \
        garth session append work 'Where is the parser?'\n  \
        garth session messages work tail:10")]
pub(crate) struct Session {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create a session with all of its files
    #[command(after_help = "Example:\n  garth session create work --model claude --context-window 200k")]
    Create(CreateArgs),
    /// List sessions by name
    #[command(alias = "ls", after_help = "Example:\n  garth session list --state active")]
    List {
        /// List only sessions in this state: active, idle, done, error or cancelled
        #[arg(long, value_name = "STATE")]
        state: Option<State>,
        /// Maximum number of sessions
        #[arg(short = 'n', long, value_name = "COUNT", value_parser = parse_count::<usize>)]
        limit: Option<usize>,
    },
    /// Show title, state, model and usage of a session
    #[command(after_help = "Example:\n  garth session show work --json")]
    Show {
        /// Name of the session
        name: String,
    },
    /// Show the current session of a session key
    #[command(after_help = "Example:\n  garth session current --agent scout agent:scout:main --create")]
    Current {
        /// Session key, such as agent:scout:main
        key: SessionKey,
        /// Create a session if there is none; reset it first if the agent's settings.json says that it is due
        #[arg(long)]
        create: bool,
    },
    /// Set state, working directory, title or model of a session
    #[command(after_help = "Example:\n  garth session set work --state done --title 'The parser, fixed'")]
    Set(SetArgs),
    Append(Append),
    Messages(Messages),
    Events(Events),
    Import(Import),
    Export(Export),
    Retract(Retract),
    Resolve(Resolve),
    Files(Files),
    Archive(Archive),
    Archives(Archives),
    #[command(alias = "delete")]
    Rm(Rm),
}

#[derive(Args, Debug)]
struct CreateArgs {
    /// Name of the session, and of its directory
    name: String,
    /// Title
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Name of the model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Context window of the model, in tokens
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    context_window: Option<u64>,
    /// Working directory: an absolute path
    #[arg(long, default_value = "/", value_name = "PATH")]
    cwd: String,
}

#[derive(Args, Debug)]
struct SetArgs {
    /// Name of the session
    name: String,
    /// State: active, idle, done, error or cancelled
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// Working directory: an absolute path
    #[arg(long, value_name = "PATH")]
    cwd: Option<String>,
    /// Title; an empty text removes it
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Name of the model; an empty text removes it
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Context window of the model, in tokens; 0 removes it
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    context_window: Option<u64>,
    /// Token budget of packs; 0 means no limit, none the context window of the model
    #[arg(long, value_name = "TOKENS", value_parser = budget)]
    budget: Option<Budget>,
}

/// Token budget of packs; `None` for the context window of the model.
#[derive(Clone, Copy, Debug)]
struct Budget(Option<u64>);

fn budget(text: &str) -> std::result::Result<Budget, String> {
    match text {
        "none" => Ok(Budget(None)),
        tokens => parse_tokens(tokens).map(|tokens| Budget(Some(tokens))),
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
                // The argument takes the place of --key, so another key there would be ignored.
                if app.global.chat.session_key.as_ref().is_some_and(|named| *named != key) {
                    return Err(Failure::Usage("--key: name the key once".into()));
                }
                app.global.chat.session_key = Some(key.clone());
                let open = open(app, create).await?;
                let sessions = open.sessions()?;
                let found = match create {
                    // A session that is due by the settings of the agent is reset first.
                    true => {
                        let (create, reset) = (Create::new(""), garth_agent::workspace::Reset::default());
                        let workspace = open.workspace()?;
                        let current = workspace.current(open.user(), &key, Some(&create), &reset).await?;
                        current.map(|current| current.session)
                    }
                    false => sessions.current(&key).await?,
                };
                let Some(found) = found else {
                    let message = format!("{key}: no current session has this key; --create creates one");
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
            Action::Import(verb) => verb.run(app).await,
            Action::Export(verb) => verb.run(app).await,
            Action::Retract(verb) => verb.run(app).await,
            Action::Resolve(verb) => verb.run(app).await,
            Action::Files(verb) => verb.run(app).await,
            Action::Archive(verb) => verb.run(app).await,
            Action::Archives(verb) => verb.run(app).await,
            Action::Rm(verb) => verb.run(app).await,
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
            return Err(Failure::Usage(format!("name an option to set: {options}")));
        }
        let set = open(app, true).await?.sessions()?.set(&self.name, &change).await?;
        app.out.item(&item(&set), line(&set))
    }
}

async fn list(app: &mut App, state: Option<State>, mut left: usize) -> Result {
    let open = open(app, false).await?;
    let sessions = open.sessions()?;
    // With `-n 0` nothing is read, so nothing is known about the sessions.
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
            "agent {agent} has no sessions with user {user}{state}; use --agent and --user to list others"
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
