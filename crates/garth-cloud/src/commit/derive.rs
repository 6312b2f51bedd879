//! Derived rows of a group, which are written in its transaction: those that follow from its batches, and
//! those of subtrees that a batch has moved or removed.

mod moved;

use garth_engine::engine::planner::{Delta, HeadRow, MAX_ROUNDS, Planned, derive_group, derive_written};
use garth_engine::rule::Registry;
use garth_engine::text::Tokenizer;
use garth_engine::{Result, TreePath};

use crate::rows::{DerivedWrites, PgRows, Writes};

/// Most bytes of text that are indexed in the transaction of a group, 4 MiB: about 0.3 s of work while the
/// account is locked. The rest is indexed in steps that do not wait for each other.
const IN_COMMIT: u64 = 4 << 20;
/// Number of moved files whose keys are derived at a time.
const FILES: usize = 1000;

/// Derives the rows that follow from the first batches of a run, which are not written yet.
///
/// # Errors
/// As [`derive_group`].
pub(super) async fn derive(
    rows: &mut PgRows<'_>,
    begin: HeadRow,
    planned: &[Result<Planned>],
) -> Result<DerivedWrites> {
    let (registry, mut tokenizer) = (rows.registry().clone(), Tokenizer::default());
    let limits = (MAX_ROUNDS, IN_COMMIT);
    let derived = derive_group(rows, (begin, planned), (&registry, &mut tokenizer), limits).await?;
    let mut writes = DerivedWrites::default();
    writes.add(derived);
    Ok(writes)
}

/// Derives the rows that follow from a batch that moves or removes subtrees, and writes them. Its rows must
/// be the last that were written, no row may have been fetched since, and `begin` is the head row before it.
///
/// # Errors
/// As [`derive_written`].
pub(super) async fn derive_moved(
    rows: &mut PgRows<'_>,
    begin: HeadRow,
    (delta, head): (&Delta, HeadRow),
) -> Result<()> {
    let (registry, mut tokenizer) = (rows.registry().clone(), Tokenizer::default());
    let renamed = renamed_files(rows, &registry, delta, head).await?;
    let (first, others) = renamed.split_at(renamed.len().min(FILES));
    let (limits, nothing) = ((MAX_ROUNDS, IN_COMMIT), Delta::default());
    let pieces = others.chunks(FILES).map(|files| (&nothing, files));
    for (delta, files) in [(delta, first)].into_iter().chain(pieces) {
        let derived =
            derive_written(rows, (begin, delta, files), (&registry, &mut tokenizer), limits).await?;
        let mut writes = DerivedWrites::default();
        writes.add(derived);
        if !delta.subtrees.lost().is_empty() {
            writes.lose(head.seq);
        }
        if !writes.is_empty() {
            rows.write(Writes::of(writes), head);
        }
        rows.forget();
    }
    Ok(())
}

/// Returns the files that a batch has moved, with a directory above, to where other projections apply.
async fn renamed_files(
    rows: &mut PgRows<'_>,
    registry: &Registry,
    delta: &Delta,
    head: HeadRow,
) -> Result<Vec<u64>> {
    let mut renamed = Vec::new();
    if registry.projections().is_empty() {
        return Ok(renamed);
    }
    for region in delta.subtrees.left() {
        let Some(to) = delta.subtrees.now(&region.dir) else { continue };
        if !may_have_keys(registry, &region.dir) && !may_have_keys(registry, &to) {
            continue;
        }
        for (dir, name, ino) in moved::files_below(rows, &to).await? {
            let Some(below) = dir.strip_prefix(to.as_str()) else { continue };
            let from = format!("{}{below}", region.dir);
            let mut all = registry.projections().iter();
            if all.any(|one| one.has_row(&from, &name) != one.has_row(&dir, &name)) {
                renamed.push(ino);
            }
        }
    }
    // A file that has a name outside of a removed subtree may have been found by one in it.
    if !delta.subtrees.lost().is_empty() {
        renamed.extend(moved::remaining_files(rows, head.seq).await?);
    }
    Ok(renamed)
}

/// Returns true if files below a directory may have keys of their content.
fn may_have_keys(registry: &Registry, dir: &str) -> bool {
    let (places, dir) = (registry.projected_places(), TreePath::from_key(dir.to_owned()));
    places.contains(&dir) || places.tops_below(&dir).next().is_some()
}
