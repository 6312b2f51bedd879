//! Changes of derived rows of a group: one statement for each kind of change.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use garth_engine::engine::planner::{Derived, KeyRow, KeysChange};
use garth_engine::engine::search::NewPassage;
use garth_engine::engine::search::reindexing::RebuiltPart;
use garth_engine::model::Projection;
use tokio_postgres::types::Type;

use super::form_number;
use crate::client::Param;
use crate::rows::target::Target;
use crate::values::parameters::{ints, list, signed, texts};

/// Bytes of a block of `passage_lines`, 128 KiB, as the statements below have it.
const BLOCK: u64 = 128 << 10;

const FORGET: &str = "DELETE FROM garth.projected WHERE account = $1 AND ino = ANY($2)";
// These two look their rows up one by one. A plain join, without statistics, reads all rows of the nodes: all
// lines of a file to which a line is appended. Nobody else changes the rows while the account is locked.
const NO_KEYS: &str = "DELETE FROM garth.projected WHERE account = $1 AND ctid = ANY(ARRAY(
    SELECT p.ctid FROM unnest($2::int[], $3::bytea[], $4::bigint[]) k(projection, key, ino)
    CROSS JOIN LATERAL (SELECT ctid FROM garth.projected
        WHERE account = $1 AND projection = k.projection AND key = k.key AND ino = k.ino AND line = 0 OFFSET 0) p))";
const CUT: &str = "DELETE FROM garth.projected WHERE account = $1 AND ctid = ANY(ARRAY(
    SELECT p.ctid FROM unnest($2::bigint[], $3::int[], $4::bigint[]) k(ino, projection, off)
    CROSS JOIN LATERAL (SELECT ctid FROM garth.projected
        WHERE account = $1 AND ino = k.ino AND projection = k.projection AND off >= k.off OFFSET 0) p))";
const KEYS: &str = "INSERT INTO garth.projected (account, projection, key, ino, line, off, len)
    SELECT $1, * FROM unnest($2::int[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])";
// A removed passage whose tokens are in rows of `posting` is noted, so that these rows can drop it later.
const NO_PASSAGES: &str = "WITH gone AS (DELETE FROM garth.passage WHERE account = $1 AND id = ANY($2)
        RETURNING id, tokens IS NULL AS merged)
    INSERT INTO garth.passage_gone (account, id) SELECT $1, id FROM gone WHERE merged";
// Tokens are one text, separated by spaces: in an array each has a length of its own and is aligned. A
// passage of 2 KiB takes 1.55 KB of WAL, and 1.80 KB with an array.
const PASSAGES: &str = "INSERT INTO garth.passage (account, id, ino, off, len, lines, newline, form, words, hash,
        tokens)
    SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[],
        $8::smallint[], $9::bigint[], $10::bigint[], $11::text[])";
const UNINDEXED: &str = "INSERT INTO garth.unindexed (account, ino, off, until)
    SELECT $1, ino, off, 0 FROM unnest($2::bigint[], $3::bigint[]) k(ino, off)
    ON CONFLICT (account, ino) DO UPDATE SET off = excluded.off, until = excluded.until";
const INDEXED: &str = "DELETE FROM garth.unindexed WHERE account = $1 AND ino = ANY($2)";
// Counts the blocks that a change touches, and those that were never counted, up to the one before the last.
const LINES: &str = "INSERT INTO garth.passage_lines (account, ino, block, lines)
    SELECT $1, k.ino, b.block, s.lines
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) k(ino, first, last)
    CROSS JOIN LATERAL (SELECT coalesce(max(off), 0) / 131072 AS last FROM garth.passage
        WHERE account = $1 AND ino = k.ino) p
    CROSS JOIN LATERAL (SELECT count(*) AS known FROM garth.passage_lines
        WHERE account = $1 AND ino = k.ino) w
    CROSS JOIN LATERAL (SELECT block FROM generate_series(least(k.first, w.known), p.last - 1) block
        WHERE block <= k.last AND block >= k.first OR block >= w.known OFFSET 0) b
    CROSS JOIN LATERAL (SELECT coalesce(sum(lines), 0)::bigint AS lines FROM garth.passage
        WHERE account = $1 AND ino = k.ino AND off >= b.block * 131072 AND off < (b.block + 1) * 131072) s
    ON CONFLICT (account, ino, block) DO UPDATE SET lines = excluded.lines";
const NO_LINES: &str = "DELETE FROM garth.passage_lines l WHERE account = $1 AND ino = ANY($2)
    AND block >= (SELECT coalesce(max(p.off), 0) / 131072 FROM garth.passage p
        WHERE p.account = $1 AND p.ino = l.ino)";

