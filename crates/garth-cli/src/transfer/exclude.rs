//! Patterns of `--exclude`.

use std::borrow::Cow;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::fail::{Failure, Result};

/// Message for a directory that `--delete` would replace if it held no excluded entries.
pub(super) const HOLDS_EXCLUDED: &str =
    "skipped, the directory in the way contains entries excluded by --exclude";

/// Patterns of `--exclude`.
pub(crate) struct Exclude {
    entries: GlobSet,
    /// Patterns that end with `/`.
    directories: GlobSet,
}

impl Exclude {
    /// Compiles patterns. A pattern that ends with `/` matches directories only. Otherwise, one without `/`
    /// matches names at any depth, one with `/` the path from the top.
    pub(crate) fn new(patterns: &[String]) -> Result<Self> {
        let (mut entries, mut directories) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for pattern in patterns {
            let inner = pattern.trim_end_matches('/');
            let set = if inner.len() < pattern.len() { &mut directories } else { &mut entries };
            let anywhere: Cow<'_, str> = match inner.trim_start_matches('/') {
                from_top if inner.contains('/') => from_top.into(),
                name => format!("**/{name}").into(),
            };
            let glob = GlobBuilder::new(&anywhere).literal_separator(true).build();
            set.add(glob.map_err(|error| Failure::Usage(format!("--exclude {pattern}: {error}")))?);
        }
        let built = |set: GlobSetBuilder| set.build().map_err(|error| Failure::Usage(error.to_string()));
        Ok(Self { entries: built(entries)?, directories: built(directories)? })
    }

    /// Returns true if there is no pattern.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.directories.is_empty()
    }

    /// Returns true if `path`, from the top, matches a pattern itself.
    pub(crate) fn leaves_out(&self, path: &str, is_directory: bool) -> bool {
        self.entries.is_match(path) || is_directory && self.directories.is_match(path)
    }

    /// Returns true if `path` or a directory above it is excluded.
    pub(crate) fn leaves_out_above(&self, path: &str, is_directory: bool) -> bool {
        let mut above = path.match_indices('/').map(|(end, _)| &path[..end]);
        !self.is_empty()
            && (above.any(|above| self.leaves_out(above, true)) || self.leaves_out(path, is_directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusions_match_names_or_paths_from_the_top() {
        let exclude =
            Exclude::new(&["target".into(), "docs/*.html".into(), "/top".into()]).expect("patterns");
        for is_directory in [false, true] {
            let leaves_out = |path| exclude.leaves_out(path, is_directory);
            assert!(leaves_out("target") && leaves_out("a/b/target"));
            assert!(leaves_out("docs/a.html") && !leaves_out("x/docs/a.html"));
            assert!(leaves_out("top") && !leaves_out("a/top"));
            assert!(exclude.leaves_out_above("a/target/b/c", is_directory));
            assert!(!exclude.leaves_out_above("a/targets/b", is_directory));
        }
        assert!(Exclude::new(&["[".into()]).is_err());
    }

    #[test]
    fn trailing_slash_excludes_directories_only() {
        let exclude = Exclude::new(&["cache/".into(), "/top/".into(), "a/b/".into()]).expect("patterns");
        for directory in ["cache", "x/y/cache", "top", "a/b"] {
            assert!(exclude.leaves_out(directory, true), "{directory}");
            assert!(!exclude.leaves_out(directory, false), "a file: {directory}");
        }
        assert!(!exclude.leaves_out("x/top", true) && !exclude.leaves_out("x/a/b", true));
        assert!(exclude.leaves_out_above("x/cache/file", false));
        assert!(!exclude.leaves_out_above("x/cache", false) && !exclude.is_empty());
    }
}
