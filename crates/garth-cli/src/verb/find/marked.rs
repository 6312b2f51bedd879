//! `garth find --tag`, `--meta`: what has a tag or a value is found by key, without a walk.

use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Attributes, FindQuery};
use garth_engine::{FileSystem, TreePath};

use crate::app::stat_path;
use crate::fail::Result;

/// Paths that are known before any is shown: their order is that of a walk.
const PIECE: usize = 100_000;

/// What an entry must have, all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks<'a> {
    pub(super) tags: &'a [String],
    /// Custom metadata: keys and values.
    pub(super) values: &'a [(String, String)],
}

impl Marks<'_> {
    /// Whether attributes have all.
    pub(super) fn are_in(&self, attributes: &Attributes) -> bool {
        self.tags.iter().all(|tag| attributes.tags.contains(tag))
            && self.values.iter().all(|(key, value)| attributes.metadata.get(key) == Some(value))
    }

    /// What has the first of them; `None` if nothing is asked for.
    fn query(&self) -> Option<FindQuery> {
        let value = self.values.first().map(|(key, value)| FindQuery::metadata(key, value));
        self.tags.first().map(|tag| FindQuery::tag(tag)).or(value)
    }
}

/// The paths at and below one that have marks, a piece at a time.
pub(super) struct Marked {
    top: TreePath,
    query: Option<FindQuery>,
}

impl Marked {
    /// `None` where there are no marks to find by, or nothing is found by key.
    pub(super) async fn below(fs: &dyn FileSystem, path: &str, marks: Marks<'_>) -> Result<Option<Self>> {
        let Some(query) = marks.query() else { return Ok(None) };
        let (top, _) = stat_path(fs, path, Follow::No).await?;
        if !fs.capabilities(&top).find {
            return Ok(None);
        }
        Ok(Some(Self { query: Some(query.within(top.clone())), top }))
    }

    /// The next paths, each with how far it lies below the top; `None` behind the last.
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
