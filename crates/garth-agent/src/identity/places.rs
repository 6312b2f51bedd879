//! Places: the directories of an account that an identity reaches, their paths in its tree, and those that
//! are read-only.

use super::class::Class;
use super::judge::Identity;
use super::policy::{AccessPolicy, Sharing};
use garth_engine::error::Result;
use garth_engine::model::{Gate, Owner, Within};
use garth_engine::path::TreePath;

/// Files of an agent that sessions of the classes `dm` and `group` can read.
const OPEN_FILES: [&str; 6] =
    ["SOUL.md", "IDENTITY.md", "AGENTS.md", "TOOLS.md", "HEARTBEAT.md", "fragments.jsonl"];
/// Directories of an agent that sessions of the classes `dm` and `group` can read.
const OPEN_DIRECTORIES: [&str; 2] = ["skills", "memories"];

/// Path of the agent's directory in its tree.
pub(crate) const OF_AGENT: &str = "/.agent";
/// Path of the agent's notes about its audience.
pub(crate) const OF_USER: &str = "/.user";
/// Path of the skills of the account, read-only. Not `/skills`, where a chat may have its own.
pub(crate) const SKILLS_OF_ACCOUNT: &str = "/ctx/skills";

/// Directory or file of the account, with its path in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Path in the tree.
    pub(crate) at: TreePath,
    /// Path in the account.
    pub(crate) root: TreePath,
    /// True if it is only shown while it exists. It may be a file.
    pub(crate) optional: bool,
    /// True if `/.user` shows its files, too.
    pub(crate) is_alias: bool,
}

/// Hidden sessions of an audience, and a chat of another owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// Their directories, or that of all sessions.
    pub(crate) left_out: Vec<TreePath>,
    /// Session that is visible nevertheless.
    pub(crate) all_but: Option<TreePath>,
    /// Gate of the directory of sessions; `None` if all of them are visible.
    pub(crate) gate: Option<Gate>,
}

impl Hidden {
    /// Returns paths without the hidden ones.
    pub(crate) fn apply(&self, within: &Within) -> Within {
        within.without(self.left_out.iter().cloned()).with(self.all_but.iter().cloned())
    }
}

/// Limits that the binding of an API key adds to those of the identity. The default is that of a free key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// True for every bound key: a request reaches one agent, and a prompt has no days of other audiences.
    /// The owner's directory of the agent still has the archives of all audiences.
    pub(crate) is_bound: bool,
    /// True if nothing can be changed.
    pub(crate) read_only: bool,
    /// True if missing directories are not created.
    pub(crate) keeps_directories: bool,
    /// True if one session is visible, and no new one can be created.
    pub(crate) one_session: bool,
    /// True if archives of other audiences, and media of their places without a session, are hidden, also
    /// from the owner of the agent.
    pub(crate) own_archives: bool,
    /// Label of a tree that is narrower than that of the identity, whose snapshots and commit ids it must not
    /// share.
    pub(crate) label: Option<String>,
}

