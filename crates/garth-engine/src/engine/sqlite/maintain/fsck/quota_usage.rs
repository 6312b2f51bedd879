//! The part of `fsck` that checks the counters of quotas.

use super::Check;
use crate::engine::sqlite::tables::quotas;
use crate::error::Result;
use crate::path::TreePath;

impl Check<'_> {
    /// Checks that the stored usage of each quota matches the content below its path. A quota is counted in
    /// one transaction, because a commit may change it anywhere.
    pub(super) fn quotas(&mut self) -> Result<()> {
        let mut paths: Vec<TreePath> = Vec::new();
        self.walk((), |view, _, ()| {
            paths.extend(quotas::all_of(view.conn)?.iter().map(|quota| quota.path.clone()));
            Ok(None)
        })?;
        let mut paths = paths.into_iter();
        let Some(first) = paths.next() else { return Ok(()) };
        self.walk(first, |view, report, path| {
            // It may have been removed meanwhile.
            if let Some(quota) = quotas::all_of(view.conn)?.get(path.key()) {
                let (said, found) = (quota.used, quotas::count(view.conn, path.key())?);
                if said != found {
                    let what = format!(
                        "{path} has {found:?} below it, its quota says {said:?}; run `garth reindex`"
                    );
                    report.add("quota", what);
                }
            }
            Ok(paths.next())
        })
    }
}
