//! Records of a group: owners, snapshots, idempotency keys, used staged bodies, nodes without a name, usage
//! of quotas, and how far files satisfy constraints.

use std::collections::{BTreeMap, BTreeSet};

use garth_engine::engine::planner::{Delta, JudgedRow};
use garth_engine::engine::relational::open_nodes::OpenNodes;
use garth_engine::model::quota::Usage;
use garth_engine::model::{Batch, Kind};
use garth_engine::rule::Digest;
use tokio_postgres::types::Type;

use super::target::Target;
use crate::client::param;
use crate::values::labels;
use crate::values::parameters::{ints, list, signed, texts};
use crate::weights::{idempotency_weight, log_more_weight, log_weight};

// The account is locked, so no other owner gets a number meanwhile.
const OWNERS: &str = "INSERT INTO garth.owner (account, id, hash, key)
    SELECT $1, (SELECT coalesce(max(id), 0) FROM garth.owner WHERE account = $1) + row_number() OVER (ORDER BY k.hash),
        k.hash, k.key
    FROM unnest($2::bytea[], $3::bytea[]) k(hash, key)
    WHERE NOT EXISTS (SELECT FROM garth.owner o WHERE o.account = $1 AND o.hash = k.hash)";
const SNAPSHOTS: &str = "INSERT INTO garth.snapshot (account, owner, name, long, seq)
    SELECT $1, coalesce((SELECT id FROM garth.owner WHERE account = $1 AND hash = k.owner), 0), k.name, k.long, k.seq
    FROM unnest($2::bytea[], $3::bytea[], $4::bytea[], $5::bigint[]) k(owner, name, long, seq)
    ON CONFLICT (account, owner, name) DO UPDATE SET seq = excluded.seq";
const NO_SNAPSHOTS: &str = "DELETE FROM garth.snapshot WHERE account = $1 AND ctid = ANY(ARRAY(
    SELECT s.ctid FROM unnest($2::bytea[], $3::bytea[]) k(owner, name)
    CROSS JOIN LATERAL (SELECT ctid FROM garth.snapshot WHERE account = $1 AND name = k.name
        AND owner = (SELECT coalesce(max(id), 0) FROM garth.owner WHERE account = $1 AND hash = k.owner)
        OFFSET 0) s))";
