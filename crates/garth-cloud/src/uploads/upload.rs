//! Uploads in progress.

use std::fmt;
use std::mem::take;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use garth_engine::Result;
use garth_engine::engine::planner::DEDUP_FROM;
use garth_engine::engine::relational::room::full;
use garth_engine::engine::relational::uploads::{CHUNK, broken, too_long};
use garth_engine::fs::Upload;
use garth_engine::model::{MAX_FILE, StagedBody};

use super::finish::{Arrived, Finishing};
use crate::arriving::{Arriving, NewChunk, remove};
use crate::holds::Holds;

/// An upload in progress.
pub(crate) struct PgUpload {
    holds: Arc<Holds>,
    arriving: Arriving,
    /// Key of the owner. No other owner can use the upload.
    owner: String,
    /// Bytes that were not written yet.
    held: BytesMut,
    /// Chunks that were written.
    chunks: Vec<Arrived>,
    /// Bytes of these chunks.
    size: u64,
    /// Bytes with which it is counted as arriving: those that were written, or as many as are expected.
    counted: u64,
    /// True once its row may be in the database.
    has_begun: bool,
    /// True if a step failed or its future was dropped: what was written is unknown.
    is_broken: bool,
    /// True if the upload is stored, or may be: dropping it removes nothing.
    is_finished: bool,
}

impl fmt::Debug for PgUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgUpload").finish_non_exhaustive()
    }
}

impl PgUpload {
    /// Begins an upload of an owner. Nothing is written yet.
    ///
    /// # Errors
    /// `Io` if the system provides no random bytes.
    pub(crate) fn new(holds: Arc<Holds>, owner: String) -> Result<Self> {
        let id = u128::from_be_bytes(holds.env().random()?);
        let arriving = Arriving::new(holds.env(), id)?;
        holds.uploads.begin(&owner);
        holds.set_uploads(true);
        holds.meters().open.add(1);
        Ok(Self {
            holds,
            arriving,
            owner,
            held: BytesMut::new(),
            chunks: Vec::new(),
            size: 0,
            counted: 0,
            has_begun: false,
            is_broken: false,
            is_finished: false,
        })
    }

    /// Begins a step. Only its success clears `is_broken`, so a future dropped half-way leaves it set.
    fn step(&mut self) -> Result<()> {
        if self.is_broken {
            return Err(broken());
        }
        self.is_broken = true;
        Ok(())
    }

    fn total(&self) -> u64 {
        self.size.saturating_add(self.held.len() as u64)
    }

    fn count(&mut self, bytes: u64) {
        self.holds.uploads.count(&self.owner, self.counted, bytes);
        self.counted = bytes;
    }

    /// Writes one chunk from memory to the database, in one round trip.
    async fn flush_chunk(&mut self) -> Result<()> {
        let data = self.held.split_to(CHUNK.min(self.held.len())).freeze();
        let (place, length) = (self.chunks.len() as u64, data.len() as u64);
        let arrived = self.counted.max(self.size.saturating_add(length));
        let owner = (!self.has_begun).then(|| self.owner.clone());
        self.has_begun = true;
        let (holds, arriving, mark) =
            (Arc::clone(&self.holds), self.arriving.clone(), self.holds.uploads.mark());
        // On threads of the pool, so that a caller that is dropped does not close the connection.
        let written = self.holds.pool().run(async move {
            // Content of several chunks is shared, so its last chunk is as well, however short.
            let chunk = NewChunk::new(place, data, true);
            let conn = holds.pool().connection().await?;
            let mut statements = holds.statements(&conn);
            if let Some(owner) = owner {
                arriving.begin(&mut statements, &holds, Some(&owner));
            }
            let chunks = std::slice::from_ref(&chunk);
            let written = arriving.write(&mut statements, chunks, arrived);
            statements.begin();
            let room = Arriving::room(&mut statements, &holds);
            statements.commit();
            let answers = statements.run().await;
            let answers = conn.settle(answers).await?;
            Arriving::written(answers.rows(written), chunks)?;
            Ok((chunk.sum, Arriving::room_of(answers.first(room))?))
        });
        let (sum, room) = written.await?;
        self.chunks.push(Arrived { sum, len: length });
        self.size = self.size.saturating_add(length);
        let Some(room) = room else {
            self.count(arrived);
            return Ok(());
        };
        let fits = self.holds.uploads.fit_since(mark, &self.owner, (self.counted, arrived), room);
        self.counted = if fits { arrived } else { 0 };
        if fits { Ok(()) } else { Err(full()) }
    }

    /// Returns what is left to do.
    fn finishing(&mut self, size: u64) -> Finishing {
        let owner = (!self.has_begun).then(|| self.owner.clone());
        let data = take(&mut self.held).freeze();
        let mut chunks = take(&mut self.chunks);
        let rest = (!data.is_empty()).then(|| {
            // A single short chunk is not shared.
            let dedup = !chunks.is_empty() || data.len() >= DEDUP_FROM;
            let rest = NewChunk::new(chunks.len() as u64, data, dedup);
            chunks.push(Arrived { sum: rest.sum.clone(), len: rest.data.len() as u64 });
            rest
        });
        Finishing { arriving: self.arriving.clone(), owner, chunks, rest, size }
    }
}

#[async_trait]
impl Upload for PgUpload {
    fn expects(&mut self, length: u64) {
        self.count(length.min(MAX_FILE).max(self.size));
    }

    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        // Before `step`: a refused write leaves the upload usable.
        if self.total().saturating_add(bytes.len() as u64) > MAX_FILE {
            return Err(too_long());
        }
        self.step()?;
        for part in bytes.chunks(CHUNK) {
            self.held.extend_from_slice(part);
            // The last chunk stays in memory: the end of the upload writes it.
            while self.held.len() > CHUNK {
                self.flush_chunk().await?;
            }
        }
        self.is_broken = false;
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<StagedBody> {
        self.step()?;
        let body = StagedBody { id: self.arriving.id, size: self.total() };
        let finishing = self.finishing(body.size);
        self.has_begun = true;
        let (holds, mark) = (Arc::clone(&self.holds), self.holds.uploads.mark());
        let counted = (self.counted, self.counted.max(body.size));
        // From here on the outcome can be unknown, also to a caller that drops the future.
        self.is_finished = true;
        let done = self.holds.pool().run(async move {
            let fits = |room| holds.uploads.fits_since(mark, counted, room);
            let ended = finishing.run(&holds, fits).await;
            Ok(ended.map_err(|unfinished| (unfinished.error, unfinished.is_unknown)))
        });
        match done.await? {
            Ok(()) => {}
            Err((error, is_unknown)) => {
                self.is_finished = is_unknown;
                return Err(error);
            }
        }
        self.holds.meters().finished.add(1);
        self.holds.meters().bytes.add(body.size);
        Ok(body)
    }
}

impl Drop for PgUpload {
    fn drop(&mut self) {
        self.holds.uploads.end(&self.owner, self.counted);
        self.holds.meters().open.sub(1);
        if self.is_finished || !self.has_begun {
            return;
        }
        let (holds, id) = (Arc::clone(&self.holds), self.arriving.id);
        self.holds.pool().run_later(async move {
            if let Err(error) = remove(&holds, id).await {
                tracing::debug!(%error, "an upload could not be removed; a collection removes it later");
            }
        });
    }
}
