//! Names of files by which their path classes are judged.

use std::cell::OnceCell;

use crate::engine::planner::NodeRow;
use crate::engine::relational::reads::gated_facts::GatedFacts;
use crate::engine::relational::reads::tree_view::TreeView;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::names_of_node::{self, CommitSpan};
use crate::engine::sqlite::tables::nodes;
use crate::fs::forks;
use crate::model::{At, ByteRange, Within};
use crate::path::TreePath;
use crate::rule::retention::MAX_JUDGED_NAMES;
use crate::sqlite::{DbError, DbResult};

/// Bytes of the description of an overlay, which has a path in it.
pub(super) const ABOUT: ByteRange = ByteRange { offset: 0, length: 64 << 10 };

/// Returns the names that a node has or had last, one more of them than are judged at most. A file that was
/// written in an overlay has the names that the overlay shows. The view reaches the whole account.
pub(super) fn judged_names(view: &ReadView<'_>, newest: &NodeRow) -> DbResult<Vec<TreePath>> {
    let last = nodes::last_unlink(view.conn, newest.ino)?.map(|end| end.saturating_sub(1));
    let span = last.map_or(CommitSpan::NOW, CommitSpan::at);
    let everything = Within::everything();
    let names = names_of_node::in_span(view.conn, newest.ino, span, &everything, MAX_JUDGED_NAMES + 1)?;
    let mut names: Vec<TreePath> = names.iter().map(|(dir, name)| TreePath::from_row(dir, name)).collect();
    forks::as_shown(&mut names, |about| description(view, last, about))?;
    Ok(names)
}

/// Returns the description of an overlay, now or after commit `seq`; `None` if there is none.
fn description(view: &ReadView<'_>, seq: Option<u64>, about: &TreePath) -> DbResult<Option<Vec<u8>>> {
    // The state may be no longer readable for others. Its rows are stored, as content that ended with it is
    // judged before they are removed.
    let then = seq.map(|seq| {
        let tree = TreeView {
            as_of: Some(seq),
            is_past: true,
            oldest: OnceCell::new(),
            gated: GatedFacts::default(),
            ..view.tree
        };
        ReadView { tree, ..*view }
    });
    match then.as_ref().unwrap_or(view).fetch(&At::Path(about.clone()), ABOUT) {
        Ok((_, text)) => Ok(Some(text.to_vec())),
        Err(DbError::Other(error)) if !error.is_of_storage() => Ok(None),
        Err(error) => Err(error),
    }
}
