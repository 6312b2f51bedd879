//! The tables of an account's database, and how one is created, opened and upgraded. Described in
//! `docs/format.md`. Why names are keyed by path: `docs/decisions/names-keyed-by-path.md`.

mod fork_function;

use std::path::Path;

use rusqlite::{Connection, params};

use crate::error::Result;
use crate::model::Ino;
use crate::rule::Registry;
use crate::rule::retention::ContentLimit;
use crate::runtime::Runtime;
use crate::runtime::disk::{failed, sync_dir};
use crate::runtime::fault_injection::Fault;
use crate::sqlite::error::Subject;
use crate::sqlite::{ConnPool, Database, DbResult, Format};

use crate::engine::sqlite::writer_lock::WriterLock;

/// Name of the database in an account's folder.
pub(crate) const DATABASE: &str = "tree.db";

/// Name of the database in messages.
pub(crate) static SUBJECT: Subject = Subject {
    name: "the account's database",
    repair: "run `garth fsck`",
    removed: Some("the account was deleted"),
};

static FORMAT: Format = Format {
    application_id: 0x4752_5448, // "GRTH" in ASCII
    // A script is never changed once it was released: files in use have run it.
    scripts: &[
        FORMAT_1, FORMAT_2, FORMAT_3, FORMAT_4, FORMAT_5, FORMAT_6, FORMAT_7, FORMAT_8, FORMAT_9, FORMAT_10,
    ],
    shrinks: true,
};

/// Writes the rows of a new database, with the version of the set of projections, whose keys are complete
/// because no node has any, and with the content limits that a new tree begins with.
fn initialise(conn: &Connection, registry: &Registry) -> DbResult<()> {
    // The scripts create these for older files. A new one has no index of format 2.
    conn.execute_batch("DELETE FROM old_index; DROP TABLE old_vocabulary; DROP TABLE passage_text")?;
    first_rows(conn)?;
    let limits = registry.content_limits();
    for ContentLimit { pattern, keep } in limits {
        let sql = "INSERT INTO content_limit (class, keep) VALUES (?1, ?2)";
        conn.execute(sql, params![pattern.as_str(), keep.as_secs()])?;
    }
    // Version 0 of the control data is that of a tree for which nothing was set.
    let control = u64::from(!limits.is_empty());
    conn.execute("UPDATE head SET projections = ?1, control = ?2", [registry.version(), control])?;
    Ok(())
}

/// Writes the head and the root of an empty tree, in the columns that every format has.
fn first_rows(conn: &Connection) -> DbResult<()> {
    conn.execute(
        "INSERT INTO head (id, seq, time, next_ino, next_chunk, syncs) VALUES (1, 0, 0, 2, 1, 0)",
        [],
    )?;
    conn.execute(
        // The columns are those of format 1. 493 is mode 0755.
        "INSERT INTO node (ino, seq, kind, mode, uid, gid, rdev, nlink, size,
             mtime, ctime, birthtime, atime, target, attrs_seq, expires_at, content_seq)
         VALUES (?1, 0, 1, 493, 0, 0, 0, 2, 0, 0, 0, 0, 0, NULL, 0, NULL, 0)",
        [Ino::ROOT.0],
    )?;
    Ok(())
}

