//! Paths by pattern, in pages.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cursor::{Cursors, moment_json, path_of};
use super::handle::Files;
use super::left_out::LeftOut;
use super::limits::{Budget, Limits};
use super::matches::{After, Matches, Row};
use crate::boxed;
use garth_engine::error::{Error, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Entry, MAX_PAGE_BYTES, Moment, Weigh as _};
use garth_engine::path::TreePath;

/// Search for paths by pattern.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Glob {
    /// Pattern of complete paths, beginning with `/`: `*` and `?` match within a name, `**` across
    /// directories, `[ab]` and `{a,b}` are alternatives, `\` quotes the next character. With a `/` at the
    /// end it matches directories only. Links above the first wildcard are followed.
    pub pattern: String,
    /// Path at which the tree begins, if there is nothing above it; `None` for a tree with a root. The
    /// pattern may begin above it.
    pub top: Option<TreePath>,
    /// Names to leave out, with everything below them, unless the pattern names them.
    #[doc(hidden)]
    pub left_out: &'static [&'static str],
    /// Time as of which the tree is searched; `None` for now.
    pub at: Option<Moment>,
    /// Limits of one call. The answer counts the entries, at most [`MAX_PAGE_BYTES`].
    pub limits: Limits,
    /// Start: [`GlobPage::next`] of the page before, or `None` for the first page.
    pub cursor: Option<String>,
}

/// Page of paths that match.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GlobPage {
    /// Matches, in the order of [`Matches`].
    pub items: Vec<GlobMatch>,
    /// Errors of directories that are left out, in the same order, each about the path of one. In a tree of
    /// several stores, such as that of all accounts, they are those that cannot be read.
    pub failed: Vec<Error>,
    /// Cursor of the next page; `None` if this is the last one. The next page may be empty.
    pub next: Option<String>,
}

/// Path that matches.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GlobMatch {
    /// Path.
    pub path: TreePath,
    /// Node there.
    pub entry: Entry,
}

/// Position of a page.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Position {
    /// Key of the last path that was looked at.
    After(String),
    /// Key of a directory that is left out.
    Beyond {
        /// The key.
        beyond: String,
    },
}

impl Position {
    fn of(row: &Row) -> Self {
        let key = row.path.key().to_owned();
        if row.failed.is_some() { Self::Beyond { beyond: key } } else { Self::After(key) }
    }

    fn after(&self) -> Result<After> {
        Ok(match self {
            Self::After(key) => After { path: path_of(key)?, is_left_out: false },
            Self::Beyond { beyond } => After { path: path_of(beyond)?, is_left_out: true },
        })
    }
}

impl Glob {
    /// Returns a search of the current tree.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            top: None,
            left_out: &[],
            at: None,
            limits: Limits::default(),
            cursor: None,
        }
    }
}

impl Files<'_> {
    /// Returns the paths that match a pattern.
    ///
    /// Each page reads the tree at its own time, unless [`Glob::at`] names one. Its cost grows with the names
    /// in the directories that [`Matches`] reads.
    ///
    /// # Errors
    /// `InvalidArgument` for a malformed pattern, a limit of 0 or a cursor of another request; as
    /// [`as_of`](garth_engine::FileSystem::as_of); errors of the filesystem.
    #[boxed]
    pub async fn glob(&self, asked: &Glob) -> Result<GlobPage> {
        let cursors =
            Cursors::of(&json!(["glob", asked.pattern, asked.left_out, moment_json(asked.at.as_ref())]));
        let left_out = LeftOut::unless_named(asked.left_out, std::slice::from_ref(&asked.pattern));
        let after = match &asked.cursor {
            Some(cursor) => Some(cursors.open::<Position>(cursor)?.after()?),
            None => None,
        };
        let limits = Limits { bytes: asked.limits.bytes.min(MAX_PAGE_BYTES), ..asked.limits };
        let mut budget = Budget::new(limits, self.stop)?;
        let past = self.past(asked.at.as_ref()).await?;
        let fs: &dyn FileSystem = past.as_deref().unwrap_or(self.fs);
        let mut matches =
            Matches::resume(fs, &asked.pattern, asked.top.as_ref(), after, limits.names).await?;
        let mut page = GlobPage::default();
        while let Some(row) = matches.step().await? {
            let position = Position::of(&row);
            budget.name();
            if let Some(error) = row.failed {
                budget.item(row.path.weight() + error.message().len());
                page.failed.push(error);
            }
            if let Some(entry) = row.entry.filter(|_| !left_out.has(row.path.as_str())) {
                budget.item(row.path.weight() + entry.weight());
                page.items.push(GlobMatch { path: row.path, entry });
            }
            if budget.is_spent() {
                page.next = Some(cursors.seal(&position)?);
                break;
            }
        }
        Ok(page)
    }
}
