//! `garth agent`: an agent and what it begins with.

use clap::{Args, Subcommand};
use garth_agent::workspace::{self, Workspace, Zone};
use garth_engine::TreePath;
use garth_engine::model::Author;
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;

/// Create agents
///
/// With --json one object: agent, made and kept (paths), seq (null if all was there).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth agent create scout --owner ann --time-zone Europe/Berlin")]
pub(crate) struct Agent {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Lay out the files in /agents/NAME that its prompt is made of, with texts to begin with, in one commit
    ///
    /// SOUL.md, IDENTITY.md, USER.md, AGENTS.md, TOOLS.md, HEARTBEAT.md and settings.json. BOOTSTRAP.md, for
    /// an agent that is new, has it ask who it is and whom it serves, write that down and remove the file.
    /// Memories are not made up: MEMORY.md and memory/ come with the first one. What is there stays as it is.
    /// The agent itself cannot do this, as settings are for people to write.
    #[command(after_help = "Example:\n  garth agent create scout --owner ann --time-zone Europe/Berlin")]
    Create {
        /// Its id: 1 to 128 bytes, without `/` and control characters
        name: String,
        /// Time zone by which its days change: an IANA name
        #[arg(long, value_name = "ZONE", default_value = "UTC")]
        time_zone: String,
        /// User whose agent it is, whose sessions see its own memory; `*`: every user [env: GARTH_USER]
        /// [default: whoever names no user]
        #[arg(long, value_name = "USER")]
        owner: Option<String>,
        /// Leave BOOTSTRAP.md out
        #[arg(long)]
        no_bootstrap: bool,
    },
}

impl Agent {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.only_account("agent create")?;
        let Action::Create { name, time_zone, owner, no_bootstrap } = self.action;
        let owner = owner.or_else(|| std::env::var("GARTH_USER").ok().filter(|user| !user.is_empty()));
        // checked first: a bad name must not leave a new data folder behind
        garth_engine::path::check_id("agent", &name)?;
        let mut options = workspace::Init::default().time_zone(Zone::named(&time_zone)?);
        (options.bootstrap, options.owner) = (!no_bootstrap, owner);
        let tree = app.tree_or_new().await?;
        let workspace = Workspace::new(&*tree.fs, &name)?.env(app.env.clone()).author(Author::default());
        let done = workspace.init(&options).await?;
        let paths = |paths: &[TreePath]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (made, kept) = (paths(&done.made), paths(&done.kept));
        let lines = made.iter().map(|path| format!("made  {}", escaped(path)));
        let lines = lines.chain(kept.iter().map(|path| format!("kept  {}", escaped(path))));
        let text = lines.collect::<Vec<_>>().join("\n");
        app.out.item(&json!({"agent": name, "made": made, "kept": kept, "seq": done.seq}), text)
    }
}
