//! Groups of batches: one transaction, in which a batch reads what the batches before it have changed.

use garth_cloud::commit;
use garth_engine::ErrorKind;
use garth_engine::model::{Batch, Op, Precondition};

use super::database::{Database, append, at, write};

/// Head, and the names at the top.
const NAMES: &str =
    "SELECT seq, (SELECT string_agg(name, ',' ORDER BY name) FROM garth.name WHERE dir = '') FROM garth.head";

#[tokio::test(flavor = "multi_thread")]
async fn groups_follow_each_other() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let first = [write("/a", "1"), append("/a", "2"), write("/d/b", "x"), append("/a", "3")];
    let second = [append("/a", "4"), write("/d/b", "y"), append("/a", "5"), write("/d/b", "z")];
    for (group, begin) in [(first, 1), (second, 5)] {
        let commits = database.commit(account, &group).await;
        let seqs: Vec<u64> = commits.into_iter().map(|commit| commit.unwrap().seq.0).collect();
        assert_eq!(seqs, (begin..begin + 4).collect::<Vec<_>>());
    }
    assert_eq!(database.content(account, "", "a"), "12345");
    assert_eq!(database.content(account, "/d", "b"), "z");
    assert_eq!(database.rows(account, NAMES), "8|a,d");
    // Each commit is later than the one before, though the clock was read once for a group.
    let unordered = "SELECT count(*) FROM garth.log a JOIN garth.log b ON b.seq = a.seq + 1
        WHERE b.time <= a.time";
    assert_eq!(database.rows(account, unordered), "0");
    let past = "SELECT since, till FROM garth.extent_past ORDER BY till";
    assert_eq!(database.rows(account, past), "3|6\n6|8");
    let chunks = "SELECT count(*), count(DISTINCT id), max(id) FROM garth.chunk";
    assert_eq!(database.rows(account, chunks), "8|8|8");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_batch_leaves_nothing() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let refused = Batch::new([Op::write(at("/b"), "lost"), Op::append(at("/a"), "lost")]);
    let group = [write("/a", "1"), refused.require(at("/a"), Precondition::Absent), append("/a", "2")];
    let commits = database.commit(account, &group).await;
    let kinds: Vec<_> =
        commits.iter().map(|commit| commit.as_ref().map_err(|e| e.kind()).map(|c| c.seq.0)).collect();
    assert_eq!(kinds, [Ok(1), Err(ErrorKind::Conflict), Ok(2)]);
    assert_eq!(database.rows(account, NAMES), "2|a");
    assert_eq!(database.content(account, "", "a"), "12");
    let counts = "SELECT (SELECT count(*) FROM garth.chunk), (SELECT count(*) FROM garth.log)";
    assert_eq!(database.rows(account, counts), "2|2");
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_that_cannot_be_written_fails_alone() {
    let database = Database::new().await;
    let account = database.account("her").await;
    // Those behind it were planned on a state that has no `/a` any more.
    let long = format!("/{}/b", vec!["d".repeat(200); 12].join("/"));
    let refused = Batch::new([Op::remove_file(at("/a")), Op::write(at(&long), "x").with_parents()]);
    let group = [write("/a", "1"), refused.clone(), append("/a", "2"), refused, append("/a", "3")];
    let commits = database.commit(account, &group).await;
    let kinds: Vec<_> =
        commits.iter().map(|commit| commit.as_ref().map_err(|e| e.kind()).map(|c| c.seq.0)).collect();
    assert_eq!(kinds, [Ok(1), Err(ErrorKind::NameTooLong), Ok(2), Err(ErrorKind::NameTooLong), Ok(3)]);
    assert_eq!(database.content(account, "", "a"), "123");
    assert_eq!(database.rows(account, NAMES), "3|a");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_statement_leaves_nothing_of_its_group() {
    let database = Database::new().await;
    let account = database.account("her").await;
    // The second batch cannot be logged.
    let stray = format!(
        "INSERT INTO garth.log (account, seq, time, owner, overrides, changes) VALUES ({account}, 2, 1, 0, false, '[]')"
    );
    database.rows(account, &stray);
    let group = [write("/a", "1"), write("/b", "2"), write("/c", "3")];
    let error = commit::commit(&database.conn, account, &group).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let counts = "SELECT seq, (SELECT count(*) FROM garth.name), (SELECT count(*) FROM garth.node),
        (SELECT count(*) FROM garth.chunk), (SELECT count(*) FROM garth.log) FROM garth.head";
    assert_eq!(database.rows(account, counts), "0|0|1|0|1");
    // The connection has no open transaction left.
    database.rows(account, "DELETE FROM garth.log");
    for result in database.commit(account, &group).await {
        result.unwrap();
    }
    assert_eq!(database.rows(account, NAMES), "3|a,b,c");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_account_is_not_found() {
    let database = Database::new().await;
    let error = commit::commit(&database.conn, 77, &[write("/a", "1")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let account = database.account("her").await;
    assert_eq!(database.commit(account, &[]).await.len(), 0);
    database.commit(account, &[write("/a", "1")]).await.remove(0).unwrap();
}
