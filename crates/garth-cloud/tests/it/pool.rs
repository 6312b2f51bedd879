//! The pool of connections: its limit, its order, and connections that end.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::executor::block_on;
use garth_cloud::client::{Pipe, Pool, PooledConnection};
use garth_engine::stats::HomeStats;
use garth_engine::{Env, ErrorKind, Result};
use garth_testkit::postgres::Cluster;

/// Returns the process of the server that serves a connection.
async fn process(conn: &PooledConnection) -> Result<i32> {
    let mut pipe = Pipe::new(conn);
    let process = pipe.query("SELECT pg_backend_pid()", Vec::new());
    Ok(pipe.run().await?[process][0].get(0))
}

/// Returns the numbers of connections and of idle ones.
fn counts(pool: &Pool) -> (u64, u64) {
    let mut stats = HomeStats::default();
    pool.read_into(&mut stats);
    (stats.connections, stats.idle_connections)
}

#[test]
fn waiting_calls_get_connections_in_order() {
    let cluster = Cluster::in_memory().unwrap();
    // No runtime of tokio polls the calls.
    block_on(async {
        let pool = Pool::connect(&cluster.tcp_url(), 2).await.unwrap();
        let [first, second] = [pool.connection().await.unwrap(), pool.connection().await.unwrap()];
        assert_ne!(process(&first).await.unwrap(), process(&second).await.unwrap());
        assert_eq!(counts(&pool), (2, 0));
        let mut waiting: Vec<_> = (0..3).map(|_| pool.connection().boxed()).collect();
        assert!(waiting.iter_mut().all(|call| call.now_or_never().is_none()));
        let expected = process(&second).await.unwrap();
        second.release();
        // Not even a call that comes at the right moment overtakes.
        assert!(pool.connection().now_or_never().is_none());
        let third = waiting.remove(0).await.unwrap();
        assert_eq!(process(&third).await.unwrap(), expected);
        assert!(waiting.iter_mut().all(|call| call.now_or_never().is_none()));
        // A call that is dropped leaves its turn to the next.
        drop(waiting.remove(0));
        drop(third);
        let fourth = waiting.remove(0).await.unwrap();
        assert_ne!(process(&fourth).await.unwrap(), expected, "a dropped connection is closed");
        first.release();
        fourth.release();
        assert_eq!(counts(&pool), (2, 2));
    });
}

#[test]
fn broken_connections_are_replaced() {
    let mut cluster = Cluster::in_memory().unwrap();
    block_on(async {
        let pool = Pool::connect(&cluster.socket_url(), 2).await.unwrap();
        let held = pool.connection().await.unwrap();
        cluster.restart().unwrap();
        let error = process(&held).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        held.release();
        assert_eq!(counts(&pool), (0, 0), "it is not kept");
        let conn = pool.connection().await.unwrap();
        process(&conn).await.unwrap();
        cluster.stop_immediately().unwrap();
        assert!(process(&conn).await.is_err());
        drop(conn);
        let error = pool.connection().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        cluster.restart().unwrap();
        process(&pool.connection().await.unwrap()).await.unwrap();
    });
}

#[test]
fn failed_transaction_is_rolled_back_before_release() {
    let cluster = Cluster::in_memory().unwrap();
    block_on(async {
        let pool = Pool::connect(&cluster.tcp_url(), 1).await.unwrap();
        let conn = pool.connection().await.unwrap();
        let expected = process(&conn).await.unwrap();
        let mut pipe = Pipe::new(&conn);
        pipe.simple("BEGIN; CREATE TABLE half (n int)");
        pipe.simple("SELECT 1 / 0");
        let failed = pipe.run().await;
        assert!(conn.settle(failed).await.is_err());
        let conn = pool.connection().await.unwrap();
        assert_eq!(process(&conn).await.unwrap(), expected, "it is the same connection");
        let mut pipe = Pipe::new(&conn);
        let half = pipe.query("SELECT to_regclass('half') IS NULL", Vec::new());
        assert!(pipe.run().await.unwrap()[half][0].get::<_, bool>(0));
    });
}

