//! `garth context child`: work that a session delegates to another.

use clap::{Args, Subcommand};
use garth_agent::session::{Child as Known, ChildChange, ChildStatus, MAX_DERIVED, Spawn};
use garth_engine::{Error, TreePath};
use serde_json::{Value, json};

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::host_text::{argument_or_stdin, file_or_stdin};
use crate::verb::open::open;

/// Delegate work of a session to a child, and take its result
///
/// With --json, prints one object per child: id, agent, session, status.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth context child create work rev-1 'Review the parser.'")]
pub(crate) struct Child {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create a child, with the handoff as text
    #[command(after_help = "Examples:\n  \
        garth context child create work rev-1 'Review the parser.'\n  \
        garth context child create work rev-1 --child-agent reviewer < handoff.md")]
    Create {
        /// Name of the session
        name: String,
        /// Id of the child
        id: String,
        /// Handoff: the task and what the child has to know; - or nothing reads standard input
        text: Option<String>,
        /// Agent that does the work [default: the agent of the session]
        #[arg(long, value_name = "AGENT")]
        child_agent: Option<String>,
        /// Session for the work [default: a session with the id of the child]
        #[arg(long, value_name = "SESSION")]
        child_session: Option<String>,
    },
    /// List the children of a session
    #[command(alias = "ls", after_help = "Example:\n  garth context child list work")]
    List {
        /// Name of the session
        name: String,
    },
    /// Set the status of a child, and store its result
    #[command(after_help = "Examples:\n  \
        garth context child set work rev-1 --status active\n  \
        garth context child set work rev-1 --status done --result r.md --artifact a.diff=/src/a.diff")]
    Set(Set),
}

#[derive(Args, Debug)]
struct Set {
    /// Name of the session
    name: String,
    /// Id of the child
    id: String,
    /// pending, active, done, error or cancelled; the last three are final
    #[arg(long, value_name = "STATUS")]
    status: Option<ChildStatus>,
    /// File of this machine with the result; - reads standard input
    #[arg(long, value_name = "FILE")]
    result: Option<String>,
    /// File of this machine with references, as in context/refs.jsonl
    #[arg(long, value_name = "FILE")]
    refs: Option<String>,
    /// File of the tree that the child created, with a name (repeatable)
    #[arg(long, value_name = "NAME=PATH")]
    artifact: Vec<String>,
}

impl Child {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self.action {
            Action::Create { name, id, text, child_agent, child_session } => {
                let mut spawn = Spawn::new(id, argument_or_stdin(text, MAX_DERIVED, "handoff")?);
                (spawn.agent, spawn.session) = (child_agent, child_session);
                let open = open(app, true).await?;
                let child = open.sessions()?.spawn(&name, &spawn).await?;
                app.out.item(&json(&child), line(&child))
            }
            Action::List { name } => {
                let open = open(app, false).await?;
                for child in open.sessions()?.children(&name).await? {
                    app.out.item(&json(&child), line(&child))?;
                }
                Ok(())
            }
            Action::Set(set) => set.run(app).await,
        }
    }
}

impl Set {
    async fn run(self, app: &mut App) -> Result {
        let mut change = ChildChange::default();
        change.status = self.status;
        change.result = self.result.map(|file| file_or_stdin(&file, MAX_DERIVED)).transpose()?;
        change.refs = self.refs.map(|file| file_or_stdin(&file, MAX_DERIVED)).transpose()?;
        for artifact in &self.artifact {
            let usage = || Failure::Usage(format!("{artifact}: write NAME=PATH"));
            let (name, path) = artifact.split_once('=').ok_or_else(usage)?;
            change.artifacts.push((name.to_owned(), TreePath::parse(path).map_err(Error::from)?));
        }
        let open = open(app, true).await?;
        let child = open.sessions()?.set_child(&self.name, &self.id, &change).await?;
        app.out.item(&json(&child), line(&child))
    }
}

fn json(child: &Known) -> Value {
    json!({
        "id": child.id, "agent": child.agent, "session": child.session, "status": child.status.as_str(),
    })
}

fn line(child: &Known) -> String {
    let status = child.status.as_str();
    escaped(&format!("{status:<9} {}  {} of {}", child.id, child.session, child.agent)).to_string()
}
