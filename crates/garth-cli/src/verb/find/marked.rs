//! `garth find --tag` and `--meta`: lookup of tags and values by key, without a walk.

use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Attributes, FindQuery};
use garth_engine::{FileSystem, TreePath};

use crate::app::stat_path;
use crate::fail::Result;

/// Limit on the paths that are sorted at once into the order of a walk.
const PIECE: usize = 100_000;

/// Tags and values that an entry must have, all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks<'a> {
    pub(super) tags: &'a [String],
    /// Custom metadata: keys and values.
    pub(super) values: &'a [(String, String)],
}

impl Marks<'_> {
    /// Returns true if `attributes` have all of the marks.
    pub(super) fn are_in(&self, attributes: &Attributes) -> bool {
        self.tags.iter().all(|tag| attributes.tags.contains(tag))
            && self.values.iter().all(|(key, value)| attributes.metadata.get(key) == Some(value))
    }

    /// Returns the query for the first mark; `None` without marks.
    fn query(&self) -> Option<FindQuery> {
        // The other marks are tested on the entries that are found.
        let value = self.values.first().map(|(key, value)| FindQuery::metadata(key, value));
        self.tags.first().map(|tag| FindQuery::tag(tag)).or(value)
    }
}

/// Iterator over the paths at and below a path that have the marks, in pieces.
pub(super) struct MarkedPaths {
    top: TreePath,
    query: Option<FindQuery>,
}

impl MarkedPaths {
    /// Returns `None` if there are no marks, or if the store has no index of them.
    pub(super) async fn below(fs: &dyn FileSystem, path: &str, marks: Marks<'_>) -> Result<Option<Self>> {
        let Some(query) = marks.query() else { return Ok(None) };
        let (top, _) = stat_path(fs, path, Follow::No).await?;
        if !fs.capabilities(&top).find {
            return Ok(None);
        }
        Ok(Some(Self { query: Some(query.within(top.clone())), top }))
    }

    /// Returns the next paths, each with its depth below the top; `None` at the end.
    pub(super) async fn piece(&mut self, fs: &dyn FileSystem) -> Result<Option<Vec<(TreePath, usize)>>> {
        let Some(mut query) = self.query.take() else { return Ok(None) };
        let mut paths = Vec::new();
        loop {
            let found = fs.find(&query).await?;
            paths.extend(found.items.into_iter().map(|item| item.path));
            let Some(next) = found.next else { break };
            query = query.after(next);
            if paths.len() >= PIECE {
                self.query = Some(query);
                break;
            }
        }
        paths.sort_by(|one, other| one.segments().cmp(other.segments()));
        let above = self.top.segments().count();
        let deep = |path: TreePath| {
            let depth = path.segments().count() - above;
            (path, depth)
        };
        Ok(Some(paths.into_iter().map(deep).collect()))
    }
}