/// The tables of format 1. `seq`, `since`, `till` are sequence numbers. An extent whose `till` is 0 is live.
/// Times are nanoseconds since 1970.
pub(crate) const FORMAT_1: &str = "
CREATE TABLE head (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    seq INTEGER NOT NULL, time INTEGER NOT NULL,
    next_ino INTEGER NOT NULL, next_chunk INTEGER NOT NULL, syncs INTEGER NOT NULL
) STRICT;
CREATE TABLE name (
    dir TEXT NOT NULL, name TEXT NOT NULL,
    ino INTEGER NOT NULL, since INTEGER NOT NULL, kind INTEGER NOT NULL,
    PRIMARY KEY (dir, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX name_ino ON name (ino);
CREATE TABLE name_past (
    dir TEXT NOT NULL, name TEXT NOT NULL, till INTEGER NOT NULL,
    ino INTEGER NOT NULL, since INTEGER NOT NULL, kind INTEGER NOT NULL,
    PRIMARY KEY (dir, name, till)
) STRICT, WITHOUT ROWID;
CREATE INDEX name_past_ino ON name_past (ino, till);
CREATE TABLE node (
    ino INTEGER NOT NULL, seq INTEGER NOT NULL,
    kind INTEGER NOT NULL, mode INTEGER NOT NULL, uid INTEGER NOT NULL, gid INTEGER NOT NULL, rdev INTEGER NOT NULL,
    nlink INTEGER NOT NULL, size INTEGER NOT NULL,
    mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, birthtime INTEGER NOT NULL, atime INTEGER NOT NULL,
    target TEXT, attrs_seq INTEGER NOT NULL, expires_at INTEGER, content_seq INTEGER NOT NULL,
    PRIMARY KEY (ino, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE attribute (
    ino INTEGER NOT NULL, seq INTEGER NOT NULL, json TEXT NOT NULL,
    PRIMARY KEY (ino, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE extent (
    ino INTEGER NOT NULL, till INTEGER NOT NULL, off INTEGER NOT NULL,
    len INTEGER NOT NULL, since INTEGER NOT NULL, chunk INTEGER NOT NULL, skip INTEGER NOT NULL,
    PRIMARY KEY (ino, till, off)
) STRICT, WITHOUT ROWID;
CREATE TABLE chunk (
    id INTEGER PRIMARY KEY,
    sum BLOB NOT NULL, data BLOB, pack INTEGER, pos INTEGER, len INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX chunk_sum ON chunk (sum) WHERE length(sum) = 32;
CREATE TABLE pack (
    id INTEGER PRIMARY KEY, file TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, doomed_at INTEGER
) STRICT;
CREATE TABLE staged (
    id BLOB PRIMARY KEY, pieces TEXT, lease INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE lease (
    ino INTEGER NOT NULL, holder BLOB NOT NULL, until INTEGER NOT NULL,
    PRIMARY KEY (ino, holder)
) STRICT, WITHOUT ROWID;
CREATE TABLE log (
    seq INTEGER PRIMARY KEY, time INTEGER NOT NULL, id BLOB, author TEXT, message TEXT, changes TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX log_id ON log (id) WHERE id IS NOT NULL;
CREATE TABLE idempotency (
    key TEXT PRIMARY KEY, hash BLOB NOT NULL, keep_until INTEGER NOT NULL, answer TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE snapshot (name TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE expiry (ino INTEGER PRIMARY KEY, at INTEGER NOT NULL) STRICT;
CREATE INDEX expiry_at ON expiry (at);
CREATE TABLE passage (
    id INTEGER PRIMARY KEY,
    ino INTEGER NOT NULL,
    off INTEGER NOT NULL,
    len INTEGER NOT NULL,
    lines INTEGER NOT NULL,
    newline INTEGER NOT NULL,
    hash INTEGER NOT NULL
) STRICT;
CREATE INDEX passage_place ON passage (ino, off, len, lines);
CREATE VIRTUAL TABLE passage_text USING fts5 (
    text, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'
);
";

/// Additions of format 2: files that were written after they had lost their last name, and a count of copies.
const FORMAT_2: &str = "
CREATE TABLE unnamed (ino INTEGER PRIMARY KEY, doomed_at INTEGER NOT NULL) STRICT;
ALTER TABLE head ADD COLUMN copies INTEGER NOT NULL DEFAULT 0;
";

/// Changes of format 3. Past names are found by their `fork`, so that the cost of listing a directory at a
/// commit does not depend on its names at others. `born` is the first commit of the node of the name, or the
/// commit in which the node last left this name, if that is among the last names that it left. `born_fork` is
/// the fork of the span from there: it covers the part of the history of the name before the node got it.
///
/// New are counts of references to chunks, the ranges of pack files that no chunk uses, the files that `gc`
/// has to examine, the indexes for these, and the commits that wrote the bytes of merged chunks.
///
/// The search index is fed tokens that garth makes itself (`text/token.rs`). The index of an older garth
/// serves the passages up to `old_index.until` until they are indexed again in the background.
///
/// The outcomes of a commit that its caller named, by id or by idempotency key, are stored once, in its row
/// of the log. A key whose outcomes cannot be read keeps its row, which then leads to no commit: a retry must
/// not commit again. The changes of a large commit are stored in pieces, so that a page of them reads only
/// its own.
///
/// Snapshots, commit ids, idempotency keys and staged bodies have owners, under which views store their own.
/// The owner of the account itself is empty.
const FORMAT_3: &str = "
ALTER TABLE name_past ADD COLUMN fork INTEGER NOT NULL DEFAULT 0;
ALTER TABLE name_past ADD COLUMN born INTEGER NOT NULL DEFAULT 0;
ALTER TABLE name_past ADD COLUMN born_fork INTEGER NOT NULL DEFAULT 0;
UPDATE name_past SET fork = fork(since, till), born = coalesce(
    (SELECT max(till) FROM name_past AS before INDEXED BY name_past_ino
        WHERE before.ino = name_past.ino AND before.till < name_past.till
            AND before.dir = name_past.dir AND before.name = name_past.name),
    (SELECT min(seq) FROM node WHERE node.ino = name_past.ino),
    since
);
UPDATE name_past SET born_fork = fork(born, till);
CREATE INDEX name_past_fork ON name_past (fork, dir, name);
CREATE INDEX name_past_moved ON name_past (dir, name, born_fork) WHERE born < since;
ALTER TABLE head DROP COLUMN copies;
ALTER TABLE head ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE head ADD COLUMN merged INTEGER NOT NULL DEFAULT 0;
CREATE TABLE chunk_refs (chunk INTEGER PRIMARY KEY, count INTEGER NOT NULL) STRICT;
CREATE INDEX chunk_unused ON chunk_refs (chunk) WHERE count = 0;
INSERT INTO chunk_refs
    SELECT id, coalesce(count, 0) FROM chunk LEFT JOIN (
        SELECT chunk, count(*) AS count FROM (
            SELECT chunk FROM extent
            UNION ALL
            SELECT piece.value ->> 0 FROM staged, json_each(staged.pieces) AS piece
        ) GROUP BY chunk
    ) ON chunk = id WHERE count IS NOT 1;
CREATE TABLE dir_time (ino INTEGER PRIMARY KEY, seq INTEGER NOT NULL, time INTEGER NOT NULL) STRICT;
CREATE TABLE dir_time_past (
    fork INTEGER NOT NULL, ino INTEGER NOT NULL,
    since INTEGER NOT NULL, till INTEGER NOT NULL, time INTEGER NOT NULL,
    PRIMARY KEY (fork, ino)
) STRICT, WITHOUT ROWID;
CREATE INDEX chunk_pack ON chunk (pack, pos) WHERE pack IS NOT NULL;
CREATE TABLE hole (
    pack INTEGER NOT NULL, pos INTEGER NOT NULL, len INTEGER NOT NULL, freed_at INTEGER NOT NULL,
    PRIMARY KEY (pack, pos)
) STRICT, WITHOUT ROWID;
CREATE INDEX hole_freed ON hole (freed_at);
INSERT INTO hole
    SELECT pack, before, pos - before, 0 FROM (
        SELECT pack, pos, lag(pos + len, 1, 0) OVER (PARTITION BY pack ORDER BY pos) AS before
        FROM (
            SELECT pack, pos, len FROM chunk WHERE pack IS NOT NULL
            UNION ALL
            SELECT id, size, 0 FROM pack WHERE id IN (SELECT pack FROM chunk WHERE pack IS NOT NULL)
        )
    ) WHERE before < pos;
UPDATE pack SET doomed_at = 0 WHERE id NOT IN (SELECT pack FROM chunk WHERE pack IS NOT NULL);
CREATE INDEX pack_doomed ON pack (doomed_at) WHERE doomed_at IS NOT NULL;
CREATE INDEX staged_lease ON staged (lease);
ALTER TABLE extent ADD COLUMN older INTEGER NOT NULL DEFAULT 0;
CREATE TABLE origin (chunk INTEGER PRIMARY KEY, runs BLOB NOT NULL) STRICT;
DROP TABLE unnamed;
CREATE TABLE unnamed (ino INTEGER PRIMARY KEY, doomed_at INTEGER) STRICT;
INSERT INTO unnamed (ino) SELECT ino FROM node WHERE nlink = 0 GROUP BY ino HAVING count(*) > 1;
ALTER TABLE passage ADD COLUMN json INTEGER NOT NULL DEFAULT 0;
CREATE TABLE passage_lines (
    ino INTEGER NOT NULL, block INTEGER NOT NULL, lines INTEGER NOT NULL,
    PRIMARY KEY (ino, block)
) STRICT, WITHOUT ROWID;
CREATE TABLE unindexed (ino INTEGER PRIMARY KEY, off INTEGER NOT NULL) STRICT;
CREATE TABLE old_index (until INTEGER NOT NULL) STRICT;
INSERT INTO old_index SELECT coalesce(max(id), 0) FROM passage;
CREATE VIRTUAL TABLE old_vocabulary USING fts5vocab (passage_text, instance);
CREATE VIRTUAL TABLE passage_word USING fts5 (
    tokens, content='', contentless_delete=1, detail=none, tokenize=\"ascii tokenchars '^'\"
);
INSERT INTO passage_word (passage_word, rank) VALUES ('automerge', 0), ('crisismerge', 32), ('usermerge', 8);
CREATE VIRTUAL TABLE passage_vocabulary USING fts5vocab (passage_word, instance);
ALTER TABLE log ADD COLUMN answer TEXT;
ALTER TABLE log ADD COLUMN owner TEXT NOT NULL DEFAULT '';
DROP INDEX log_id;
CREATE UNIQUE INDEX log_id ON log (owner, id) WHERE id IS NOT NULL;
CREATE TABLE idempotency_3 (
    owner TEXT NOT NULL, key TEXT NOT NULL,
    hash BLOB NOT NULL, keep_until INTEGER NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;
INSERT INTO idempotency_3
    SELECT '', key, hash, keep_until,
        coalesce(CAST(json_extract(iif(json_valid(answer), answer, NULL), '$[0]') AS INTEGER), 0)
    FROM idempotency;
UPDATE log SET answer = json_extract(old.answer, '$[2]')
    FROM idempotency AS old JOIN idempotency_3 AS new ON new.key = old.key
    WHERE log.seq = new.seq;
DROP TABLE idempotency;
ALTER TABLE idempotency_3 RENAME TO idempotency;
CREATE INDEX idempotency_end ON idempotency (keep_until);
CREATE TABLE log_more (
    seq INTEGER NOT NULL, first INTEGER NOT NULL, changes TEXT NOT NULL,
    PRIMARY KEY (seq, first)
) STRICT, WITHOUT ROWID;
ALTER TABLE staged ADD COLUMN owner TEXT NOT NULL DEFAULT '';
CREATE TABLE snapshot_3 (
    owner TEXT NOT NULL, name TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;
INSERT INTO snapshot_3 SELECT '', name, seq FROM snapshot;
DROP TABLE snapshot;
ALTER TABLE snapshot_3 RENAME TO snapshot;
";

/// Additions of format 4: control data of operators, with its version in the head row, and data that is
/// derived from files.
///
/// `judged` stores how far a file satisfies a constraint: its first `until` bytes, which have `lines` lines,
/// in the content of commit `etag`. `demand` is the digest of the constraint. `quota` counts what is below a
/// path. `projected` has the keys that files are found by, each with its line if the projection is by line.
const FORMAT_4: &str = "
ALTER TABLE head ADD COLUMN control INTEGER NOT NULL DEFAULT 0;
ALTER TABLE head ADD COLUMN projections INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log ADD COLUMN overrides INTEGER NOT NULL DEFAULT 0;
CREATE TABLE rule (
    class TEXT NOT NULL, demand TEXT NOT NULL, terms TEXT NOT NULL,
    PRIMARY KEY (class, demand)
) STRICT, WITHOUT ROWID;
CREATE TABLE judged (
    ino INTEGER NOT NULL, demand BLOB NOT NULL,
    etag INTEGER NOT NULL, until INTEGER NOT NULL, lines INTEGER NOT NULL,
    PRIMARY KEY (demand, ino)
) STRICT, WITHOUT ROWID;
CREATE INDEX judged_ino ON judged (ino);
CREATE TABLE quota (
    path TEXT PRIMARY KEY,
    max_bytes INTEGER, max_entries INTEGER,
    bytes INTEGER NOT NULL, entries INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE projected (
    projection INTEGER NOT NULL, key TEXT NOT NULL, ino INTEGER NOT NULL, line INTEGER NOT NULL,
    off INTEGER NOT NULL, len INTEGER NOT NULL,
    PRIMARY KEY (projection, key, ino, line)
) STRICT, WITHOUT ROWID;
CREATE INDEX projected_ino ON projected (ino, projection, off);
";

/// True for a commit that was made in a session. An author that cannot be parsed has none.
pub(crate) const HAS_SESSION: &str = "iif(json_valid(author), author ->> '$.session', NULL) IS NOT NULL";
/// Session of a commit: the audience, or the user if there is none, with agent and session.
pub(crate) const BY_SESSION: &str = "iif(json_valid(author), \
    json_array(coalesce(author ->> '$.audience', author ->> '$.user'), author ->> '$.agent', \
    author ->> '$.session'), NULL)";

/// Additions of format 5: commits are found by the session that they were made in.
const FORMAT_5: &str = "
CREATE INDEX log_session ON log (
    iif(json_valid(author), json_array(author ->> '$.user', author ->> '$.agent', author ->> '$.session'), NULL), seq
) WHERE iif(json_valid(author), author ->> '$.session', NULL) IS NOT NULL;
";

/// Additions of format 6: the note that a retry under an idempotency key gets with the commit.
const FORMAT_6: &str = "
ALTER TABLE idempotency ADD COLUMN note TEXT NOT NULL DEFAULT '';
";

/// Changes of format 7: sessions are found by their audience. The expressions are those of [`BY_SESSION`] and
/// [`HAS_SESSION`].
const FORMAT_7: &str = "
DROP INDEX log_session;
CREATE INDEX log_session ON log (
    iif(json_valid(author), json_array(coalesce(author ->> '$.audience', author ->> '$.user'), author ->> '$.agent',
    author ->> '$.session'), NULL), seq
) WHERE iif(json_valid(author), author ->> '$.session', NULL) IS NOT NULL;
";

/// Additions of format 8: passages have the number of their words, and are cut again in the background from
/// the byte `off` of the file `ino` on, because their borders depend on the bytes of the file alone.
const FORMAT_8: &str = "
ALTER TABLE passage ADD COLUMN words INTEGER NOT NULL DEFAULT 0;
CREATE TABLE recut (ino INTEGER NOT NULL, off INTEGER NOT NULL) STRICT;
INSERT INTO recut SELECT 0, 0 WHERE EXISTS (SELECT 1 FROM passage);
";

/// Additions of format 9: how long the past is stored, how far it is gone, and what its removal needs.
///
/// States from `head.oldest` on are readable; rows that ended up to `head.folded` are removed. Nodes with
/// versions to remove are found by the log, and by `replaced` where the log does not name them. That table is
/// complete for the commits after `head.queued`; for older ones, all nodes are searched.
///
/// `head.packed` counts the bytes of the chunks in pack files, so that a limit on the stored bytes costs no
/// walk.
///
/// `folded_author` has the authors of the removed commits, one row where the author changes: bytes that such
/// a commit wrote are still read.
const FORMAT_9: &str = "
ALTER TABLE head ADD COLUMN oldest INTEGER NOT NULL DEFAULT 0;
ALTER TABLE head ADD COLUMN oldest_since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE head ADD COLUMN folded INTEGER NOT NULL DEFAULT 0;
ALTER TABLE head ADD COLUMN queued INTEGER NOT NULL DEFAULT 0;
ALTER TABLE head ADD COLUMN packed INTEGER NOT NULL DEFAULT 0;
UPDATE head SET queued = seq, packed =
    (SELECT coalesce(sum(len), 0) FROM chunk INDEXED BY chunk_pack WHERE pack IS NOT NULL);
CREATE TABLE retention (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    age INTEGER, commits INTEGER, stored INTEGER
) STRICT;
CREATE TABLE content_limit (class TEXT PRIMARY KEY, keep INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE content_age (keep INTEGER PRIMARY KEY, seq INTEGER NOT NULL) STRICT;
CREATE TABLE content_gone (
    ino INTEGER NOT NULL, till INTEGER NOT NULL, since INTEGER NOT NULL, marked INTEGER,
    PRIMARY KEY (ino, till)
) STRICT, WITHOUT ROWID;
CREATE INDEX content_marked ON content_gone (marked) WHERE marked IS NOT NULL;
CREATE TABLE replaced (
    seq INTEGER NOT NULL, ino INTEGER NOT NULL,
    PRIMARY KEY (seq, ino)
) STRICT, WITHOUT ROWID;
CREATE TABLE fold (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    till INTEGER NOT NULL, phase INTEGER NOT NULL, at INTEGER NOT NULL
) STRICT;
CREATE TABLE fold_node (ino INTEGER PRIMARY KEY) STRICT;
CREATE TABLE author (id INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE folded_author (till INTEGER PRIMARY KEY, author INTEGER NOT NULL) STRICT;
CREATE TABLE held (seq INTEGER PRIMARY KEY) STRICT;
CREATE TABLE past_lease (
    holder BLOB NOT NULL, seq INTEGER NOT NULL, until INTEGER NOT NULL,
    PRIMARY KEY (holder, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_seq ON idempotency (seq);
";

/// Additions of format 10: pack files that no commit has used, and indexes of the times of marks and leases.
///
/// `pack.unused` is 1 while only uploads have referred to the bytes of a file, so that they need no grace
/// period. Files of older formats count as used.
const FORMAT_10: &str = "
ALTER TABLE pack ADD COLUMN unused INTEGER NOT NULL DEFAULT 0;
CREATE INDEX pack_unused ON pack (id) WHERE unused = 1;
CREATE INDEX unnamed_doomed ON unnamed (doomed_at) WHERE doomed_at IS NOT NULL;
CREATE INDEX lease_until ON lease (until);
CREATE INDEX past_lease_until ON past_lease (until);
";

/// Creates the tables of a new database.
#[cfg(test)]
pub(crate) fn make_tables(conn: &Connection) {
    fork_function::register(conn).unwrap();
    FORMAT.scripts.iter().for_each(|script| conn.execute_batch(script).unwrap());
    initialise(conn, &Registry::empty()).unwrap();
}

/// Returns the database in an account's folder.
pub(crate) fn database(folder: &Path) -> Database {
    Database {
        file: folder.join(DATABASE),
        subject: &SUBJECT,
        statements: 128,
        cache_kib: 8192,
        prepare: |conn| {
            fork_function::register(conn)?;
            conn.pragma_update(None, "temp_store", "MEMORY")?;
            // 16 MiB: a WAL that one large commit made longer is truncated when it starts over.
            conn.pragma_update(None, "journal_size_limit", 16 << 20)?;
            // `commit/checkpoint.rs` runs checkpoints, off the commit path.
            conn.pragma_update(None, "wal_autocheckpoint", 0)
        },
    }
}

/// Creates the database if it is missing, upgrades an older one, and fails for one of a newer format.
pub(crate) fn make_ready(
    folder: &Path,
    pool: &ConnPool,
    lock: &WriterLock,
    runtime: &Runtime,
    registry: &Registry,
) -> Result<()> {
    let database = database(folder);
    // Checked first without the lock, which a read-only folder cannot have. `exists` does not open the file:
    // closing it again would drop SQLite's POSIX locks.
    if database.file.exists() && pool.with(|conn| FORMAT.is_newest(conn, &database))? {
        return Ok(());
    }
    // One process creates or upgrades it. The others wait, and find it done.
    let _guard = lock.acquire()?;
    let make = || {
        let conn = database.connect_or_create()?;
        if !FORMAT.is_newest(&conn, &database)? {
            let (env, failpoints) = (runtime.env(), runtime.failpoints());
            FORMAT.bring_forward(&conn, &database, env, failpoints, |conn| initialise(conn, registry))?;
        }
        DbResult::Ok(())
    };
    make().map_err(|error| error.describe(&SUBJECT))?;
    // A new file survives a power cut only once its folder is synced.
    sync_dir(folder).map_err(failed("the account's folder cannot be synced"))
}

/// Sets whether the commits of a connection sync the WAL, or leave that to the next durable commit.
pub(crate) fn set_synchronous(conn: &Connection, durable: bool, fault: Fault) -> rusqlite::Result<()> {
    let mode = match durable {
        _ if fault.skips_every_sync() => "OFF",
        true if !fault.skips_wal_sync() => "FULL",
        _ => "NORMAL",
    };
    conn.pragma_update(None, "synchronous", mode)
}

#[cfg(test)]
mod tests;
