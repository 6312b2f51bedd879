//! Uploads: content that is written to a file of its own before its commit.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;

use super::failed::{errno, failed_without_path};
use super::scratch::Scratch;
use super::writer::Uploads;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::Upload;
use crate::model::{MAX_FILE, StagedBody};
use crate::threads::executor::Executor;
use crate::threads::lock::lock;

pub(super) struct HostUpload {
    file: Arc<Staging>,
    owner: String,
    uploads: Arc<Mutex<Uploads>>,
    threads: Arc<Executor>,
    size: u64,
}

/// File of an upload. It is removed on drop, unless `kept` is set.
struct Staging {
    id: u128,
    file: File,
    scratch: Scratch,
    kept: Mutex<bool>,
}

impl HostUpload {
    pub(super) fn new(
        scratch: Scratch,
        id: u128,
        owner: String,
        uploads: Arc<Mutex<Uploads>>,
        threads: Arc<Executor>,
    ) -> Result<Self> {
        let file = scratch.file(&Scratch::staged(id)).map_err(failed_without_path)?;
        let file = Arc::new(Staging { id, file, scratch, kept: Mutex::new(false) });
        Ok(Self { file, owner, uploads, threads, size: 0 })
    }
}

impl fmt::Debug for HostUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostUpload").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !*lock(&self.kept) {
            // On failure it is removed when the folder is opened again.
            let _ = self.scratch.discard(Scratch::staged(self.id).as_str(), false);
        }
    }
}

#[async_trait]
impl Upload for HostUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let size = self.size + bytes.len() as u64;
        if size > MAX_FILE {
            return Err(Error::new(ErrorKind::TooLarge, "a file has at most 8 TiB"));
        }
        let file = Arc::clone(&self.file);
        let write =
            move || (&file.file).write_all(&bytes).map_err(|error| failed_without_path(errno(&error)));
        self.threads.run(write).await?;
        self.size = size;
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<StagedBody> {
        let (file, body) = (Arc::clone(&self.file), StagedBody { id: self.file.id, size: self.size });
        let sync = move || {
            // Content first, then its name: an upload that survives a crash is complete.
            rustix::fs::fsync(&file.file).map_err(failed_without_path)?;
            rustix::fs::fsync(file.scratch.fd().as_fd()).map_err(failed_without_path)?;
            // Only once both are on disk: a failed sync drops the file.
            *lock(&file.kept) = true;
            Ok(())
        };
        self.threads.run(sync).await?;
        // Only in memory: an upload can be used by the instance that took it.
        lock(&self.uploads).insert(body.id, (self.owner.clone(), body.size));
        Ok(body)
    }
}
