//! The sessions that a verb works on: those of an agent with a user, or what an agent reaches of them in a
//! chat.

use std::sync::Arc;

use garth::agent::AgentTree;
use garth::agent::media::Media;
use garth::agent::session::Sessions;
use garth::agent::workspace::Workspace;
use garth::model::Author;
use garth::{Env, FileSystem};

use crate::app::App;
use crate::fail::Result;
use crate::place::Place;

/// The user whose sessions they are, if none is named.
pub(crate) const DEFAULT_USER: &str = "default";

/// See the module.
pub(crate) struct Open {
    fs: Arc<dyn FileSystem>,
    only: Option<String>,
    user: String,
    agent: String,
    env: Env,
    author: Author,
}

impl Open {
    /// The tree that they are in.
    pub(crate) fn fs(&self) -> &dyn FileSystem {
        &*self.fs
    }

    /// Whose they are.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// The agent's workspace.
    pub(crate) fn workspace(&self) -> Result<Workspace<'_>> {
        Ok(Workspace::new(&*self.fs, &self.agent, self.env.clone())?.author(self.author.clone()))
    }

    /// The media that messages refer to.
    pub(crate) fn media(&self) -> Media<'_> {
        Media::new(&*self.fs, self.env.clone()).author(self.author.clone())
    }

    /// What is done with them.
    pub(crate) fn sessions(&self) -> Result<Sessions<'_>> {
        let sessions = Sessions::new(&*self.fs, &self.user, &self.agent, self.env.clone())?;
        Ok(sessions.author(self.author.clone()).only(self.only.clone()))
    }
}

/// Opens them. For a change, what is missing of an agent's directories is made, and the data folder if this
/// is the first.
pub(crate) async fn open(app: &App, changes: bool) -> Result<Open> {
    let (agent, env, mut author) = (app.global.agent.clone(), app.env.clone(), app.author());
    let args = &app.global.chat;
    let user = args.user.clone().unwrap_or_else(|| DEFAULT_USER.to_owned());
    author = author.with_user(&user);
    if let Some(class) = &args.class {
        author = author.with_class(class);
    }
    let (fs, only) = match Place::of(&app.global)? {
        Place::Chat { who, .. } => {
            let store = app.account_for(changes).await?;
            let reach = AgentTree::new(&*store, who).create(changes).sessions().await?;
            (reach.fs, reach.only)
        }
        Place::Account { .. } | Place::Overlay { .. } => (app.tree_for(changes).await?.fs, None),
    };
    Ok(Open { fs, only, user, agent, env, author })
}
