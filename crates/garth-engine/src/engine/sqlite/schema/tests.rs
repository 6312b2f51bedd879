//! Upgrades of databases of older formats.

use futures::executor::block_on;
use rusqlite::params;

use super::*;
use crate::engine::sqlite::SqliteFs;
use crate::engine::sqlite::tables::head;
use crate::env::Env;
use crate::error::ErrorKind;
use crate::fs::FileSystem;
use crate::model::{Batch, CommitId, Idempotency, Seq, Timestamp};
use crate::sqlite::all;

/// Creates a database with these scripts, with empty commits in its log, and with the rows that `fill` adds.
fn made(folder: &Path, scripts: &[&str], commits: u64, fill: impl FnOnce(&Connection)) {
    let conn = database(folder).connect_or_create().unwrap();
    conn.pragma_update(None, "journal_mode", "WAL").unwrap();
    for script in scripts {
        conn.execute_batch(script).unwrap();
    }
    first_rows(&conn).unwrap();
    conn.pragma_update(None, "application_id", FORMAT.application_id).unwrap();
    conn.pragma_update(None, "user_version", scripts.len()).unwrap();
    for seq in 1..=commits {
        let id = CommitId(u128::from(seq)).0.to_be_bytes();
        let sql = "INSERT INTO log (seq, time, id, changes) VALUES (?1, ?1 * 100, ?2, '[]')";
        conn.execute(sql, params![seq, id]).unwrap();
    }
    conn.execute("UPDATE head SET seq = ?1, time = ?1 * 100", [commits]).unwrap();
    fill(&conn);
}

fn retry(key: &str) -> Batch {
    let keep_until = Timestamp(i64::MAX);
    Batch::default().idempotency(Idempotency::new(key, [7; 32], keep_until))
}

#[test]
fn format_2_results_are_found_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let answers = [
        ("full", "[2,200,[[5,true,true,2],[1,false,false,0]]]"),
        ("brief", "[3,300,[[6,false]]]"),
        ("damaged", "[4,400,[[6,fal"),
        ("odd", "{}"),
    ];
    made(folder.path(), &FORMAT.scripts[..2], 4, |conn| {
        for (key, answer) in answers {
            let sql = "INSERT INTO idempotency (key, hash, keep_until, answer) VALUES (?1, ?2, ?3, ?4)";
            conn.execute(sql, params![key, [7u8; 32], i64::MAX, answer]).unwrap();
        }
    });
    let fs = SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
    let replayed = |key| block_on(fs.commit(retry(key)));
    let full = replayed("full").unwrap();
    assert_eq!((full.seq, full.time, full.replayed), (Seq(2), Timestamp(200), true));
    let outcomes: Vec<_> =
        full.outcomes.iter().map(|it| (it.ino.0, it.created, it.changed, it.version.seq.0)).collect();
    assert_eq!(outcomes, [(5, true, true, 2), (1, false, false, 0)]);
    let brief = replayed("brief").unwrap();
    assert_eq!((brief.seq, brief.outcomes.len(), brief.version(0).seq), (Seq(3), 1, Seq(3)));
    // Their rows are kept and lead to no commit.
    for lost in ["damaged", "odd"] {
        assert_eq!(
            replayed(lost).unwrap_err().kind(),
            ErrorKind::Corrupt,
            "{lost}: a retry must not commit again"
        );
    }
    let committed = |id| block_on(fs.committed(CommitId(id))).unwrap();
    assert_eq!(committed(2).unwrap().outcomes, full.outcomes, "one record");
    let plain = committed(1).unwrap();
    assert_eq!((plain.seq, plain.time, plain.outcomes), (Seq(1), Timestamp(100), vec![]));
    assert_eq!(block_on(fs.commit(Batch::default().id(CommitId(1)))).unwrap().seq, Seq(1));
    assert_eq!(block_on(fs.head()).unwrap().seq, Seq(4), "nothing was committed again");
    let findings = fs.check().unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
}

