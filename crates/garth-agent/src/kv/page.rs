//! Pages of results. Every result that can be long is bounded in items and bytes and can be continued.

use super::error::{KvError, KvResult};
use garth_engine::model::VersionId;

/// Limit on the bytes of values in one page of `history` or `search`, 4 MiB. A page has at least one
/// value, whatever its size.
pub const MAX_PAGE_VALUES: usize = 4 << 20;

/// Part of a result to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest<'a> {
    /// Limit on the items, from 1 to the limit of the call.
    pub limit: usize,
    /// [`Paged::next`] of the previous page, which the same call with the same arguments returned; `None` for
    /// the first page.
    pub cursor: Option<&'a str>,
}

/// Page of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paged<T> {
    /// Items of this page.
    pub items: Vec<T>,
    /// Cursor of the page after this one; `None` if this is the last page.
    pub next: Option<String>,
}

impl PageRequest<'static> {
    /// Returns a request for the first page.
    pub const fn first(limit: usize) -> Self {
        Self { limit, cursor: None }
    }
}

impl PageRequest<'_> {
    pub(super) fn check(&self, max: usize) -> KvResult<()> {
        if (1..=max).contains(&self.limit) {
            return Ok(());
        }
        Err(KvError::validation(format!("`limit` must be 1 to {max}")))
    }

    /// Returns the version after which a page of `history` starts.
    pub(super) fn version(&self) -> KvResult<Option<VersionId>> {
        self.cursor.map(|cursor| cursor.parse().map_err(|_| unknown_cursor())).transpose()
    }

    /// Returns the number of hits that earlier pages of `search` have passed.
    pub(super) fn rank(&self) -> KvResult<usize> {
        self.cursor.map_or(Ok(0), |cursor| cursor.parse().map_err(|_| unknown_cursor()))
    }
}

pub(super) fn unknown_cursor() -> KvError {
    KvError::validation("`cursor` must be the `next_cursor` of an earlier page of the same request")
}
