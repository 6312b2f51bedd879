//! Refusals of content before it is received.

use crate::engine::relational::room::check_room;
use crate::engine::relational::upload_counts::OwnUploads;
use crate::engine::relational::uploads::{check_quotas, check_reach, check_uploads};
use crate::engine::sqlite::commit::stored;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{head, quotas, staged};
use crate::error::Error;
use crate::fs::Incoming;
use crate::model::{At, Timestamp};
use crate::sqlite::DbResult;

impl ReadView<'_> {
    /// Implements `FileSystem::admit`. `arriving` are the owner's uploads in progress, and discarded ones;
    /// `of_all` are the bytes of those in progress of all owners. They were counted before this view began:
    /// one that has finished since counts twice, never not at all.
    pub(crate) fn admit(
        &self,
        at: &At,
        content: &Incoming,
        arriving: &OwnUploads,
        of_all: u64,
    ) -> DbResult<()> {
        self.check_room(content, arriving)?;
        let control = self.control.at(self.conn, head::get(self.conn)?.control)?;
        if let Some(limit) = control.retention.stored {
            let used = stored::used(self.conn)?.saturating_add(of_all);
            check_room(limit, used, content.arrives)?;
        }
        let At::Path(path) = at else { return Ok(()) };
        let within = self.reach.within.without(self.reach.gates.holes());
        check_reach(&within, path)?;
        if !self.is_open(path)? {
            return Err(Error::closed(path).into());
        }
        self.reach.check_write(path, content.size, &control.rules)?;
        let quotas = quotas::all_of(self.conn)?;
        // The quotas above an open path are those of its entry, or count the whole gated directory.
        Ok(check_quotas(&quotas, &within, path, content)?)
    }

    fn check_room(&self, content: &Incoming, arriving: &OwnUploads) -> DbResult<()> {
        let held = staged::held(self.conn, self.reach.owner_key(), Timestamp(self.time))?;
        Ok(check_uploads(content, held, arriving)?)
    }
}
