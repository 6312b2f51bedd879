//! The handle on the sessions of an agent with a user: paths of their files, and batches in the name of their
//! author. All rooms add their calls to it.

use crate::once::Once;
use crate::own_paths;
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Author, Batch, Op};
use garth_engine::path::{TreePath, check_id};

/// The sessions of an agent with a user.
///
/// ```
/// use garth::agent::session::{Append, Create, Draft, Select, Sessions};
/// use garth::engine::memory::Memory;
/// use garth::Env;
///
/// # futures::executor::block_on(async {
/// let fs = Memory::new(Env::system(), garth::agent::registry());
/// let sessions = Sessions::new(&fs, "ann", "coder", Env::system())?;
/// sessions.create(&Create::new("default")).await?;
/// let said = [Draft::user("Where is the parser?"), Draft::assistant("In `src/parse.rs`.")];
/// sessions.append("default", &Append::messages(said)).await?;
/// let page = sessions.lines("default", &Select::messages(1..=2)).await?;
/// assert!(page.items[0].text.contains("Where is the parser?"));
/// # Ok::<(), garth::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Sessions<'a> {
    pub(super) fs: &'a dyn FileSystem,
    pub(super) env: Env,
    pub(super) author: Author,
    pub(super) user: String,
    pub(super) agent: String,
    pub(super) class: String,
    /// The only session that `fs` reaches; `None` if it reaches all.
    pub(super) only: Option<String>,
    /// Request that the next write carries out.
    pub(super) once: Once,
}

impl<'a> Sessions<'a> {
    /// Returns the sessions of `agent` with `user` in an account whose tree is `fs`. A view that reaches only
    /// a part of the tree under its own paths will do.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id, and for a tree with other paths, such as that of a chat.
    pub fn new(fs: &'a dyn FileSystem, user: &str, agent: &str, env: Env) -> Result<Self> {
        check_id("user", user)?;
        check_id("agent", agent)?;
        let [user, agent, class] = [user, agent, crate::session_class::MAIN].map(str::to_owned);
        let (author, once) = (Author::default(), Once::default());
        let sessions = Self { fs, env, author, user, agent, class, only: None, once };
        own_paths::check(fs, &sessions.home()?, "open it with AgentTree::sessions")?;
        Ok(sessions)
    }

    /// Sets the author of commits. New sessions get the class of the author.
    #[must_use]
    pub fn author(mut self, author: Author) -> Self {
        if let Some(class) = &author.class {
            self.class.clone_from(class);
        }
        Self { author, ..self }
    }

    /// Sets the request that the handle carries out with one write.
    #[must_use]
    pub fn once(self, once: Once) -> Self {
        Self { once, ..self }
    }

    /// Limits the handle to the one session that `fs` reaches.
    #[must_use]
    pub fn only(self, session: Option<String>) -> Self {
        Self { only: session, ..self }
    }

    /// Returns the directory of all sessions.
    pub(super) fn home(&self) -> Result<TreePath> {
        Ok(TreePath::parse(&format!("/users/{}/agents/{}/session", self.user, self.agent))?)
    }

    /// Returns the directory of a session.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id.
    pub fn directory(&self, session: &str) -> Result<TreePath> {
        check_id("session", session)?;
        Ok(TreePath::from_row(self.home()?.key(), session))
    }

    /// Returns the path of a file of a session.
    pub(super) fn file(&self, session: &str, name: &str) -> Result<TreePath> {
        let dir = self.directory(session)?;
        Ok(name.split('/').fold(dir, |dir, name| TreePath::from_row(dir.key(), name)))
    }

    /// Returns a batch in the name of the author, with a message that names the session.
    pub(super) fn batch(&self, session: &str, ops: Vec<Op>, message: &str) -> Batch {
        let author = self.author.clone().or(&Author::agent(&self.agent).with_user(&self.user));
        Batch::new(ops).author(author.with_session(session)).message(format!("{message} {session}"))
    }
}

/// Returns the `NotFound` of a session that does not exist.
pub(super) fn missing(session: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{session}: there is no such session; create it first"))
}
