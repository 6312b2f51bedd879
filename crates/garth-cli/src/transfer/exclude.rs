//! Which names `--exclude` leaves out.

use std::borrow::Cow;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::fail::{Failure, Result};

/// The patterns of `--exclude`.
pub(crate) struct Exclude(GlobSet);

impl Exclude {
    /// A pattern without `/` is matched against names at any depth, one with `/`
    /// against the path from the top.
    pub(crate) fn new(patterns: &[String]) -> Result<Self> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let anywhere: Cow<'_, str> = match pattern.trim_start_matches('/') {
                inner if pattern.contains('/') => inner.trim_end_matches('/').into(),
                name => format!("**/{name}").into(),
            };
            let glob = GlobBuilder::new(&anywhere).literal_separator(true).build();
            set.add(glob.map_err(|error| Failure::Usage(format!("--exclude {pattern}: {error}")))?);
        }
        set.build().map(Self).map_err(|error| Failure::Usage(error.to_string()))
    }

    /// Whether there is no pattern.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this path from the top is left out itself.
    pub(crate) fn leaves_out(&self, path: &str) -> bool {
        self.0.is_match(path)
    }

    /// Whether this path or a directory above it is left out.
    pub(crate) fn leaves_out_above(&self, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        !self.is_empty() && ends.into_iter().any(|end| self.leaves_out(&path[..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusions_match_names_or_paths_from_the_top() {
        let exclude =
            Exclude::new(&["target".into(), "docs/*.html".into(), "/top/".into()]).expect("patterns");
        assert!(exclude.leaves_out("target") && exclude.leaves_out("a/b/target"));
        assert!(exclude.leaves_out("docs/a.html") && !exclude.leaves_out("x/docs/a.html"));
        assert!(exclude.leaves_out("top") && !exclude.leaves_out("a/top"));
        assert!(exclude.leaves_out_above("a/target/b/c") && !exclude.leaves_out_above("a/targets/b"));
        assert!(Exclude::new(&["[".into()]).is_err());
    }
}
