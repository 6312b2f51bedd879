//! `garth agent`: agents and their system prompts.

mod named;
mod prompt;

use clap::{Args, Subcommand};
use garth_agent::workspace::{self, SETTINGS, Settings, Workspace, Zone};
use garth_engine::error::OptionalExt as _;
use garth_engine::model::{Author, Kind, Page};
use garth_engine::{Error, ErrorKind, FileSystem, FileSystemExt as _, TreePath};
use serde_json::{Value, json};

use self::named::name_agent;
pub(crate) use self::prompt::InputArgs;
use self::prompt::Prompt;
use crate::app::App;
use crate::args::{DEFAULT_AGENT, user_variable};
use crate::escape::{escaped, one_line};
use crate::fail::Result;
use crate::size::parse_count;

/// Directory of all agents.
const AGENTS: &str = "/agents";

/// Files of a workspace that `agent show` lists, in the order of the prompt.
const FILES: [&str; 9] = [
    "SOUL.md",
    "IDENTITY.md",
    "USER.md",
    "AGENTS.md",
    "MEMORY.md",
    "TOOLS.md",
    "HEARTBEAT.md",
    "BOOTSTRAP.md",
    SETTINGS,
];

/// Create, list and show agents, and print their system prompts
///
/// An agent is the directory /agents/NAME. With --json, prints one object per agent: agent, owner,
/// time_zone; of `show` also path and files; of `create` agent, made and kept (paths), seq (null if all
/// files existed).
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth agent create scout --owner ann --time-zone Europe/Berlin\n  \
        garth agent prompt scout")]
pub(crate) struct Agent {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create an agent: the files of its workspace, with texts to start from, in one commit
    ///
    /// Creates SOUL.md, IDENTITY.md, USER.md, AGENTS.md, TOOLS.md, HEARTBEAT.md and settings.json in
    /// /agents/NAME. BOOTSTRAP.md has a new agent ask who it is and whom it serves, write that down and
    /// remove the file. MEMORY.md and memory/ are created with the first memory. Existing files stay as they
    /// are.
    #[command(after_help = "Example:\n  garth agent create scout --owner ann --time-zone Europe/Berlin")]
    Create {
        /// Name of the agent: 1 to 128 bytes, without `/` and control characters
        name: String,
        /// Time zone of its days: an IANA name
        #[arg(long, value_name = "ZONE", default_value = "UTC")]
        time_zone: String,
        /// User who owns the agent, and whose sessions see its own memory; `*` for every user [env:
        /// GARTH_USER] [default: the unnamed user]
        #[arg(long, value_name = "USER")]
        owner: Option<String>,
        /// Leave out BOOTSTRAP.md
        #[arg(long)]
        no_bootstrap: bool,
    },
    /// List agents by name
    #[command(alias = "ls", after_help = "Example:\n  garth agent list")]
    List {
        /// Maximum number of agents
        #[arg(short = 'n', long, value_name = "COUNT", value_parser = parse_count::<usize>)]
        limit: Option<usize>,
    },
    /// Show owner, time zone and files of an agent
    #[command(after_help = "Example:\n  garth agent show scout")]
    Show {
        /// Name of the agent [default: that of --agent]
        name: Option<String>,
    },
    Prompt(Prompt),
}

impl Agent {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self.action {
            Action::Create { name, time_zone, owner, no_bootstrap } => {
                app.only_account("agent create")?;
                // Checked first: an invalid name must not leave a new data folder behind.
                garth_engine::path::check_id("agent", &name)?;
                let mut options = workspace::Init::default().time_zone(Zone::named(&time_zone)?);
                (options.bootstrap, options.owner) = (!no_bootstrap, owner.or_else(user_variable));
                create(app, &name, &options).await
            }
            Action::List { limit } => {
                app.only_account("agent list")?;
                list(app, limit.unwrap_or(usize::MAX)).await
            }
            Action::Show { name } => {
                app.only_account("agent show")?;
                name_agent(app, name)?;
                show(app).await
            }
            Action::Prompt(verb) => verb.run(app).await,
        }
    }
}