/// Records of keys, which replace those of the same keys, and the bytes that they count for. A commit that
/// is in the log only for a record leaves it with the record: one before the first commit that is in it
/// for its own sake. A removal of the past in phase 5 has removed commits up to its place. No other record
/// has that commit.
const IDEMPOTENCY: &str = concat!(
    "WITH k AS MATERIALIZED (
        SELECT coalesce((SELECT id FROM garth.owner WHERE account = $1 AND hash = p.owner), 0) AS owner, p.key, p.hash,
            p.keep_until, p.seq, p.note
        FROM unnest($2::bytea[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bytea[])
            p(owner, key, hash, keep_until, seq, note)),
    known AS MATERIALIZED (SELECT i.seq, i.note FROM k
        CROSS JOIN LATERAL (SELECT seq, note FROM garth.idempotency
            WHERE account = $1 AND owner = k.owner AND key = k.key OFFSET 0) i),
    gone AS (DELETE FROM garth.log AS t WHERE account = $1 AND seq = ANY(ARRAY(SELECT seq FROM known))
            AND seq < coalesce((SELECT at + 1 FROM garth.fold WHERE account = $1 AND phase = 5),
                (SELECT folded FROM garth.head WHERE account = $1))
        RETURNING seq, ",
    log_weight!("t"),
    " AS bytes),
    more AS (DELETE FROM garth.log_more AS t WHERE account = $1 AND seq = ANY(ARRAY(SELECT seq FROM gone)) RETURNING ",
    log_more_weight!("t"),
    " AS bytes),
    written AS (INSERT INTO garth.idempotency (account, owner, key, hash, keep_until, seq, note)
        SELECT $1, owner, key, hash, keep_until, seq, note FROM k
        ON CONFLICT (account, owner, key) DO UPDATE SET hash = excluded.hash, keep_until = excluded.keep_until,
            seq = excluded.seq, note = excluded.note)
    UPDATE garth.head SET stored = greatest(0, stored + (SELECT coalesce(sum(",
    idempotency_weight!("k"),
    "), 0) FROM k) - (SELECT coalesce(sum(",
    idempotency_weight!("known"),
    "), 0) FROM known) - (SELECT coalesce(sum(bytes), 0) FROM gone) - (SELECT coalesce(sum(bytes), 0) FROM more))
    WHERE account = $1"
);
const NO_STAGED: &str = "DELETE FROM garth.staged WHERE account = $1 AND id = ANY($2::text[]::uuid[])";
const UNNAMED: &str = "INSERT INTO garth.unnamed (account, ino) SELECT $1, * FROM unnest($2::bigint[])
    ON CONFLICT DO NOTHING";
const LEASES: &str =
    "INSERT INTO garth.lease (account, ino, holder) SELECT $1, k.ino, $3 FROM unnest($2::bigint[]) k(ino)
    ON CONFLICT DO NOTHING";
// So that a node whose lease runs out gets the full grace period again.
const NOT_DOOMED: &str = "UPDATE garth.unnamed SET doomed_at = NULL
    WHERE account = $1 AND ino = ANY($2) AND doomed_at IS NOT NULL";
const NOT_JUDGED: &str = "DELETE FROM garth.judged WHERE account = $1 AND ino = ANY($2)";
const JUDGED: &str = "INSERT INTO garth.judged (account, demand, ino, etag, until, lines)
    SELECT $1, * FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
    ON CONFLICT (account, demand, ino) DO UPDATE SET etag = excluded.etag, until = excluded.until,
        lines = excluded.lines";
// By path, of which an account has at most 1,000.
const QUOTAS: &str = "UPDATE garth.quota q SET bytes = k.bytes, entries = k.entries
    FROM unnest($2::text[], $3::bigint[], $4::bigint[]) k(path, bytes, entries)
    WHERE q.account = $1 AND q.path = k.path";

/// Record of an idempotency key.
struct IdempotencyWrite {
    owner: Vec<u8>,
    key: Vec<u8>,
    hash: Vec<u8>,
    keep_until: i64,
    seq: u64,
    note: Vec<u8>,
}

/// Snapshot as its table has it: hash of the owner, and key of the name.
type SnapshotKey = (Vec<u8>, Vec<u8>);

/// Commit of a snapshot, with the name of the snapshot if it is long.
type SnapshotCommit = (u64, Option<Vec<u8>>);

/// Records of a group.
#[derive(Default)]
pub(super) struct RecordWrites {
    /// Keys of owners by their hashes.
    owners: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Commits of snapshots, with long names; `None` for those that are dropped.
    snapshots: BTreeMap<SnapshotKey, Option<SnapshotCommit>>,
    idempotency: Vec<IdempotencyWrite>,
    staged: Vec<u128>,
    unnamed: BTreeSet<u64>,
    judged: BTreeMap<(u64, Digest), JudgedRow>,
    /// Files that are under no rule any more, because they have lost their last name.
    not_judged: BTreeSet<u64>,
    quotas: BTreeMap<String, Usage>,
}

impl RecordWrites {
    /// Adds the records of a batch that commit `seq` makes.
    pub(super) fn add(&mut self, delta: &Delta, seq: u64, batch: &Batch) {
        let owner = self.owner(batch.owner_key());
        for (name, made) in &delta.snapshots {
            let (key, long) = labels::snapshot(name);
            self.snapshots.insert((owner.clone(), key), made.then_some((seq, long)));
        }
        if let Some(record) = &batch.idempotency {
            let write = IdempotencyWrite {
                owner: self.owner(batch.record_owner_key()),
                key: labels::idempotency(&record.key),
                hash: record.request_hash.to_vec(),
                keep_until: record.keep_until.0,
                seq,
                note: record.note.clone().into_bytes(),
            };
            self.idempotency.push(write);
        }
        self.staged.extend(delta.staged.iter().map(|(id, _)| *id));
        self.unnamed.extend(&delta.unnamed);
        self.judged.extend(delta.judged.iter().map(|(key, row)| (*key, *row)));
        for node in delta.nodes.values().filter(|node| node.kind == Kind::File && node.nlink == 0) {
            let own = (node.ino, Digest::default())..=(node.ino, [u8::MAX; 16]);
            let own: Vec<_> = self.judged.range(own).map(|(key, _)| *key).collect();
            for key in own {
                self.judged.remove(&key);
            }
            self.not_judged.insert(node.ino);
        }
        self.quotas.extend(delta.quotas.iter().map(|(path, used)| (path.clone(), *used)));
    }

    /// Returns the hash of an owner, which then gets a number.
    fn owner(&mut self, key: &str) -> Vec<u8> {
        let hash = labels::owner(key);
        if !hash.is_empty() {
            self.owners.entry(hash.clone()).or_insert_with(|| key.as_bytes().to_vec());
        }
        hash
    }

    /// Adds the statement that gives owners their numbers, which must precede all that refer to them.
    pub(super) fn send_owners(&self, to: &mut Target<'_, '_>) {
        let owners = &self.owners;
        to.put(OWNERS, owners.is_empty(), || {
            let column = |bytes: Vec<Vec<u8>>| list(bytes.into_iter(), Type::BYTEA_ARRAY);
            vec![column(owners.keys().cloned().collect()), column(owners.values().cloned().collect())]
        });
    }

    /// Adds the statements that write the records.
    pub(super) fn send(&self, to: &mut Target<'_, '_>, open: &OpenNodes) {
        self.send_named(to);
        let staged = &self.staged;
        to.put(NO_STAGED, staged.is_empty(), || vec![texts(staged.iter().map(|id| labels::uuid(*id)))]);
        let unnamed = &self.unnamed;
        to.put(UNNAMED, unnamed.is_empty(), || vec![ints(unnamed.iter().copied())]);
        // In the transaction of the write: a node without a name is never seen without the lease of its
        // writer.
        let leased: Vec<u64> = unnamed.iter().copied().filter(|ino| open.note_lease(*ino)).collect();
        to.put(LEASES, leased.is_empty(), || {
            vec![ints(leased.iter().copied()), param(open.holder().to_vec(), Type::BYTEA)]
        });
        to.put(NOT_DOOMED, leased.is_empty(), || vec![ints(leased.iter().copied())]);
        let not_judged = &self.not_judged;
        to.put(NOT_JUDGED, not_judged.is_empty(), || vec![ints(not_judged.iter().copied())]);
        let judged = &self.judged;
        to.put(JUDGED, judged.is_empty(), || {
            vec![
                list(judged.keys().map(|(_, digest)| digest.to_vec()), Type::BYTEA_ARRAY),
                ints(judged.keys().map(|(ino, _)| *ino)),
                ints(judged.values().map(|row| row.etag)),
                ints(judged.values().map(|row| row.until.offset)),
                ints(judged.values().map(|row| row.until.line)),
            ]
        });
        let quotas = &self.quotas;
        to.put(QUOTAS, quotas.is_empty(), || {
            vec![
                texts(quotas.keys().cloned()),
                ints(quotas.values().map(|used| used.bytes)),
                ints(quotas.values().map(|used| used.entries)),
            ]
        });
    }

    /// Adds the statements for snapshots and idempotency keys.
    fn send_named(&self, to: &mut Target<'_, '_>) {
        let bytes = |column: Vec<Vec<u8>>| list(column.into_iter(), Type::BYTEA_ARRAY);
        let made: Vec<_> =
            self.snapshots.iter().filter_map(|(key, made)| Some((key, made.as_ref()?))).collect();
        to.put(SNAPSHOTS, made.is_empty(), || {
            vec![
                bytes(made.iter().map(|(key, _)| key.0.clone()).collect()),
                bytes(made.iter().map(|(key, _)| key.1.clone()).collect()),
                list(made.iter().map(|(_, made)| made.1.clone()), Type::BYTEA_ARRAY),
                ints(made.iter().map(|(_, made)| made.0)),
            ]
        });
        let gone: Vec<_> =
            self.snapshots.iter().filter(|(_, made)| made.is_none()).map(|(key, _)| key).collect();
        to.put(NO_SNAPSHOTS, gone.is_empty(), || {
            let owners = gone.iter().map(|key| key.0.clone()).collect();
            vec![bytes(owners), bytes(gone.iter().map(|key| key.1.clone()).collect())]
        });
        let records = &self.idempotency;
        to.put(IDEMPOTENCY, records.is_empty(), || {
            vec![
                bytes(records.iter().map(|record| record.owner.clone()).collect()),
                bytes(records.iter().map(|record| record.key.clone()).collect()),
                bytes(records.iter().map(|record| record.hash.clone()).collect()),
                signed(records.iter().map(|record| record.keep_until)),
                ints(records.iter().map(|record| record.seq)),
                bytes(records.iter().map(|record| record.note.clone()).collect()),
            ]
        });
    }
}
