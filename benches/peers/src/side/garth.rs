//! garth, embedded: durable commits on the SQLite engine.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::TryStreamExt;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::{At, Batch, Body, ByteRange, MAX_PAGE, Op, Page, SetAttrs};
use garth_engine::{AccountStore, FileSystemExt, TreePath};

use super::{Files, Side};

/// Tree on the SQLite engine.
#[derive(Clone)]
pub(crate) struct Garth(pub(crate) Arc<dyn AccountStore>);

/// Returns a path of the benchmark, which is always valid.
pub(crate) fn path(path: &str) -> TreePath {
    TreePath::parse(path).expect("the benchmark's paths are canonical")
}

/// Returns an operation that creates a file.
pub(crate) fn write(at: &str, content: Bytes, searchable: bool) -> Op {
    let attrs = if searchable { SetAttrs::new() } else { SetAttrs::new().searchable(false) };
    Op::write(path(at), content).create_new().with_attrs(attrs)
}

impl Garth {
    /// Opens a new tree in `folder`.
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        Ok(Self(SqliteFs::open(folder, garth_engine::Env::system(), garth_agent::registry())?))
    }

    async fn list(&self, dir: &str, entries: bool) -> Result<usize> {
        let (dir, mut page, mut count) = (At::Path(path(dir)), Page::default().limit(MAX_PAGE), 0);
        page.entries = entries;
        loop {
            let listing = self.0.list(&dir, &page).await?;
            count += listing.items.len();
            page.after = listing.items.into_iter().next_back().map(|item| item.name);
            if !listing.more {
                return Ok(count);
            }
        }
    }
}

impl Files for Garth {
    async fn mkdir(&self, at: &str) -> Result<()> {
        self.0.mkdir_all(&path(at)).await?;
        Ok(())
    }

    async fn create(&self, files: Vec<(String, Bytes)>, indexed: bool) -> Result<()> {
        let ops = files.into_iter().map(|(at, content)| write(&at, content, indexed));
        self.0.commit(Batch::new(ops)).await?;
        Ok(())
    }

    async fn write_big(&self, at: &str, pieces: &mut (dyn Iterator<Item = Bytes> + Send)) -> Result<()> {
        let mut upload = self.0.stage(&At::Path(path(at))).await?;
        for piece in pieces {
            upload.write(piece).await?;
        }
        let body = Body::Staged(upload.finish().await?);
        self.0.apply(Op::write(path(at), body).create_new()).await?;
        Ok(())
    }

    async fn read_big(&self, at: &str) -> Result<u64> {
        let file = self.0.open(&At::Path(path(at))).await?;
        let lengths = file.stream(ByteRange::ALL).map_ok(|piece| piece.len() as u64);
        Ok(lengths.try_fold(0, async |sum, length| Ok(sum + length)).await?)
    }
}

impl Side for Garth {
    async fn stat(&self, at: &str) -> Result<u64> {
        Ok(self.0.stat(&At::Path(path(at))).await?.size)
    }

    async fn read(&self, at: &str) -> Result<u64> {
        Ok(self.0.read(&At::Path(path(at)), ByteRange::ALL).await?.len() as u64)
    }

    async fn rename(&self, from: &str, to: &str) -> Result<()> {
        let before = self.0.head().await?.seq;
        let (commit, _) = self.0.apply(Op::rename(path(from), path(to))).await?;
        ensure!(commit.seq.0 == before.0 + 1, "the rename took more than one commit");
        Ok(())
    }

    async fn remove_tree(&self, at: &str) -> Result<()> {
        self.0.apply(Op::remove_tree(path(at))).await.context("rm")?;
        Ok(())
    }

    async fn names(&self, dir: &str) -> Result<usize> {
        self.list(dir, false).await
    }

    async fn entries(&self, dir: &str) -> Result<usize> {
        self.list(dir, true).await
    }
}
