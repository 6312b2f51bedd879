//! Bytes that rows count for in `head.stored`, which a limit on the stored bytes compares. They are estimates
//! that depend on a row alone, so that whoever removes it subtracts what its commit has added.
//!
//! `head.stored` has them apart from those of passages of the search index, which `head.passages` counts.
//!
//! A chunk counts with its length. Versions of nodes, attributes, names and extents, now and in the past,
//! commits and idempotency keys count with a constant and their texts. Other rows are as many as some of
//! these at most, and count as none.

/// Bytes of a row besides its texts: its header, numbers, and its share of the indexes.
pub(crate) const ROW: u64 = 160;
/// Bytes of a passage of the search index: its row, its tokens, and its places in the rows of tokens.
pub(crate) const PASSAGE: u64 = 512;
/// Copies of the path of a name: in its row, and in an index.
pub(crate) const PATHS: u64 = 2;

/// Weight of a name, now or in the past, as SQL. `$t` is its table.
macro_rules! name_weight {
    ($t:literal) => {
        concat!("(160 + 2 * (octet_length(", $t, ".dir) + octet_length(", $t, ".name)))")
    };
}
/// Weight of a version of a node.
macro_rules! node_weight {
    ($t:literal) => {
        concat!("(160 + coalesce(octet_length(", $t, ".target), 0))")
    };
}
/// Weight of a set of attributes.
macro_rules! attribute_weight {
    ($t:literal) => {
        concat!("(160 + octet_length(", $t, ".json))")
    };
}
/// Weight of a commit, without the pieces of its changes in `log_more`.
macro_rules! log_weight {
    ($t:literal) => {
        concat!(
            "(160 + octet_length(",
            $t,
            ".changes) + coalesce(octet_length(",
            $t,
            ".author), 0) + coalesce(octet_length(",
            $t,
            ".message), 0) + coalesce(octet_length(",
            $t,
            ".answer), 0))"
        )
    };
}
/// Weight of a piece of the changes of a commit.
macro_rules! log_more_weight {
    ($t:literal) => {
        concat!("(160 + octet_length(", $t, ".changes))")
    };
}
/// Weight of the record of an idempotency key.
macro_rules! idempotency_weight {
    ($t:literal) => {
        concat!("(160 + octet_length(", $t, ".note))")
    };
}
/// Stored bytes of an account, from its head row, which counts passages.
macro_rules! stored_bytes {
    () => {
        "(stored + passages * 512)"
    };
}
pub(crate) use {
    attribute_weight, idempotency_weight, log_more_weight, log_weight, name_weight, node_weight, stored_bytes,
};

/// Returns the weight of a row with texts of these lengths.
pub(crate) fn row(texts: impl IntoIterator<Item = usize>) -> u64 {
    texts.into_iter().fold(ROW, |sum, text| sum.saturating_add(u64::try_from(text).unwrap_or(u64::MAX)))
}

/// Returns the weight of a name.
pub(crate) fn name(dir: &str, name: &str) -> u64 {
    let path = u64::try_from(dir.len().saturating_add(name.len())).unwrap_or(u64::MAX);
    ROW.saturating_add(PATHS.saturating_mul(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_in_sql_have_the_same_constants() {
        for sql in [name_weight!("t"), node_weight!("t"), attribute_weight!("t"), log_weight!("t")] {
            assert!(sql.starts_with(&format!("({ROW} + ")), "{sql}");
        }
        assert_eq!(stored_bytes!(), format!("(stored + passages * {PASSAGE})"));
        assert!(name_weight!("t").contains(&format!("{PATHS} * (octet_length(t.dir)")));
        assert_eq!((row([3, 4]), name("/a", "b")), (ROW + 7, ROW + 3 * PATHS));
    }
}
