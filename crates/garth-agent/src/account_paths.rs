//! Paths of the account behind those of a view. Recall and search judge a file by its path in the account,
//! so that a view under other paths hides the same files and names the same memories.

use std::sync::LazyLock;

use crate::memory::{OUTBOX, Uri};
use garth_engine::error::Result;
use garth_engine::model::{MAX_PATTERNS, PatternBelow};
use garth_engine::path::TreePath;
use garth_engine::rule::PathPattern;

/// Files of an account that garth writes for itself. They are no evidence, whatever words they contain.
static MACHINE_FILES: LazyLock<Vec<PathPattern>> = LazyLock::new(|| {
    let session = "/users/*/agents/*/session/*";
    let of_sessions = ["meta.json", "events.jsonl", "state", "cwd", "created_at", "updated_at", "latest.md"];
    let of_sessions = of_sessions.iter().map(|name| format!("{session}/{name}"));
    let derived = ["budget", "refs.jsonl", "pack*", "pack/**", "swap/**", "dedup/**"];
    let derived = derived.iter().map(|name| format!("{session}/context/{name}"));
    let anywhere = ["/**/.meta.json", "/**/.relations.json", "/**/.outbox/**", "/agents/*/settings.json"];
    let others = anywhere.iter().map(|pattern| (*pattern).to_owned());
    of_sessions.chain(derived).chain(others).map(|pattern| PathPattern::built_in(&pattern)).collect()
});

/// Name of an account, and the directories of it that a view contains.
#[derive(Clone, Debug)]
pub(crate) struct AccountPaths {
    pub(crate) account: String,
    /// Path of each directory in the view, and in the account. `None` for the account's own tree.
    places: Option<Vec<(TreePath, TreePath)>>,
}

impl AccountPaths {
    /// Returns the paths of the account's own tree.
    pub(crate) fn new(account: &str) -> Self {
        Self { account: account.to_owned(), places: None }
    }

    /// Sets the directories that the view contains.
    #[must_use]
    pub(crate) fn with_places(self, places: Vec<(TreePath, TreePath)>) -> Self {
        Self { places: Some(places), ..self }
    }

    /// Returns true for a view, whose paths are not those of the account.
    pub(crate) fn is_view(&self) -> bool {
        self.places.is_some()
    }

    /// Returns the path in the account of a path of the view; `None` outside of its places, as in a chat.
    pub(crate) fn own(&self, path: &TreePath) -> Option<TreePath> {
        match &self.places {
            None => Some(path.clone()),
            Some(places) => {
                let mut own = places.iter().filter_map(|(shown, own)| path.rebase(shown, own));
                own.find_map(std::result::Result::ok)
            }
        }
    }

    /// Returns the paths of the view that show a directory or file of the account, or parts of it.
    ///
    /// # Errors
    /// `NameTooLong` for a path that is too long in the view.
    pub(crate) fn shown(&self, own: &TreePath) -> Result<Vec<TreePath>> {
        let Some(places) = &self.places else { return Ok(vec![own.clone()]) };
        // A directory of the account is one of the places, or contains some, or is in one.
        let shown = places.iter().filter_map(|(shown, place)| match place.is_within(own) {
            true => Some(Ok(shown.clone())),
            false => own.rebase(place, shown),
        });
        Ok(shown.collect::<std::result::Result<_, _>>()?)
    }

    /// Returns patterns of the view that match the files which `wanted` matches in the account. The patterns
    /// only save work: whoever asks checks each path that was found. Returns `None` if there are none for
    /// this view.
    pub(crate) fn patterns(&self, wanted: &[&str]) -> Option<Vec<PatternBelow>> {
        let Some(places) = &self.places else {
            let below = |pattern: &&str| {
                let pattern = (*pattern).to_owned();
                PatternBelow { from: TreePath::root(), pattern }
            };
            return Some(wanted.iter().map(below).collect());
        };
        let mut patterns = Vec::new();
        for (shown, own) in places {
            for pattern in wanted.iter().filter_map(|pattern| rest_below(own, pattern)) {
                // The place may be such a file itself, which no pattern below it matches.
                if pattern.is_empty() {
                    return None;
                }
                patterns.push(PatternBelow { from: shown.clone(), pattern });
            }
        }
        (patterns.len() <= MAX_PATTERNS).then_some(patterns)
    }

