//! The one tree that an agent sees in a chat, made of views of its account.

mod homes;
mod nodes;
mod skill;
mod template;
mod upload;

use std::sync::Arc;

use self::homes::Homes;
pub use self::nodes::{OwnSessions, Reach};
pub use self::skill::Skill;
pub use self::template::{MEMORY, Memory, memory};
pub use self::upload::write_free;
use crate::boxed;
use garth_engine::error::Result;
use garth_engine::fs::{AccountStore, FileSystem};
use garth_engine::model::{Author, Confinement, Owner, Within};
use garth_engine::path::{TreePath, check_id};
use garth_engine::view::Mount;

/// The class of sessions in which an agent's own memory is there.
pub const MAIN: &str = "main";

/// Most bytes of one upload, unless the builder says otherwise.
pub const MAX_UPLOAD: u64 = 10 << 20;

/// For whom a tree is: an agent that serves a user in a chat.
///
/// Each is an id: 1 to 128 bytes of UTF-8 without `/` and control characters, not `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    user: String,
    agent: String,
    chat: String,
    class: String,
    session: Option<String>,
}

impl Identity {
    /// An agent that serves a user in a chat, in a session of this class: [`MAIN`], or any other for one in
    /// which others than the user can have spoken.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no id.
    pub fn new(user: &str, agent: &str, chat: &str, class: &str) -> Result<Self> {
        for (what, id) in [("user", user), ("agent", agent), ("chat", chat), ("class", class)] {
            check_id(what, id)?;
        }
        let [user, agent, chat, class] = [user, agent, chat, class].map(str::to_owned);
        Ok(Self { user, agent, chat, class, session: None })
    }

    /// The user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The agent.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The same in this session.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no id.
    pub fn with_session(self, session: &str) -> Result<Self> {
        check_id("session", session)?;
        Ok(Self { session: Some(session.to_owned()), ..self })
    }

    fn author(&self) -> Author {
        let author = Author::agent(&self.agent).with_user(&self.user).with_class(&self.class);
        match &self.session {
            Some(session) => author.with_session(session),
            None => author,
        }
    }

    /// Whose snapshots, commit ids and idempotency keys: an id has no `/`, so no two have one label.
    fn owner(&self) -> Result<Owner> {
        Owner::new(&format!("agent/{}/{}/{}", self.user, self.agent, self.chat))
    }
}

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

    /// Whether to make the directories that the tree is made of, where they are missing: so without this.
    /// Where one is not made, it shows as an empty directory, in which nothing can be made; of a chat that is
    /// not made even `/` is `NotFound`.
    #[must_use]
    pub fn create(self, creates: bool) -> Self {
        Self { creates, ..self }
    }

    /// Makes the directories that the tree is made of, where they are missing, in one commit, as `open` does.
    ///
    /// # Errors
    /// As [`AgentTree::open`].
    #[boxed]
    pub async fn make(&self) -> Result<()> {
        let found = skill::find(&*self.account.raw(), &self.who, &self.skills).await?;
        homes::make(self.account, &Homes::of(&self.who)?, &self.who, skill::keeps(&found)).await
    }

    /// The tree. What is missing is made in one commit.
    ///
    /// # Errors
    /// `NotFound` for a skill that neither the account nor the agent has; `AlreadyExists` if the account has
    /// a file where a directory is needed, or a `/.garth` of its own that a skill needs; from the storage.
    pub async fn open(self) -> Result<Arc<dyn FileSystem>> {
        let (raw, who) = (self.account.raw(), &self.who);
        let homes = Homes::of(who)?;
        let found = skill::find(&*raw, who, &self.skills).await?;
        if self.creates {
            homes::make(self.account, &homes, who, skill::keeps(&found)).await?;
        }
        let to = Confinement::new(reach(&homes, &found)?, who.owner()?).author(who.author());
        let base = raw.confined(&to).await?;
        let mut tree = Mount::builder(&*base, &homes.chat, Owner::new("tree")?)
            .directory(TreePath::parse("/.agent")?, homes.agent.clone())
            .directory(TreePath::parse("/.user")?, homes.user.clone())
            .directory(homes.shown_memories.clone(), homes.memories.clone())
            .largest_body(self.largest_upload);
        for (at, sessions) in &homes.sessions {
            tree = tree.directory(at.clone(), sessions.clone());
        }
        for skill in found {
            tree = skill.mounted(tree, &base).await?;
        }
        tree.open().await
    }
}

/// The paths of the account that the tree is made of.
fn reach(homes: &Homes, skills: &[skill::Found<'_>]) -> Result<Within> {
    let mut tops = vec![homes.chat.clone(), homes.agent.clone(), homes.user.clone(), homes.memories.clone()];
    for skill in skills {
        tops.extend(skill.reach()?);
    }
    let within = Within::new(tops).without(homes.left_out.iter().cloned());
    Ok(within.with(homes.own_session.iter().cloned()).without(homes.own_meta.iter().cloned()))
}