/// Nodes that have lost their last name in commits that removed subtrees.
macro_rules! lost {
    () => {
        "ANY(ARRAY(SELECT r.ino FROM unnest($2::bigint[]) k(seq)
            CROSS JOIN LATERAL (SELECT ino FROM garth.replaced WHERE account = $1 AND seq = k.seq OFFSET 0) r
            CROSS JOIN LATERAL (SELECT nlink FROM garth.node
                WHERE account = $1 AND ino = r.ino ORDER BY seq DESC LIMIT 1) v
            WHERE v.nlink = 0))"
    };
}

const LOST_KEYS: &str = concat!("DELETE FROM garth.projected WHERE account = $1 AND ino = ", lost!());
const LOST_PASSAGES: &str = concat!(
    "WITH gone AS (DELETE FROM garth.passage WHERE account = $1 AND ino = ",
    lost!(),
    " RETURNING id, tokens IS NULL AS merged),
    noted AS (INSERT INTO garth.passage_gone (account, id) SELECT $1, id FROM gone WHERE merged)
    UPDATE garth.head SET passages = passages - (SELECT count(*) FROM gone)
    WHERE account = $1 AND EXISTS (SELECT FROM gone)"
);
const LOST_LINES: &str = concat!("DELETE FROM garth.passage_lines WHERE account = $1 AND ino = ", lost!());
const LOST_UNINDEXED: &str = concat!("DELETE FROM garth.unindexed WHERE account = $1 AND ino = ", lost!());

/// Changes of derived rows.
#[derive(Debug, Default)]
pub struct DerivedWrites {
    /// Nodes that lose all keys.
    forgotten: BTreeSet<u64>,
    /// Keys of nodes that end.
    ended: Vec<(Projection, String, u64)>,
    /// Files that lose the keys of their lines from an offset on.
    cut: Vec<(u64, Projection, u64)>,
    keys: Vec<(u64, KeyRow)>,
    /// Numbers of passages that are removed.
    removed: Vec<i64>,
    passages: Vec<(u64, NewPassage)>,
    /// Files whose text is indexed later, from an offset on.
    unindexed: BTreeMap<u64, u64>,
    /// Files whose text is completely indexed now.
    indexed: Vec<u64>,
    /// Files with more than one block, and the bytes whose passages change.
    recounted: Vec<(u64, Range<u64>)>,
    /// Commits that removed subtrees.
    lost: Vec<u64>,
}

impl DerivedWrites {
    /// Adds the changes that follow from a group.
    pub(crate) fn add(&mut self, derived: Derived) {
        for (ino, change) in derived.keys {
            match change {
                KeysChange::Forget => drop(self.forgotten.insert(ino)),
                KeysChange::Remove(projection, key) => self.ended.push((projection, key, ino)),
                KeysChange::Cut(projection, off) => self.cut.push((ino, projection, off)),
                KeysChange::Add(row) => self.keys.push((ino, row)),
            }
        }
        for (ino, change) in derived.passages {
            self.removed.extend(change.removed);
            self.passages.extend(change.added.into_iter().map(|passage| (ino, passage)));
            self.unindexed.extend(change.unindexed.map(|off| (ino, off)));
            // A file of one block needs no counts.
            if derived.sizes.get(&ino).is_some_and(|size| *size > BLOCK) && !change.region.is_empty() {
                self.recounted.push((ino, change.region));
            }
        }
    }

    /// Adds the change of a part of a file that was indexed again. The file is to be indexed from `left` on;
    /// `None` leaves the record as it is, unless the file is done.
    pub(crate) fn rebuild(&mut self, ino: u64, part: RebuiltPart, left: Option<u64>) {
        self.removed.extend(part.removed);
        self.passages.extend(part.added.into_iter().map(|passage| (ino, passage)));
        self.recounted.push((ino, part.bytes.unwrap_or_default()));
        match left {
            _ if part.next.is_none() => self.indexed.push(ino),
            Some(off) => drop(self.unindexed.insert(ino, off)),
            None => {}
        }
    }

    /// Replaces all keys of a node.
    pub(crate) fn replace_keys(&mut self, ino: u64, keys: Vec<KeyRow>) {
        self.forgotten.insert(ino);
        self.keys.extend(keys.into_iter().map(|key| (ino, key)));
    }

    /// Removes all rows of the nodes that have lost their last name in a commit that removed subtrees.
    pub(crate) fn lose(&mut self, seq: u64) {
        self.lost.push(seq);
    }

