//! Refusals of content before it is received.

use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{head, packs, quotas, staged};
use crate::error::{Error, ErrorKind};
use crate::fs::{Incoming, MAX_UPLOADS};
use crate::model::{At, Timestamp};
use crate::rule::quota::{Count, refuse};
use crate::sqlite::DbResult;

impl ReadView<'_> {
    /// Implements `FileSystem::admit`. `arriving` are the bytes of the owner's uploads in progress.
    pub(crate) fn admit(&self, at: &At, content: &Incoming, arriving: u64) -> DbResult<()> {
        self.check_room(content.room, arriving)?;
        let At::Path(path) = at else { return Ok(()) };
        let rules = self.control.at(self.conn, head::get(self.conn)?.control)?.rules;
        self.reach.check_write(path, content.size, &rules)?;
        let quotas = quotas::all_of(self.conn)?;
        let above = quotas.iter().filter(|quota| path.is_within(&quota.path));
        let counted = above.map(|quota| {
            let used = Count::from(quota.used);
            // The file is below the path as well, whatever it replaces.
            let bytes = (used.bytes + i128::from(content.growth)).max(i128::from(content.size));
            (quota, Count { bytes, ..used })
        });
        Ok(refuse(&self.reach.within, counted)?)
    }

    fn check_room(&self, room: u64, arriving: u64) -> DbResult<()> {
        let held = staged::held(self.conn, self.reach.owner_key(), Timestamp(self.time))?;
        // Removed uploads take their room until the grace period of their files is over.
        let bytes = held.bytes.saturating_add(arriving).saturating_add(packs::doomed_bytes(self.conn)?);
        if bytes <= room && held.uploads < MAX_UPLOADS {
            return Ok(());
        }
        let message = format!(
            "uploads that no commit has used may have {room} bytes and be {MAX_UPLOADS}; commit or discard \
             some of them, or wait until they expire"
        );
        Err(Error::new(ErrorKind::QuotaExceeded, message).into())
    }
}
