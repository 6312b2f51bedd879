//! Content limits that a new account begins with. The files are written or removed with most calls, and only
//! their current content is used, or their old content for a short time.

use std::time::Duration;

use garth_engine::rule::PathPattern;
use garth_engine::rule::retention::ContentLimit;

/// Time to find the cause of a failure, and for repair to read the events of a memory that was removed.
const DAY: Duration = Duration::from_secs(86_400);

/// Path classes with the time that their old content is kept. Replays and lists of past sessions read the
/// old content of other files of a session, so these have none.
const LIMITS: [(&str, Duration); 5] = [
    ("/.outbox/**", Duration::ZERO),
    // Memories. Repair reads the events that waited when another program removed one.
    ("/**/.outbox/**", DAY),
    ("/users/*/agents/*/session/*/latest.md", DAY),
    ("/users/*/agents/*/session/*/context/pack.md", DAY),
    ("/users/*/agents/*/session/*/context/dedup/index.jsonl", DAY),
];

/// Returns the content limits that a new account begins with.
pub(super) fn content_limits() -> Vec<ContentLimit> {
    LIMITS.map(|(pattern, keep)| ContentLimit { pattern: PathPattern::built_in(pattern), keep }).into()
}

#[cfg(test)]
mod tests {
    use garth_engine::TreePath;
    use garth_engine::rule::retention::{ContentLimits, Keep, Retention};

    use super::*;

    #[test]
    fn default_limits_cover_only_derived_files() {
        let content = content_limits();
        Retention { content: content.clone(), ..Retention::default() }.check().unwrap();
        let limits = ContentLimits::new(&content);
        let session = "/users/ann/agents/scout/session/work";
        let memory = "/users/ann/memories/preferences/tea";
        for (path, keep) in [
            ("/.outbox/1.json".to_owned(), Keep::For(Duration::ZERO)),
            ("/.outbox/jobs/1.json".to_owned(), Keep::For(Duration::ZERO)),
            (format!("{memory}/.outbox/.done"), Keep::For(DAY)),
            (format!("{memory}/.outbox/dlq/1.json"), Keep::For(DAY)),
            (format!("{session}/latest.md"), Keep::For(DAY)),
            (format!("{session}/context/pack.md"), Keep::For(DAY)),
            (format!("{session}/context/dedup/index.jsonl"), Keep::For(DAY)),
            // Replays and lists of past sessions read these.
            (format!("{session}/context/pack.json"), Keep::WithLog),
            (format!("{session}/context/summary.md"), Keep::WithLog),
            (format!("{session}/context/swap/index.jsonl"), Keep::WithLog),
            (format!("{session}/messages.jsonl"), Keep::WithLog),
            (format!("{session}/state"), Keep::WithLog),
            (format!("{memory}/.meta.json"), Keep::WithLog),
            ("/notes/latest.md".to_owned(), Keep::WithLog),
        ] {
            assert_eq!(limits.keep_of([&TreePath::parse(&path).unwrap()]), keep, "{path}");
        }
    }
}
