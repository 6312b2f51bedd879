//! agentfs-sdk as published. Opening it sets `PRAGMA synchronous = OFF` on its only connection, so none of
//! its commits waits for the disk. Its `fsync` call, which sets FULL and commits an empty transaction, is not
//! used here.
//!
//! Where the crate has two interfaces (by path, or by inode as its mount does), the faster one is used.

use std::path::Path;
use std::sync::Arc;

use agentfs_sdk::filesystem::{FileSystem, Stats};
use agentfs_sdk::{AgentFS, AgentFSOptions};
use anyhow::{Context, Result};
use bytes::Bytes;

use super::{Files, PIECE, Side};

/// Filesystem in one database file.
#[derive(Clone)]
pub(crate) struct AgentFs(Arc<AgentFS>);

impl AgentFs {
    /// Opens a new filesystem in `folder`.
    pub(crate) async fn open(folder: &Path) -> Result<Self> {
        let file =
            folder.join("agent.db").into_os_string().into_string().ok().context("folder is not UTF-8")?;
        Ok(Self(Arc::new(AgentFS::open(AgentFSOptions::with_path(file)).await?)))
    }

    async fn lookup(&self, path: &str) -> Result<Stats> {
        self.0.fs.lstat(path).await?.with_context(|| format!("{path} is not there"))
    }
}

impl Files for AgentFs {
    async fn mkdir(&self, path: &str) -> Result<()> {
        Ok(self.0.fs.mkdir(path, 0, 0).await?)
    }

    async fn create(&self, files: Vec<(String, Bytes)>, _indexed: bool) -> Result<()> {
        for (path, content) in files {
            self.0.fs.pwrite(&path, 0, &content).await?;
        }
        Ok(())
    }

    async fn write_big(&self, path: &str, pieces: &mut (dyn Iterator<Item = Bytes> + Send)) -> Result<()> {
        let (_, file) = self.0.fs.create_file(path, 0o644, 0, 0).await?;
        for (index, piece) in (0..).zip(pieces) {
            file.pwrite(index * PIECE as u64, &piece).await?;
        }
        Ok(())
    }

    async fn read_big(&self, path: &str) -> Result<u64> {
        let file = self.0.fs.open(path).await?;
        let mut offset = 0;
        loop {
            let length = file.pread(offset, PIECE as u64).await?.len() as u64;
            if length == 0 {
                return Ok(offset);
            }
            offset += length;
        }
    }
}

impl Side for AgentFs {
    async fn stat(&self, path: &str) -> Result<u64> {
        Ok(self.lookup(path).await?.size.try_into()?)
    }

    async fn read(&self, path: &str) -> Result<u64> {
        Ok(self.0.fs.open(path).await?.pread(0, PIECE as u64).await?.len() as u64)
    }

    async fn rename(&self, from: &str, to: &str) -> Result<()> {
        Ok(self.0.fs.rename(from, to).await?)
    }

    async fn remove_tree(&self, path: &str) -> Result<()> {
        let fs: &dyn FileSystem = &self.0.fs;
        let dir = self.lookup(path).await?.ino;
        for entry in self.0.fs.readdir_plus(dir).await?.context("no such directory")? {
            if entry.stats.is_directory() {
                Box::pin(self.remove_tree(&format!("{path}/{}", entry.name))).await?;
            } else {
                fs.unlink(dir, &entry.name).await?;
            }
        }
        let (parent, name) = path.rsplit_once('/').context("the root stays")?;
        let parent = self.lookup(if parent.is_empty() { "/" } else { parent }).await?.ino;
        Ok(fs.rmdir(parent, name).await?)
    }

    async fn names(&self, path: &str) -> Result<usize> {
        let dir = self.lookup(path).await?.ino;
        Ok(self.0.fs.readdir(dir).await?.context("no such directory")?.len())
    }

    async fn entries(&self, path: &str) -> Result<usize> {
        let dir = self.lookup(path).await?.ino;
        Ok(self.0.fs.readdir_plus(dir).await?.context("no such directory")?.len())
    }
}