/// Places of one identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// Parts of the tree, the root first.
    pub(crate) parts: Vec<Part>,
    /// Paths of the account that the tree reaches.
    pub(crate) within: Within,
    /// Directories in `within` of which some entries are hidden by their keys.
    pub(crate) gates: Vec<Gate>,
    /// Paths in `within` that are read-only.
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
    /// Limits of the API key.
    pub(crate) bounds: Bounds,
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
            let (at, root) = (path(at)?, root.clone());
            Ok::<_, garth_engine::Error>(Part { at, root, optional, is_alias: false })
        };
        let mut parts = vec![part("/".to_owned(), &chat, false)?];
        let mut read_only = Within::nothing();
        let mut tops = vec![chat.clone(), user.clone(), memories.clone()];
        let mut without = Vec::new();
        if who.class() == Class::Main {
            parts.push(part(OF_AGENT.to_owned(), &agent, false)?);
            tops.push(agent.clone());
        } else {
            // A file created in `/.agent` next to the visible parts would land in the chat.
            without.push(path(format!("{chat}{OF_AGENT}"))?);
            let open = OPEN_FILES.map(|name| (name, true)).into_iter();
            let open = open.chain(OPEN_DIRECTORIES.map(|name| (name, false)));
            let shared = |name: &str| policy.shared.get(name).copied();
            let open = open.map(|(name, optional)| (name, optional, shared(name).unwrap_or(Sharing::Read)));
            let more = policy.shared.iter().map(|(name, sharing)| (&**name, true, *sharing));
            for (name, optional, sharing) in open.chain(more) {
                let root = path(format!("{agent}/{name}"))?;
                // A directory that is shared as a whole already shows the paths below it.
                if !parts.iter().any(|part: &Part| root.is_within(&part.root)) {
                    parts.push(part(format!("{OF_AGENT}/{name}"), &root, optional)?);
                    tops.push(root.clone());
                }
                // A path follows those above it, so the longest one decides.
                read_only = match sharing {
                    Sharing::Read => read_only.with([root]),
                    Sharing::Write => read_only.without([root]),
                };
            }
        }
        parts.push(part(OF_USER.to_owned(), &user, false)?);
        let skills = path("/skills".to_owned())?;
        parts.push(part(SKILLS_OF_ACCOUNT.to_owned(), &skills, false)?);
        tops.push(skills.clone());
        read_only = read_only.with([skills]);
        parts.push(part(format!("/ctx/users/{audience}/memories"), &memories, false)?);
        let home = format!("/ctx/home/{audience}/agent/{}/session", who.agent());
        parts.push(Part { is_alias: true, ..part(home, &sessions, false)? });
        // The directory of all sessions is hidden, so its own session needs a mount of its own.
        if let Some(own) = &hidden.all_but {
            let name = own.name().unwrap_or_default();
            let shown = format!("/ctx/home/{audience}/agent/{}/session/{name}", who.agent());
            parts.push(part(shown, own, false)?);
        }
        let within = hidden.apply(&Within::new(tops).without(without));
        let (gates, bounds) = (hidden.gate.iter().cloned().collect(), Bounds::default());
        Ok(Self { parts, within, gates, read_only, chat, agent, user, memories, sessions, bounds })
    }

    /// Returns the places with the limits of an API key.
    pub(crate) fn bounded(self, bounds: Bounds) -> Self {
        let read_only = if bounds.read_only { Within::everything() } else { self.read_only };
        Self { read_only, bounds, ..self }
    }

    /// Returns the places below one path of the tree: the directory that the path leads to, and the parts
    /// that are mounted below it.
    pub(crate) fn below(mut self, path: &TreePath) -> Self {
        let mounted = self.parts.iter().filter(|part| part.at.is_within(path)).map(|part| part.root.clone());
        let tops: Vec<TreePath> = self.down(path).into_iter().chain(mounted).collect();
        self.within = self.within.intersect(&Within::new(tops));
        // Other parts would show files of this directory under paths outside of it.
        self.parts.retain(|part| part.at.is_within(path) || path.is_within(&part.at));
        self
    }

    /// Returns the owner of snapshots, commit ids, idempotency keys and staged bodies of the tree.
    pub(crate) fn owner(&self, who: &Identity) -> Result<Owner> {
        match &self.bounds.label {
            // Ids have no `/`, so no identity has such an owner.
            Some(label) => Owner::new(&format!("{}/key/{label}", who.owner()?)),
            None => who.owner(),
        }
    }

    /// Returns true if the tree reaches a path of the account and may change it.
    pub(crate) fn writes(&self, path: &TreePath) -> bool {
        self.within.contains(path) && !self.read_only.contains(path)
    }

    /// Returns the path in the account of a path in the tree; `None` if the tree does not reach it.
    pub(crate) fn down(&self, path: &TreePath) -> Option<TreePath> {
        let holds = |part: &&Part| path.is_within(&part.at);
        // Parts may be nested in the tree; the deepest one holds the path.
        let part = self.parts.iter().filter(holds).max_by_key(|part| part.at.key().len())?;
        let down = path.rebase(&part.at, &part.root)?.ok()?;
        self.within.contains(&down).then_some(down)
    }

    /// Returns the path in the tree of a path in the account; `None` if the tree does not show it.
    pub(crate) fn up(&self, path: &TreePath) -> Option<TreePath> {
        if !self.within.contains(path) {
            return None;
        }
        let holds = |part: &&Part| path.is_within(&part.root);
        let part = self.parts.iter().filter(holds).max_by_key(|part| part.root.key().len())?;
        path.rebase(&part.root, &part.at)?.ok()
    }
}
