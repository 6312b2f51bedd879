//! Nodes and states of the past that servers hold open, and their leases.

use std::sync::Arc;
use std::time::Duration;

use garth_cloud::home::PgHome;
use garth_engine::model::{At, Batch, ByteRange, Moment, Op, Seq};
use garth_engine::rule::sample;
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem as _, Home as _, OpenFile};
use garth_testkit::postgres::Cluster;
use garth_testkit::proxy::Proxy;

use super::database::{Database, at, eventually, write};

/// Connections of a server.
const CONNECTIONS: usize = 4;

/// An account at two servers.
struct Servers {
    cluster: Cluster,
    homes: [PgHome; 2],
    account: String,
}

impl Servers {
    async fn new() -> Self {
        let cluster = Cluster::in_memory().unwrap();
        let url = cluster.socket_url();
        let home = || PgHome::connect(&url, CONNECTIONS, Env::system(), sample::registry());
        let homes = [home().await.unwrap(), home().await.unwrap()];
        homes[0].create_account("her").await.unwrap();
        let mut servers = Self { cluster, homes, account: "0".to_owned() };
        servers.account = servers.of_servers("SELECT account FROM garth.account");
        servers
    }

    async fn tree(&self, server: usize) -> Arc<dyn AccountStore> {
        self.homes[server].open("her").await.unwrap()
    }

    /// Runs statements on the rows of the account.
    fn sql(&self, sql: &str) -> String {
        self.sql_of(&self.account, sql)
    }

    /// Runs statements on the rows of the servers.
    fn of_servers(&self, sql: &str) -> String {
        self.sql_of("0", sql)
    }

    fn sql_of(&self, account: &str, sql: &str) -> String {
        self.cluster
            .psql(&self.cluster.socket_url(), &format!("SET garth.account = '{account}'; {sql}"))
            .unwrap()
    }

    /// Waits until the rows of a query are these.
    async fn becomes(&self, sql: &str, rows: &str) {
        eventually(|| self.sql(sql), rows).await;
    }
}

async fn text(file: &dyn OpenFile) -> String {
    String::from_utf8(file.read_at(0, 100).await.unwrap().to_vec()).unwrap()
}

/// Nodes without a name, leases on nodes, and those that count.
const LEASES: &str = "SELECT (SELECT count(*) FROM garth.unnamed), (SELECT count(*) FROM garth.lease),
    (SELECT count(*) FROM garth.held_node)";