#[test]
fn call_runs_to_its_end_after_its_future_is_dropped() {
    let cluster = Cluster::in_memory().unwrap();
    let pool = block_on(Pool::connect(&cluster.tcp_url(), 1)).unwrap();
    let call = pool.run({
        let pool = Arc::clone(&pool);
        async move {
            let conn = pool.connection().await?;
            let mut pipe = Pipe::new(&conn);
            pipe.simple("SELECT pg_sleep(0.1); CREATE TABLE made (n int)");
            let made = pipe.run().await;
            conn.settle(made).await
        }
    });
    assert!(call.now_or_never().is_none());
    let is_made = || cluster.psql(&cluster.tcp_url(), "SELECT to_regclass('made')").unwrap() == "made";
    let mut waits = std::iter::repeat_with(|| Env::system().sleep(Duration::from_millis(20))).take(500);
    assert!(waits.any(|()| is_made()));
}

#[test]
fn superuser_and_exempt_role_are_refused() {
    let cluster = Cluster::in_memory().unwrap();
    let connect = || block_on(Pool::connect(&cluster.tcp_url(), 1));
    let error = block_on(Pool::connect(&cluster.admin_url(), 1)).unwrap_err();
    assert!(error.is(ErrorKind::AccessDenied) && error.message().contains("superuser"), "{error}");
    cluster.psql(&cluster.admin_url(), "ALTER ROLE garth BYPASSRLS").unwrap();
    assert!(connect().unwrap_err().is(ErrorKind::AccessDenied));
    cluster.psql(&cluster.admin_url(), "ALTER ROLE garth NOBYPASSRLS").unwrap();
    connect().unwrap();
}

#[test]
fn server_that_does_not_sync_is_refused() {
    let mut cluster = Cluster::in_memory().unwrap();
    cluster.psql(&cluster.admin_url(), "ALTER SYSTEM SET fsync = off").unwrap();
    cluster.restart().unwrap();
    let error = block_on(Pool::connect(&cluster.tcp_url(), 1)).unwrap_err();
    assert!(error.is(ErrorKind::Unsupported) && error.message().contains("fsync"), "{error}");
    // A service that stores commits on other machines.
    let accepted = format!("{}?options=-c%20garth.fsync_elsewhere%3Don", cluster.tcp_url());
    block_on(Pool::connect(&accepted, 1)).unwrap();
}

#[test]
fn role_that_does_not_wait_for_the_disk_is_refused() {
    let cluster = Cluster::in_memory().unwrap();
    cluster.psql(&cluster.admin_url(), "ALTER ROLE garth SET synchronous_commit = off").unwrap();
    let error = block_on(Pool::connect(&cluster.tcp_url(), 1)).unwrap_err();
    assert!(error.is(ErrorKind::Unsupported) && error.message().contains("synchronous_commit"), "{error}");
}

#[test]
fn errors_quote_no_rows() {
    let cluster = Cluster::in_memory().unwrap();
    block_on(async {
        let pool = Pool::connect(&cluster.tcp_url(), 1).await.unwrap();
        let conn = pool.connection().await.unwrap();
        let mut pipe = Pipe::new(&conn);
        pipe.simple("CREATE TABLE secret (text text PRIMARY KEY); INSERT INTO secret VALUES ('hidden')");
        pipe.simple("INSERT INTO secret VALUES ('hidden')");
        let error = pipe.run().await.unwrap_err();
        let cause = std::error::Error::source(&error).unwrap();
        assert!(cause.to_string().contains("secret_pkey") && cause.to_string().contains("23505"), "{cause}");
        assert!(!format!("{cause} {error:?}").contains("hidden"), "{error:?}");
    });
}

#[test]
fn errors_of_connecting_say_what_to_do() {
    let cluster = Cluster::in_memory().unwrap();
    let connect = |url: &str| block_on(Pool::connect(url, 1)).unwrap_err();
    let missing = connect(&cluster.socket_url().replace(":///garth?", ":///missing?"));
    assert!(missing.message().contains("create it"), "{missing}");
    let address = cluster.address();
    drop(cluster);
    let secret = "hidden";
    let error = connect(&format!("postgresql://garth:{secret}@{address}/garth"));
    assert!(error.is(ErrorKind::Unavailable), "{error}");
    assert!(!format!("{error} {error:?}").contains("hidden"), "{error:?}");
}
