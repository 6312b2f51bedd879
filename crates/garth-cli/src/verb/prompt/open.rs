//! The workspace that a verb works on.

use std::sync::Arc;

use garth::agent::workspace::{PromptOptions, Workspace};
use garth::model::Author;
use garth::{Env, Error, ErrorKind, FileSystem, FileSystemExt as _, TreePath};

use crate::app::App;
use crate::args::DEFAULT_AGENT;
use crate::fail::Result;
use crate::verb::session::DEFAULT_USER;

/// See the module.
pub(crate) struct Open {
    fs: Arc<dyn FileSystem>,
    agent: String,
    user: String,
    session: Option<String>,
    env: Env,
    author: Author,
}

impl Open {
    /// The tree that it is in.
    pub(crate) fn fs(&self) -> &dyn FileSystem {
        &*self.fs
    }

    /// What is done with it.
    pub(crate) fn workspace(&self) -> Result<Workspace<'_>> {
        Ok(Workspace::new(&*self.fs, &self.agent, self.env.clone())?.author(self.author.clone()))
    }

    /// A prompt for the session that was named, if one was.
    pub(crate) fn options(&self) -> PromptOptions {
        match &self.session {
            Some(session) => PromptOptions::default().session(&self.user, session),
            None => PromptOptions::default(),
        }
    }
}

/// Opens it; for a change also in a data folder that is not there yet.
pub(crate) async fn open(app: &App, changes: bool) -> Result<Open> {
    app.only_account("the workspace of an agent")?;
    let args = &app.global.chat;
    let user = args.user.clone().unwrap_or_else(|| DEFAULT_USER.to_owned());
    let mut author = app.author();
    if args.user.is_some() || args.session.is_some() {
        author = author.with_user(&user);
    }
    if let Some(class) = &args.class {
        author = author.with_class(class);
    }
    if let Some(session) = &args.session {
        author = author.with_session(session);
    }
    let tree = app.tree_for(changes).await?;
    if !changes && args.session.is_none() && app.global.agent != DEFAULT_AGENT {
        let home = TreePath::parse(&format!("/agents/{}", app.global.agent))?;
        if !tree.fs.exists(&home).await? {
            let message = "no such agent; `garth init --agent NAME` makes one, `garth ls /agents` lists them";
            return Err(Error::at(ErrorKind::NotFound, &home, message).into());
        }
    }
    let (agent, session) = (app.global.agent.clone(), args.session.clone());
    Ok(Open { fs: tree.fs, agent, user, session, env: app.env.clone(), author })
}