#[cfg(debug_assertions)]
#[test]
fn upgrade_is_complete_or_undone() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use crate::model::Op;
    use crate::path::TreePath;
    use crate::runtime::failpoint::{Failure, MIGRATE};

    for version in 1..FORMAT.scripts.len() {
        let folder = tempfile::tempdir().unwrap();
        made(folder.path(), &FORMAT.scripts[..version], 3, |_| {});
        let conn = || Connection::open(database(folder.path()).file).unwrap();
        let format = || conn().query_row("PRAGMA user_version", [], |row| row.get::<_, usize>(0)).unwrap();
        let runtime = Runtime::new(Env::system());
        let open = || SqliteFs::open_on(folder.path(), &runtime, crate::rule::sample::registry());
        for failure in [Failure::Io, Failure::Panic] {
            runtime.failpoints().arm(MIGRATE, failure, 0);
            let opened = catch_unwind(AssertUnwindSafe(open));
            assert!(!runtime.failpoints().disarm() && !matches!(opened, Ok(Ok(_))), "{failure:?}");
            assert_eq!(format(), version, "{failure:?}");
        }
        let fs = open().unwrap();
        assert_eq!((format(), block_on(fs.head()).unwrap().seq), (FORMAT.scripts.len(), Seq(3)));
        block_on(fs.commit(Op::write(TreePath::parse("/a").unwrap(), "new").into())).unwrap();
        fs.collect(std::time::Duration::ZERO).unwrap();
        assert_eq!(fs.check().unwrap().findings, []);
        drop(fs);
        conn().pragma_update(None, "user_version", FORMAT.scripts.len() + 1).unwrap();
        assert!(open().unwrap_err().is(ErrorKind::Format));
    }
}

#[test]
fn upgrade_counts_references_and_holes() {
    let folder = tempfile::tempdir().unwrap();
    let conn = Connection::open(folder.path().join(DATABASE)).unwrap();
    conn.execute_batch(FORMAT_1).unwrap();
    conn.execute_batch(FORMAT_2).unwrap();
    // Chunk 1 is shown once, 2 twice, 3 by an upload, 4 by nothing. The first pack has gaps, the second is
    // empty.
    conn.execute_batch(
        "PRAGMA application_id = 0x47525448; PRAGMA user_version = 2;
         INSERT INTO head (id, seq, time, next_ino, next_chunk, syncs) VALUES (1, 0, 0, 3, 5, 0);
         INSERT INTO pack (id, file, size) VALUES (1, 'one', 100), (2, 'two', 7);
         INSERT INTO chunk (id, sum, pack, pos, len) VALUES
             (1, x'00', 1, 10, 20), (2, x'00', 1, 30, 5), (3, x'00', 1, 50, 10), (4, x'00', NULL, NULL, 1);
         INSERT INTO extent VALUES (2, 0, 0, 20, 1, 1, 0), (2, 0, 20, 5, 1, 2, 0), (2, 5, 20, 3, 1, 2, 0);
         INSERT INTO staged VALUES (x'00', '[[3,10]]', 0), (x'01', NULL, 0);
         INSERT INTO node VALUES
             (2, 1, 0, 420, 0, 0, 0, 1, 25, 0, 0, 0, 0, NULL, 0, NULL, 1),
             (2, 2, 0, 420, 0, 0, 0, 0, 25, 0, 0, 0, 0, NULL, 0, NULL, 1),
             (2, 3, 0, 420, 0, 0, 0, 0, 25, 0, 0, 0, 0, NULL, 0, NULL, 3);",
    )
    .unwrap();
    SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
    let pairs = |sql| all(&conn, sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(pairs("SELECT chunk, count FROM chunk_refs ORDER BY chunk"), [(2, 2), (4, 0)]);
    assert_eq!(pairs("SELECT pos, len FROM hole ORDER BY pos"), [(0, 10), (35, 15), (60, 40)]);
    assert_eq!(pairs("SELECT id, doomed_at FROM pack WHERE doomed_at IS NOT NULL"), [(2, 0)]);
    assert_eq!(pairs("SELECT ino, doomed_at IS NULL FROM unnamed"), [(2, 1)]);
}

#[test]
fn replaced_nodes_are_queued_from_the_upgrade_on() {
    let folder = tempfile::tempdir().unwrap();
    made(folder.path(), &FORMAT.scripts[..8], 3, |_| {});
    SqliteFs::open(folder.path(), Env::system(), crate::rule::sample::registry()).unwrap();
    let conn = Connection::open(database(folder.path()).file).unwrap();
    assert_eq!(head::queued(&conn).unwrap(), 3, "the queue has nothing of the commits before");
    let head = head::get(&conn).unwrap();
    assert_eq!((head.seq, head.oldest, head.folded), (3, 0, 0), "all of the past stays");
}

#[test]
fn format_document_names_the_newest_format() {
    let document = include_str!("../../../../../../docs/format.md");
    assert_eq!(document.lines().next(), Some(&*format!("# Format {}", FORMAT.scripts.len())));
}
