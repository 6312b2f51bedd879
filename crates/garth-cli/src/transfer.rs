//! Folders and tar archives of this machine, into the tree and out of it.

mod from_folder;
mod from_tar;
mod load;
mod save;
mod to_folder;
mod to_tar;

pub(crate) use self::from_folder::{count, from_folder};
pub(crate) use self::from_tar::from_tar;
pub(crate) use self::load::Loader;
pub(crate) use self::save::save;
pub(crate) use self::to_folder::Folder;
pub(crate) use self::to_tar::Tar;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::fail::{Failure, Failures, Result};

/// What was brought over.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Count {
    pub(crate) files: u64,
    pub(crate) directories: u64,
    pub(crate) symlinks: u64,
    pub(crate) hard_links: u64,
    pub(crate) bytes: u64,
    pub(crate) failed: u64,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} files, {} directories, {} symbolic links",
            self.files, self.directories, self.symlinks
        )?;
        if self.hard_links > 0 {
            write!(f, ", {} hard links", self.hard_links)?;
        }
        write!(f, ", {}", HumanBytes(self.bytes))?;
        if self.failed > 0 { write!(f, "; {} failed", self.failed) } else { Ok(()) }
    }
}

/// Shows on a terminal how far it is, and keeps what failed.
pub(crate) struct Report {
    bar: ProgressBar,
    failures: Failures,
    json: bool,
}

impl Report {
    /// Counts entries, towards `total` if that is known.
    pub(crate) fn new(total: Option<u64>, json: bool) -> Self {
        let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let style = match total {
            Some(_) => "{bar:30} {pos}/{len} entries  {elapsed}  {wide_msg}",
            None => "{spinner} {pos} entries  {elapsed}  {wide_msg}",
        };
        bar.set_style(ProgressStyle::with_template(style).expect("the templates above are valid"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, failures: Failures::default(), json }
    }

    /// One entry more.
    pub(crate) fn step(&self, name: &str) {
        self.bar.inc(1);
        if !self.bar.is_hidden() {
            self.bar.set_message(crate::escape::escaped(name).into_owned());
        }
    }

    /// What could not be brought over; the rest goes on.
    pub(crate) fn fail(&mut self, failure: Failure) -> Result {
        let (failures, json) = (&mut self.failures, self.json);
        self.bar.suspend(|| failures.add(Err(failure), json))
    }

    /// Ends the display; gives how many failed.
    pub(crate) fn end(&self) -> u64 {
        self.bar.finish_and_clear();
        self.failures.count()
    }

    /// The outcome of all.
    pub(crate) fn done(&self) -> Result {
        self.failures.done()
    }
}

/// Names that an import leaves out because it was told to.
pub(crate) struct Exclude(GlobSet);

impl Exclude {
    /// A pattern without `/` is matched against names at any depth, one with `/` against the path from the top.
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

    /// Whether this path from the top is left out itself.
    pub(crate) fn leaves_out(&self, path: &str) -> bool {
        self.0.is_match(path)
    }

    /// Whether this path or a directory above it is left out.
    pub(crate) fn leaves_out_above(&self, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        ends.into_iter().any(|end| self.leaves_out(&path[..end]))
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
