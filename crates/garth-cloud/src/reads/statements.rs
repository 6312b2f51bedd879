//! Parts that statements share. Each goes from its keys `k`, which are in arrays, to the rows: LATERAL with
//! OFFSET 0 or LIMIT keeps the database from choosing another order.

/// Forks at which rows that have ended are stored that the state after commit `k.seq` has, as `f.fork`. The
/// newest state, whose number is larger than all, has none.
macro_rules! forks {
    () => {
        " CROSS JOIN LATERAL (SELECT ((k.seq >> level) | 1) << level AS fork FROM generate_series(0, 62) level
            WHERE k.seq > 0
                AND ((k.seq >> level) | 1) << level <= (SELECT seq FROM garth.head WHERE account = $1) OFFSET 0) f"
    };
}
pub(super) use forks;

/// Name `k.dir, k.name` after commit `k.seq`, as `e`. Of the spans that have ended, only the first to end
/// after the commit is read: a name stands for one node at a time.
macro_rules! name_at {
    () => {
        " CROSS JOIN LATERAL (
            SELECT ino, since, kind FROM garth.name
                WHERE account = $1 AND dir = k.dir AND name = k.name AND since <= k.seq
            UNION ALL
            SELECT ino, since, kind FROM (SELECT ino, since, kind FROM garth.name_past
                WHERE account = $1 AND dir = k.dir AND name = k.name AND till > k.seq ORDER BY till LIMIT 1) p
                WHERE since <= k.seq
            LIMIT 1) e"
    };
}
pub(super) use name_at;

/// Version `v` of the node of `e` after commit `k.seq`, the times `t` of a directory that are newer, and
/// attributes `a` that are short. Attributes that are left out are fetched by their key.
macro_rules! version_at {
    () => {
        concat!(
            " LEFT JOIN LATERAL (SELECT * FROM garth.node
                WHERE account = $1 AND ino = e.ino AND seq <= k.seq ORDER BY seq DESC LIMIT 1) v ON true
            LEFT JOIN LATERAL (
                SELECT seq, time FROM garth.dir_time
                    WHERE account = $1 AND v.kind = 1 AND ino = v.ino AND seq <= k.seq AND seq > v.seq
                UNION ALL
                SELECT p.since, p.time FROM (SELECT 1) one",
            $crate::reads::statements::forks!(),
            " CROSS JOIN LATERAL (SELECT since, time FROM garth.dir_time_past
                    WHERE account = $1 AND fork = f.fork AND ino = v.ino AND since <= k.seq AND till > k.seq
                    OFFSET 0) p
                WHERE v.kind = 1 AND p.since > v.seq
                LIMIT 1) t ON true",
            $crate::reads::statements::attributes!()
        )
    };
}
pub(super) use version_at;

/// Newest version `v` of the node of `e`, with times and attributes as in [`version_at`].
macro_rules! newest {
    () => {
        concat!(
            " LEFT JOIN LATERAL (SELECT * FROM garth.node
                WHERE account = $1 AND ino = e.ino ORDER BY seq DESC LIMIT 1) v ON true
            LEFT JOIN LATERAL (SELECT seq, time FROM garth.dir_time
                WHERE account = $1 AND v.kind = 1 AND ino = v.ino OFFSET 0) t ON true",
            $crate::reads::statements::attributes!()
        )
    };
}
pub(super) use newest;

/// Short attributes `a` of version `v`.
macro_rules! attributes {
    () => {
        " LEFT JOIN LATERAL (SELECT json FROM garth.attribute
            WHERE account = $1 AND v.attrs_seq > 0 AND ino = v.ino AND seq = v.attrs_seq
                AND octet_length(json) <= 4096 OFFSET 0) a ON true"
    };
}
pub(super) use attributes;

/// Columns of a version, of its times and of its attributes.
macro_rules! version_columns {
    () => {
        concat!($crate::values::columns::newest_columns!(), ", a.json")
    };
}
pub(super) use version_columns;

/// Place of the attributes behind the first column of a version.
pub(super) const ATTRIBUTES: usize = 19;