    /// Returns true if nothing changes.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { forgotten, ended, cut, keys, removed, passages, unindexed, indexed, recounted, lost } =
            self;
        let keys = forgotten.is_empty() && ended.is_empty() && cut.is_empty() && keys.is_empty();
        let passages = removed.is_empty() && passages.is_empty() && recounted.is_empty();
        keys && passages && unindexed.is_empty() && indexed.is_empty() && lost.is_empty()
    }

    /// Returns the number of new passages.
    pub(in crate::rows) fn new_passages(&self) -> u64 {
        self.passages.len() as u64
    }

    /// Returns by how much the number of passages changes, apart from those of lost nodes.
    pub(in crate::rows) fn passages_change(&self) -> i64 {
        self.passages.len().cast_signed() as i64 - self.removed.len().cast_signed() as i64
    }

    /// Returns true if text is left for later.
    pub(in crate::rows) fn leaves_text(&self) -> bool {
        !self.unindexed.is_empty()
    }

    /// Adds the statements that write the rows, with passages numbered from `next` on.
    pub(in crate::rows) fn send(&self, to: &mut Target<'_, '_>, next: u64) {
        self.send_lost(to);
        self.send_keys(to);
        self.send_passages(to, next);
        let unindexed = &self.unindexed;
        to.put(UNINDEXED, unindexed.is_empty(), || {
            vec![ints(unindexed.keys().copied()), ints(unindexed.values().copied())]
        });
        let indexed = &self.indexed;
        to.put(INDEXED, indexed.is_empty(), || vec![ints(indexed.iter().copied())]);
        let recounted = &self.recounted;
        let column = |take: fn(&(u64, Range<u64>)) -> u64| ints(recounted.iter().map(take));
        to.put(LINES, recounted.is_empty(), || {
            vec![column(|row| row.0), column(|row| row.1.start / BLOCK), column(|row| row.1.end / BLOCK)]
        });
        to.put(NO_LINES, recounted.is_empty(), || vec![column(|row| row.0)]);
    }

    fn send_lost(&self, to: &mut Target<'_, '_>) {
        for sql in [LOST_KEYS, LOST_PASSAGES, LOST_LINES, LOST_UNINDEXED] {
            to.put(sql, self.lost.is_empty(), || vec![ints(self.lost.iter().copied())]);
        }
    }

    fn send_keys(&self, to: &mut Target<'_, '_>) {
        let forgotten = &self.forgotten;
        to.put(FORGET, forgotten.is_empty(), || vec![ints(forgotten.iter().copied())]);
        let ended = &self.ended;
        to.put(NO_KEYS, ended.is_empty(), || {
            vec![
                numbers(ended.iter().map(|row| row.0)),
                keys(ended.iter().map(|row| &row.1)),
                ints(ended.iter().map(|row| row.2)),
            ]
        });
        let cut = &self.cut;
        to.put(CUT, cut.is_empty(), || {
            vec![
                ints(cut.iter().map(|row| row.0)),
                numbers(cut.iter().map(|row| row.1)),
                ints(cut.iter().map(|row| row.2)),
            ]
        });
        let rows = &self.keys;
        to.put(KEYS, rows.is_empty(), || {
            vec![
                numbers(rows.iter().map(|(_, row)| row.projection)),
                keys(rows.iter().map(|(_, row)| &row.key)),
                ints(rows.iter().map(|(ino, _)| *ino)),
                ints(rows.iter().map(|(_, row)| row.line)),
                ints(rows.iter().map(|(_, row)| row.off)),
                ints(rows.iter().map(|(_, row)| row.len)),
            ]
        });
    }

    fn send_passages(&self, to: &mut Target<'_, '_>, next: u64) {
        let removed = &self.removed;
        to.put(NO_PASSAGES, removed.is_empty(), || vec![signed(removed.iter().copied())]);
        let passages = &self.passages;
        to.put(PASSAGES, passages.is_empty(), || {
            let column = |take: fn(&NewPassage) -> u64| ints(passages.iter().map(|(_, row)| take(row)));
            vec![
                ints(next..next + passages.len() as u64),
                ints(passages.iter().map(|(ino, _)| *ino)),
                column(|row| row.span.off),
                column(|row| row.span.len),
                column(|row| row.line_feeds),
                list(passages.iter().map(|(_, row)| row.span.newline), Type::BOOL_ARRAY),
                list(passages.iter().map(|(_, row)| form_number(row.form)), Type::INT2_ARRAY),
                column(|row| row.words),
                signed(passages.iter().map(|(_, row)| row.hash)),
                texts(passages.iter().map(|(_, row)| row.tokens.trim_end().to_owned())),
            ]
        });
    }
}

/// Returns the numbers of projections.
fn numbers(projections: impl Iterator<Item = Projection>) -> Param {
    list(projections.map(|projection| projection.number().cast_signed()), Type::INT4_ARRAY)
}

/// Returns keys as a column has them. They may contain NUL, which a text cannot.
fn keys<'a>(keys: impl Iterator<Item = &'a String>) -> Param {
    list(keys.map(|key| key.clone().into_bytes()), Type::BYTEA_ARRAY)
}
