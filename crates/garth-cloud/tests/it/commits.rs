//! Commits of single batches, and the rows that they leave.

use garth_engine::ErrorKind;
use garth_engine::model::{Author, Batch, Op};

use super::database::{Database, append, at, write};

#[tokio::test(flavor = "multi_thread")]
async fn write_and_append_are_read_back_by_sql() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let commits = database.commit(account, &[write("/notes/a.md", "one\n")]).await;
    let commit = commits[0].as_ref().unwrap();
    assert_eq!((commit.seq.0, commit.durable, commit.outcomes.len()), (1, true, 1));
    let batch = append("/notes/a.md", "two\n").message("more").author(Author::agent("scout"));
    let commits = database.commit(account, &[batch]).await;
    let commit = commits[0].as_ref().unwrap();
    assert_eq!((commit.seq.0, commit.outcomes[0].size), (2, 8));

    let names = "SELECT dir, name, kind, since FROM garth.name ORDER BY dir, name";
    assert_eq!(database.rows(account, names), "|notes|1|1\n/notes|a.md|0|1");
    assert_eq!(database.content(account, "/notes", "a.md"), "one\ntwo");
    let versions = "SELECT seq, size, nlink, content_seq FROM garth.node WHERE kind = 0 ORDER BY seq";
    assert_eq!(database.rows(account, versions), "1|4|1|1\n2|8|1|2");
    let extents = "SELECT off, len, since, skip, older FROM garth.extent ORDER BY off";
    assert_eq!(database.rows(account, extents), "0|4|1|0|0\n4|4|2|0|0");
    let counts = "SELECT (SELECT count(*) FROM garth.extent_past), (SELECT count(*) FROM garth.chunk_refs),
        (SELECT count(*) FROM garth.unindexed), (SELECT sum(len) FROM garth.chunk), (SELECT seq FROM garth.head)";
    assert_eq!(database.rows(account, counts), "0|0|0|8|2");
    let log = "SELECT seq, coalesce(convert_from(message, 'UTF8'), '-'), author IS NULL FROM garth.log ORDER BY seq";
    assert_eq!(database.rows(account, log), "1|-|t\n2|more|f");
    // The clock is that of the database, not that of the test.
    let times = "SELECT count(*) FROM garth.log
        WHERE abs(time - (extract(epoch FROM clock_timestamp()) * 1e9)::bigint) > 6e11";
    assert_eq!(database.rows(account, times), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_content_moves_to_the_past() {
    let database = Database::new().await;
    let account = database.account("her").await;
    for body in ["first", "second", "third"] {
        database.commit(account, &[write("/a", body)]).await.remove(0).unwrap();
    }
    assert_eq!(database.content(account, "", "a"), "third");
    let live = "SELECT off, len, since, chunk FROM garth.extent";
    assert_eq!(database.rows(account, live), "0|5|3|3");
    let past = "SELECT till, off, len, since, chunk FROM garth.extent_past ORDER BY till";
    assert_eq!(database.rows(account, past), "2|0|5|1|1\n3|0|6|2|2");
    // An empty file has no extent left.
    database.commit(account, &[write("/a", "")]).await.remove(0).unwrap();
    let counts = "SELECT (SELECT count(*) FROM garth.extent), (SELECT max(till) FROM garth.extent_past)";
    assert_eq!(database.rows(account, counts), "0|4");
}

#[tokio::test(flavor = "multi_thread")]
async fn times_of_directories_take_no_node() {
    let database = Database::new().await;
    let account = database.account("her").await;
    for path in ["/d/a", "/d/b", "/d/c"] {
        database.commit(account, &[write(path, "x")]).await.remove(0).unwrap();
    }
    let directory = "(SELECT ino FROM garth.name WHERE name = 'd')";
    let rows = |table: &str, columns: &str| {
        let sql = format!("SELECT {columns} FROM garth.{table} WHERE ino = {directory} ORDER BY 1");
        database.rows(account, &sql)
    };
    assert_eq!(rows("node", "seq"), "1");
    assert_eq!(rows("dir_time", "seq"), "3");
    assert_eq!(rows("dir_time_past", "since, till, fork"), "1|2|1\n2|3|2");
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_content_is_stored_once() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let body = "0123456789abcdef".repeat(5000);
    database.commit(account, &[write("/a", body.as_str()), write("/b", body.as_str())]).await;
    let counts = "SELECT (SELECT count(*) FROM garth.chunk),
        (SELECT string_agg(count::text, ',') FROM garth.chunk_refs)";
    assert_eq!(database.rows(account, counts), "1|2");
    database.commit(account, &[write("/c", body.as_str())]).await.remove(0).unwrap();
    assert_eq!(database.rows(account, counts), "1|3");
    assert_eq!(database.content(account, "", "c"), body);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_long_directories_are_refused() {
    let database = Database::new().await;
    let account = database.account("her").await;
    database.commit(account, &[write("/a", "x")]).await.remove(0).unwrap();
    let long = format!("/{}", vec!["d".repeat(200); 12].join("/"));
    let deep = Op::mkdir(at(&format!("/e{}", &long[..2100]))).with_parents();
    database.commit(account, &[Batch::new([deep])]).await.remove(0).unwrap();
    let to = format!("/{0}/{0}", "f".repeat(250));
    for batch in [
        write(&format!("{long}/b"), "x"),
        // Its directories would have paths that are too long.
        Batch::new([Op::rename(at(&format!("/e{}", &long[..201])), at(&to)).with_parents()]),
    ] {
        let error = database.commit(account, &[batch]).await.remove(0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NameTooLong, "{error}");
        assert!(error.message().contains("2304 bytes"), "{error}");
    }
    assert_eq!(
        database.rows(account, "SELECT seq, (SELECT count(*) FROM garth.name) FROM garth.head"),
        "2|13"
    );
}
