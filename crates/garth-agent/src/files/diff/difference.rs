//! Difference of one path between two states.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hunks::TextDifference;
use super::side::{Content, Side};
use crate::boxed;
use crate::files::limits::Budget;
use crate::files::open_version::open_version;
use garth_engine::compute::{go_on, working};
use garth_engine::error::{ErrorKind, Result};
use garth_engine::model::Kind;
use garth_engine::path::TreePath;

/// Bytes of two files that are compared at once.
const STEP: usize = 1 << 20;

/// Parts of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffForm {
    /// Only the path, and what is different.
    Names,
    /// Numbers of added and removed lines.
    Counts,
    /// Hunks of a unified diff, with this many lines of context.
    Hunks(usize),
}

/// Difference of one path.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// Path in the newer state; of a removed entry, in the older one.
    pub path: TreePath,
    /// Path in the older state, if it is another one.
    pub from_path: Option<TreePath>,
    /// Kind of the change.
    pub change: Change,
    /// Kind of the entry in the older state, and in the newer one.
    pub kinds: [Option<Kind>; 2],
    /// Attributes that differ: `kind`, `mode`, `owner`, `device`, `target`, `attributes`, `expiry`. None for
    /// an entry that was added or removed.
    pub attributes: Vec<&'static str>,
    /// Difference of the content; `None` if the content is the same, has no lines (a directory), or the form
    /// is [`DiffForm::Names`].
    pub content: Option<ContentDifference>,
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DifferenceKind")]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Only the newer state has the entry.
    Added,
    /// Only the older state has the entry.
    Removed,
    /// Both have it, and it differs.
    Changed,
}

/// Difference of the content of a file, or of the target of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContentDifference {
    /// Both are text.
    Lines {
        /// Number of added lines.
        added: usize,
        /// Number of removed lines.
        removed: usize,
        /// Hunks of the unified diff, with [`DiffForm::Hunks`]; else empty. Empty, too, for an empty file
        /// that was added or removed. A page may have a part of them.
        hunks: String,
        /// True if the next page continues with the hunks.
        more: bool,
    },
    /// One of them is not UTF-8, or has a NUL.
    Binary,
    /// One of them is longer than [`Diff::max_text`](super::Diff::max_text), or has more lines than
    /// [`Diff::max_lines`](super::Diff::max_lines).
    TooLong,
    /// One of them is no longer stored, because the retention of its path class keeps less.
    Gone,
}

/// Result of comparing the bytes of two files.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Compared {
    Equal,
    Different,
    /// Equal up to this offset. The rest was not compared.
    Until(u64),
}

impl Difference {
    /// Returns the hunks of the unified diff, if there are any.
    pub fn hunks(&self) -> Option<&str> {
        match &self.content {
            Some(ContentDifference::Lines { hunks, .. }) if !hunks.is_empty() => Some(hunks),
            _ => None,
        }
    }
}

