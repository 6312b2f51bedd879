//! Connections that are lost during a commit: whether it was made is read back, and never guessed.

use std::sync::Arc;

use garth_cloud::client::Connection;
use garth_cloud::commit::{Committer, Request, commit};
use garth_engine::ErrorKind;
use garth_engine::engine::relational::confinement::Reach;
use garth_engine::engine::relational::open_nodes::OpenNodes;
use garth_engine::model::Batch;
use garth_engine::rule::Registry;
use garth_testkit::proxy::{Direction, Proxy};

use super::database::{Database, append, connect, write};

#[tokio::test(flavor = "multi_thread")]
async fn lost_commits_are_made_once() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let proxy = Proxy::to(database.cluster.address()).unwrap();
    let (through, direct) =
        (database.cluster.tcp_url_through(proxy.address()), database.cluster.socket_url());
    let committer = Committer::new(account, Registry::empty(), Arc::new(OpenNodes::new([7; 16])));
    let reach = Reach::everything();
    let (mut made, mut cuts) = (0, 0);
    for direction in [Direction::ToServer, Direction::ToClient] {
        for bytes in (0..6000).step_by(150) {
            proxy.cut_after(direction, usize::MAX);
            let conn = connect(&through).await;
            proxy.cut_after(direction, bytes);
            let batches: Vec<Batch> = (0..2).map(|part| append("/log", format!("{made}.{part}\n"))).collect();
            let requests: Vec<Request<'_>> =
                batches.iter().map(|batch| Request { batch, reach: &reach }).collect();
            let reconnect = || async { Ok(Box::new(connect(&direct).await)) };
            let before = proxy.cuts();
            for result in committer.commit(&conn, &requests, reconnect).await.unwrap() {
                result.unwrap();
            }
            cuts += proxy.cuts() - before;
            made += 1;
        }
    }
    // Before the transaction, in it, and during its end.
    assert!(cuts > 10, "{cuts}");
    let lines: Vec<String> =
        (0..made).flat_map(|made| (0..2).map(move |part| format!("{made}.{part}"))).collect();
    let content = database.content(account, "", "log");
    assert_eq!(content.lines().collect::<Vec<_>>(), lines);
    assert_eq!(database.rows(account, "SELECT seq FROM garth.head"), (2 * made).to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_without_another_connection_is_unavailable() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let proxy = Proxy::to(database.cluster.address()).unwrap();
    let conn = connect(&database.cluster.tcp_url_through(proxy.address())).await;
    commit(&conn, account, &[write("/a", "1")]).await.unwrap().remove(0).unwrap();
    proxy.cut_after(Direction::ToServer, 100);
    let error = commit(&conn, account, &[write("/b", "2")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // The database cannot be asked over the other connection either.
    let committer = Committer::new(account, Registry::empty(), Arc::new(OpenNodes::new([7; 16])));
    let (batch, reach) = (write("/b", "2"), Reach::everything());
    let requests = [Request { batch: &batch, reach: &reach }];
    let reconnect = || async { Err::<Box<Connection>, _>(garth_engine::Error::invalid("no connection")) };
    let error = committer.commit(&conn, &requests, reconnect).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(database.rows(account, "SELECT seq FROM garth.head"), "1");
}
