//! Names of files by which their path classes are judged.

use std::cell::OnceCell;

use super::kept_states::ABOUT;
use super::reads::gated_facts::GatedFacts;
use super::reads::tree_rows::{CommitSpan, Read, TreeRows};
use super::reads::tree_view::{TreeView, own};
use crate::fs::forks;
use crate::model::{At, Within};
use crate::path::TreePath;
use crate::rule::retention::MAX_JUDGED_NAMES;

/// Returns the names that a node has or had last, one more of them than are judged at most. A file that was
/// written in an overlay has the names that the overlay shows. The view reaches the whole account.
///
/// # Errors
/// Errors of the database.
pub fn judged_names<R: TreeRows>(view: &TreeView<'_, R>, ino: u64) -> Read<R, Vec<TreePath>> {
    let last = view.rows.last_unlink(ino)?.map(|end| end.saturating_sub(1));
    let span = last.map_or(CommitSpan::NOW, CommitSpan::at);
    let names = view.rows.names_in_span(ino, span, &Within::everything(), MAX_JUDGED_NAMES + 1)?;
    let mut names: Vec<TreePath> = names.iter().map(|(dir, name)| TreePath::from_row(dir, name)).collect();
    forks::as_shown(&mut names, |about| description(view, last, about))?;
    Ok(names)
}

/// Returns the description of an overlay, now or after commit `seq`; `None` if there is none.
fn description<R: TreeRows>(
    view: &TreeView<'_, R>,
    seq: Option<u64>,
    about: &TreePath,
) -> Read<R, Option<Vec<u8>>> {
    // The state may be no longer readable for others. Its rows are stored, as content that ended with it is
    // judged before they are removed.
    let then = seq.map(|seq| TreeView {
        as_of: Some(seq),
        is_past: true,
        oldest: OnceCell::new(),
        gated: GatedFacts::default(),
        ..*view
    });
    match own(then.as_ref().unwrap_or(view).fetch_at(&At::Path(about.clone()), ABOUT))? {
        Ok((_, text)) => Ok(Some(text.to_vec())),
        Err(error) if !error.is_of_storage() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
