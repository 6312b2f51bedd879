//! Batches through gates. Before a batch is planned, the entries that it addresses are judged on the state
//! that it finds, and the hidden ones are left out of its reach. The planner knows nothing of gates, so its
//! outcomes are masked.

use std::collections::BTreeSet;

use crate::engine::planner::NodeRow;
use crate::engine::relational::confinement::Reach;
use crate::engine::relational::gates::Gates;
use crate::engine::relational::reads::gate_files::GateFiles;
use crate::engine::relational::reads::tree_rows::{CommitSpan, MAX, Read, TreeRows};
use crate::model::{Access, At, Batch, Commit, Ino, Op, Precondition, Seq, VersionId, Within};
use crate::path::TreePath;
use crate::rule::quota::Quotas;

/// Limit on the names in gated directories that are judged for one address. Other commits wait meanwhile, and
/// a file can have any number of names.
const MAX_NAMES: usize = 1000;

/// Returns a batch of a handle with gates, without the entries that they hide from it.
///
/// # Errors
/// Errors of the database.
pub fn narrowed<R: TreeRows>(
    files: &GateFiles<R>,
    reach: &Reach,
    quotas: &Quotas,
    batch: &Batch,
) -> Read<R, Batch> {
    let gates = &*reach.gates;
    // So that the batch cannot move, remove or copy a gated directory, with hidden entries in it.
    let left_out = gates.holes().collect();
    // A batch can also address a gated directory as a child of the one above.
    let above = gates.directories().filter_map(TreePath::parent).filter(|above| !above.is_root());
    let places = Within::new(gates.directories().cloned().chain(above));
    let judged = BTreeSet::new();
    let mut narrowing = Narrowing { files, places, gates, judged, left_out };
    let mut batch = batch.clone();
    // Garth's own conditions are on what it has read of the account.
    let by_client = !batch.by_garth;
    for op in &mut batch.ops {
        let as_of = if let Op::Copy { as_of: Some(Seq(seq)), .. } = op { *seq } else { MAX };
        for (at, access) in op.addresses() {
            // What is hidden now may have been visible then, and the other way round.
            narrowing.address(at, if access == Access::ReadPast { as_of } else { MAX })?;
        }
        if let Op::Check { at, that } = op
            && by_client
        {
            narrowing.condition(at, that)?;
        }
    }
    for (at, that) in batch.assumptions.iter_mut().chain(&mut batch.preconditions) {
        narrowing.address(at, MAX)?;
        if by_client {
            narrowing.condition(at, that)?;
        }
    }
    // A file of a visible entry may have a name in a hidden one, whose quota would tell the size of that.
    for quota in quotas.iter().filter(|quota| gates.cover(&quota.path)) {
        narrowing.address(&At::Path(quota.path.clone()), MAX)?;
    }
    let narrow = |within: Within| within.without(narrowing.left_out.iter().cloned());
    batch.within = Some(narrow(batch.within.take().unwrap_or_else(|| reach.within.clone())));
    batch.added.within = batch.added.within.take().map(narrow);
    Ok(batch)
}

/// Returns the versions that a view shows of gated directories: inodes with commits. Asked for before the
/// rows of a batch are written: a directory that it creates has no other version yet.
///
/// # Errors
/// Errors of the database.
pub fn shown<R: TreeRows>(rows: R, gates: &Gates) -> Read<R, Vec<VersionId>> {
    let mut shown = Vec::new();
    for path in gates.directories() {
        let Some((dir, name)) = path.key().rsplit_once('/') else { continue };
        let row = rows.name(dir, name, MAX)?;
        shown.extend(row.map(|row| VersionId { seq: Seq(row.since), ino: Ino(row.ino) }));
    }
    Ok(shown)
}

/// Replaces the versions of gated directories in the outcomes of a planned commit by those that a view shows.
pub fn mask(shown: &[VersionId], commit: &mut Commit) {
    for version in shown {
        for outcome in commit.outcomes.iter_mut().filter(|outcome| outcome.ino == version.ino) {
            outcome.version.seq = version.seq;
        }
    }
}

