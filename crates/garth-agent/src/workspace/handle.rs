//! Handle on the workspace of an agent: paths of its files, batches in the name of its author, and its
//! sessions. The other modules of the workspace add their calls to it.

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

/// Workspace of an agent in an account.
#[derive(Clone, Debug)]
pub struct Workspace<'a> {
    pub(super) fs: &'a dyn FileSystem,
    pub(super) env: Env,
    pub(super) author: Author,
    pub(super) agent: String,
    /// Cache of token counts and masked texts of prompts.
    pub(super) known: AccountCache<'a>,
    /// Sessions of one audience that it works on; `None` for those of any audience that a call names.
    pub(super) own: Option<Sessions<'a>>,
    /// Request that the next write carries out.
    pub(super) once: Once,
    /// Tree whose paths prompts and lists of skills contain.
    pub(super) paths: PathsOf,
}

/// Owner of the memory of a session: its class and audience.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keeper {
    pub(super) class: Class,
    pub(super) audience: String,
}

impl Keeper {
    /// Returns the owner of the memory of a session.
    pub(super) fn of(meta: &Meta) -> Self {
        Self { class: meta.class.of_requests(), audience: meta.user.clone() }
    }

    /// Returns true if an author's text needs no fence for this owner: that of its audience, of people and of
    /// main sessions.
    pub(super) fn owns(&self, author: &Author) -> bool {
        let class = author.class.as_deref().map(Class::named);
        match (class, self.class) {
            // An audience trusts its own text and that of the owner; the owner trusts no other audience.
            (None | Some(Class::Main), _) => true,
            (Some(_), Class::Main) => false,
            (Some(_), _) => author.keeper() == Some(&*self.audience),
        }
    }
}

impl<'a> Workspace<'a> {
    /// Returns the workspace of `agent` in an account whose tree is `fs`, for the holder of the data folder.
    /// Others use [`Access`](crate::access::Access).
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

    /// Sets the clock, the randomness and the threads to compute on. The default is those of the machine.
    #[must_use]
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Returns the workspace for an identity with these sessions.
    pub(crate) fn of(fs: &'a dyn FileSystem, env: Env, own: Sessions<'a>, who: &Identity) -> Self {
        let (author, agent, known) = (who.author(), who.agent().to_owned(), AccountCache::default());
        Self { fs, env, author, agent, known, own: Some(own), once: Once::default(), paths: PathsOf::Chat }
    }

    /// Sets a cache to build prompts with. All accounts of a process may share it: `account` is the name of
    /// this one in it.
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

    /// Sets the tree whose paths prompts and lists of skills contain. The default is that of the identity
    /// that opened the workspace, or else the account.
    #[must_use]
    pub fn paths_of(self, paths: PathsOf) -> Self {
        Self { paths, ..self }
    }

    /// Sets the author of commits. In a class other than `main`, only data of that class and its audience is
    /// visible.
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

    /// Returns the path of a file that is the agent's for main sessions, and the audience's for others.
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

    /// Returns a batch in the name of a session, its audience and its class, also if another author asked for
    /// it.
    pub(super) fn batch_of(&self, meta: &Meta, ops: Vec<Op>, what: &str) -> Batch {
        let batch = self.batch(ops, &format!("{what} {}", meta.name));
        let mut author =
            batch.author.clone().with_class(meta.class.of_requests().as_str()).with_session(&meta.name);
        if author.user.is_none() && !is_reserved(&meta.user) {
            author.user = Some(meta.user.clone());
        }
        // The author may have another audience. Files that a reset or compaction writes belong to that of the
        // session.
        author.audience = None;
        batch.author(author.with_audience(&meta.user))
    }

    /// Returns the class of the author: `main` if the author has none, as the holder of the data folder.
    pub(super) fn own_class(&self) -> Class {
        self.author.class.as_deref().map_or(Class::Main, Class::named)
    }

    /// Returns the owner of the memory of a session, or else of the author.
    ///
    /// # Errors
    /// `AccessDenied` for a session with fewer listeners than the author's class; `InvalidArgument` for a
    /// class without an audience.
    pub(super) fn keeper(&self, session: Option<&Meta>) -> Result<Keeper> {
        let own = self.own_class();
        if let Some(meta) = session {
            if meta.class.is_seen_by(own) {
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
                let message = format!("class {class} needs an audience; name a user or session key");
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

    /// Returns true if prompts of main sessions show the days of other audiences. Those of a bound API key do
    /// not, though it may read the archives of these audiences as the owner of the agent.
    pub(super) fn shows_others(&self) -> bool {
        !self.own.as_ref().is_some_and(Sessions::is_bound)
    }

    /// Returns true if main sessions see the archives of other audiences.
    pub(super) fn shows_other_archives(&self) -> bool {
        !self.own.as_ref().is_some_and(Sessions::has_own_archives)
    }

    /// Returns the unconfined account, for the memory of other audiences in main sessions.
    pub(super) fn whole(&self) -> &'a dyn FileSystem {
        self.own.as_ref().map_or(self.fs, Sessions::whole)
    }

    /// Returns the tree as of a point in time, or a snapshot of the current one.
    pub(super) async fn moment(&self, at: Option<&Moment>) -> Result<Arc<dyn FileSystem>> {
        // A time in the future means now. A snapshot by the clock could miss commits with a later time.
        self.fs.as_of(at.unwrap_or(&Moment::Time(Timestamp(i64::MAX)))).await
    }
}
