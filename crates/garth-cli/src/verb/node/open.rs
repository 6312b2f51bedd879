//! The nodes that a verb works on: the account's, or those that an agent reaches in a chat.

use std::sync::Arc;

use garth::agent::AgentTree;
use garth::agent::node::Nodes;
use garth::model::Author;
use garth::{Env, FileSystem, TreePath};

use crate::app::App;
use crate::fail::Result;
use crate::place::Place;

/// See the module.
pub(crate) struct Open {
    fs: Arc<dyn FileSystem>,
    tops: Option<Vec<TreePath>>,
    account: String,
    env: Env,
    author: Author,
}

impl Open {
    /// What is done with them.
    pub(crate) fn nodes(&self) -> Nodes<'_> {
        let nodes = Nodes::new(&*self.fs, &self.account, self.env.clone()).author(self.author.clone());
        match &self.tops {
            Some(tops) => nodes.tops(tops.clone()),
            None => nodes,
        }
    }
}

/// Opens them. For a change, what is missing of an agent's directories is made, and the data folder if this
/// is the first.
pub(crate) async fn open(app: &App, changes: bool) -> Result<Open> {
    let (account, env, author) = (app.global.account.clone(), app.env.clone(), app.author());
    let (fs, tops) = match Place::of(&app.global)? {
        Place::Chat { who, .. } => {
            let store = app.account_for(changes).await?;
            let reach = AgentTree::new(&*store, who).create(changes).nodes().await?;
            (reach.fs, Some(reach.tops))
        }
        Place::Account { .. } | Place::Overlay { .. } => (app.tree_for(changes).await?.fs, None),
    };
    Ok(Open { fs, tops, account, env, author })
}
