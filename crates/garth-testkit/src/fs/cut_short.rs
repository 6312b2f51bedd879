//! Filesystem that stops in the middle of its work, like a host folder in a crash: the first operations are
//! completed, the rest is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use garth_engine::model::{At, Batch, Commit, Op};
use garth_engine::{Error, ErrorKind, FileSystem, Result, ViewBase};

use super::forward::forward_filesystem;

/// Completes a number of operations, then nothing more.
#[derive(Debug)]
pub struct CutShort {
    inner: Arc<dyn FileSystem>,
    left: AtomicUsize,
    /// True if the first incomplete operation has created the directories above its name.
    with_parents: bool,
}

impl CutShort {
    /// Wraps a filesystem that completes `left` operations.
    pub fn new(inner: &Arc<dyn FileSystem>, left: usize, with_parents: bool) -> Self {
        Self { inner: Arc::clone(inner), left: AtomicUsize::new(left), with_parents }
    }

    /// Returns the number of operations that are left.
    pub fn left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
    }

    async fn cut(&self, mut batch: Batch) -> Result<Commit> {
        let (left, many) = (self.left(), batch.ops.len());
        if many <= left {
            self.left.store(left - many, Ordering::SeqCst);
            return self.inner.commit(batch).await;
        }
        self.left.store(0, Ordering::SeqCst);
        // The operations before the cut are completed.
        let undone = batch.ops.split_off(left);
        if let Some(Op::Write { at: At::Path(path), parents: true, .. }) = undone.first()
            && self.with_parents
        {
            batch.ops.extend(path.parent().map(Op::mkdir_all));
        }
        if !batch.ops.is_empty() {
            self.inner.commit(batch).await?;
        }
        Err(Error::new(ErrorKind::Io, "the machine has stopped"))
    }
}

#[async_trait]
impl FileSystem for CutShort {
    forward_filesystem!(inner: capabilities stat head names list walk fetch fetch_many hold open
        open_version history blame changes wait as_of confined snapshots search find stage
        committed recorded sync);

    async fn commit(&self, batch: Batch) -> Result<Commit> {
        self.cut(batch).await
    }

    fn view_base(&self) -> &dyn ViewBase {
        self
    }
}

impl ViewBase for CutShort {
    forward_filesystem!(inner: lowering link_root);
}
