//! The one tree that an agent sees in a chat, made of views of its account.

mod account_views;
mod directories;
mod free_name;
mod identity;
mod skill;
mod user_memory;

use std::sync::Arc;

pub use self::account_views::{OwnSessions, Reach};
use self::directories::Directories;
pub use self::free_name::write_free;
pub use self::identity::Identity;
pub use self::skill::Skill;
pub use self::user_memory::{MEMORY, Memory, memory};
use crate::boxed;
pub use crate::session_class::MAIN;
use garth_engine::error::Result;
use garth_engine::fs::{AccountStore, FileSystem};
use garth_engine::model::{Confinement, Owner, Within};
use garth_engine::path::TreePath;
use garth_engine::view::Mount;

/// Most bytes of one upload, unless the builder says otherwise.
pub const MAX_UPLOAD: u64 = 10 << 20;

/// The tree of an agent in a chat, to be put together.
///
/// | path | is |
/// |---|---|
/// | `/` | `chats/{chat}` of the account |
/// | `/.agent` | `agents/{agent}` |
/// | `/.user` | `users/{user}/agents/{agent}` |
/// | `/skills/{skill}` | the account's skill, the agent's over it, a writable layer above: see [`Skill`] |
/// | `/ctx/users/{user}/memories` | `users/{user}/memories` |
/// | `/ctx/home/{user}/agent/{agent}/session` | `users/{user}/agents/{agent}/session` |
///
/// In any class but [`MAIN`], `MEMORY.md`, `memory` and `sessions` of the agent are not there, and of the
/// sessions only the one that the tree is for, without the `meta.json` that says its class. Every commit
/// through the tree has its author, whatever a batch says. Nothing else of the account can be reached.
///
/// ```
/// use garth::agent::{AgentTree, Identity};
/// use garth::{DataDir, Env, FileSystemExt};
///
/// # futures::executor::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let data = garth::open(folder.path().join("data"))?;
/// data.create_account("default").await?;
/// let account = data.account("default").await?;
///
/// let who = Identity::new("ann", "scout", "trip", "main")?;
/// let tree = AgentTree::new(&*account, who).open().await?;
/// tree.write("/plan.md", "1. pack\n").await?;
/// tree.rename("/plan.md", "/.user/plan.md").await?;
/// assert!(account.exists("/users/ann/agents/scout/plan.md").await?);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct AgentTree<'a> {
    account: &'a dyn AccountStore,
    who: Identity,
    skills: Vec<Skill>,
    largest_upload: u64,
    creates: bool,
}

impl<'a> AgentTree<'a> {
    /// The tree of an agent in an account.
    pub fn new(account: &'a dyn AccountStore, who: Identity) -> Self {
        Self { account, who, skills: Vec::new(), largest_upload: MAX_UPLOAD, creates: true }
    }

    /// With these skills.
    #[must_use]
    pub fn skills(self, skills: impl IntoIterator<Item = Skill>) -> Self {
        Self { skills: skills.into_iter().collect(), ..self }
    }

    /// One upload, or one operation with content, brings at most so many bytes: [`MAX_UPLOAD`] without this.
    #[must_use]
    pub fn largest_upload(self, bytes: u64) -> Self {
        Self { largest_upload: bytes, ..self }
    }

    /// Sets whether missing directories of the account that the tree is made of are created. They are by
    /// default. A directory that is missing shows as empty, and nothing can be created in it; without that of
    /// the chat even `/` is `NotFound`.
    #[must_use]
    pub fn create(self, creates: bool) -> Self {
        Self { creates, ..self }
    }

    /// Creates the missing directories that the tree is made of, in one commit, as `open` does.
    ///
    /// # Errors
    /// As [`AgentTree::open`].
    #[boxed]
    pub async fn make(&self) -> Result<()> {
        let found = skill::find(&*self.account.raw(), &self.who, &self.skills).await?;
        directories::make(self.account, &Directories::of(&self.who)?, &self.who, skill::keeps(&found)).await
    }

    /// The tree. What is missing is made in one commit.
    ///
    /// # Errors
    /// `NotFound` for a skill that neither the account nor the agent has; `AlreadyExists` if the account has
    /// a file where a directory is needed, or a `/.garth` of its own that a skill needs; from the storage.
    pub async fn open(self) -> Result<Arc<dyn FileSystem>> {
        let (raw, who) = (self.account.raw(), &self.who);
        let dirs = Directories::of(who)?;
        let found = skill::find(&*raw, who, &self.skills).await?;
        if self.creates {
            directories::make(self.account, &dirs, who, skill::keeps(&found)).await?;
        }
        let to = Confinement::new(reach(&dirs, &found)?, who.owner()?).author(who.author());
        let base = raw.confined(&to).await?;
        let mut tree = Mount::builder(&*base, &dirs.chat, Owner::new("tree")?)
            .directory(TreePath::parse("/.agent")?, dirs.agent.clone())
            .directory(TreePath::parse("/.user")?, dirs.user.clone())
            .directory(dirs.shown_memories.clone(), dirs.memories.clone())
            .largest_body(self.largest_upload);
        for (at, sessions) in &dirs.sessions {
            tree = tree.directory(at.clone(), sessions.clone());
        }
        for skill in found {
            tree = skill.mounted(tree, &base).await?;
        }
        tree.open().await
    }
}

/// The paths of the account that the tree is made of.
fn reach(dirs: &Directories, skills: &[skill::Found<'_>]) -> Result<Within> {
    let mut tops = vec![dirs.chat.clone(), dirs.agent.clone(), dirs.user.clone(), dirs.memories.clone()];
    for skill in skills {
        tops.extend(skill.reach()?);
    }
    let within = Within::new(tops).without(dirs.left_out.iter().cloned());
    Ok(within.with(dirs.own_session.iter().cloned()).without(dirs.own_meta.iter().cloned()))
}
