//! Access of calls to files: opens the parts of the tree that the caller may reach.

use std::sync::Arc;

use garth_agent::kv::{Kv, KvResult};
use garth_agent::media::Media;
use garth_agent::memory::Memories;
use garth_agent::recall::Recaller;
use garth_agent::search::Searcher;
use garth_agent::session::Sessions;
use garth_agent::workspace::Workspace;
use garth_agent::{self as agent, Access};
use garth_engine::model::Author;
use garth_engine::{AccountStore, Env, FileSystem};

use super::call::Call;
use super::tree::Tree;
use crate::errors::Refusal;

/// Tree that a call may reach.
pub(super) struct Opened<'a> {
    call: &'a Call<'a>,
    /// Access of the identity; `None` for the account itself.
    access: Option<Access>,
}

/// Opens the tree for a write, and creates missing directories.
pub(super) async fn open<'a>(call: &'a Call<'a>, tree: Tree) -> Result<Opened<'a>, Refusal> {
    let opened = reach(call, tree).await?;
    // The answer to a repeat is recorded; it needs no directories.
    if !call.once.is_repeat() {
        opened.make().await?;
    }
    Ok(opened)
}

/// Opens the tree and creates nothing.
pub(super) async fn reach<'a>(call: &'a Call<'a>, tree: Tree) -> Result<Opened<'a>, Refusal> {
    let Some(request) = call.caller.request(tree)? else { return Ok(Opened { call, access: None }) };
    let access = Access::open(call.account, call.env, agent::Caller::ApiKey, &request).await?;
    Ok(Opened { call, access: Some(access.by_key(&call.key.id)) })
}

impl Opened<'_> {
    /// Creates the missing directories of the identity.
    pub(super) async fn make(&self) -> Result<(), Refusal> {
        match &self.access {
            Some(access) => Ok(access.make().await?),
            None => Ok(()),
        }
    }

    /// Returns the access of the identity.
    fn access(&self) -> Result<&Access, Refusal> {
        let missing = || Refusal::internal().because("a call without an identity asks for what one reaches");
        self.access.as_ref().ok_or_else(missing)
    }

    /// Returns the keys and values of the agent.
    pub(super) fn key_values(&self) -> KvResult<Kv<'_>> {
        Ok(Kv::new(self.call.account, self.call.caller.namespace())?.by_key(&self.call.key.id))
    }

    /// Returns the memories.
    pub(super) fn memories(&self) -> Memories<'_> {
        let account = self.call.key.share();
        let memories = match &self.access {
            Some(access) => access.memories(account),
            None => {
                let author = Author::key(&self.call.key.id);
                Memories::new(&**self.call.account, account).env(self.call.env.clone()).author(author)
            }
        };
        memories.once(self.call.once.clone())
    }

    /// Returns the sessions of the audience with the agent.
    pub(super) fn sessions(&self) -> Result<Sessions<'_>, Refusal> {
        Ok(self.access()?.sessions().once(self.call.once.clone()))
    }

    /// Returns the workspace of the agent.
    pub(super) fn workspace(&self) -> Result<Workspace<'_>, Refusal> {
        let workspace = self.access()?.workspace().cache(self.call.prompts, self.call.key.share());
        Ok(workspace.once(self.call.once.clone()))
    }

    /// Returns the media of the sessions.
    pub(super) fn media(&self) -> Result<Media<'_>, Refusal> {
        Ok(self.access()?.media().once(self.call.once.clone()))
    }

    /// Returns true for the tree of an identity, and false for the account itself.
    pub(super) fn is_of_identity(&self) -> bool {
        self.access.is_some()
    }

    /// Returns the tree to recall from, or to search in.
    pub(super) async fn recalled(&self) -> Result<Recalled, Refusal> {
        let (account, env) = (self.call.key.share().to_owned(), self.call.env.clone());
        let (fs, places): (Arc<dyn FileSystem>, _) = match &self.access {
            // A read creates no directories.
            Some(access) => (access.tree().create(false).open().await?, Some(access.memory_places())),
            None => (Arc::<dyn AccountStore>::clone(self.call.account), None),
        };
        Ok(Recalled { fs, places, account, env })
    }
}

/// Tree to recall from, or to search in.
pub(super) struct Recalled {
    fs: Arc<dyn FileSystem>,
    places: Option<Vec<(garth_engine::TreePath, garth_engine::TreePath)>>,
    account: String,
    pub(super) env: Env,
}

impl Recalled {
    /// Returns the recaller of the tree.
    pub(super) fn recaller(&self) -> Recaller<'_> {
        let recaller = Recaller::new(&*self.fs, &self.account).env(self.env.clone());
        self.places.iter().fold(recaller, |recaller, places| recaller.places(places.clone()))
    }

    /// Returns the searcher of the tree.
    pub(super) fn searcher(&self) -> Searcher<'_> {
        let searcher = Searcher::new(&*self.fs, &self.account).env(self.env.clone());
        self.places.iter().fold(searcher, |searcher, places| searcher.places(places.clone()))
    }
}
