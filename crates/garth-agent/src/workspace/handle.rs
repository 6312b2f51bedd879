//! The handle on the workspace of an agent: paths of its files, batches in the name of its author, and its
//! sessions. All files of the workspace add their calls to it.

use std::sync::Arc;

use super::prompt_cache::{AccountCache, PromptCache};
use crate::once::Once;
use crate::own_paths;
use crate::session::{Meta, Sessions};
use crate::session_class::MAIN;
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
    /// Request that the next write carries out.
    pub(super) once: Once,
}

impl<'a> Workspace<'a> {
    /// Returns the workspace of `agent` in an account, whose tree is `fs`.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id, and for a tree with other paths, such as that of a chat.
    pub fn new(fs: &'a dyn FileSystem, agent: &str, env: Env) -> Result<Self> {
        check_id("agent", agent)?;
        let (agent, author, once) = (agent.to_owned(), Author::default(), Once::default());
        let workspace = Self { fs, env, author, agent, known: AccountCache::default(), once };
        own_paths::check(fs, &workspace.home()?, "give it the account's own tree")?;
        Ok(workspace)
    }

    /// Sets a cache to build prompts with. It may be shared by all accounts of a process: `account` is the
    /// name of this one in it.
    #[must_use]
    pub fn cache(self, cache: &'a PromptCache, account: &str) -> Self {
        Self { known: AccountCache(Some((cache, account.to_owned()))), ..self }
    }

    /// Sets the request that the handle carries out with one write.
    #[must_use]
    pub fn once(self, once: Once) -> Self {
        Self { once, ..self }
    }

    /// Sets the author of commits. In a class other than `main`, only what is for that class is visible.
    #[must_use]
    pub fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// Returns the directory of the agent.
    pub(super) fn home(&self) -> Result<TreePath> {
        Ok(TreePath::parse(&format!("/agents/{}", self.agent))?)
    }

    /// Returns the path of a file of the agent; `name` may have several segments.
    pub(super) fn file(&self, name: &str) -> Result<TreePath> {
        Ok(TreePath::parse(&format!("{}/{name}", self.home()?))?)
    }

    /// Returns a batch in the name of the author.
    pub(super) fn batch(&self, ops: Vec<Op>, message: &str) -> Batch {
        Batch::new(ops).author(self.author.clone().or(&Author::agent(&self.agent))).message(message)
    }

    /// Returns a batch in the name of a session and of its class, whoever asked for it.
    pub(super) fn batch_of(&self, user: &str, session: &str, class: &str, ops: Vec<Op>, what: &str) -> Batch {
        let batch = self.batch(ops, &format!("{what} {session}"));
        let author = batch.author.clone().or(&Author::default().with_user(user));
        batch.author(author.with_class(class).with_session(session))
    }

    /// Returns the class of a session, else that of the author. Fails with `AccessDenied` if the author is of
    /// another class than the session, unless it is `main`.
    pub(super) fn class(&self, session: Option<&Meta>) -> Result<String> {
        let own = self.author.class.as_deref();
        let Some(meta) = session else { return Ok(own.unwrap_or(MAIN).to_owned()) };
        if own.is_none_or(|own| own == MAIN || own == meta.class) {
            return Ok(meta.class.clone());
        }
        let message = format!("{}: is a session of another class", meta.name);
        Err(Error::new(ErrorKind::AccessDenied, message))
    }

    /// Returns the agent's sessions with a user.
    pub(super) fn sessions<'s>(&self, fs: &'s dyn FileSystem, user: &str) -> Result<Sessions<'s>> {
        Ok(Sessions::new(fs, user, &self.agent, self.env.clone())?.author(self.author.clone()))
    }

    /// Returns the tree as of a moment, or a snapshot of now.
    pub(super) async fn moment(&self, at: Option<&Moment>) -> Result<Arc<dyn FileSystem>> {
        // a time that has not come yet is now, whatever the clock says
        self.fs.as_of(at.unwrap_or(&Moment::Time(Timestamp(i64::MAX)))).await
    }
}