#[tokio::test(flavor = "multi_thread")]
async fn held_node_is_written_without_a_name_under_a_lease() {
    let servers = Servers::new().await;
    let fs = servers.tree(0).await;
    fs.commit(Batch::new([Op::mkdir(at("/d")), Op::write(at("/d/f"), "x")])).await.unwrap();
    let (dir, file) =
        (fs.hold(&At::Path(at("/d"))).await.unwrap(), fs.open(&At::Path(at("/d/f"))).await.unwrap());
    let node = At::Node(file.ino());
    fs.commit(Batch::new([Op::remove_tree(at("/d"))])).await.unwrap();
    assert_eq!((dir.stat().await.unwrap().nlink, file.stat().await.unwrap().nlink), (0, 0));
    // A node that has lost its name is not written to yet.
    assert_eq!(servers.sql(LEASES), "0|0|0");
    fs.commit(Batch::new([Op::append(node.clone(), "y").must_exist()])).await.unwrap();
    assert_eq!(text(&*file).await, "xy");
    assert_eq!(fs.read(&node, ByteRange::ALL).await.unwrap(), "xy");
    assert_eq!(servers.sql(LEASES), "1|1|1");
    // The other server does not hold it.
    let other = servers.tree(1).await;
    assert!(other.stat(&node).await.unwrap_err().is(ErrorKind::NotFound));
    let again = fs.open(&node).await.unwrap();
    drop(file);
    assert_eq!(text(&*again).await, "xy");
    drop(again);
    servers.becomes(LEASES, "1|0|0").await;
    assert!(fs.stat(&node).await.unwrap_err().is(ErrorKind::NotFound));
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_of_a_server_that_vanishes_count_for_nothing() {
    let servers = Servers::new().await;
    let [fs, other] = [servers.tree(0).await, servers.tree(1).await];
    fs.commit(Batch::new([Op::write(at("/f"), "x")])).await.unwrap();
    let files = [fs.open(&At::Path(at("/f"))).await.unwrap(), other.open(&At::Path(at("/f"))).await.unwrap()];
    let node = At::Node(files[0].ino());
    fs.commit(Batch::new([Op::remove(at("/f"))])).await.unwrap();
    for fs in [&fs, &other] {
        fs.commit(Batch::new([Op::append(node.clone(), "y").must_exist()])).await.unwrap();
    }
    let past = fs.as_of(&Moment::Seq(Seq(1))).await.unwrap();
    servers.homes[0].renew_leases().await.unwrap();
    let held = "SELECT (SELECT count(*) FROM garth.held_node), (SELECT count(*) FROM garth.held_past)";
    assert_eq!(servers.sql(held), "2|1");
    // As if the first server had stopped minutes ago.
    let holder = servers.sql("SELECT holder FROM garth.past_lease");
    let ended =
        format!("UPDATE garth.instance SET until = garth.now() WHERE holder = '{holder}' RETURNING 1");
    assert_eq!(servers.of_servers(&ended), "1");
    assert_eq!(servers.sql(held), "1|0");
    // The other one removes the rows.
    servers.homes[1].renew_leases().await.unwrap();
    assert_eq!(servers.sql("SELECT count(*) FROM garth.lease"), "1");
    assert_eq!(servers.sql("SELECT count(*) FROM garth.past_lease"), "0");
    drop(past);
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_without_a_name_fail_after_leases_have_ended() {
    let servers = Servers::new().await;
    let fs = servers.tree(0).await;
    fs.commit(Batch::new([Op::write(at("/named"), "n"), Op::write(at("/f"), "x")])).await.unwrap();
    let [named, file] =
        [fs.open(&At::Path(at("/named"))).await.unwrap(), fs.open(&At::Path(at("/f"))).await.unwrap()];
    let node = At::Node(file.ino());
    fs.commit(Batch::new([Op::remove(at("/f"))])).await.unwrap();
    fs.commit(Batch::new([Op::append(node.clone(), "y").must_exist()])).await.unwrap();
    servers.of_servers("UPDATE garth.instance SET until = 0");
    servers.homes[0].renew_leases().await.unwrap();
    for failed in
        [file.stat().await.map(drop), file.read_at(0, 9).await.map(drop), file.next_data(0).await.map(drop)]
    {
        assert!(failed.unwrap_err().is(ErrorKind::Gone));
    }
    let lost = fs.commit(Batch::new([Op::append(node.clone(), "z").must_exist()])).await;
    assert!(lost.unwrap_err().is(ErrorKind::NotFound));
    assert!(fs.read(&node, ByteRange::ALL).await.unwrap_err().is(ErrorKind::NotFound));
    // Files with names, and those that lose theirs from now on, are held as before.
    assert_eq!(text(&*named).await, "n");
    fs.commit(Batch::new([Op::remove(at("/named"))])).await.unwrap();
    assert_eq!(text(&*named).await, "n");
    servers.homes[0].renew_leases().await.unwrap();
    assert_eq!(text(&*named).await, "n");
    assert!(file.stat().await.unwrap_err().is(ErrorKind::Gone));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_server_leases_a_marked_node() {
    let servers = Servers::new().await;
    let [fs, other] = [servers.tree(0).await, servers.tree(1).await];
    fs.commit(Batch::new([Op::write(at("/f"), "x")])).await.unwrap();
    let [ours, theirs] =
        [fs.open(&At::Path(at("/f"))).await.unwrap(), other.open(&At::Path(at("/f"))).await.unwrap()];
    fs.commit(Batch::new([Op::remove(at("/f"))])).await.unwrap();
    fs.commit(Batch::new([Op::append(At::Node(ours.ino()), "y").must_exist()])).await.unwrap();
    servers.homes[1].renew_leases().await.unwrap();
    assert_eq!(servers.sql(LEASES), "1|1|1", "no collection has marked it");
    drop(ours);
    servers.becomes(LEASES, "1|0|0").await;
    // As a collection does.
    servers.sql("UPDATE garth.unnamed SET doomed_at = garth.now()");
    servers.homes[1].renew_leases().await.unwrap();
    assert_eq!(servers.sql(LEASES), "1|1|1");
    assert_eq!(servers.sql("SELECT count(*) FROM garth.unnamed WHERE doomed_at IS NOT NULL"), "0");
    assert_eq!(text(&*theirs).await, "xy");
    drop(theirs);
    servers.becomes(LEASES, "1|0|0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_open_at_a_tick_have_leases() {
    let servers = Servers::new().await;
    let fs = servers.tree(0).await;
    for text in ["one", "two"] {
        fs.commit(Batch::new([Op::write(at("/f"), text)])).await.unwrap();
    }
    let leases = "SELECT coalesce(string_agg(seq::text, ',' ORDER BY seq), '') FROM garth.held_past";
    let short = fs.as_of(&Moment::Seq(Seq(1))).await.unwrap();
    drop(short);
    let long = fs.as_of(&Moment::Seq(Seq(1))).await.unwrap();
    let version = fs.open_version(fs.stat(&At::Path(at("/f"))).await.unwrap().version).await.unwrap();
    assert_eq!(servers.sql(leases), "");
    // A tick within the first minute does nothing.
    servers.homes[0].tick().await.unwrap();
    assert_eq!(servers.sql(leases), "");
    servers.homes[0].renew_leases().await.unwrap();
    assert_eq!(servers.sql(leases), "1,2");
    assert_eq!(long.read(&At::Path(at("/f")), ByteRange::ALL).await.unwrap(), "one");
    drop(long);
    servers.homes[0].renew_leases().await.unwrap();
    assert_eq!(servers.sql(leases), "2");
    drop(version);
    servers.homes[0].renew_leases().await.unwrap();
    assert_eq!(servers.sql(leases), "");
    assert_eq!(servers.sql("SELECT count(*) FROM garth.past_lease"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn holding_a_node_takes_one_trip() {
    let database = Database::new().await;
    let account = database.account("her").await;
    database.commit(account, &[write("/d/f", "x")]).await.remove(0).unwrap();
    let proxy = Proxy::to(database.cluster.address()).unwrap();
    let fs = database.store(account, &database.cluster.tcp_url_through(proxy.address())).await;
    // Statements that are sent together arrive before the first answer, as on a network.
    proxy.delay(Duration::from_millis(20));
    let (before, path) = (proxy.trips(), At::Path(at("/d")));
    let dir = fs.hold(&path).await.unwrap();
    assert_eq!(proxy.trips() - before, 1);
    let before = proxy.trips();
    assert_eq!(dir.stat().await.unwrap().nlink, 2);
    // Nothing was written to it without a name, so no lease is given up.
    drop(dir);
    assert_eq!(proxy.trips() - before, 1);
}