struct Narrowing<'a, R> {
    files: &'a GateFiles<R>,
    /// Gated directories, and those above them.
    places: Within,
    gates: &'a Gates,
    /// Judged entries, each with the commit whose state was judged: most batches address many files of one.
    judged: BTreeSet<(u64, Vec<TreePath>)>,
    /// Hidden entries that the batch addresses.
    left_out: BTreeSet<TreePath>,
}

impl<R: TreeRows> Narrowing<'_, R> {
    /// Leaves out the hidden entries of an address, as they were after commit `seq`.
    fn address(&mut self, at: &At, seq: u64) -> Read<R, ()> {
        let paths = self.paths(at, seq)?;
        if paths.len() > MAX_NAMES {
            // What is not judged must not be in reach. By a path, the file can still be changed.
            self.left_out.extend(self.gates.directories().cloned());
            return Ok(());
        }
        for path in paths {
            let entries = self.gates.entries(&path);
            if !entries.is_empty() && self.judged.insert((seq, entries)) {
                let hidden = self.gates.hiding(self.files, &path, seq)?;
                self.left_out.extend(hidden.map(|hidden| hidden.path));
            }
        }
        Ok(())
    }

    /// Returns the paths of an address, as far as they may be gated directories, or in one: at most one more
    /// than [`MAX_NAMES`].
    fn paths(&self, at: &At, seq: u64) -> Read<R, Vec<TreePath>> {
        let mut paths = Vec::new();
        match at {
            At::Path(path) => paths.push(path.clone()),
            At::Node(ino) => paths = self.paths_of(*ino, seq)?,
            // Not checked: a path that is too long names nothing, and is refused by the plan.
            At::Child(Ino::ROOT, name) => paths.push(TreePath::from_row("", name.as_str())),
            At::Child(dir, name) => {
                let dirs = self.paths_of(*dir, seq)?;
                paths.extend(dirs.iter().map(|dir| TreePath::from_row(dir.key(), name.as_str())));
            }
        }
        Ok(paths)
    }

    fn paths_of(&self, ino: Ino, seq: u64) -> Read<R, Vec<TreePath>> {
        let span = if seq < MAX { CommitSpan::at(seq) } else { CommitSpan::NOW };
        let names = self.files.rows.names_in_span(ino.0, span, &self.places, MAX_NAMES + 1)?;
        Ok(names.into_iter().map(|(dir, name)| TreePath::from_row(&dir, &name)).collect())
    }

    /// Translates a condition on the version of a gated directory, of which the caller knows only one.
    fn condition(&self, at: &At, that: &mut Precondition) -> Read<R, ()> {
        for path in self.paths(at, MAX)? {
            let is_gated = self.gates.directories().any(|dir| *dir == path);
            let Some((dir, name)) = path.key().rsplit_once('/').filter(|_| is_gated) else { continue };
            let Some(row) = self.files.rows.name(dir, name, MAX)? else { continue };
            if let Some(node) = self.files.rows.version(row.ino, MAX)? {
                unmask(that, row.since, &node);
            }
        }
        Ok(())
    }
}

/// Replaces the version that a view shows of a gated directory by that of its node, and every other version
/// by one that no node has.
fn unmask(that: &mut Precondition, shown: u64, node: &NodeRow) {
    let ino = Ino(node.ino);
    let replace = |version: &mut VersionId, seq: u64| {
        let is_shown = *version == VersionId { seq: Seq(shown), ino };
        *version = VersionId { seq: if is_shown { Seq(seq) } else { Seq(0) }, ino };
    };
    match that {
        Precondition::Version(version) => replace(version, node.seq),
        Precondition::Etag(version) => replace(version, node.content_seq),
        Precondition::EtagIn(versions) => {
            versions.iter_mut().for_each(|version| replace(version, node.content_seq));
        }
        Precondition::Not(that) => unmask(that, shown, node),
        Precondition::Absent | Precondition::Exists | Precondition::Sha256(_) => {}
    }
}
