//! `garth glob`: paths by pattern.

use clap::Args;
use garth::fs::resolve::Follow;
use garth::model::Kind;
use garth::{ErrorKind, TreePath};
use globset::{GlobBuilder, GlobMatcher};

use crate::app::App;
use crate::args::Past;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::out::entry_json;
use crate::walk::Walker;

/// Find paths by pattern
///
/// `*` and `?` stay inside a name, `**` crosses directories; `[ab]` and `{a,b}` choose. Order: by directory,
/// then name. With --json one object a path: path, name, kind, size, mode, times, attributes, version.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth glob '/notes/**/*.md'")]
pub(crate) struct Glob {
    /// The pattern, from the root: it begins with `/`
    pattern: String,
    /// Only files, or only directories
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<OnlyKind>,
    #[command(flatten)]
    past: Past,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum OnlyKind {
    #[value(alias = "f")]
    File,
    #[value(alias = "d")]
    Dir,
}

impl Glob {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let matcher = matcher(&self.pattern)?;
        let fs = app.pinned(&self.past).await?;
        let mut walker = match Walker::new(fs, base(&self.pattern), Follow::No, true).await {
            Ok(walker) => walker,
            // Where the fixed part of the pattern leads nowhere, nothing matches.
            Err(error) if error.is(ErrorKind::NotFound) || error.is(ErrorKind::NotADirectory) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        while let Some((path, entry)) = walker.next().await? {
            let wanted = match self.kind {
                None => true,
                Some(OnlyKind::File) => entry.kind == Kind::File,
                Some(OnlyKind::Dir) => entry.kind == Kind::Directory,
            };
            if wanted && path != TreePath::root() && matcher.is_match(path.as_str()) {
                app.out.item(&entry_json(&path, &entry), escaped(path.as_str()))?;
            }
        }
        Ok(())
    }
}

fn matcher(pattern: &str) -> Result<GlobMatcher> {
    if !pattern.starts_with('/') {
        return Err(Failure::Usage(format!("{pattern}: a pattern begins with `/`, such as /**/*.md")));
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| Failure::Usage(error.to_string()))
}

/// The directory that holds everything a pattern can match: its segments before the first with a wildcard.
fn base(pattern: &str) -> &str {
    let wild = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    match pattern[..wild].rfind('/') {
        Some(0) | None => "/",
        Some(end) => &pattern[..end],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_begins_at_the_fixed_part_of_the_pattern() {
        assert_eq!(base("/notes/2026/*.md"), "/notes/2026");
        assert_eq!(base("/notes/**"), "/notes");
        assert_eq!(base("/n*/a"), "/");
        assert_eq!(base("/notes/a.md"), "/notes");
        assert_eq!(base("/{a,b}"), "/");
    }

    #[test]
    fn a_star_stays_inside_a_name() {
        let star = matcher("/notes/*.md").expect("a pattern");
        assert!(star.is_match("/notes/a.md"));
        assert!(!star.is_match("/notes/b/a.md"));
        let deep = matcher("/notes/**/*.md").expect("a pattern");
        assert!(deep.is_match("/notes/a.md") && deep.is_match("/notes/b/c/a.md"));
        assert!(matcher("notes/*").is_err() && matcher("/[").is_err());
    }
}
