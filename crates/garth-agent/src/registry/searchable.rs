//! Search exclusions: text files that search does not find. These are the files next to the text of memories
//! and sessions, and archives. The set is fixed and applies to every tree. A file that matches one of these
//! patterns but also has another name is found by that name.

use std::sync::LazyLock;

use garth_engine::TreePath;
use garth_engine::rule::{DecidingKey, PathPattern, Searchable, WithheldLines};

use super::projections::memories::{MEMORIES, MEMORY_STATUS};
use super::projections::sessions::{RETRACTED, SESSION_LINE, retracted_keys};
use super::session_lines;

/// Files of a memory other than its text.
const OF_MEMORIES: [&str; 3] = [".meta.json", ".relations.json", ".outbox/**"];
/// Layers of a memory's text.
const LAYERS: [&str; 2] = [".abstract.md", ".overview.md"];
/// Text of a memory. (`SKILL.md` also occurs as a skill without a memory.)
const TEXT: &str = "content.md";
/// File that makes a directory a memory.
const META: &str = ".meta.json";
/// Files of a session that are derived from its messages and events, and those that describe it. The latter
/// have a random id and times: if search compared them, equal conversations would get different scores.
const OF_SESSIONS: [&str; 12] = [
    "meta.json",
    "state",
    "cwd",
    "created_at",
    "updated_at",
    "latest.md",
    "native/**",
    "context/pack.md",
    "context/pack.json",
    "context/pack/**",
    "context/swap/**",
    "context/dedup/**",
];
/// Excluded files in other places.
const ELSEWHERE: [&str; 2] = ["/.outbox/**", "/agents/*/sessions/**"];

/// Directory of the stored overlays.
const OVERLAYS: &str = "/.garth/overlays/";
/// Log of messages of a session.
const MESSAGES_FILE: &str = "messages.jsonl";
/// Log of events of a session, which say what messages are retracted.
const EVENTS_FILE: &str = "events.jsonl";

/// Status of an active memory.
const ACTIVE: &str = "ACTIVE";

struct Patterns {
    memories: Vec<PathPattern>,
    never: Vec<PathPattern>,
}

impl Patterns {
    fn new() -> Self {
        let pattern = |text: String| PathPattern::built_in(&text);
        let of_memories =
            MEMORIES.iter().flat_map(|dir| OF_MEMORIES.map(|file| pattern(format!("{dir}/{file}"))));
        let of_sessions = OF_SESSIONS.map(|file| pattern(format!("/users/*/agents/*/session/*/{file}")));
        let never = of_memories.chain(of_sessions).chain(ELSEWHERE.map(PathPattern::built_in)).collect();
        Self { memories: MEMORIES.map(PathPattern::built_in).into(), never }
    }
}

/// Returns if search finds the file at a path. The text of a memory is found while the memory is active.
pub(super) fn searchable(path: &TreePath) -> Searchable {
    static PATTERNS: LazyLock<Patterns> = LazyLock::new(Patterns::new);
    let name = path.name().unwrap_or_default();
    let layer = LAYERS.contains(&name);
    // Not `SKILL.md`: a skill that is not published as a memory is searchable as well.
    if (layer || name == TEXT)
        && let Some(dir) = path.parent()
        && PATTERNS.memories.iter().any(|pattern| pattern.has(&dir))
    {
        let file = TreePath::from_row(dir.key(), META);
        return Searchable::While { file, projection: MEMORY_STATUS, key: ACTIVE, layer };
    }
    let is_excluded = |path: &TreePath| PATTERNS.never.iter().any(|pattern| pattern.has(path));
    let is_hidden = match in_overlay(path) {
        // Keys of events say which messages are retracted, and no file of an overlay has keys. An overlay of
        // a directory does not show the whole path of a log, so that the name alone decides.
        Some(shown) => name == MESSAGES_FILE || is_excluded(&shown),
        None => is_excluded(path),
    };
    if is_hidden { Searchable::No } else { Searchable::Yes }
}

/// Returns the path in a stored overlay of a file that was written in it; `None` for other files.
fn in_overlay(path: &TreePath) -> Option<TreePath> {
    let (_id, below) = path.key().strip_prefix(OVERLAYS)?.split_once('/')?;
    let (_tree, shown) = below.split_once('/')?;
    Some(TreePath::from_row("", shown))
}

/// Returns the keys by which [`searchable`] and [`withheld`] decide.
pub(super) fn deciding() -> Vec<DecidingKey> {
    vec![
        DecidingKey { name: META, projection: MEMORY_STATUS, key: ACTIVE },
        DecidingKey { name: EVENTS_FILE, projection: SESSION_LINE, key: RETRACTED },
    ]
}

