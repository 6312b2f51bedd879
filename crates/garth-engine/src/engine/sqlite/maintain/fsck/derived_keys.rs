//! The part of `fsck` that checks the keys of projections. `reindex` corrects what it finds.

use super::{BYTES, Check, ROWS};
use crate::engine::sqlite::projections::rebuild::{is_right, next_stray, nodes_behind};
use crate::engine::sqlite::schema::SUBJECT;
use crate::engine::sqlite::tables::{MAX, head, nodes};
use crate::error::{ErrorKind, Result};

impl Check<'_> {
    /// Checks that each node has the keys that are derived from it, and that nothing else has any.
    pub(super) fn projections(&mut self) -> Result<()> {
        let registry = self.fs.inner.control.registry();
        if self.fs.with_view(|view| head::get(view.conn))?.projections != registry.version() {
            // This process cannot derive the keys of a newer garth.
            return Ok(());
        }
        self.walk(0, |view, report, from: u64| {
            let inos = nodes_behind(view.conn, from, ROWS)?;
            let mut bytes = 0;
            for ino in &inos {
                let Some(node) = nodes::version(view.conn, *ino, MAX)? else { continue };
                match is_right(view.conn, view.packs, view.control.registry(), &node) {
                    Ok(true) => {}
                    Ok(false) => report.add("projection", format!("the keys of node {ino} are out of date")),
                    // Other parts report damaged content.
                    Err(error) if error.is(ErrorKind::Corrupt) => {
                        let error = error.describe(&SUBJECT);
                        report.add("projection", format!("node {ino} cannot be compared: {error}"));
                    }
                    Err(error) => return Err(error),
                }
                bytes += node.size;
                if bytes >= BYTES {
                    return Ok(Some(*ino));
                }
            }
            Ok(inos.last().copied())
        })?;
        self.walk(0, |view, report, from: u64| {
            let stray = next_stray(view.conn, from)?;
            if let Some(ino) = stray {
                report.add("projection", format!("node {ino} has keys but does not exist"));
            }
            Ok(stray)
        })
    }
}
