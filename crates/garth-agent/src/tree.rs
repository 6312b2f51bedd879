//! Tree that an agent sees in a chat, built from views of its account.

pub(crate) mod directories;
mod skill;
mod user_memory;

use std::sync::Arc;

use self::directories::{There, kept, kinds_at};
pub use self::skill::Skill;
pub use self::user_memory::{USER_MEMORY, UserMemory, user_memory};
use crate::boxed;
use crate::chat;
pub use crate::free_name::write_free;
use crate::identity::places::Places;
use crate::identity::{AccessPolicy, Identity};
use garth_engine::error::Result;
use garth_engine::fs::{AccountStore, FileSystem};
use garth_engine::model::{Author, Confinement, Owner, Within};
use garth_engine::path::TreePath;
use garth_engine::view::Mount;

/// Default limit on the bytes of one upload.
pub const MAX_UPLOAD: u64 = 10 << 20;

/// Builder of the tree of an agent in a chat: see [`Access::tree`](crate::access::Access::tree).
///
/// | path | content |
/// |---|---|
/// | `/` | `chats/{chat}` of the account |
/// | `/.agent` | `agents/{agent}` |
/// | `/.user` | `users/{audience}/agents/{agent}` |
/// | `/skills/{skill}` | the account's skill, the agent's over it, a writable layer above: see [`Skill`] |
/// | `/ctx/skills` | `skills`, read-only |
/// | `/ctx/users/{audience}/memories` | `users/{audience}/memories` |
/// | `/ctx/home/{audience}/agent/{agent}/session` | `users/{audience}/agents/{agent}/session`, as an alias |
///
/// In the classes `dm` and `group`, `/.agent` only has the parts that are open to others, read-only, and
/// those that the agent's settings share; sessions with fewer listeners are hidden. Every commit through the
/// tree has the author of the tree, whatever author a batch names. Nothing else of the account can be
/// reached.
///
/// ```
/// use garth::FileSystemExt;
///
/// # futures::executor::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let data = garth::open(folder.path().join("data"))?;
/// let chat = data.agent("scout").user("ann").chat("trip").open().await?;
/// let tree = chat.files();
/// tree.write("/plan.md", "1. pack\n").await?;
/// tree.rename("/plan.md", "/.user/plan.md").await?;
/// let account = data.dir().account("default").await?;
/// assert!(account.exists("/users/ann/agents/scout/plan.md").await?);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct AgentTree {
    account: Arc<dyn AccountStore>,
    who: Identity,
    policy: Arc<AccessPolicy>,
    places: Arc<Places>,
    author: Author,
    skills: Vec<Skill>,
    largest_upload: u64,
    creates: bool,
}

impl AgentTree {
    pub(crate) fn of(
        account: &Arc<dyn AccountStore>,
        who: &Identity,
        policy: &Arc<AccessPolicy>,
        places: &Arc<Places>,
    ) -> Self {
        let (account, policy, places) = (Arc::clone(account), Arc::clone(policy), Arc::clone(places));
        let (author, skills, largest_upload) = (who.author(), Vec::new(), MAX_UPLOAD);
        Self { account, who: who.clone(), policy, places, author, skills, largest_upload, creates: true }
    }

    /// Sets the author of all commits.
    pub(crate) fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// Sets the skills that the tree shows.
    #[must_use]
    pub fn skills(self, skills: impl IntoIterator<Item = Skill>) -> Self {
        Self { skills: skills.into_iter().collect(), ..self }
    }

    /// Sets the limit on the bytes of one upload, and of one operation with content. It is [`MAX_UPLOAD`] by
    /// default.
    #[must_use]
    pub fn largest_upload(self, bytes: u64) -> Self {
        Self { largest_upload: bytes, ..self }
    }

    /// Sets if missing directories of the tree are created in the account, which is the default. Otherwise a
    /// missing directory, also `/` of a chat that does not exist yet, is empty and read-only. It has no
    /// history.
    #[must_use]
    pub fn create(self, creates: bool) -> Self {
        Self { creates, ..self }
    }

    /// Creates the missing directories of the tree in one commit, as `open` does.
    ///
    /// # Errors
    /// As [`AgentTree::open`].
    #[boxed]
    pub async fn make(&self) -> Result<()> {
        let raw = self.account.raw();
        // Before anything is created: nobody may create directories in the name of another audience.
        chat::check(&*raw, &self.policy, &self.who, &self.places.chat).await?;
        let found = skill::find(&*raw, &self.who, &self.skills).await?;
        self.make_directories(skill::keeps(&found)).await
    }

    async fn make_directories(&self, keeps_skills: bool) -> Result<()> {
        if self.places.bounds.keeps_directories {
            return Ok(());
        }
        directories::make(&*self.account, (&self.policy, &self.who, &self.places), keeps_skills).await
    }

    /// Opens the tree. Creates its missing directories in one commit, unless [`AgentTree::create`] forbids
    /// it.
    ///
    /// # Errors
    /// - `AccessDenied`: the chat belongs to another audience.
    /// - `NotFound`: neither the account nor the agent has a skill.
    /// - `AlreadyExists`: the account has a file where a directory is needed, or a `/.garth` of its own where
    ///   a skill needs one.
    /// - Errors of the storage.
    pub async fn open(self) -> Result<Arc<dyn FileSystem>> {
        let (raw, who, places) = (self.account.raw(), &self.who, &*self.places);
        chat::check(&*raw, &self.policy, who, &places.chat).await?;
        let found = skill::find(&*raw, who, &self.skills).await?;
        if self.creates {
            self.make_directories(skill::keeps(&found)).await?;
        }
        // Confined in the engine as well, not by mounts alone: a hard link to a file leads around a mount.
        let to = Confinement::new(reach(places, &found)?, places.owner(who)?)
            .read_only(self.read_only()?)
            .gated(places.gates.clone())
            .author(self.author.clone());
        let base = raw.confined(&to).await?;
        let optional: Vec<&TreePath> =
            places.parts.iter().filter(|part| part.optional).map(|part| &part.root).collect();
        let mut kinds = kinds_at(&*raw, &optional).await?.into_iter();
        let mut tree = Mount::builder(&*base, &places.chat, Owner::new("tree")?)
            .largest_body(self.largest_upload)
            // Nobody has written to the chat yet. A chat out of reach stays missing.
            .empty_root(places.within.contains(&places.chat));
        for part in places.parts.iter().filter(|part| !part.at.is_root()) {
            if !part.optional || kinds.next().is_some_and(|there| there != There::Nothing) {
                tree = tree.directory(part.at.clone(), part.root.clone());
                if part.is_alias {
                    tree = tree.alias();
                }
            }
        }
        for skill in found {
            tree = skill.mounted(tree, &base).await?;
        }
        tree.open().await
    }

    /// Returns the read-only paths of the tree. For others than the owner they include the record of the
    /// files that the agent's skills hide.
    fn read_only(&self) -> Result<Within> {
        let hides = (!self.who.is_main()).then(|| kept(self.who.agent())).transpose()?;
        Ok(self.places.read_only.with(hides))
    }
}

/// Returns the paths of the account that the tree is built from.
fn reach(places: &Places, skills: &[skill::SkillLayers<'_>]) -> Result<Within> {
    let mut tops = Vec::new();
    for skill in skills {
        tops.extend(skill.reach()?);
    }
    Ok(places.within.with(tops))
}
