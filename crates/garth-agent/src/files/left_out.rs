//! Names that a search leaves out, such as those beside the text of memories in a search for a model: they
//! repeat the text, so one fact would be found ten times. A pattern that names them finds them.

use super::glob_pattern::is_pattern;

/// Names that a search leaves out, with everything below them.
pub(super) struct LeftOut(Vec<&'static str>);

impl LeftOut {
    /// Returns those of the names that none of the patterns names.
    pub(super) fn unless_named(names: &[&'static str], patterns: &[String]) -> Self {
        let names = names.iter().copied();
        Self(names.filter(|name| !patterns.iter().any(|pattern| is_named(pattern, name))).collect())
    }

    /// Returns true if a path has one of the names.
    pub(super) fn has(&self, path: &str) -> bool {
        !self.0.is_empty() && path.split('/').any(|segment| self.0.contains(&segment))
    }
}

/// Returns true if a pattern has a name in it, or looks for names that begin with a dot.
fn is_named(pattern: &str, name: &str) -> bool {
    pattern.contains(name) || pattern.split('/').any(|part| part.starts_with('.') && is_pattern(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = [".meta.json", ".overview.md", ".outbox"];

    #[test]
    fn names_are_left_out_unless_a_pattern_names_them() {
        let has = |pattern: &str, path: &str| LeftOut::unless_named(&NAMES, &[pattern.to_owned()]).has(path);
        for left_out in ["/m/.meta.json", "/m/.outbox", "/m/.outbox/dlq/1.json", "/.overview.md"] {
            for pattern in ["/**", "*.json", "/.agent/**", "/m/*", "?meta.json"] {
                assert!(has(pattern, left_out), "{pattern} {left_out}");
            }
            for pattern in ["/**/.*", ".[mo]*", "/m/{.meta.json,.outbox,.overview.md}"] {
                assert!(!has(pattern, left_out), "{pattern} {left_out}");
            }
        }
        assert!(!has("/**/.outbox/*", "/m/.outbox/1.json") && has("/**/.outbox/*", "/m/.meta.json"));
        for shown in ["/", "/m/content.md", "/m/meta.json", "/.agent/.env", "/m/.meta.json.bak"] {
            assert!(!has("/**", shown), "{shown}");
        }
        assert!(!LeftOut::unless_named(&[], &[]).has("/m/.meta.json"));
    }
}
