//! The workspace of an agent: the files that its prompt is made of, its skills and daily memory, the archives of
//! its sessions and their media. `docs/specs/workspace.md` describes them.

use crate::env::Env;
use crate::error::Result;
use crate::fs::FileSystem;
use crate::model::{Author, Batch, Op};
use crate::path::{TreePath, check_id};

/// The workspace of an agent in an account.
#[derive(Clone, Debug)]
pub struct Workspace<'a> {
    fs: &'a dyn FileSystem,
    env: Env,
    author: Author,
    agent: String,
}

impl<'a> Workspace<'a> {
    /// The workspace of `agent` in an account, whose tree is `fs`.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no id.
    pub fn new(fs: &'a dyn FileSystem, agent: &str, env: Env) -> Result<Self> {
        check_id("agent", agent)?;
        Ok(Self { fs, env, author: Author::default(), agent: agent.to_owned() })
    }

    /// In the name of this author.
    #[must_use]
    pub fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// The directory of the agent.
    fn home(&self) -> Result<TreePath> {
        Ok(TreePath::parse(&format!("/agents/{}", self.agent))?)
    }

    /// A file below it; `name` may have several segments.
    fn file(&self, name: &str) -> Result<TreePath> {
        Ok(TreePath::parse(&format!("{}/{name}", self.home()?))?)
    }

    fn batch(&self, ops: Vec<Op>, message: &str) -> Batch {
        Batch::new(ops).author(self.author.clone().or(&Author::agent(&self.agent))).message(message)
    }
}
