//! Kinds of text in an account, and the kind of a file by its path.

use crate::account_paths::AccountPaths;
use crate::kv::ValueFile;
use crate::memory::{ABSTRACT, Level, OVERVIEW, Uri, text_of};
use crate::registry::session_lines;
use crate::session::MESSAGES;
use garth_engine::path::TreePath;

/// Patterns of the account for values.
const VALUES: [&str; 1] = ["/agents/*/kv/**"];
/// Patterns of the account for the texts of memories and skills.
const MEMORIES: [&str; 3] = ["/users/*/memories/**", "/agents/*/memories/**", "/agents/*/skills/*/**"];

/// Kind of text in an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchKind {
    /// Values of the key-value interface.
    Values,
    /// Files that are none of the other kinds.
    Files,
    /// Messages of sessions.
    Messages,
    /// Memories, and skills that are published as memories.
    Memories,
}

impl SearchKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Values, Self::Files, Self::Messages, Self::Memories];

    /// Returns the word of the interfaces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Files => "files",
            Self::Messages => "messages",
            Self::Memories => "memories",
        }
    }

    /// Returns the kind that a word of the interfaces names.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Returns patterns of the account that match all files of the kind; `None` if none do.
    pub(super) const fn patterns(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Values => Some(&VALUES),
            Self::Files => None,
            Self::Messages => Some(&[session_lines::MESSAGES]),
            Self::Memories => Some(&MEMORIES),
        }
    }
}

/// Meaning of a path in an account.
#[derive(Clone, Debug)]
pub(super) enum Place {
    File,
    /// Messages of a session.
    Messages {
        user: String,
        agent: String,
        session: String,
    },
    /// Layer of the memory in a directory of the view.
    Memory {
        uri: Uri,
        dir: TreePath,
        level: Level,
    },
    Value(ValueFile),
}

impl Place {
    /// Returns the meaning of a path; `None` for a file that garth writes for itself.
    pub(super) fn of(paths: &AccountPaths, path: &TreePath) -> Option<Self> {
        if paths.is_machine_file(path) {
            return None;
        }
        // The files of a chat have no meaning, whatever they are called.
        let Some(own) = paths.own(path) else { return Some(Self::File) };
        let names: Vec<&str> = own.segments().collect();
        if let ["users", user, "agents", agent, "session", session, MESSAGES] = names[..] {
            let [user, agent, session] = [user, agent, session].map(str::to_owned);
            return Some(Self::Messages { user, agent, session });
        }
        if let Some(value) = ValueFile::at(&own) {
            return Some(Self::Value(value));
        }
        let (dir, name) = (path.parent().unwrap_or_default(), path.name().unwrap_or_default());
        let Some(uri) = paths.memory_at(&dir) else { return Some(Self::File) };
        let level = match name {
            ABSTRACT => Level::Abstract,
            OVERVIEW => Level::Overview,
            name if name == text_of(&uri) => Level::Content,
            _ => return Some(Self::File),
        };
        Some(Self::Memory { uri, dir, level })
    }

    /// Returns true if a hit here can turn out to be of a kind.
    pub(super) fn may_be(&self, kind: SearchKind) -> bool {
        match self {
            Self::File => kind == SearchKind::Files,
            Self::Messages { .. } => kind == SearchKind::Messages,
            // A skill that is not published is a file.
            Self::Memory { uri, .. } => {
                kind == SearchKind::Memories || (uri.is_skill() && kind == SearchKind::Files)
            }
            Self::Value(_) => kind == SearchKind::Values,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    fn kinds(paths: &AccountPaths, at: &str) -> Vec<SearchKind> {
        let place = Place::of(paths, &path(at));
        SearchKind::ALL.into_iter().filter(|kind| place.as_ref().is_some_and(|at| at.may_be(*kind))).collect()
    }

    #[test]
    fn files_have_the_kind_of_their_path() {
        use SearchKind::{Files, Memories, Messages, Values};
        let account = AccountPaths::new("acme");
        for (at, expected) in [
            ("/agents/bot/kv/user/tone.json", vec![Values]),
            ("/agents/bot/kv/notes.txt", vec![Files]),
            ("/users/ann/agents/bot/session/s/messages.jsonl", vec![Messages]),
            ("/users/ann/agents/bot/session/s/context/summary.md", vec![Files]),
            ("/users/ann/agents/bot/session/s/meta.json", vec![]),
            ("/users/ann/memories/events/x/content.md", vec![Memories]),
            ("/users/ann/memories/events/x/.abstract.md", vec![Memories]),
            ("/users/ann/memories/events/x/more.md", vec![Files]),
            ("/users/ann/memories/events/x/.meta.json", vec![]),
            ("/agents/bot/skills/tea/SKILL.md", vec![Files, Memories]),
            ("/agents/bot/settings.json", vec![]),
            ("/notes/a.md", vec![Files]),
        ] {
            assert_eq!(kinds(&account, at), expected, "{at}");
        }
        let view = AccountPaths::new("acme").with_places(vec![(path("/.agent"), path("/agents/bot"))]);
        assert_eq!(kinds(&view, "/.agent/kv/a.json"), [Values]);
        assert_eq!(kinds(&view, "/agents/bot/kv/a.json"), [Files], "a file of the chat");
    }
}
