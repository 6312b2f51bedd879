//! Uploads through a handle.

use std::sync::Arc;

use garth_engine::engine::relational::room::check_room;
use garth_engine::engine::relational::uploads::{check_quotas, check_reach, check_uploads};
use garth_engine::fs::{Incoming, Upload};
use garth_engine::model::At;
use garth_engine::{Error, Result};

use super::PgStore;
use crate::uploads::{PgUpload, admission};

impl PgStore {
    /// Begins an upload.
    pub(super) fn begin_upload(&self) -> Result<Box<dyn Upload>> {
        self.writable()?;
        let owner = self.reach.owner_key().to_owned();
        Ok(Box::new(PgUpload::new(Arc::clone(&self.inner.holds), owner)?))
    }

    /// Implements `FileSystem::admit`. Uploads are counted before rows are read: one that has finished since
    /// counts twice, never not at all.
    pub(super) async fn admit_content(&self, at: &At, content: &Incoming) -> Result<()> {
        self.writable()?;
        let (holds, owner) = (&self.inner.holds, self.reach.owner_key());
        let (arriving, of_all) = (holds.uploads.of(owner, self.inner.env.now()), holds.uploads.bytes());
        let account = admission(holds, &self.inner.committer.control, owner).await?;
        check_uploads(content, account.held, &arriving)?;
        if let Some(limit) = account.control.stored {
            check_room(limit, account.used.saturating_add(of_all), content.arrives)?;
        }
        let At::Path(path) = at else { return Ok(()) };
        let within = self.reach.within.without(self.reach.gates.holes());
        check_reach(&within, path)?;
        // Without gates, this takes no round trip.
        if !self.reading(|_| {}, |view| view.is_open(path)).await? {
            return Err(Error::closed(path));
        }
        self.reach.check_write(path, content.size, &account.control.rules)?;
        // The quotas above an open path are those of its entry, or count the whole gated directory.
        check_quotas(&account.quotas, &within, path, content)
    }
}
