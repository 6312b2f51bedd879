//! Paths in prompts and lists of skills: those of the account, or of the tree that an agent sees.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reading::Reading;
use crate::identity::places::{OF_AGENT, OF_USER, SKILLS_OF_ACCOUNT};
use garth_engine::path::TreePath;

/// Tree whose paths a prompt contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "PromptPaths")]
pub enum PathsOf {
    /// Tree of the account, for agents that work at its root.
    #[default]
    Account,
    /// Tree of an agent in a chat: `/.agent`, `/.user`, `/ctx/skills`.
    Chat,
}

impl PathsOf {
    /// Returns the path in the tree of a file of an agent, of its notes about its audience, or of a skill of
    /// the account.
    pub(super) fn shown(self, path: &TreePath) -> TreePath {
        let segments: Vec<&str> = path.segments().collect();
        let (root, rest) = match (self, &*segments) {
            (Self::Account, _) => return path.clone(),
            (Self::Chat, ["agents", _, rest @ ..]) => (OF_AGENT, rest),
            (Self::Chat, ["users", _, "agents", _, rest @ ..]) => (OF_USER, rest),
            (Self::Chat, ["skills", rest @ ..]) => (SKILLS_OF_ACCOUNT, rest),
            (Self::Chat, _) => return path.clone(),
        };
        TreePath::parse(&[&[root], rest].concat().join("/")).unwrap_or_else(|_| path.clone())
    }
}

/// Returns the reading of a prompt's files, which is the first one for prompts without a tree of paths.
pub(super) fn reading_of(paths: Option<PathsOf>) -> Reading {
    if paths.is_some() { Reading::Now } else { Reading::First }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_paths_are_those_of_the_tree() {
        for (path, chat) in [
            ("/agents/a/MEMORY.md", "/.agent/MEMORY.md"),
            ("/agents/a", "/.agent"),
            ("/agents/a/agents/b", "/.agent/agents/b"),
            ("/users/u/agents/a/memory/MEMORY.md", "/.user/memory/MEMORY.md"),
            ("/skills/pdf/SKILL.md", "/ctx/skills/pdf/SKILL.md"),
            ("/agents/a/skills/pdf/SKILL.md", "/.agent/skills/pdf/SKILL.md"),
        ] {
            let path = TreePath::parse(path).unwrap();
            assert_eq!(PathsOf::Chat.shown(&path).as_str(), chat);
            assert_eq!(PathsOf::Account.shown(&path), path);
        }
    }
}
