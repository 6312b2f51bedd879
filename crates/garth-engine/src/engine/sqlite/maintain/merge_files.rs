//! Merges the small extents of files: finds runs of them on readers, and merges these in steps
//! ([`super::merge_extents`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::maintain::merge_extents::{self, MergeStats, Run};
use crate::engine::sqlite::tables::head;
use crate::error::Result;
use crate::fs::store::Collected;

/// Files with small extents held in memory at a time.
const FILES: usize = 4096;
/// Runs of small extents passed to one step.
const RUNS: usize = 64;

impl SqliteFs {
    /// Merges small extents of `files`, and of the files that were written after the last run. Runs are found
    /// on readers and merged in steps.
    pub(super) fn merge(&self, files: &[u64], collected: &mut Collected) -> Result<()> {
        self.merge_files(files, 0, collected)?;
        let mut from = self.with_view(|view| head::merged(view.conn))?;
        loop {
            let (mut written, mut last) = (BTreeSet::new(), from);
            // Many short reads rather than a long one, which would keep the WAL from starting over.
            while written.len() < FILES
                && let Some(seq) =
                    self.with_view(|view| merge_extents::written(view.conn, last, &mut written))?
            {
                last = seq;
            }
            if last == from {
                return Ok(());
            }
            self.merge_files(&written.into_iter().collect::<Vec<_>>(), from, collected)?;
            // Only now: a run that is interrupted starts with the same commits again.
            self.step(move |conn, _| head::set_merged(conn, last))?;
            from = last;
        }
    }

    fn merge_files(&self, files: &[u64], since: u64, collected: &mut Collected) -> Result<()> {
        let mut runs = Vec::new();
        for ino in files {
            let mut at = Some((0, 0));
            while let Some(from) = at {
                let found = self.with_view(|view| merge_extents::find(view.conn, *ino, since, from))?;
                at = found.next;
                runs.extend(found.runs);
                if (runs.len() >= RUNS || found.longer.is_some())
                    && self.merge_runs(std::mem::take(&mut runs), collected)?
                // The merged run is one extent now, which begins the next run.
                {
                    at = found.longer.or(at);
                }
            }
        }
        self.merge_runs(runs, collected).map(drop)
    }

    /// Returns true if the last run was merged.
    fn merge_runs(&self, runs: Vec<Run>, collected: &mut Collected) -> Result<bool> {
        let (mut runs, mut last) = (std::collections::VecDeque::from(runs), false);
        while !runs.is_empty() {
            let (packs, runtime) = (Arc::clone(&self.inner.packs), self.inner.runtime.clone());
            // A step may end before its runs do: it returns the rest.
            let (left, merged) = self.step(move |conn, turn| {
                let merged = merge_extents::merge(conn, &packs, &runtime, &mut runs, turn)?;
                Ok((runs, merged))
            })?;
            runs = left;
            let MergeStats { extents, chunks, bytes, .. } = merged;
            collected.merged += extents;
            collected.chunks += chunks;
            collected.bytes += bytes;
            last = merged.last;
        }
        Ok(last)
    }
}
