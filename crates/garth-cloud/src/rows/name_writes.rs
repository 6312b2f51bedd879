//! Changes of single names of a group: those that are there at its end, and those that ended.

use std::collections::{BTreeMap, HashMap};

use garth_engine::engine::planner::{Delta, Key, NameRow};
use tokio_postgres::types::Type;

use super::target::Target;
use crate::values::columns::{int, kind_number};
use crate::values::parameters::{ints, list, texts};

const NAMES: &str = "INSERT INTO garth.name (account, dir, name, ino, since, kind)
    SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::smallint[])
    ON CONFLICT (account, dir, name) DO UPDATE SET ino = excluded.ino, since = excluded.since, kind = excluded.kind";
// By the places of the rows, which the keys lead to: a join with the keys may read all names of the account.
const NO_NAMES: &str = "DELETE FROM garth.name WHERE account = $1 AND ctid = ANY(ARRAY(
    SELECT n.ctid FROM unnest($2::text[], $3::text[]) k(dir, name)
    CROSS JOIN LATERAL (SELECT ctid FROM garth.name
        WHERE account = $1 AND dir = k.dir AND name = k.name OFFSET 0) n))";

/// Commit in which a node last left a name before it got it again, or else its first commit, as `b.born`.
/// Only the last few names that the node left are searched: it may have had any number. `k` has the name that
/// ends, and `known` is the answer if the statement itself has it.
macro_rules! born {
    ($known:literal) => {
        concat!(
            "CROSS JOIN LATERAL (SELECT coalesce(",
            $known,
            "(SELECT max(till) FROM (SELECT dir, name, till FROM garth.name_past
                    WHERE account = $1 AND ino = k.ino ORDER BY till DESC LIMIT 8) p
                WHERE p.dir = k.dir AND p.name = k.name),
            (SELECT min(seq) FROM garth.node WHERE account = $1 AND ino = k.ino), k.since) AS born OFFSET 0) b"
        )
    };
}
pub(super) use born;

// After the rows of nodes: the first commit of a node may be one of the group.
const ENDED: &str = concat!(
    "INSERT INTO garth.name_past (account, dir, name, till, ino, since, kind, fork, born, born_fork)
    SELECT $1, k.dir, k.name, k.till, k.ino, k.since, k.kind, garth.fork(k.since, k.till), b.born,
        garth.fork(b.born, k.till)
    FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::smallint[], $8::bigint[])
        k(dir, name, till, ino, since, kind, left_at) ",
    born!("k.left_at, ")
);

/// Name that a commit of the group ended.
struct EndedName {
    key: Key,
    row: NameRow,
    till: u64,
    /// Commit of the group in which the node left this name before; `None` if only the database knows.
    left_at: Option<u64>,
}

/// Changes of single names.
#[derive(Default)]
pub(super) struct NameWrites {
    /// Names at the end of the group; `None` for those that are gone.
    names: BTreeMap<Key, Option<NameRow>>,
    ended: Vec<EndedName>,
    /// Commit of the group in which a node last left a name.
    left: HashMap<(Key, u64), u64>,
}

impl NameWrites {
    /// Adds the changes of commit `seq`.
    pub(super) fn add(&mut self, delta: &Delta, seq: u64) {
        for (key, change) in &delta.names {
            // A name that begins and ends in one commit is in no state.
            if let Some(row) = change.before.filter(|row| row.since < seq) {
                let left_at = self.left.insert((key.clone(), row.ino), seq);
                self.ended.push(EndedName { key: key.clone(), row, till: seq, left_at });
            }
            self.names.insert(key.clone(), change.after);
        }
    }

    /// Adds the statements that write the changes.
    pub(super) fn send(&self, to: &mut Target<'_, '_>) {
        let ended = &self.ended;
        to.put(ENDED, ended.is_empty(), || {
            vec![
                texts(ended.iter().map(|ended| ended.key.0.clone())),
                texts(ended.iter().map(|ended| ended.key.1.clone())),
                ints(ended.iter().map(|ended| ended.till)),
                ints(ended.iter().map(|ended| ended.row.ino)),
                ints(ended.iter().map(|ended| ended.row.since)),
                list(ended.iter().map(|ended| kind_number(ended.row.kind)), Type::INT2_ARRAY),
                list(ended.iter().map(|ended| ended.left_at.map(int)), Type::INT8_ARRAY),
            ]
        });
        let gone = || self.names.iter().filter(|(_, row)| row.is_none()).map(|(key, _)| key);
        to.put(NO_NAMES, gone().next().is_none(), || {
            vec![texts(gone().map(|(dir, _)| dir.clone())), texts(gone().map(|(_, name)| name.clone()))]
        });
        let there: Vec<(&Key, &NameRow)> =
            self.names.iter().filter_map(|(key, row)| Some((key, row.as_ref()?))).collect();
        to.put(NAMES, there.is_empty(), || {
            vec![
                texts(there.iter().map(|(key, _)| key.0.clone())),
                texts(there.iter().map(|(key, _)| key.1.clone())),
                ints(there.iter().map(|(_, row)| row.ino)),
                ints(there.iter().map(|(_, row)| row.since)),
                list(there.iter().map(|(_, row)| kind_number(row.kind)), Type::INT2_ARRAY),
            ]
        });
    }
}
