//! Extents that a step removes, with the references of their chunks.

use std::collections::BTreeMap;

use super::step::Step;
use crate::rows::references;
use crate::values::parameters::ints;
use crate::weights;

const NO_ENDED: &str =
    "DELETE FROM garth.extent_past e USING unnest($2::bigint[], $3::bigint[], $4::bigint[]) k(ino, till, off)
    WHERE e.account = $1 AND e.ino = k.ino AND e.till = k.till AND e.off = k.off";
const NO_LIVE: &str = "DELETE FROM garth.extent e USING unnest($2::bigint[], $3::bigint[]) k(ino, off)
    WHERE e.account = $1 AND e.ino = k.ino AND e.off = k.off";

/// An extent that is to be removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedExtent {
    pub(crate) ino: u64,
    /// Commit that ended it; 0 for a live one.
    pub(crate) till: u64,
    pub(crate) off: u64,
    pub(crate) chunk: u64,
    pub(crate) len: u64,
}

/// Extents that are to be removed.
#[derive(Debug, Default)]
pub(crate) struct RemovedExtents {
    extents: Vec<EndedExtent>,
    /// Changes of the counts of references, by chunk.
    refs: BTreeMap<u64, i64>,
    bytes: u64,
}

impl RemovedExtents {
    /// Adds an extent.
    pub(crate) fn push(&mut self, extent: EndedExtent) {
        *self.refs.entry(extent.chunk).or_default() -= 1;
        self.bytes = self.bytes.saturating_add(extent.len);
        self.extents.push(extent);
    }

    /// Adds the statements that remove them to a step. Returns their length.
    pub(crate) fn remove(&self, step: &mut Step) -> u64 {
        let keys = |is_live: bool| -> Vec<&EndedExtent> {
            self.extents.iter().filter(|extent| (extent.till == 0) == is_live).collect()
        };
        let (live, ended) = (keys(true), keys(false));
        let inos = |extents: &[&EndedExtent]| ints(extents.iter().map(|extent| extent.ino));
        let offs = |extents: &[&EndedExtent]| ints(extents.iter().map(|extent| extent.off));
        if !live.is_empty() {
            step.add(NO_LIVE, vec![inos(&live), offs(&live)]);
        }
        if !ended.is_empty() {
            let tills = ints(ended.iter().map(|extent| extent.till));
            step.add(NO_ENDED, vec![inos(&ended), tills, offs(&ended)]);
        }
        for (sql, params) in references::change(&self.refs) {
            step.add(sql, params);
        }
        step.frees(weights::ROW.saturating_mul(self.extents.len() as u64));
        self.bytes
    }
}
