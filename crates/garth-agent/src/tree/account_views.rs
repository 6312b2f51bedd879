//! Views of an account that keep the account's own paths and show one agent's part of it: its context nodes
//! (the user's memories, its own, and its skills), or its sessions with the user.

use std::sync::Arc;

use super::AgentTree;
use super::directories::{Directories, are_there};
use super::identity::Identity;
use crate::boxed;
use crate::node::OUTBOX;
use crate::session_class::MAIN;
use garth_engine::error::{Error, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Batch, Confinement, Op, Within};
use garth_engine::path::TreePath;

/// See [`AgentTree::nodes`].
#[derive(Debug)]
pub struct Reach {
    /// The tree of the account, as far as the agent's context nodes are in it.
    pub fs: Arc<dyn FileSystem>,
    /// The directories of nodes in it.
    pub tops: Vec<TreePath>,
}

/// See [`AgentTree::sessions`].
#[derive(Debug)]
pub struct OwnSessions {
    /// The tree of the account, as far as the agent's sessions are in it.
    pub fs: Arc<dyn FileSystem>,
    /// The only session that is there, if it is not all.
    pub only: Option<String>,
}

impl Identity {
    /// Where the directories of context nodes are in the tree, each with its path in the account: see
    /// [`AgentTree`].
    ///
    /// # Errors
    /// `InvalidArgument` for an id that makes no path.
    pub fn places(&self) -> Result<Vec<(TreePath, TreePath)>> {
        let dirs = Directories::of(self)?;
        let agent = (TreePath::parse("/.agent")?, dirs.agent);
        Ok(vec![agent, (dirs.shown_memories, dirs.memories)])
    }
}

impl AgentTree<'_> {
    /// The account's tree under its own paths, with the context nodes of the user and the agent in it and
    /// nothing else: what [`Nodes`](crate::node::Nodes) of this agent are made on. Besides nodes it
    /// has the account's [`OUTBOX`], since the end of a node is told of there: nothing but `Nodes` is to be
    /// given to the agent.
    ///
    /// # Errors
    /// As [`AgentTree::open`].
    #[boxed]
    pub async fn nodes(&self) -> Result<Reach> {
        let dirs = Directories::of(&self.who)?;
        let below = |name: &str| TreePath::from_row(dirs.agent.key(), name);
        let tops = vec![below("memories"), below("skills"), dirs.memories.clone()];
        let outbox = TreePath::from_row("", OUTBOX);
        let all: Vec<TreePath> = tops.iter().cloned().chain([outbox]).collect();
        Ok(Reach { fs: self.confined_to(all, "open the nodes of an agent").await?, tops })
    }

    /// The account's tree under its own paths, with the agent's sessions with the user in it and nothing
    /// else: what [`Sessions`](crate::session::Sessions) of this agent are made on. In any class but
    /// [`MAIN`] the session that the tree is for is the only one.
    ///
    /// # Errors
    /// As [`AgentTree::open`]; `InvalidArgument` in a class other than `main` without a session.
    #[boxed]
    pub async fn sessions(&self) -> Result<OwnSessions> {
        let dirs = Directories::of(&self.who)?;
        let (top, only) = match (dirs.own_session, dirs.sessions.into_iter().next()) {
            (Some(own), _) => (own, self.who.session.clone()),
            (None, Some((_, all))) if self.who.class == MAIN => (all, None),
            _ => {
                let message = "in a class other than main only one session is there: say which";
                return Err(Error::invalid(message));
            }
        };
        Ok(OwnSessions { fs: self.confined_to(vec![top], "open the sessions of an agent").await?, only })
    }

    /// The account's tree, of which only these directories are there; they are made if they are missing.
    async fn confined_to(&self, tops: Vec<TreePath>, message: &str) -> Result<Arc<dyn FileSystem>> {
        let raw = self.account.raw();
        if self.creates {
            let wanted: Vec<&TreePath> = tops.iter().collect();
            let there = are_there(&*raw, &wanted).await?;
            let missing = wanted.iter().zip(&there).filter(|(_, there)| !**there);
            let ops: Vec<Op> = missing.map(|(path, _)| Op::mkdir_all((*path).clone())).collect();
            if !ops.is_empty() {
                raw.commit(Batch::new(ops).author(self.who.author()).message(message)).await?;
            }
        }
        let to = Confinement::new(Within::new(tops), self.who.owner()?).author(self.who.author());
        raw.confined(&to).await
    }
}
