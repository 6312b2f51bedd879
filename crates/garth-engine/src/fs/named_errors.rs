//! Handles of views, whose errors name paths of the view.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::handle::{OpenFile, OpenNode};
use crate::error::{Error, Result};
use crate::model::{Entry, Ino};

/// File of a tree below a view.
struct NamedErrors<F> {
    inner: Arc<dyn OpenFile>,
    /// Translates the paths of an error into those of the view.
    told: F,
}

/// Returns a handle to the file of `inner`, with its errors as `told` translates them.
pub(crate) fn named_errors(
    inner: Arc<dyn OpenFile>,
    told: impl Fn(Error) -> Error + Send + Sync + 'static,
) -> Arc<dyn OpenFile> {
    Arc::new(NamedErrors { inner, told })
}

impl<F> fmt::Debug for NamedErrors<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedErrors").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl<F: Fn(Error) -> Error + Send + Sync> OpenNode for NamedErrors<F> {
    fn ino(&self) -> Ino {
        self.inner.ino()
    }

    async fn stat(&self) -> Result<Entry> {
        self.inner.stat().await.map_err(&self.told)
    }
}

#[async_trait]
impl<F: Fn(Error) -> Error + Send + Sync> OpenFile for NamedErrors<F> {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        self.inner.read_at(offset, length).await.map_err(&self.told)
    }

    async fn next_data(&self, offset: u64) -> Result<u64> {
        self.inner.next_data(offset).await.map_err(&self.told)
    }

    async fn next_hole(&self, offset: u64) -> Result<u64> {
        self.inner.next_hole(offset).await.map_err(&self.told)
    }
}