impl Side<'_> {
    /// Returns the difference to a newer side, without those below directories; `None` if there is none.
    ///
    /// # Errors
    /// Errors of the filesystem; `TimedOut` as [`unified`](super::unified).
    #[boxed]
    pub async fn difference(&self, to: &Side<'_>, form: DiffForm) -> Result<Option<Difference>> {
        let mut budget = Budget::unlimited();
        let same_content = self.compare(to, 0, &mut budget).await? == Compared::Equal;
        self.described(to, same_content, form, &mut budget).await
    }

    /// Compares the content with that of a newer side, from an offset on at which it is equal so far.
    pub(super) async fn compare(
        &self,
        to: &Side<'_>,
        offset: u64,
        budget: &mut Budget<'_>,
    ) -> Result<Compared> {
        let (Some(old), Some(new)) = (&self.entry, &to.entry) else { return Ok(Compared::Different) };
        if old.kind != new.kind || old.target != new.target {
            return Ok(Compared::Different);
        }
        if old.kind != Kind::File || old.etag == new.etag {
            return Ok(Compared::Equal);
        }
        // Equal etags prove equal content, but writing the same bytes again changes the etag.
        if old.size != new.size {
            return Ok(Compared::Different);
        }
        let a = open_version(self.fs, &self.path, old.version).await;
        let b = open_version(to.fs, &to.path, new.version).await;
        let is_gone = |side: &Result<_>| side.as_ref().is_err_and(|error| error.is(ErrorKind::Gone));
        if is_gone(&a) || is_gone(&b) {
            return Ok(Compared::Different);
        }
        let (a, b) = (a?, b?);
        let mut offset = offset;
        loop {
            go_on()?;
            let (left, right) = (a.read_at(offset, STEP).await?, b.read_at(offset, STEP).await?);
            working(left.len());
            budget.read(left.len() + right.len());
            if left != right {
                return Ok(Compared::Different);
            }
            // The sizes are equal, so both files end here.
            if left.is_empty() {
                return Ok(Compared::Equal);
            }
            offset += left.len() as u64;
            if budget.is_spent() {
                return Ok(Compared::Until(offset));
            }
        }
    }

    /// Returns the difference to a newer side with which the content was compared.
    pub(super) async fn described(
        &self,
        to: &Side<'_>,
        same_content: bool,
        form: DiffForm,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Difference>> {
        let change = match (&self.entry, &to.entry) {
            (None, None) => return Ok(None),
            (None, Some(_)) => Change::Added,
            (Some(_), None) => Change::Removed,
            (Some(_), Some(_)) => Change::Changed,
        };
        let attributes = self.changed_attributes(to);
        if change == Change::Changed && attributes.is_empty() && same_content {
            return Ok(None);
        }
        let has_lines = !same_content && !self.is_directory() && !to.is_directory();
        let content = match form {
            DiffForm::Counts if has_lines => Some(self.content_difference(to, None, budget).await?),
            DiffForm::Hunks(context) if has_lines => {
                Some(self.content_difference(to, Some(context), budget).await?)
            }
            DiffForm::Names | DiffForm::Counts | DiffForm::Hunks(_) => None,
        };
        let path = if to.entry.is_some() { &to.path } else { &self.path };
        Ok(Some(Difference {
            path: path.clone(),
            from_path: (self.path != to.path).then(|| self.path.clone()),
            change,
            kinds: [self.kind(), to.kind()],
            attributes,
            content,
        }))
    }

    async fn content_difference(
        &self,
        to: &Side<'_>,
        context: Option<usize>,
        budget: &mut Budget<'_>,
    ) -> Result<ContentDifference> {
        let (old, new) = match (self.content(budget).await?, to.content(budget).await?) {
            (Content::Text(old), Content::Text(new)) => (old, new),
            (Content::Binary, _) | (_, Content::Binary) => return Ok(ContentDifference::Binary),
            (Content::Long, _) | (_, Content::Long) => return Ok(ContentDifference::TooLong),
            (Content::Gone, _) | (_, Content::Gone) => return Ok(ContentDifference::Gone),
        };
        let difference = TextDifference::of(&old, &new)?;
        let (added, removed) = difference.counts();
        let hunks = context.map_or_else(String::new, |context| difference.hunks(context));
        Ok(ContentDifference::Lines { added, removed, hunks, more: false })
    }

    /// Returns the names of the changed attributes; none if one side does not exist. Changed names of a
    /// directory are not an attribute: their entries are shown.
    fn changed_attributes(&self, to: &Side<'_>) -> Vec<&'static str> {
        let (Some(old), Some(new)) = (&self.entry, &to.entry) else { return Vec::new() };
        [
            ("kind", old.kind != new.kind),
            ("mode", old.mode != new.mode),
            ("owner", (old.uid, old.gid) != (new.uid, new.gid)),
            ("device", old.rdev != new.rdev),
            ("target", old.target != new.target),
            ("attributes", old.attributes != new.attributes),
            ("expiry", old.expires_at != new.expires_at),
        ]
        .into_iter()
        .filter_map(|(name, differs)| differs.then_some(name))
        .collect()
    }
}
