//! Connections that are lost during a commit: whether it was made is read back, and never guessed.

use std::sync::Arc;

use garth_cloud::client::Pool;
use garth_cloud::commit::{Committer, Request, commit};
use garth_engine::ErrorKind;
use garth_engine::engine::relational::confinement::Reach;
use garth_engine::engine::relational::open_nodes::OpenNodes;
use garth_engine::model::Batch;
use garth_engine::rule::Registry;
use garth_testkit::proxy::{Direction, Proxy};

use super::database::{Database, append, connect, write};

fn committer(account: i64) -> Committer {
    Committer::new(account, Registry::empty(), Arc::new(OpenNodes::new([7; 16])), Arc::default())
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_commits_are_made_once() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let proxy = Proxy::to(database.cluster.address()).unwrap();
    // One connection: a lost one is given up before another one is opened.
    let pool = Pool::connect(&database.cluster.tcp_url_through(proxy.address()), 1).await.unwrap();
    let (committer, reach) = (committer(account), Reach::everything());
    let (mut made, before) = (0, proxy.cuts());
    for direction in [Direction::ToServer, Direction::ToClient] {
        for bytes in (0..6000).step_by(150) {
            proxy.cut_after(direction, bytes);
            let batches: Vec<Batch> = (0..2).map(|part| append("/log", format!("{made}.{part}\n"))).collect();
            let requests: Vec<Request<'_>> =
                batches.iter().map(|batch| Request { batch, reach: &reach }).collect();
            for result in committer.commit(&pool, &requests).await.unwrap() {
                result.unwrap();
            }
            made += 1;
        }
    }
    // Before the transaction, in it, and during its end.
    assert!(proxy.cuts() - before > 10, "{}", proxy.cuts() - before);
    let lines: Vec<String> =
        (0..made).flat_map(|made| (0..2).map(move |part| format!("{made}.{part}"))).collect();
    let content = database.content(account, "", "log");
    assert_eq!(content.lines().collect::<Vec<_>>(), lines);
    assert_eq!(database.rows(account, "SELECT seq FROM garth.head"), (2 * made).to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_is_unavailable_if_the_database_cannot_be_asked() {
    let mut database = Database::new().await;
    let account = database.account("her").await;
    let proxy = Proxy::to(database.cluster.address()).unwrap();
    let conn = connect(&database.cluster.tcp_url_through(proxy.address())).await;
    commit(&conn, account, &[write("/a", "1")]).await.unwrap().remove(0).unwrap();
    // A single connection is not replaced.
    proxy.cut_after(Direction::ToServer, 100);
    let error = commit(&conn, account, &[write("/b", "2")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(database.rows(account, "SELECT seq FROM garth.head"), "1");
    let pool = Pool::connect(&database.cluster.tcp_url(), 1).await.unwrap();
    database.cluster.stop_immediately().unwrap();
    let (batch, reach) = (write("/b", "2"), Reach::everything());
    let error =
        committer(account).commit(&pool, &[Request { batch: &batch, reach: &reach }]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}
