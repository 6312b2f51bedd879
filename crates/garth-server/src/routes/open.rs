//! Access of calls to files: opens the part of the account that a call reaches, and gives each store the
//! state of the call.

use std::sync::Arc;

use garth_agent::access::{Family, Grounds, Reach};
use garth_agent::kv::{Kv, KvResult};
use garth_agent::media::Media;
use garth_agent::memory::Memories;
use garth_agent::recall::Recaller;
use garth_agent::search::Searcher;
use garth_agent::session::Sessions;
use garth_agent::workspace::Workspace;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::Author;
use garth_engine::{AccountStore, Env, Error, FileSystem, TreePath};

use super::call::Call;
use super::tree::Tree;
use crate::errors::Refusal;

/// Tree that a call may reach.
pub(crate) struct Opened<'a> {
    call: &'a Call<'a>,
    grounds: Grounds,
    /// True if the tree of a call on files creates its missing directories.
    creates: bool,
}

/// Opens the tree for a write, and creates missing directories.
pub(crate) async fn open<'a>(call: &'a Call<'a>, tree: Tree) -> Result<Opened<'a>, Refusal> {
    let opened = reach(call, tree).await?;
    // The answer to a repeat is recorded; it needs no directories.
    if call.once.is_repeat() {
        return Ok(opened);
    }
    if tree == Tree::Files {
        // The tree has directories of its own, which are created when it is built.
        return Ok(Opened { creates: true, ..opened });
    }
    opened.make().await?;
    Ok(opened)
}

/// Opens the tree and creates nothing.
pub(crate) async fn reach<'a>(call: &'a Call<'a>, tree: Tree) -> Result<Opened<'a>, Refusal> {
    let grounds = call.reach.open(tree.family()).await.map_err(outside)?;
    Ok(Opened { call, grounds, creates: false })
}

/// Opens the files of a call whose body or answer is not JSON. `creates` creates missing directories.
pub(super) async fn files(call: &Call<'_>, creates: bool) -> Result<Arc<dyn FileSystem>, Refusal> {
    let opened = reach(call, Tree::Files).await?;
    Opened { creates: creates && !call.once.is_repeat(), ..opened }.files().await
}

/// Opens the files that a request reaches, and creates nothing. For a call that goes on, and opens them again
/// for each of its reads.
pub(super) async fn files_of(reach: &Reach) -> Result<Arc<dyn FileSystem>, Refusal> {
    let grounds = reach.open(Family::Files).await.map_err(outside)?;
    grounds.tree(false).await.map_err(outside)
}

/// Returns the refusal of an error that is found before there is a tree of the call. Its path is one of the
/// account, which the caller may not reach.
fn outside(error: Error) -> Refusal {
    Refusal::from(error).without_path()
}

impl Opened<'_> {
    /// Returns the path in the tree of a path of the account; `None` if the tree shows no directory above it.
    pub(crate) fn shown(&self, own: &TreePath) -> Option<TreePath> {
        match self.grounds.memory_places() {
            None => Some(own.clone()),
            Some(places) => places.iter().find_map(|(shown, place)| own.rebase(place, shown)?.ok()),
        }
    }

    /// Creates the missing directories of the identity.
    pub(super) async fn make(&self) -> Result<(), Refusal> {
        self.grounds.make().await.map_err(outside)
    }

    /// Returns the author of the commits of the call.
    pub(crate) fn author(&self) -> Author {
        self.grounds.author()
    }

    /// Returns the keys and values of the agent.
    pub(super) fn key_values(&self) -> KvResult<Kv<'_>> {
        Ok(self.grounds.key_values(self.call.caller.namespace())?.once(self.call.once.clone()))
    }

    /// Returns the memories.
    pub(crate) fn memories(&self) -> Result<Memories<'_>, Refusal> {
        Ok(self.grounds.memories(self.call.key.share())?.once(self.call.once.clone()))
    }

    /// Returns the sessions of the audience with the agent.
    pub(super) fn sessions(&self) -> Result<Sessions<'_>, Refusal> {
        let sessions = self.grounds.sessions()?.cache(self.call.prompts.tokens(), self.call.key.share());
        Ok(sessions.once(self.call.once.clone()))
    }

    /// Returns the workspace of the agent.
    pub(crate) fn workspace(&self) -> Result<Workspace<'_>, Refusal> {
        let workspace = self.grounds.workspace()?.cache(self.call.prompts, self.call.key.share());
        Ok(workspace.once(self.call.once.clone()))
    }

    /// Returns the media of the sessions.
    pub(super) fn media(&self) -> Result<Media<'_>, Refusal> {
        Ok(self.grounds.media()?.once(self.call.once.clone()))
    }

    /// Returns the files of the identity, or of the account for a free key that names nobody.
    pub(crate) async fn files(&self) -> Result<Arc<dyn FileSystem>, Refusal> {
        self.grounds.tree(self.creates).await.map_err(outside)
    }

    /// Returns the tree of the identity for the memory tool. `creates` creates its missing directories.
    pub(super) async fn tree_of_memory_tool(&self, creates: bool) -> Result<Arc<dyn FileSystem>, Refusal> {
        // The answer to a repeat is recorded; it needs no directories.
        self.grounds.tree(creates && !self.call.once.is_repeat()).await.map_err(outside)
    }

    /// Returns the account, for its administration.
    pub(super) fn account(&self) -> Result<Arc<dyn AccountStore>, Refusal> {
        Ok(Arc::clone(self.grounds.account()?))
    }

    /// Returns the tree to recall from, or to search in.
    pub(crate) async fn recalled(&self) -> Result<Recalled, Refusal> {
        let (account, env) = (self.call.key.share().to_owned(), self.call.env.clone());
        let (fs, places) = (self.grounds.searched().await?, self.grounds.memory_places());
        Ok(Recalled { fs, places, account, env })
    }
}

/// Tree to recall from, or to search in.
pub(crate) struct Recalled {
    fs: Arc<dyn FileSystem>,
    places: Option<Vec<(TreePath, TreePath)>>,
    account: String,
    pub(crate) env: Env,
}

impl Recalled {
    /// Returns the recaller of the tree.
    pub(crate) fn recaller(&self) -> Recaller<'_> {
        let recaller = Recaller::new(&*self.fs, &self.account).env(self.env.clone());
        self.places.iter().fold(recaller, |recaller, places| recaller.places(places.clone()))
    }

    /// Returns a path without links, if something exists there.
    ///
    /// # Errors
    /// `NotFound`; for an invalid path.
    pub(crate) async fn existing(&self, path: &str) -> Result<TreePath, Refusal> {
        Ok(resolve::stat(&*self.fs, path, Follow::Yes).await?.0)
    }

    /// Returns the searcher of the tree.
    pub(crate) fn searcher(&self) -> Searcher<'_> {
        let searcher = Searcher::new(&*self.fs, &self.account).env(self.env.clone());
        self.places.iter().fold(searcher, |searcher, places| searcher.places(places.clone()))
    }
}
