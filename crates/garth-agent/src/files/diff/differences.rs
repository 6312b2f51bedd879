//! Differences between two states of everything below a path, one after the other.

use std::cmp::Ordering;

use super::difference::{DiffForm, Difference};
use super::side::Side;
use crate::files::walker::{PAGE, Walker};
use garth_engine::error::Result;
use garth_engine::model::Entry;
use garth_engine::path::TreePath;

/// Differences between two states of a path and everything below it, in the order of a walk: a directory
/// precedes its entries. Holds no more than a page of names of both.
pub struct Differences<'a> {
    from: Side<'a>,
    to: Side<'a>,
    form: DiffForm,
    /// True until the paths themselves were compared.
    is_at_top: bool,
    olds: Names<'a>,
    news: Names<'a>,
}

/// Names below a side. None, if it is no directory.
struct Names<'a> {
    walker: Option<Walker<'a>>,
    next: Option<(TreePath, Entry)>,
}

/// The two states of one path.
pub(super) struct Pair<'a> {
    pub(super) from: Side<'a>,
    pub(super) to: Side<'a>,
    /// Key of the path below the two that are compared.
    pub(super) below: String,
}

impl<'a> Differences<'a> {
    /// Starts with the paths of two sides.
    pub fn new(from: Side<'a>, to: Side<'a>, form: DiffForm) -> Self {
        let (olds, news) = (Names::of(&from, None, PAGE), Names::of(&to, None, PAGE));
        Self { from, to, form, is_at_top: true, olds, news }
    }

    /// Starts after a path below both sides, or after the paths themselves. Reads at most `names` at a time.
    pub(super) fn resume(
        from: Side<'a>,
        to: Side<'a>,
        form: DiffForm,
        after: Option<[TreePath; 2]>,
        names: usize,
    ) -> Self {
        let is_at_top = after.is_none();
        let [old, new] = match after {
            Some([old, new]) => [Some(old), Some(new)],
            None => [None, None],
        };
        // The paths themselves are not below.
        let old = old.filter(|old| *old != from.path);
        let new = new.filter(|new| *new != to.path);
        let (olds, news) = (Names::of(&from, old, names), Names::of(&to, new, names));
        Self { from, to, form, is_at_top, olds, news }
    }

    /// Returns the next difference.
    ///
    /// # Errors
    /// As [`Side::difference`].
    pub async fn next(&mut self) -> Result<Option<Difference>> {
        while let Some(pair) = self.step().await? {
            if let Some(difference) = pair.from.difference(&pair.to, self.form).await? {
                return Ok(Some(difference));
            }
        }
        Ok(None)
    }

    /// Returns the next path that one of the sides has.
    pub(super) async fn step(&mut self) -> Result<Option<Pair<'a>>> {
        if std::mem::take(&mut self.is_at_top) {
            let (from, to) = (self.from.clone(), self.to.clone());
            return Ok(Some(Pair { from, to, below: String::new() }));
        }
        self.olds.fill().await?;
        self.news.fill().await?;
        // Both walks return paths in the same order, so they can be merged.
        let order = match (&self.olds.next, &self.news.next) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((old, _)), Some((new, _))) => {
                order_of(old, &self.from.path).cmp(&order_of(new, &self.to.path))
            }
        };
        let old = if order == Ordering::Greater { None } else { self.olds.next.take() };
        let new = if order == Ordering::Less { None } else { self.news.next.take() };
        let below = match (&old, &new) {
            (Some((path, _)), _) => below(path, &self.from.path),
            (None, Some((path, _))) => below(path, &self.to.path),
            (None, None) => return Ok(None),
        };
        let below = below.to_owned();
        let paths = [&old, &new].map(|item| item.as_ref().map(|(path, _)| path.clone()));
        // A side without the entry lacks it under the path that the other side has.
        let side = |of: &Side<'a>, item: Option<(TreePath, Entry)>, other: Option<&TreePath>| match item {
            Some((path, entry)) => of.with(&path, Some(entry)),
            None => of.with(other.unwrap_or(&of.path), None),
        };
        let from = side(&self.from, old, paths[1].as_ref());
        let to = side(&self.to, new, paths[0].as_ref());
        Ok(Some(Pair { from, to, below }))
    }
}

impl<'a> Names<'a> {
    fn of(side: &Side<'a>, after: Option<TreePath>, names: usize) -> Self {
        let walker = side.is_directory().then(|| Walker::new(side.fs, &side.path, after, names));
        Self { walker, next: None }
    }

    /// Reads the next name, unless it is there already.
    async fn fill(&mut self) -> Result<()> {
        if let (None, Some(walker)) = (&self.next, &mut self.walker) {
            self.next = walker.next().await?;
        }
        Ok(())
    }
}

/// Returns the key of a path below `top`.
fn below<'p>(path: &'p TreePath, top: &TreePath) -> &'p str {
    &path.key()[top.key().len()..]
}

/// Returns the key by which a walk from `top` orders a path: its directory, then its name.
fn order_of<'p>(path: &'p TreePath, top: &TreePath) -> (&'p str, &'p str) {
    below(path, top).rsplit_once('/').unwrap_or_default()
}
