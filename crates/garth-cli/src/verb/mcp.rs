//! `garth mcp`: the Model Context Protocol over standard input and output, for the tools of an agent.

mod client_config;

use clap::Args;
use garth_agent::{Class, Request};
use garth_engine::{Error, ErrorKind, FileSystemExt as _, TreePath};
use garth_server::mcp::{PipeOptions, serve_pipes};
use serde_json::json;

use self::client_config::{ConfigClient, program};
use crate::app::App;
use crate::args::DEFAULT_AGENT;
use crate::fail::{Failure, Result};
use crate::location::Location;

/// Serve files and memory to an MCP client over stdin and stdout
///
/// An MCP client starts it, and ends it by closing its standard input. Without options, the client is the
/// agent `default` with its owner. --agent, --user, --key, --chat, --session and --class set the identity,
/// which the model cannot change. Logs go to stderr, if GARTH_LOG is set.
///
/// A client that connects over HTTP uses the address /mcp of `garth serve` instead.
///
/// With --print-config and --json, prints one object: client, config.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth mcp\n  \
        garth mcp --user ann --session work --tools ls,read_file,grep,recall --read-only\n  \
        garth mcp --print-config claude-code")]
pub(crate) struct Mcp {
    /// Tools that the client sees, separated by commas, or `all` [default: all but memory]
    #[arg(long, value_name = "NAMES")]
    tools: Option<String>,
    /// Leave out the tools that change something
    #[arg(long)]
    read_only: bool,
    /// Print the configuration of a client for these options, with the path of this program, and exit
    #[arg(long, value_name = "CLIENT")]
    print_config: Option<ConfigClient>,
}

impl Mcp {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_overlay("mcp")?;
        refuse_tree_options(app)?;
        if let Some(client) = self.print_config {
            let text = client.config(&program(), &self.arguments(app)?)?;
            return app.out.item(&json!({"client": client.name(), "config": text}), text.trim_end());
        }
        let home = app.home_of_account().await?;
        let account = app.account_of(&*home).await?;
        let agent = &app.global.agent;
        let directory = TreePath::parse(&format!("/agents/{agent}"))?;
        // A mistyped name would create an agent.
        if agent != DEFAULT_AGENT && !account.exists(&directory).await? {
            let message =
                "no such agent; `garth agent create NAME` creates one, `garth agent list` lists them";
            return Err(Error::at(ErrorKind::NotFound, &directory, message).into());
        }
        let options = PipeOptions::new(request(app)).tools(self.tools).read_only(self.read_only);
        let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
        Ok(serve_pipes(home, (account, &app.global.account), options, input, output).await?)
    }

    /// Returns the arguments by which a client starts this command.
    fn arguments(&self, app: &App) -> Result<Vec<String>> {
        let (global, chat) = (&app.global, &app.global.chat);
        // A client may start it in another directory, and with other variables.
        let has_folder = global.data.is_some() || std::env::var_os("GARTH_DATA").is_some();
        let (at, place) = match app.location()? {
            Location::Database(database) => database.arguments().map(|(at, place)| (at, Some(place)))?,
            Location::Folder(folder) if has_folder => ("--data", Some(folder.to_string_lossy().into_owned())),
            Location::Folder(_) => ("--data", None),
        };
        let key = chat.session_key.as_ref().map(ToString::to_string);
        let mut arguments = vec!["mcp".to_owned()];
        for (name, value) in [
            (at, place),
            ("--account", global.account_is_named.then(|| global.account.clone())),
            ("--agent", global.agent_is_named.then(|| global.agent.clone())),
            ("--user", chat.user.clone()),
            ("--key", key),
            ("--chat", chat.chat.clone()),
            ("--session", chat.session.clone()),
            ("--class", chat.class.clone()),
            ("--tools", self.tools.clone()),
        ] {
            arguments.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        }
        arguments.extend(self.read_only.then(|| "--read-only".to_owned()));
        Ok(arguments)
    }
}

/// Returns the identity that the options name. Unlike other verbs, it ignores GARTH_USER: a client starts
/// this command with the variables of whoever started the client.
fn request(app: &App) -> Request {
    let chat = &app.global.chat;
    let mut request = Request::new(&*app.global.agent);
    (request.user, request.chat) = (chat.user.clone(), chat.chat.clone());
    (request.session, request.key) = (chat.session.clone(), chat.session_key.clone());
    request.class = chat.class.as_deref().map(Class::named);
    request
}

/// Refuses global options of verbs on files that have no meaning here.
fn refuse_tree_options(app: &App) -> Result {
    let (raw, chat) = (app.global.raw, &app.global.chat);
    let given = [
        ("--raw", raw),
        ("--skill", !chat.skills.is_empty()),
        ("--upload-limit", chat.upload_limit.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(Failure::Usage(format!("mcp serves the tree of an agent: remove {name}"))),
        None => Ok(()),
    }
}
