//! Names in the paths of an account that say what a file is about. Those that every account has do not: kinds
//! of directories, ids, and the names of the files of a memory or skill.

use garth_engine::TreePath;
use garth_engine::rule::Naming;

/// Files of a memory or skill, which is named by its directory.
const OF_DIRECTORIES: [&str; 4] = ["content.md", ".abstract.md", ".overview.md", "SKILL.md"];

/// Returns the names in a path that say what the file is about: of a memory its slug and category, of a skill
/// its name, of another file its own name and that of its directory. Those of a session say nothing.
pub(super) fn naming(path: &TreePath) -> Naming {
    let names: Vec<&str> = path.segments().collect();
    let fixed = match names[..] {
        ["users", _, "agents", _, "session", ..] | ["agents", _, "sessions", ..] => usize::MAX,
        ["users", _, "agents", _, "memory", _, ..] => 5,
        ["users", _, "agents", _, _, ..] => 4,
        ["users", _, "memories", _, ..] => 3,
        ["agents", _, "kv" | "media" | "memories" | "memory" | "skills", _, ..] => 3,
        ["agents" | "chats" | "users", _, _, ..] => 2,
        ["agents" | "chats" | "skills" | "users", ..] => 1,
        _ => 0,
    };
    let by_directory = match names[..] {
        ["agents" | "users", _, "memories", .., name] => OF_DIRECTORIES.contains(&name),
        ["agents", _, "skills", _, name] | ["skills", _, name] => OF_DIRECTORIES.contains(&name),
        _ => false,
    };
    Naming { fixed, by_directory }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_every_account_has_do_not_count() {
        let all = usize::MAX;
        for (path, fixed, by_directory) in [
            ("/users/ann/memories/preferences/green-tea/content.md", 3, true),
            ("/users/ann/memories/preferences/green-tea/.abstract.md", 3, true),
            ("/users/ann/memories/profile/content.md", 3, true),
            ("/agents/bot/memories/cases/late-train/content.md", 3, true),
            ("/agents/bot/skills/travel/SKILL.md", 3, true),
            ("/agents/bot/skills/travel/trains/content.md", 3, false),
            ("/skills/travel/SKILL.md", 1, true),
            ("/skills/travel/trains.md", 1, false),
            ("/agents/bot/kv/user/tone.json", 3, false),
            ("/agents/bot/memory/2026-01-27.md", 3, false),
            ("/users/ann/agents/bot/memory/2026-01-27.md", 5, false),
            ("/users/ann/agents/bot/plan.md", 4, false),
            ("/users/ann/agents/bot/session/s1/messages.jsonl", all, false),
            ("/agents/bot/sessions/s1.jsonl.gz", all, false),
            ("/agents/bot/notes/garden.md", 2, false),
            ("/chats/trip/plan.md", 2, false),
            ("/agents/garden.md", 1, false),
            ("/notes/garden/content.md", 0, false),
        ] {
            let found = naming(&TreePath::parse(path).unwrap());
            assert_eq!(found, Naming { fixed, by_directory }, "{path}");
        }
    }
}