    /// Returns true for a file that garth writes for itself.
    pub(crate) fn is_machine_file(&self, path: &TreePath) -> bool {
        let own = self.own(path).unwrap_or_else(|| path.clone());
        own.segments().any(|name| name == OUTBOX) || MACHINE_FILES.iter().any(|pattern| pattern.has(&own))
    }

    /// Returns the memory in a directory of the view.
    pub(crate) fn memory_at(&self, dir: &TreePath) -> Option<Uri> {
        Uri::of_dir(&self.account, &self.own(dir)?)
    }
}

/// Returns the part of a pattern that is left below a directory which its first segments match; `None` if
/// they do not. Empty if the pattern ends there, or its `**` begins above.
fn rest_below(dir: &TreePath, pattern: &str) -> Option<String> {
    let segments: Vec<&str> = pattern.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut rest = &segments[..];
    for name in dir.segments() {
        match rest.split_first() {
            None | Some((&"**", _)) => return Some(String::new()),
            Some((segment, next)) if *segment == "*" || *segment == name => rest = next,
            Some(_) => return None,
        }
    }
    Some(rest.iter().map(|segment| format!("/{segment}")).collect())
}

/// Returns the paths that are within one of each list.
pub(crate) fn both(one: &[TreePath], other: &[TreePath]) -> Vec<TreePath> {
    let deeper = |(one, other): (&TreePath, &TreePath)| match one.is_within(other) {
        true => Some(one.clone()),
        false => other.is_within(one).then(|| other.clone()),
    };
    one.iter().flat_map(|one| other.iter().map(move |other| (one, other))).filter_map(deeper).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    fn view(places: &[(&str, &str)]) -> AccountPaths {
        let places = places.iter().map(|(shown, own)| (path(shown), path(own))).collect();
        AccountPaths::new("acme").with_places(places)
    }

    #[test]
    fn views_hide_machine_files_of_the_account() {
        let view = view(&[("/.user", "/users/ann/agents/bot"), ("/.agent", "/agents/bot")]);
        for (is_hidden, at) in [
            (true, "/.user/session/s/meta.json"),
            (true, "/.user/session/s/context/pack/1.json"),
            (true, "/.agent/settings.json"),
            (true, "/notes/.outbox/e.json"),
            (false, "/.user/session/s/messages.jsonl"),
            (false, "/notes/meta.json"),
        ] {
            assert_eq!(view.is_machine_file(&path(at)), is_hidden, "{at}");
        }
        assert!(AccountPaths::new("acme").is_machine_file(&path("/agents/bot/settings.json")));
        assert_eq!(view.own(&path("/agents/bot/kv/a.json")), None, "a file of the chat");
    }

    #[test]
    fn patterns_of_a_view_are_below_its_places() {
        let view = view(&[("/.user", "/users/ann/agents/bot"), ("/.agent/skills", "/agents/bot/skills")]);
        let of = |pattern: &str| {
            let patterns = view.patterns(&[pattern]).unwrap();
            patterns.iter().map(|one| format!("{} {}", one.from, one.pattern)).collect::<Vec<_>>()
        };
        assert_eq!(of("/users/*/agents/*/session/*/messages.jsonl"), ["/.user /session/*/messages.jsonl"]);
        assert_eq!(of("/agents/*/skills/*/**"), ["/.agent/skills /*/**"]);
        assert_eq!(of("/agents/*/kv/**"), [""; 0]);
        assert!(view.patterns(&["/users/*/**"]).is_none());
    }
}
