//! Deletions of accounts that other transactions race with: no row is left behind, and no call sees half of
//! an account.

use std::time::Duration;

use garth_cloud::client::Pipe;
use garth_cloud::home::PgHome;
use garth_cloud::indexing::index_next;
use garth_cloud::search::merge::{Step, step};
use garth_engine::model::{At, Batch, ByteRange, FindQuery, Op, Page, SearchQuery, SetAttrs};
use garth_engine::rule::Registry;
use garth_engine::{Env, ErrorKind, FileSystem as _, Home as _};
use garth_testkit::postgres::Cluster;

use super::database::{Database, at, connect};

#[tokio::test(flavor = "multi_thread")]
async fn deletion_takes_the_head_row_that_a_commit_moves() {
    let cluster = Cluster::in_memory().unwrap();
    let home = PgHome::connect(&cluster.socket_url(), 4, Env::system(), Registry::empty()).await.unwrap();
    home.create_account("her").await.unwrap();
    let admin = |sql: &str| cluster.psql(&cluster.admin_url(), sql).unwrap();
    let number = admin("SELECT account FROM garth.head");
    // A commit of another server, whose row of `garth.head` gets another place.
    let writer = connect(&cluster.socket_url()).await;
    let mut pipe = Pipe::new(&writer);
    pipe.simple(format!(
        "BEGIN; SELECT set_config('garth.account', '{number}', true); UPDATE garth.head SET seq = seq + 1"
    ));
    pipe.run().await.unwrap();
    let deletion = tokio::spawn(async move { home.delete_account("her").await });
    let mut waits = 0;
    while admin("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0" {
        waits += 1;
        assert!(waits < 1000, "the deletion does not wait for the commit");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut pipe = Pipe::new(&writer);
    pipe.simple("COMMIT");
    pipe.run().await.unwrap();
    deletion.await.unwrap().unwrap();
    assert_eq!(admin("SELECT count(*) FROM garth.head"), "0");
    // A server that still has the tree open writes nothing.
    let number = number.parse().unwrap();
    let batch = Batch::new([Op::mkdir(at("/d"))]);
    let error = garth_cloud::commit::commit(&writer, number, &[batch]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn late_background_steps_leave_no_rows() {
    let database = Database::new().await;
    let account = database.account("her").await;
    database.rows(account, "INSERT INTO garth.unindexed (account, ino, off) VALUES (garth.me(), 2, 0)");
    database.rows(account, "DELETE FROM garth.head");
    assert_eq!(step(&database.conn, account, b"one").await.unwrap(), Step::Done);
    assert_eq!(database.rows(account, "SELECT count(*) FROM garth.merging"), "0");
    // The sweep deletes the row as it was found.
    assert!(!index_next(&database.conn, account, &Registry::empty()).await.unwrap());
    assert_eq!(database.rows(account, "SELECT until FROM garth.unindexed"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_see_nothing_of_a_half_deleted_account() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let write = Op::write(at("/a"), "text").with_attrs(SetAttrs::new().tags(["t"]));
    database.commit(account, &[Batch::new([write])]).await.remove(0).unwrap();
    let fs = database.store(account, &database.cluster.socket_url()).await;
    let file = At::Path(at("/a"));
    fs.find(&FindQuery::tag("t")).await.unwrap();
    let (open, past) = (
        fs.open(&file).await.unwrap(),
        fs.as_of(&garth_engine::model::Moment::Seq(garth_engine::model::Seq(1))),
    );
    let past = past.await.unwrap();
    // The first step of a deletion. The tables after it still have their rows.
    database.rows(account, "DELETE FROM garth.head; DELETE FROM garth.attribute");
    for error in [
        fs.stat(&file).await.unwrap_err(),
        fs.list(&At::Path(at("/")), &Page::default().with_entries()).await.unwrap_err(),
        fs.fetch(&file, ByteRange::ALL).await.unwrap_err(),
        fs.fetch_many(&[(file.clone(), ByteRange::ALL)]).await.unwrap_err(),
        fs.find(&FindQuery::tag("t")).await.unwrap_err(),
        fs.search(&SearchQuery::new("text")).await.unwrap_err(),
        open.read_at(0, 10).await.unwrap_err(),
        past.stat(&file).await.unwrap_err(),
    ] {
        assert!(error.is(ErrorKind::NotFound) && error.message().contains("account"), "{error}");
    }
}
