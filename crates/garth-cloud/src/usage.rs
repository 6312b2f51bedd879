//! Counts the names and bytes below a path, page by page, as quotas count them.

use std::collections::{BTreeSet, VecDeque};

use garth_engine::engine::planner::Region;
use garth_engine::model::quota::Usage;
use garth_engine::path::TreePath;
use garth_engine::rule::quota::{Count, counted};
use garth_engine::{Error, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::client::{Param, param};
use crate::rows::dirs;
use crate::values::columns::{column, number};

/// Names of a page: about 0.2 s of work.
const NAMES: i64 = 20_000;

/// Sums over the names after a directory and name up to the end of a range of directories, and the last of
/// them. Files with several names come by themselves: their bytes count once below a path.
const PAGE: &str = "WITH page AS MATERIALIZED (
        SELECT dir, name, ino, kind FROM garth.name
        WHERE account = $1 AND (dir, name) > ($2, $3) AND dir < $4 ORDER BY dir, name LIMIT $5)
    SELECT count(*), coalesce(sum(v.size) FILTER (WHERE v.nlink = 1), 0)::text,
        array_agg(v.ino) FILTER (WHERE v.nlink <> 1), array_agg(v.size) FILTER (WHERE v.nlink <> 1),
        (SELECT dir FROM page ORDER BY dir DESC, name DESC LIMIT 1),
        (SELECT name FROM page ORDER BY dir DESC, name DESC LIMIT 1)
    FROM page e
    LEFT JOIN LATERAL (SELECT ino, nlink, size FROM garth.node
        WHERE account = $1 AND ino = e.ino AND e.kind = 0 ORDER BY seq DESC LIMIT 1) v ON true";

/// Usage that was counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) used: Usage,
    /// Statements that it took.
    pub(crate) pages: usize,
}

/// Count in progress.
pub(crate) struct UsageCount {
    path: TreePath,
    /// Ranges of directories that are not counted yet.
    ranges: VecDeque<(String, String)>,
    /// Directory and name after which the first range goes on.
    after: Option<(String, String)>,
    count: Count,
    /// Files with several names whose bytes are counted.
    shared: BTreeSet<u64>,
    pages: usize,
}

impl UsageCount {
    /// Begins to count what is below a path.
    pub(crate) fn new(path: &TreePath) -> Self {
        let region = Region { dir: path.key().to_owned(), ..Region::default() };
        Self {
            path: path.clone(),
            ranges: dirs(region.ranges()).collect(),
            after: None,
            count: Count::default(),
            shared: BTreeSet::new(),
            pages: 0,
        }
    }

    /// Returns the statement of the next page, without its first parameter, the account; `None` at the end.
    /// All pages must be of one state.
    pub(crate) fn next(&self) -> Option<(&'static str, Vec<Param>)> {
        let (from, to) = self.ranges.front()?;
        // No name is empty, so this is before all names of the first directory.
        let (dir, name) = self.after.clone().unwrap_or_else(|| (from.clone(), String::new()));
        let text = |text: String| param(text, Type::TEXT);
        Some((PAGE, vec![text(dir), text(name), text(to.clone()), param(NAMES, Type::INT8)]))
    }

    /// Adds the rows of that statement.
    ///
    /// # Errors
    /// `Corrupt` for rows that cannot be read.
    pub(crate) fn add(&mut self, rows: &[Row]) -> Result<()> {
        let row = rows.first().ok_or_else(|| Error::damaged("a sum of sizes is missing"))?;
        let entries = number(row, 0)?;
        let unreadable = |e| Error::damaged("a sum of sizes cannot be read").with_source(e);
        let bytes = column::<&str>(row, 1)?.parse::<i128>().map_err(unreadable)?;
        self.count.entries += i128::from(entries);
        self.count.bytes += bytes;
        let inos = column::<Option<Vec<i64>>>(row, 2)?.unwrap_or_default();
        let sizes = column::<Option<Vec<i64>>>(row, 3)?.unwrap_or_default();
        for (ino, size) in inos.into_iter().zip(sizes) {
            if self.shared.insert(ino.cast_unsigned()) {
                self.count.bytes += i128::from(size);
            }
        }
        self.pages += 1;
        let last: Option<String> = column(row, 4)?;
        self.after = last.zip(column(row, 5)?).filter(|_| entries >= NAMES.unsigned_abs());
        if self.after.is_none() {
            self.ranges.pop_front();
        }
        Ok(())
    }

    /// Returns the usage.
    ///
    /// # Errors
    /// `TooLarge` for more bytes than quotas count.
    pub(crate) fn counted(&self) -> Result<Counted> {
        Ok(Counted { used: counted(&self.path, self.count)?, pages: self.pages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_below_a_path_are_two_ranges() {
        let ranges = |path: &str| UsageCount::new(&TreePath::parse(path).unwrap()).ranges;
        let range = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        // Paths such as `/d-x` are between them.
        assert_eq!(ranges("/d"), [range("/d", "/d\x01"), range("/d/", "/d0")]);
        assert_eq!(ranges("/"), [range("", "\x01"), range("/", "0")]);
    }
}