/// Returns which lines of the file at a path search omits: the messages that events have retracted.
pub(super) fn withheld(path: &TreePath) -> Option<WithheldLines> {
    static MESSAGES: LazyLock<PathPattern> = LazyLock::new(|| PathPattern::built_in(session_lines::MESSAGES));
    let dir = path.parent().filter(|_| path.name() == Some(MESSAGES_FILE) && MESSAGES.has(path))?;
    let file = TreePath::from_row(dir.key(), EVENTS_FILE);
    Some(WithheldLines { file, projection: SESSION_LINE, any: RETRACTED, keys: retracted_keys })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Searchable {
        searchable(&TreePath::parse(path).unwrap())
    }

    #[test]
    fn keys_that_decide_are_known_beforehand() {
        let decides = |file: &TreePath, projection, key| {
            deciding()
                .iter()
                .any(|it| (Some(it.name), it.projection, it.key) == (file.name(), projection, key))
        };
        for path in ["/users/a/memories/profile/content.md", "/agents/a/memories/cases/x/.abstract.md"] {
            let Searchable::While { file, projection, key, .. } = of(path) else { panic!("{path}") };
            assert!(decides(&file, projection, key), "{path}");
        }
        let messages = TreePath::parse("/users/a/agents/b/session/s/messages.jsonl").unwrap();
        let by = withheld(&messages).unwrap();
        assert!(decides(&by.file, by.projection, by.any));
    }

    #[test]
    fn files_next_to_text_are_not_searchable() {
        for hidden in [
            "/users/a/memories/profile/.meta.json",
            "/users/a/memories/events/x/.relations.json",
            "/agents/a/memories/cases/x/.outbox/e.json",
            "/agents/a/skills/s/.outbox/dlq/e.json",
            "/.outbox/e.json",
            "/.outbox/e.d/content.md",
            "/users/a/agents/b/session/s/meta.json",
            "/users/a/agents/b/session/s/state",
            "/users/a/agents/b/session/s/cwd",
            "/users/a/agents/b/session/s/created_at",
            "/users/a/agents/b/session/s/updated_at",
            "/users/a/agents/b/session/s/latest.md",
            "/users/a/agents/b/session/s/native/openai.jsonl",
            "/users/a/agents/b/session/s/context/pack.md",
            "/users/a/agents/b/session/s/context/swap/chunk/x",
            "/users/a/agents/b/session/s/context/dedup/index.jsonl",
            "/agents/a/sessions/s.jsonl.gz",
        ] {
            assert_eq!(of(hidden), Searchable::No, "{hidden}");
        }
    }

    #[test]
    fn overlays_exclude_session_logs() {
        let session = "/users/a/agents/b/session/s";
        for (file, due) in [
            (format!("{session}/messages.jsonl"), Searchable::No),
            (format!("{session}/latest.md"), Searchable::No),
            (format!("{session}/context/pack.md"), Searchable::No),
            // Of an overlay of `/users/a/agents/b`.
            ("/session/s/messages.jsonl".to_owned(), Searchable::No),
            ("/messages.jsonl".to_owned(), Searchable::No),
            (format!("{session}/context/summary.md"), Searchable::Yes),
            ("/notes/plan.md".to_owned(), Searchable::Yes),
        ] {
            assert_eq!(of(&format!("/.garth/overlays/draft/tree{file}")), due, "{file}");
        }
        assert_eq!(of("/notes/messages.jsonl"), Searchable::Yes);
    }

    #[test]
    fn memory_text_is_searchable_while_active() {
        for text in [
            "/notes/.meta.json",
            "/notes/.abstract.md",
            "/content.md",
            "/users/a/memories/content.md",
            "/users/a/memories/events/x/more/content.md",
            "/agents/a/skills/s/SKILL.md",
            "/agents/a/skills/s/guide.md",
            "/agents/a/skills/s/guide/content.md",
            "/users/a/agents/b/session/s/messages.jsonl",
            "/users/a/agents/b/session/s/context/summary.md",
            "/users/a/agents/b/session/s/context/child/c/artifact/pack.md",
            "/users/a/agents/b/session/s/events.jsonl",
            "/users/a/agents/b/session/s/notes/meta.json",
            "/users/a/agents/b/latest.md",
            "/notes/meta.json",
            "/agents/a/sessions",
        ] {
            assert_eq!(of(text), Searchable::Yes, "{text}");
        }
        for (path, layer) in [("content.md", false), (".abstract.md", true), (".overview.md", true)] {
            for dir in ["/users/a/memories/profile", "/agents/a/memories/cases/x", "/agents/a/skills/s"] {
                let file = TreePath::parse(&format!("{dir}/.meta.json")).unwrap();
                assert_eq!(
                    of(&format!("{dir}/{path}")),
                    Searchable::While { file, projection: MEMORY_STATUS, key: ACTIVE, layer },
                    "{dir}/{path}"
                );
            }
        }
    }
}
