//! Places: the directories of an account that an identity reaches, where its tree shows them, and which of
//! them it only reads.

use super::class::Class;
use super::judge::Identity;
use super::policy::{AccessPolicy, Sharing};
use garth_engine::error::Result;
use garth_engine::model::Within;
use garth_engine::path::TreePath;

/// Files of an agent that sessions of the classes `dm` and `group` read.
const OPEN_FILES: [&str; 6] =
    ["SOUL.md", "IDENTITY.md", "AGENTS.md", "TOOLS.md", "HEARTBEAT.md", "fragments.jsonl"];
const OPEN_DIRECTORIES: [&str; 2] = ["skills", "memories"];

/// Where the tree of an identity shows the directory of the agent.
pub(crate) const OF_AGENT: &str = "/.agent";
/// Where it shows what the agent keeps about its audience.
pub(crate) const OF_USER: &str = "/.user";
/// Where it shows the skills of the account, read-only. Not in `/skills`, where a chat may have its own.
pub(crate) const SKILLS_OF_ACCOUNT: &str = "/ctx/skills";

/// A directory or file of the account, and where the tree shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Path in the tree.
    pub(crate) at: TreePath,
    /// Path in the account.
    pub(crate) root: TreePath,
    /// True if it is shown only where it is there: it may be a file.
    pub(crate) optional: bool,
}

/// Sessions of an audience that an identity does not see, and a chat that is not its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// Their directories, or that of all.
    pub(crate) left_out: Vec<TreePath>,
    /// The one that is there all the same.
    pub(crate) all_but: Option<TreePath>,
}

impl Hidden {
    /// Returns paths without what is hidden.
    pub(crate) fn apply(&self, within: &Within) -> Within {
        within.without(self.left_out.iter().cloned()).with(self.all_but.iter().cloned())
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// Parts of the tree, the root first.
    pub(crate) parts: Vec<Part>,
    /// Paths of the account that the tree reaches.
    pub(crate) within: Within,
    /// Paths among them that it only reads.
    pub(crate) read_only: Within,
    /// `chats/{chat}`.
    pub(crate) chat: TreePath,
    /// `agents/{agent}`.
    pub(crate) agent: TreePath,
    /// `users/{audience}/agents/{agent}`.
    pub(crate) user: TreePath,
    /// `users/{audience}/memories`.
    pub(crate) memories: TreePath,
    /// `users/{audience}/agents/{agent}/session`.
    pub(crate) sessions: TreePath,
}

impl Places {
    /// Returns the directory of the sessions of an identity.
    pub(crate) fn sessions_of(who: &Identity) -> Result<TreePath> {
        Ok(TreePath::parse(&format!("/users/{}/agents/{}/session", who.audience(), who.agent()))?)
    }

    /// Returns the places of an identity.
    pub(crate) fn of(who: &Identity, policy: &AccessPolicy, hidden: &Hidden) -> Result<Self> {
        let path = |text: String| TreePath::parse(&text);
        let audience = who.audience();
        let agent = path(format!("/agents/{}", who.agent()))?;
        let user = path(format!("/users/{audience}/agents/{}", who.agent()))?;
        let (chat, sessions) = (path(format!("/chats/{}", who.chat()))?, Self::sessions_of(who)?);
        let memories = path(format!("/users/{audience}/memories"))?;
        let part = |at: String, root: &TreePath, optional| {
            Ok::<_, garth_engine::Error>(Part { at: path(at)?, root: root.clone(), optional })
        };
        let mut parts = vec![part("/".to_owned(), &chat, false)?];
        let mut read_only = Within::nothing();
        let mut tops = vec![chat.clone(), user.clone(), memories.clone()];
        let mut without = Vec::new();
        if who.class() == Class::Main {
            parts.push(part(OF_AGENT.to_owned(), &agent, false)?);
            tops.push(agent.clone());
        } else {
            // what is made in `/.agent` beside what is open would be the chat's
            without.push(path(format!("{chat}{OF_AGENT}"))?);
            let open = OPEN_FILES.map(|name| (name, true)).into_iter();
            let open = open.chain(OPEN_DIRECTORIES.map(|name| (name, false)));
            let shared = |name: &str| policy.shared.get(name).copied();
            let open = open.map(|(name, optional)| (name, optional, shared(name).unwrap_or(Sharing::Read)));
            let more = policy.shared.iter().map(|(name, sharing)| (&**name, true, *sharing));
            for (name, optional, sharing) in open.chain(more) {
                let root = path(format!("{agent}/{name}"))?;
                if !parts.iter().any(|part: &Part| root.is_within(&part.root)) {
                    parts.push(part(format!("{OF_AGENT}/{name}"), &root, optional)?);
                    tops.push(root.clone());
                }
                // a path comes behind those that it lies below, so that the longest decides
                read_only = match sharing {
                    Sharing::Read => read_only.with([root]),
                    Sharing::Write => read_only.without([root]),
                };
            }
        }
        parts.push(part(OF_USER.to_owned(), &user, false)?);
        let skills = path("/skills".to_owned())?;
        parts.push(part(SKILLS_OF_ACCOUNT.to_owned(), &skills, true)?);
        tops.push(skills.clone());
        read_only = read_only.with([skills]);
        parts.push(part(format!("/ctx/users/{audience}/memories"), &memories, false)?);
        parts.push(part(format!("/ctx/home/{audience}/agent/{}/session", who.agent()), &sessions, false)?);
        if let Some(own) = &hidden.all_but {
            let name = own.name().unwrap_or_default();
            let shown = format!("/ctx/home/{audience}/agent/{}/session/{name}", who.agent());
            parts.push(part(shown, own, false)?);
        }
        let within = hidden.apply(&Within::new(tops).without(without));
        Ok(Self { parts, within, read_only, chat, agent, user, memories, sessions })
    }

    /// Returns true if the tree reaches a path of the account and changes what is there.
    pub(crate) fn writes(&self, path: &TreePath) -> bool {
        self.within.contains(path) && !self.read_only.contains(path)
    }

    /// Returns the account's path of a path of the tree; `None` for one that the tree does not reach.
    pub(crate) fn down(&self, path: &TreePath) -> Option<TreePath> {
        let holds = |part: &&Part| path.is_within(&part.at);
        let part = self.parts.iter().filter(holds).max_by_key(|part| part.at.key().len())?;
        let down = path.rebase(&part.at, &part.root)?.ok()?;
        self.within.contains(&down).then_some(down)
    }

    /// Returns the path of the tree of a path of the account; `None` for one that the tree does not show.
    pub(crate) fn up(&self, path: &TreePath) -> Option<TreePath> {
        if !self.within.contains(path) {
            return None;
        }
        let holds = |part: &&Part| path.is_within(&part.root);
        let part = self.parts.iter().filter(holds).max_by_key(|part| part.root.key().len())?;
        path.rebase(&part.root, &part.at)?.ok()
    }
}