async fn create(app: &mut App, name: &str, options: &workspace::Init) -> Result {
    let tree = app.tree_or_new().await?;
    let workspace = Workspace::new(&*tree.fs, name)?.env(app.env.clone()).author(Author::default());
    let done = workspace.init(options).await?;
    let paths = |paths: &[TreePath]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (made, kept) = (paths(&done.made), paths(&done.kept));
    let lines = made.iter().map(|path| format!("created  {}", escaped(path)));
    let lines = lines.chain(kept.iter().map(|path| format!("kept     {}", escaped(path))));
    let text = lines.collect::<Vec<_>>().join("\n");
    app.out.item(&json!({"agent": name, "made": made, "kept": kept, "seq": done.seq}), text)
}

async fn list(app: &mut App, mut left: usize) -> Result {
    let fs = app.tree().await?.fs;
    let mut page = Page::default().with_entries();
    let mut is_empty = left > 0;
    while left > 0 {
        let listing = fs.list(&TreePath::parse(AGENTS)?.into(), &page).await.optional()?;
        let Some(listing) = listing else { break };
        let last = listing.items.last().map(|item| item.name.clone()).filter(|_| listing.more);
        for item in listing.items.into_iter().filter(|item| item.kind == Kind::Directory).take(left) {
            is_empty = false;
            left -= 1;
            let name = item.name.as_str();
            let settings = settings(&*fs, app, name).await;
            let (json, owner, zone) = described(name, settings.as_ref().ok());
            app.out.item(&json, format_args!("{:<20}  {owner:<16}  {zone}", one_line(name)))?;
        }
        match last {
            Some(last) => page = page.after(Some(last)),
            None => break,
        }
    }
    if is_empty {
        app.out.warn(format_args!(
            "no agents in {AGENTS}: `garth agent create NAME` creates one; the agent {DEFAULT_AGENT} works without files"
        ));
    }
    Ok(())
}

async fn show(app: &mut App) -> Result {
    let fs = app.tree().await?.fs;
    let name = app.global.agent.clone();
    garth_engine::path::check_id("agent", &name)?;
    let home = TreePath::parse(&format!("{AGENTS}/{name}"))?;
    if !fs.exists(&home).await? {
        let message = "no such agent; `garth agent create NAME` creates one, `garth agent list` lists them";
        return Err(Error::at(ErrorKind::NotFound, &home, message).into());
    }
    let settings = settings(&*fs, app, &name).await?;
    let (mut json, owner, zone) = described(&name, Some(&settings));
    let mut files = Vec::new();
    for file in FILES {
        if let Some(entry) = fs.lookup(&format!("{home}/{file}")).await? {
            files.push((file.to_owned(), entry.size));
        }
    }
    json["path"] = home.as_str().into();
    json["files"] = files.iter().map(|(name, size)| json!({"name": name, "size": size})).collect();
    let mut text = format!(
        "name       {}\npath       {}\nowner      {owner}\ntime zone  {zone}",
        one_line(&name),
        escaped(home.as_str())
    );
    for (name, size) in &files {
        text.push_str(&format!("\n{size:>9}  {name}"));
    }
    app.out.item(&json, text)
}

async fn settings(fs: &dyn FileSystem, app: &App, agent: &str) -> Result<Settings> {
    Ok(Workspace::new(fs, agent)?.env(app.env.clone()).settings().await?)
}

/// Returns an agent as JSON, and its owner and time zone as text. Without readable settings, both are
/// unknown.
fn described(name: &str, settings: Option<&Settings>) -> (Value, String, String) {
    let owner = settings.and_then(|settings| settings.owner.clone());
    let zone = settings.map(|settings| settings.time_zone.clone().unwrap_or_else(|| "UTC".to_owned()));
    let json = json!({"agent": name, "owner": owner, "time_zone": zone});
    let owner = match (&settings, owner) {
        (_, Some(owner)) => one_line(&owner),
        (Some(_), None) => "-".to_owned(),
        (None, None) => "(settings.json cannot be read)".to_owned(),
    };
    (json, owner, zone.map_or_else(String::new, |zone| one_line(&zone)))
}
