//! Data that a verb on sessions, memories, media or a workspace works on: what the identity named by the
//! options may access, or all of an overlay, or all of the account for administrators.

use std::sync::Arc;

use garth_agent::media::Media;
use garth_agent::memory::Memories;
use garth_agent::session::Sessions;
use garth_agent::workspace::{PathsOf, PromptOptions, Workspace};
use garth_agent::{Access, Caller, DEFAULT_USER};
use garth_engine::model::Author;
use garth_engine::{Env, Error, ErrorKind, FileSystem, FileSystemExt as _, TreePath};

use crate::app::App;
use crate::args::{DEFAULT_AGENT, user_variable};
use crate::fail::Result;
use crate::place::Place;

/// Opened data, and the author of changes to it.
pub(crate) struct Open {
    /// Access of the identity; `None` for full access to `fs`.
    access: Option<Access>,
    fs: Arc<dyn FileSystem>,
    user: String,
    agent: String,
    session: Option<String>,
    account: String,
    env: Env,
    author: Author,
    /// Tree in which other verbs work with these options.
    paths: PathsOf,
}

/// Opens the data that the options name. For a change, creates missing directories of the agent, and the data
/// folder if it does not exist yet.
pub(crate) async fn open(app: &App, changes: bool) -> Result<Open> {
    match Place::of(&app.global)? {
        Place::Identity { .. } | Place::Account { raw: false, overrides_rules: false } => {
            of_identity(app, changes).await
        }
        Place::Account { .. } | Place::Overlay { .. } => {
            let open = all(app, changes).await?;
            if !changes {
                check_agent(app, open.fs()).await?;
            }
            Ok(open)
        }
    }
}

/// Opens the data that the options name, for a change. Requires that the agent exists.
pub(crate) async fn open_existing(app: &App) -> Result<Open> {
    // A mistyped name would create an agent.
    if app.global.agent != DEFAULT_AGENT {
        open(app, false).await?;
    }
    open(app, true).await
}

/// Opens the memories of the account, or those of the identity that the options name.
pub(crate) async fn open_memories(app: &App, changes: bool) -> Result<Open> {
    match Place::of(&app.global)? {
        Place::Identity { .. } => of_identity(app, changes).await,
        Place::Account { .. } | Place::Overlay { .. } => all(app, changes).await,
    }
}

async fn of_identity(app: &App, changes: bool) -> Result<Open> {
    let request = app.global.chat.request(&app.global.agent);
    let account = app.account_for(changes).await?;
    let access = Access::open(&account, &app.env, Caller::Holder, &request).await?;
    if changes {
        access.make().await?;
    } else {
        check_agent(app, &*account).await?;
    }
    Ok(Open::of(app, account, Some(access)))
}

/// Fails if the agent does not exist. The default agent works without files.
async fn check_agent(app: &App, account: &dyn FileSystem) -> Result {
    let home = TreePath::parse(&format!("/agents/{}", app.global.agent))?;
    if app.global.agent == DEFAULT_AGENT || account.exists(&home).await? {
        return Ok(());
    }
    let message = "no such agent; `garth agent create NAME` creates one, `garth agent list` lists them";
    Err(Error::at(ErrorKind::NotFound, &home, message).into())
}

/// Opens all data, with the paths of the account.
async fn all(app: &App, changes: bool) -> Result<Open> {
    Ok(Open::of(app, app.tree_for(changes).await?.fs, None))
}

impl Open {
    fn of(app: &App, fs: Arc<dyn FileSystem>, access: Option<Access>) -> Self {
        let args = &app.global.chat;
        let (user, author) = match &access {
            Some(access) => (access.identity().audience().to_owned(), access.identity().author()),
            None => {
                let user =
                    args.user.clone().or_else(user_variable).unwrap_or_else(|| DEFAULT_USER.to_owned());
                let author = app.author().with_user(&user);
                let class = args.class.iter();
                (user, class.fold(author, |author, class| author.with_class(class)))
            }
        };
        let [agent, account] = [&app.global.agent, &app.global.account].map(String::clone);
        let paths = if args.names_somebody() { PathsOf::Chat } else { PathsOf::Account };
        let (session, env) = (args.session.clone(), app.env.clone());
        Self { access, fs, user, agent, session, account, env, author, paths }
    }

    /// Returns true if paths are those of the account, because the options name no tree of an agent.
    pub(crate) fn is_at_root(&self) -> bool {
        self.paths == PathsOf::Account
    }

    /// Returns the account or the overlay.
    pub(crate) fn fs(&self) -> &dyn FileSystem {
        &*self.fs
    }

    /// Returns the audience of the sessions.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// Returns the sessions.
    pub(crate) fn sessions(&self) -> Result<Sessions<'_>> {
        match &self.access {
            Some(access) => Ok(access.sessions()),
            None => {
                let sessions = Sessions::new(&*self.fs, &self.user, &self.agent)?.env(self.env.clone());
                Ok(sessions.author(self.author.clone()))
            }
        }
    }

    /// Returns the workspace of the agent.
    pub(crate) fn workspace(&self) -> Result<Workspace<'_>> {
        match &self.access {
            Some(access) => Ok(access.workspace().paths_of(self.paths)),
            None => {
                let workspace = Workspace::new(&*self.fs, &self.agent)?.env(self.env.clone());
                Ok(workspace.author(self.author.clone()))
            }
        }
    }

    /// Returns the media that messages refer to.
    pub(crate) fn media(&self) -> Media<'_> {
        match &self.access {
            Some(access) => access.media(),
            None => Media::new(&*self.fs).env(self.env.clone()).author(self.author.clone()),
        }
    }

    /// Returns the memories.
    pub(crate) fn memories(&self) -> Memories<'_> {
        match &self.access {
            Some(access) => access.memories(&self.account),
            None => Memories::new(&*self.fs, &self.account).env(self.env.clone()).author(self.author.clone()),
        }
    }

    /// Returns the options of a prompt, for the named session if there is one.
    pub(crate) fn options(&self) -> PromptOptions {
        match &self.session {
            Some(session) => PromptOptions::default().session(&self.user, session),
            None => PromptOptions::default(),
        }
    }
}
