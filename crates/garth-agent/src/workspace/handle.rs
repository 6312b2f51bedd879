//! The handle on the workspace of an agent: paths of its files, batches in the name of its author, and its
//! sessions. All files of the workspace add their calls to it.

use std::sync::Arc;

use super::paths::PathsOf;
use super::prompt_cache::{AccountCache, PromptCache};
use crate::identity::{Class, DEFAULT_USER, Identity, check_audience, is_reserved};
use crate::once::Once;
use crate::own_paths;
use crate::session::{Meta, Sessions};
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Author, Batch, Moment, Op, Timestamp};
use garth_engine::path::{TreePath, check_id};

/// The workspace of an agent in an account.
#[derive(Clone, Debug)]
pub struct Workspace<'a> {
    pub(super) fs: &'a dyn FileSystem,
    pub(super) env: Env,
    pub(super) author: Author,
    pub(super) agent: String,
    /// Cache of what is known of texts that were in prompts.
    pub(super) known: AccountCache<'a>,
    /// Sessions that it works on, of one audience; `None` for those of any that a call names.
    pub(super) own: Option<Sessions<'a>>,
    /// Request that the next write carries out.
    pub(super) once: Once,
    /// Tree whose paths prompts and lists of skills name.
    pub(super) paths: PathsOf,
}

/// Whose memory a session keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keeper {
    pub(super) class: Class,
    pub(super) audience: String,
}

impl Keeper {
    /// Returns whose memory a session keeps.
    pub(super) fn of(meta: &Meta) -> Self {
        Self { class: meta.class, audience: meta.user.clone() }
    }

    /// Returns true if an author's text is this one's own: its audience's, or of people and main sessions.
    pub(super) fn owns(&self, author: &Author) -> bool {
        let class = author.class.as_deref().map(Class::named);
        match (class, self.class) {
            (None | Some(Class::Main), _) => true,
            (Some(_), Class::Main) => false,
            (Some(_), _) => author.keeper() == Some(&*self.audience),
        }
    }
}

impl<'a> Workspace<'a> {
    /// Returns the workspace of `agent` in an account whose tree is `fs`, for whoever holds the data folder.
    /// [`Access`](crate::access::Access) is for everybody else.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id, and for a tree with other paths, such as that of a chat.
    pub fn new(fs: &'a dyn FileSystem, agent: &str) -> Result<Self> {
        check_id("agent", agent)?;
        let (agent, author, once) = (agent.to_owned(), Author::default(), Once::default());
        let (env, known, paths) = (Env::system(), AccountCache::default(), PathsOf::Account);
        let workspace = Self { fs, env, author, agent, known, own: None, once, paths };
        own_paths::check(fs, &workspace.home()?, "give it the account's own tree")?;
        Ok(workspace)
    }

    /// Sets the clock, the randomness and the threads to compute on: by default those of the machine.
    #[must_use]
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Returns the workspace as an identity sees it, whose sessions these are.
    pub(crate) fn of(fs: &'a dyn FileSystem, env: Env, own: Sessions<'a>, who: &Identity) -> Self {
        let (author, agent, known) = (who.author(), who.agent().to_owned(), AccountCache::default());
        Self { fs, env, author, agent, known, own: Some(own), once: Once::default(), paths: PathsOf::Chat }
    }

    /// Sets a cache to build prompts with. It may be shared by all accounts of a process: `account` is the
    /// name of this one in it.
    #[must_use]
    #[doc(hidden)]
    pub fn cache(self, cache: &'a PromptCache, account: &str) -> Self {
        Self { known: AccountCache(Some((cache, account.to_owned()))), ..self }
    }

    /// Sets the request that the handle carries out with one write.
    #[must_use]
    #[doc(hidden)]
    pub fn once(self, once: Once) -> Self {
        Self { once, ..self }
    }

    /// Sets the tree whose paths prompts and lists of skills name: by default that of the identity that
    /// opened the workspace, without one the account.
    #[must_use]
    pub fn paths_of(self, paths: PathsOf) -> Self {
        Self { paths, ..self }
    }

    /// Sets the author of commits. In a class other than `main`, only what is for that class and its audience
    /// is visible.
    #[must_use]
    pub fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// Returns the audience whose sessions it works on.
    pub fn audience(&self) -> &str {
        match &self.own {
            Some(own) => own.audience(),
            None => self.author.keeper().unwrap_or(DEFAULT_USER),
        }
    }

