//! Files of subtrees that the transaction has moved or removed.

use garth_engine::Result;
use tokio_postgres::types::Type;

use crate::client::param;
use crate::rows::PgRows;
use crate::values::columns::{column, int, number};

const FILES_BELOW: &str = "SELECT dir, name, ino FROM garth.name
    WHERE account = $1 AND (dir, name) > ($2, $3) AND dir < $4 AND kind = 0 ORDER BY dir, name LIMIT 10000";
/// Number of rows of [`FILES_BELOW`] at a time.
const PIECE: usize = 10_000;
/// Files that a commit took names from, with removed directories, and that have others.
const REMAINING: &str = "SELECT r.ino
    FROM (SELECT ino FROM garth.replaced WHERE account = $1 AND seq = $2 OFFSET 0) r
    CROSS JOIN LATERAL (SELECT kind, nlink FROM garth.node
        WHERE account = $1 AND ino = r.ino ORDER BY seq DESC LIMIT 1) v
    WHERE v.kind = 0 AND v.nlink > 0";

/// Returns the names of the files in and below a directory: directory, name and inode.
pub(super) async fn files_below(rows: &mut PgRows<'_>, dir: &str) -> Result<Vec<(String, String, u64)>> {
    let mut files: Vec<(String, String, u64)> = Vec::new();
    // Keys such as `dir-` are between the directory and those below it. Without NUL, the directory is the
    // only text of its range.
    for (first, end) in [(dir.to_owned(), format!("{dir}\u{1}")), (format!("{dir}/"), format!("{dir}0"))] {
        let mut after = (first, String::new());
        loop {
            let text = |text: &str| param(text.to_owned(), Type::TEXT);
            let params = vec![text(&after.0), text(&after.1), text(&end)];
            let found = rows.query(FILES_BELOW, params).await?;
            for row in &found {
                files.push((column(row, 0)?, column(row, 1)?, number(row, 2)?));
            }
            match files.last().filter(|_| found.len() == PIECE) {
                Some((dir, name, _)) => after = (dir.clone(), name.clone()),
                None => break,
            }
        }
    }
    Ok(files)
}

/// Returns the files that commit `seq` took names from with removed directories, and that have others.
pub(super) async fn remaining_files(rows: &mut PgRows<'_>, seq: u64) -> Result<Vec<u64>> {
    let found = rows.query(REMAINING, vec![param(int(seq), Type::INT8)]).await?;
    found.iter().map(|row| number(row, 0)).collect()
}
