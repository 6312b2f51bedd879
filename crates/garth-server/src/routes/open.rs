//! The one way from a call to files: opens the tree that the call is on, as far as its caller reaches it.

use std::sync::Arc;

use garth::agent::AgentTree;
use garth::agent::kv::{Kv, KvResult};
use garth::agent::media::Media;
use garth::agent::node::Nodes;
use garth::agent::session::Sessions;
use garth::agent::workspace::Workspace;
use garth::model::Author;
use garth::{FileSystem, TreePath};

use super::call::Call;
use super::tree::Tree;
use crate::errors::Refusal;

/// Where context nodes are in the tree of a chat, each with its path in the account.
pub(super) type Places = Vec<(TreePath, TreePath)>;

/// Open tree of a call.
pub(super) struct Opened<'a> {
    call: &'a Call<'a>,
    /// Tree of the account, or the part of it that the caller reaches.
    fs: Arc<dyn FileSystem>,
    author: Author,
    /// Directories of nodes, in a chat.
    tops: Option<Vec<TreePath>>,
    /// The only session that is there, if not all are.
    only: Option<String>,
    places: Option<Places>,
}

/// Opens the tree of a call.
pub(super) async fn open<'a>(call: &'a Call<'a>, tree: Tree) -> Result<Opened<'a>, Refusal> {
    let fs: Arc<dyn FileSystem> = Arc::<dyn garth::AccountStore>::clone(call.account);
    let mut opened = Opened { call, fs, author: author(call), tops: None, only: None, places: None };
    let who = match tree {
        Tree::Nodes | Tree::Recall | Tree::Sessions => call.caller.identity()?,
        Tree::KeyValues | Tree::Workspace | Tree::UserWorkspace | Tree::Media | Tree::None => None,
    };
    let Some(who) = who else { return Ok(opened) };
    let places = who.places()?;
    let agent_tree = AgentTree::new(&**call.account, who).create(call.writes && !call.once.is_repeat());
    match tree {
        Tree::Nodes => {
            let reach = agent_tree.nodes().await?;
            (opened.fs, opened.tops) = (reach.fs, Some(reach.tops));
            // The view adds the agent and the user.
            opened.author = Author::default();
            opened.author.key = Some(call.key.id.clone());
        }
        Tree::Sessions => {
            let own = agent_tree.sessions().await?;
            (opened.fs, opened.only) = (own.fs, own.only);
        }
        _ => (opened.fs, opened.places) = (agent_tree.open().await?, Some(places)),
    }
    Ok(opened)
}

fn author(call: &Call<'_>) -> Author {
    let caller = &call.caller;
    let mut author = match &*caller.agent {
        "" => Author::default(),
        agent => Author::agent(agent),
    };
    if let Some(user) = &caller.user {
        author = author.with_user(&**user);
    }
    if let Some(class) = &caller.class {
        author = author.with_class(&**class);
    }
    author.with_key(&call.key.id)
}

impl Opened<'_> {
    /// Returns the keys and values of the agent.
    pub(super) fn key_values(&self) -> KvResult<Kv<'_>> {
        Kv::new(&*self.fs, &self.call.caller.agent, Some(&self.call.key.id))
    }

    /// Returns the context nodes.
    pub(super) fn nodes(&self) -> Nodes<'_> {
        let nodes = Nodes::new(&*self.fs, &self.call.key.account, self.call.env.clone());
        let nodes = match &self.tops {
            Some(tops) => nodes.tops(tops.clone()),
            None => nodes,
        };
        nodes.author(self.author.clone()).once(self.call.once.clone())
    }

    /// Returns the sessions of the agent with the user.
    pub(super) fn sessions(&self) -> Result<Sessions<'_>, Refusal> {
        let (call, caller) = (self.call, &self.call.caller);
        let sessions = Sessions::new(&*self.fs, caller.user(), &caller.agent, self.call.env.clone())?;
        let sessions = sessions.author(self.author.clone()).only(self.only.clone());
        Ok(sessions.once(call.once.clone()))
    }

    /// Returns the workspace of the agent.
    pub(super) fn workspace(&self) -> Result<Workspace<'_>, Refusal> {
        let call = self.call;
        let workspace = Workspace::new(&**call.account, &call.caller.agent, call.env.clone())?;
        let workspace = workspace.author(self.author.clone()).cache(call.prompts, &call.key.account);
        Ok(workspace.once(call.once.clone()))
    }

    /// Returns the media of the account.
    pub(super) fn media(&self) -> Media<'_> {
        let media = Media::new(&*self.fs, self.call.env.clone()).author(self.author.clone());
        media.once(self.call.once.clone())
    }

    /// Returns the files, and where context nodes are in them.
    pub(super) fn files(&self) -> (Arc<dyn FileSystem>, Option<Places>) {
        (Arc::clone(&self.fs), self.places.clone())
    }
}
