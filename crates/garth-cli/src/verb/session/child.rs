//! Children: work that a session hands to another.

use clap::{Args, Subcommand};
use garth_agent::session::{Child as Known, ChildChange, ChildStatus, Spawn};
use garth_engine::{Error, TreePath};
use serde_json::{Value, json};

use super::context::read;
use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::verb::open::open;

/// Hand work to a child, and take its result
#[derive(Args, Debug)]
pub(crate) struct Child {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Spawn a child: what it has to know is read from standard input
    #[command(after_help = "Example:\n  echo 'Review the parser.' | garth session child spawn work rev-1")]
    Spawn {
        /// Which session
        name: String,
        /// The id of the child
        id: String,
        /// The agent that does it [default: the same]
        #[arg(long, value_name = "AGENT")]
        child_agent: Option<String>,
        /// The session that it is done in [default: one of the id's name]
        #[arg(long, value_name = "SESSION")]
        child_session: Option<String>,
    },
    /// List the children of a session
    #[command(visible_alias = "ls", after_help = "Example:\n  garth session child list work")]
    List {
        /// Which session
        name: String,
    },
    /// Tell how far a child is, and what it found
    #[command(after_help = "Examples:\n  \
        garth session child set work rev-1 --status active\n  \
        garth session child set work rev-1 --status done --result review.md --artifact fix.diff=/src/fix.diff")]
    Set(Set),
}

#[derive(Args, Debug)]
struct Set {
    /// Which session
    name: String,
    /// The id of the child
    id: String,
    /// pending, active, done, error or cancelled; the last three are final
    #[arg(long, value_name = "STATUS")]
    status: Option<ChildStatus>,
    /// A file of this machine with what it found, `-` for standard input
    #[arg(long, value_name = "FILE")]
    result: Option<String>,
    /// A file of this machine with references, as in context/refs.jsonl
    #[arg(long, value_name = "FILE")]
    refs: Option<String>,
    /// A file of the tree that it made, with its name there; may be repeated
    #[arg(long, value_name = "NAME=PATH")]
    artifact: Vec<String>,
}

impl Child {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self.action {
            Action::Spawn { name, id, child_agent, child_session } => {
                let mut spawn = Spawn::new(id, read("-")?);
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
        change.result = self.result.map(|file| read(&file)).transpose()?;
        change.refs = self.refs.map(|file| read(&file)).transpose()?;
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