    /// Returns the directory of the agent.
    pub(super) fn home(&self) -> Result<TreePath> {
        Ok(TreePath::parse(&format!("/agents/{}", self.agent))?)
    }

    /// Returns the path of a file of the agent; `name` may have several segments.
    pub(super) fn file(&self, name: &str) -> Result<TreePath> {
        Ok(TreePath::parse(&format!("{}/{name}", self.home()?))?)
    }

    /// Returns the path of a file that main sessions have with the agent, and others with their audience.
    pub(super) fn kept_file(&self, keeper: &Keeper, name: &str) -> Result<TreePath> {
        match keeper.class {
            Class::Main => self.file(name),
            Class::Dm | Class::Group => {
                let Keeper { audience, .. } = keeper;
                check_audience(audience)?;
                Ok(TreePath::parse(&format!("/users/{audience}/agents/{}/{name}", self.agent))?)
            }
        }
    }

    /// Returns a batch in the name of the author.
    pub(super) fn batch(&self, ops: Vec<Op>, message: &str) -> Batch {
        let author = self.author.clone().or(&Author::agent(&self.agent));
        Batch::new(ops).author(author).message(message).by_garth()
    }

    /// Returns a batch in the name of a session, its audience and its class, whoever asked for it.
    pub(super) fn batch_of(&self, meta: &Meta, ops: Vec<Op>, what: &str) -> Batch {
        let batch = self.batch(ops, &format!("{what} {}", meta.name));
        let mut author = batch.author.clone().with_class(meta.class.as_str()).with_session(&meta.name);
        if author.user.is_none() && !is_reserved(&meta.user) {
            author.user = Some(meta.user.clone());
        }
        author.audience = None;
        batch.author(author.with_audience(&meta.user))
    }

    /// Returns the class of the author: `main` for whoever holds the data folder and says no other.
    pub(super) fn own_class(&self) -> Class {
        self.author.class.as_deref().map_or(Class::Main, Class::named)
    }

    /// Returns whose memory is asked about: that of a session, else the author's.
    ///
    /// # Errors
    /// `AccessDenied` for a session that fewer listen to than to the author's; `InvalidArgument` for a class
    /// without an audience.
    pub(super) fn keeper(&self, session: Option<&Meta>) -> Result<Keeper> {
        let own = self.own_class();
        if let Some(meta) = session {
            if own.sees(meta.class) {
                return Ok(Keeper::of(meta));
            }
            let message =
                format!("{}: is a session of class {}, which {own} does not see", meta.name, meta.class);
            return Err(Error::new(ErrorKind::AccessDenied, message));
        }
        match (own, self.author.keeper()) {
            (class, Some(audience)) => Ok(Keeper { class, audience: audience.to_owned() }),
            (Class::Main, None) => Ok(Keeper { class: Class::Main, audience: String::new() }),
            (class, None) => {
                let message =
                    format!("a session of class {class} has an audience; name a user or session key");
                Err(Error::invalid(message))
            }
        }
    }

    /// Returns the sessions of an audience with the agent, in the tree or in its past.
    ///
    /// # Errors
    /// `AccessDenied` for another audience than that of the access that opened the workspace.
    pub(super) fn sessions<'s>(&'s self, fs: &'s dyn FileSystem, audience: &str) -> Result<Sessions<'s>> {
        match &self.own {
            Some(own) if own.audience() != audience => {
                let message = format!("{audience}: is another audience than {}", own.audience());
                Err(Error::new(ErrorKind::AccessDenied, message))
            }
            Some(own) => Ok(own.on(fs)),
            None => {
                let sessions = Sessions::new(fs, audience, &self.agent)?.env(self.env.clone());
                Ok(sessions.author(self.author.clone()))
            }
        }
    }

    /// Returns the account, for what a main session is shown of others.
    pub(super) fn whole(&self) -> &'a dyn FileSystem {
        self.own.as_ref().map_or(self.fs, Sessions::whole)
    }

    /// Returns the tree as of a moment, or a snapshot of now.
    pub(super) async fn moment(&self, at: Option<&Moment>) -> Result<Arc<dyn FileSystem>> {
        // a time that has not come yet is now, whatever the clock says
        self.fs.as_of(at.unwrap_or(&Moment::Time(Timestamp(i64::MAX)))).await
    }
}
