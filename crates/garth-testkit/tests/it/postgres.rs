//! The launcher of PostgreSQL: a cluster starts, crashes, recovers and ends with the test.

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use garth_engine::Env;
use garth_testkit::postgres::Cluster;
use garth_testkit::proxy::Proxy;

#[test]
fn cluster_survives_an_immediate_stop() {
    let mut cluster = Cluster::in_memory().unwrap();
    let urls = [cluster.socket_url(), cluster.tcp_url()];
    for url in &urls {
        assert_eq!(cluster.psql(url, "SELECT 1").unwrap(), "1");
    }
    let [socket, tcp] = &urls;
    let role = "SELECT current_user, rolsuper, current_database() FROM pg_roles WHERE rolname = current_user";
    assert_eq!(cluster.psql(tcp, role).unwrap(), "garth|f|garth");
    assert_eq!(cluster.psql(&cluster.admin_url(), role).unwrap(), "garth_admin|t|garth");
    cluster.psql(socket, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)").unwrap();

    cluster.stop_immediately().unwrap();
    for url in &urls {
        let error = cluster.psql(url, "SELECT 1").unwrap_err();
        assert!(error.contains("Is the server running"), "{error}");
    }
    cluster.stop_immediately().unwrap();

    // Also of a server that runs.
    for _ in 0..2 {
        cluster.restart().unwrap();
        for url in &urls {
            assert_eq!(cluster.psql(url, "SELECT n FROM kept").unwrap(), "7");
        }
    }
    let error = cluster.psql(tcp, "SELECT no_such_column").unwrap_err();
    assert!(error.contains("no_such_column"), "{error}");

    let proxy = Proxy::to(cluster.address()).unwrap();
    let through = cluster.tcp_url_through(proxy.address());
    assert_eq!(cluster.psql(&through, "SELECT 1").unwrap(), "1");
    assert!(proxy.trips() > 0);

    let mut open = TcpStream::connect(cluster.address()).unwrap();
    drop(cluster);
    let read = open.read(&mut [0]);
    assert!(!matches!(read, Ok(1..)), "the server still runs: {read:?}");
}

#[test]
fn stop_does_not_wait_for_clients_that_log_in() {
    let mut cluster = Cluster::in_memory().unwrap();
    for _ in 0..5 {
        // The server starts a process for each, which waits a minute for its first message.
        let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(cluster.address()).unwrap()).collect();
        let begun = Env::system().instant();
        cluster.stop_immediately().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        for mut client in clients {
            assert!(!matches!(client.read(&mut [0]), Ok(1..)), "the server still runs");
        }
        cluster.restart().unwrap();
    }
}

#[test]
fn clusters_sync_commits() {
    for cluster in [Cluster::in_memory().unwrap(), Cluster::on_disk().unwrap()] {
        assert_eq!(cluster.psql(&cluster.tcp_url(), "SHOW fsync").unwrap(), "on");
    }
}
