//! Refusals of content before it is received.

use crate::engine::relational::room::check_room;
use crate::engine::relational::upload_counts::OwnUploads;
use crate::engine::sqlite::commit::stored;
use crate::engine::sqlite::query::read_view::ReadView;
use crate::engine::sqlite::tables::{head, quotas, staged};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Incoming, MAX_UPLOADS};
use crate::model::{At, Timestamp, Within};
use crate::path::TreePath;
use crate::rule::quota::{Count, refuse};
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
        let above = quotas.iter().filter(|quota| path.is_within(&quota.path));
        let counted = above.map(|quota| {
            let used = Count::from(quota.used);
            // The file is below the path as well, whatever it replaces.
            let bytes = (used.bytes + i128::from(content.growth)).max(i128::from(content.size));
            (quota, Count { bytes, ..used })
        });
        // The quotas above an open path are those of its entry, or count the whole gated directory.
        Ok(refuse(&within, counted)?)
    }

    fn check_room(&self, content: &Incoming, arriving: &OwnUploads) -> DbResult<()> {
        let held = staged::held(self.conn, self.reach.owner_key(), Timestamp(self.time))?;
        let uploads = held.uploads + arriving.count.uploads + u64::from(!content.has_begun);
        let bytes = held.bytes.saturating_add(arriving.count.bytes).saturating_add(content.arrives);
        let room = content.room;
        let is_many = uploads > MAX_UPLOADS;
        if bytes <= room && !is_many {
            return Ok(());
        }
        let advice = match is_many {
            true => "commit or discard some of them, or wait until they expire".to_owned(),
            false => how_to_free(bytes.saturating_sub(room), arriving),
        };
        let message = format!(
            "uploads that arrive or that no commit has used may have {room} bytes and be {MAX_UPLOADS}; \
             {advice}"
        );
        Err(Error::new(ErrorKind::QuotaExceeded, message).into())
    }
}

/// Returns advice on how to free so many bytes of the room for uploads.
fn how_to_free(bytes: u64, uploads: &OwnUploads) -> String {
    let discarded = "discarded uploads take their room for another hour";
    match (uploads.freed_at(bytes), uploads.all_freed_at()) {
        (Some(time), _) => format!("{discarded}: enough of it is free at {}", time.to_rfc3339()),
        (None, Some(time)) => format!(
            "{discarded}: all of it is free at {}; commit some of the others, or wait until they expire",
            time.to_rfc3339()
        ),
        (None, None) => format!("commit some of them, or wait until they expire; {discarded}"),
    }
}

/// Fails for a path out of reach, as the commit that creates it would: rules and quotas there are not the
/// caller's to know.
fn check_reach(within: &Within, path: &TreePath) -> Result<()> {
    match within.contains(path) {
        true => Ok(()),
        false if within.is_excluded(path) => Err(Error::closed(path)),
        false => Err(Error::not_found(path)),
    }
}
