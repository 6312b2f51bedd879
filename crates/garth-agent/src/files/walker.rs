//! Walk of everything below a directory, page by page.

use std::collections::VecDeque;

use garth_engine::compute::{go_on, working};
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Entry, WalkPage};
use garth_engine::path::TreePath;

/// Limit on the names of one page: enough that paging costs little.
pub(super) const PAGE: usize = 1000;

/// Paths below a directory with their entries, in the order of a walk.
pub(super) struct Walker<'a> {
    fs: &'a dyn FileSystem,
    top: At,
    after: Option<TreePath>,
    ready: VecDeque<(TreePath, Entry)>,
    more: bool,
    page: usize,
}

impl<'a> Walker<'a> {
    /// Starts after a path below the directory, or with its first name, in pages of at most `names`.
    pub(super) fn new(fs: &'a dyn FileSystem, top: &TreePath, after: Option<TreePath>, names: usize) -> Self {
        let (ready, page) = (VecDeque::new(), names.clamp(1, PAGE));
        Self { fs, top: At::from(top), after, ready, more: true, page }
    }

    /// Returns the next path.
    pub(super) async fn next(&mut self) -> Result<Option<(TreePath, Entry)>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if !self.more {
                return Ok(None);
            }
            go_on()?;
            let page = WalkPage::default().after(self.after.take()).limit(self.page).with_entries();
            let walk = self.fs.walk(&self.top, &page).await?;
            working(walk.items.iter().map(|item| item.path.key().len()).sum());
            self.more = walk.more;
            self.after = walk.items.last().map(|item| item.path.clone());
            self.ready.extend(walk.items.into_iter().filter_map(|item| Some((item.path, *item.entry?))));
        }
    }
}
