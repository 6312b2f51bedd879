//! The tables: they are created once, and a transaction sees the rows of its account only.

use garth_cloud::schema;
use garth_engine::engine::relational::interval;
use garth_engine::{Env, ErrorKind};

use super::database::{Database, connect, write};

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_created_once() {
    let database = Database::new().await;
    let format = "SELECT version, octet_length(secret), md5(secret) FROM garth.format";
    let first = database.rows(0, format);
    assert!(first.starts_with("1|32|"), "{first}");
    schema::create(&database.conn, &Env::system()).await.unwrap();
    assert_eq!(database.rows(0, format), first);

    // Servers that start together.
    let other = connect(&database.cluster.tcp_url()).await;
    let env = Env::system();
    let both = futures::join!(schema::create(&database.conn, &env), schema::create(&other, &env));
    both.0.and(both.1).unwrap();
    assert_eq!(database.rows(0, format), first);

    database.rows(0, "UPDATE garth.format SET version = 2");
    let error = schema::create(&database.conn, &env).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_account_has_an_empty_tree() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let root = "SELECT ino, seq, kind, mode, nlink FROM garth.node";
    assert_eq!(database.rows(account, root), "1|0|1|493|2");
    assert_eq!(database.rows(account, "SELECT seq, next_ino, next_chunk FROM garth.head"), "0|2|1");
    let error = schema::create_account(&database.conn, "her", 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert_ne!(database.account("him").await, account);
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_spans_have_the_forks_of_the_engine() {
    let database = Database::new().await;
    let spans = database.rows(
        0,
        "SELECT since, till, garth.fork(since, till) FROM generate_series(1, 40) since
         CROSS JOIN generate_series(1, 40) till",
    );
    for span in spans.lines() {
        let numbers: Vec<u64> = span.split('|').map(|number| number.parse().unwrap()).collect();
        let &[since, till, fork] = numbers.as_slice() else { panic!("{span}") };
        assert_eq!(fork, interval::fork(since, till), "{since}..{till}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_level_security_separates_accounts() {
    let database = Database::new().await;
    let [hers, his] = [database.account("her").await, database.account("him").await];
    for result in database.commit(hers, &[write("/hers", "secret")]).await {
        result.unwrap();
    }
    for table in ["head", "name", "node", "extent", "chunk", "log", "passage"] {
        let of_her = format!("SELECT count(*) FROM garth.{table} WHERE account = {hers}");
        assert_ne!(database.rows(hers, &of_her), "0", "{table}");
        assert_eq!(database.rows(his, &of_her), "0", "{table}");
        // The heads of all accounts tell the servers which of them have changed.
        assert_eq!(database.rows(0, &of_her) == "0", table != "head", "{table}");
        let unset = database.cluster.psql(&database.cluster.socket_url(), &of_her).unwrap();
        assert_eq!(unset, "0", "{table}");
    }
    // Partitions are tables, too.
    let partitions: Vec<_> = (0..16).map(|at| format!("(SELECT count(*) FROM garth.chunk_{at})")).collect();
    let direct = &format!("SELECT {}", partitions.join(" + "));
    assert_ne!(database.rows(hers, direct), "0");
    assert_eq!(database.rows(his, direct), "0");

    for refused in [
        format!("INSERT INTO garth.chunk_refs VALUES ({hers}, 7, 2)"),
        format!(
            "INSERT INTO garth.name (account, dir, name, ino, since, kind) VALUES ({hers}, '', 'x', 1, 1, 0)"
        ),
        "INSERT INTO garth.account (id, folder, created) VALUES ('x', 'x', 1)".to_owned(),
    ] {
        let error = database.sql(his, &refused).unwrap_err();
        assert!(error.contains("row-level security"), "{refused}: {error}");
    }
    database.rows(his, "UPDATE garth.head SET seq = 99; DELETE FROM garth.name");
    assert_eq!(database.rows(hers, "SELECT seq, (SELECT count(*) FROM garth.name) FROM garth.head"), "1|1");
    assert_eq!(database.rows(his, "SELECT seq FROM garth.head"), "99");
}
