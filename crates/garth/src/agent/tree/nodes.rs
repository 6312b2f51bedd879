//! What an agent reaches of the context nodes of its account: the user's memories, its own, and its skills.

use std::sync::Arc;

use super::homes::{Homes, are_there};
use super::{AgentTree, Identity};
use crate::agent::node::OUTBOX;
use crate::error::Result;
use crate::fs::FileSystem;
use crate::model::{Batch, Confinement, Op, Within};
use crate::path::TreePath;

/// See [`AgentTree::nodes`].
#[derive(Debug)]
pub struct Reach {
    /// The tree of the account, as far as the agent's context nodes are in it.
    pub fs: Arc<dyn FileSystem>,
    /// The directories of nodes in it.
    pub tops: Vec<TreePath>,
}

impl Identity {
    /// Where the directories of context nodes are in the tree, each with its path in the account: see
    /// [`AgentTree`].
    ///
    /// # Errors
    /// `InvalidArgument` for an id that makes no path.
    pub fn places(&self) -> Result<Vec<(TreePath, TreePath)>> {
        let homes = Homes::of(self)?;
        let agent = (TreePath::parse("/.agent")?, homes.agent);
        Ok(vec![agent, (homes.shown_memories, homes.memories)])
    }
}

impl AgentTree<'_> {
    /// The account's tree under its own paths, with the context nodes of the user and the agent in it and
    /// nothing else: what [`Nodes`](crate::agent::node::Nodes) of this agent are made on. Besides nodes it has
    /// the account's [`OUTBOX`], since the end of a node is told of there: nothing but `Nodes` is to be given
    /// to the agent.
    ///
    /// # Errors
    /// As [`AgentTree::open`].
    pub async fn nodes(&self) -> Result<Reach> {
        let raw = self.account.raw();
        let homes = Homes::of(&self.who)?;
        let below = |name: &str| TreePath::from_row(homes.agent.key(), name);
        let tops = vec![below("memories"), below("skills"), homes.memories.clone()];
        let outbox = TreePath::from_row("", OUTBOX);
        if self.creates {
            let wanted: Vec<&TreePath> = tops.iter().chain([&outbox]).collect();
            let there = are_there(&*raw, &wanted).await?;
            let missing = wanted.iter().zip(&there).filter(|(_, there)| !**there);
            let ops: Vec<Op> = missing.map(|(path, _)| Op::mkdir_all((*path).clone())).collect();
            if !ops.is_empty() {
                let batch = Batch::new(ops).author(self.who.author()).message("open the nodes of an agent");
                raw.commit(batch).await?;
            }
        }
        let within = Within::new(tops.iter().cloned().chain([outbox]));
        let to = Confinement::new(within, self.who.owner()?).author(self.who.author());
        Ok(Reach { fs: raw.confined(&to).await?, tops })
    }
}
