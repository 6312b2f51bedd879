//! Background work of servers: text that commits have left, the merge of the index, and outages.

use std::sync::Arc;
use std::time::Duration;

use garth_cloud::client::{Pipe, Pool};
use garth_cloud::home::PgHome;
use garth_engine::rule::sample;
use garth_engine::{AccountStore, Env, ErrorKind, Home as _};
use garth_testkit::postgres::Cluster;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::database::write;

/// Connections of a server: enough for several steps at once.
const CONNECTIONS: usize = 16;

/// Background work that runs until it is stopped.
struct Running {
    stop: watch::Sender<bool>,
    work: JoinHandle<()>,
}

impl Running {
    fn start(home: &PgHome) -> Self {
        let (stop, stopping) = watch::channel(false);
        let work = tokio::spawn(home.background().unwrap().run(stopping));
        Self { stop, work }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.work.await.unwrap();
    }
}

async fn home(cluster: &Cluster) -> PgHome {
    PgHome::connect(&cluster.socket_url(), CONNECTIONS, Env::system(), sample::registry()).await.unwrap()
}

/// Creates an account and opens it.
async fn account(home: &PgHome, id: &str) -> Arc<dyn AccountStore> {
    home.create_account(id).await.unwrap();
    home.open(id).await.unwrap()
}

/// Returns a text that is too long to be indexed in its commit.
fn long() -> String {
    (0..240_000).map(|line| format!("line {line} of a long text\n")).collect()
}

async fn commit(tree: &dyn AccountStore, path: &str, text: impl Into<String>) {
    tree.commit(write(path, text)).await.unwrap();
}

/// Runs a query as the superuser, who sees all accounts.
fn count(cluster: &Cluster, sql: &str) -> u64 {
    cluster.psql(&cluster.admin_url(), sql).unwrap().parse().unwrap()
}

/// Waits until a query returns 0.
async fn until_none(cluster: &Cluster, sql: &str) {
    for _ in 0..1200 {
        if count(cluster, sql) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{sql} is {}", count(cluster, sql));
}

const LEFT: &str = "SELECT count(*) FROM garth.unindexed";
const MARKED: &str = "SELECT count(*) FROM garth.head WHERE unindexed > 0";

#[tokio::test(flavor = "multi_thread")]
async fn text_of_all_accounts_is_indexed_by_several_servers() {
    let cluster = Cluster::in_memory().unwrap();
    let homes = [home(&cluster).await, home(&cluster).await];
    for id in ["a", "b", "c"] {
        commit(&*account(&homes[0], id).await, "/long", long()).await;
    }
    assert_eq!(count(&cluster, LEFT), 3);
    let servers: Vec<Running> = homes.iter().map(Running::start).collect();
    until_none(&cluster, LEFT).await;
    until_none(&cluster, MARKED).await;
    let [one, other] = homes.map(|home| home.stats().index);
    assert!(one.steps > 0 && one.steps + other.steps >= 6, "{one:?} {other:?}");
    assert_eq!((one.failures, other.failures), (0, 0));
    for server in servers {
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn index_of_an_open_account_is_merged() {
    let cluster = Cluster::in_memory().unwrap();
    let home = home(&cluster).await;
    let tree = account(&home, "her").await;
    for file in 0..100 {
        let text: String = (0..600).map(|line| format!("file {file} has line {line}\n")).collect();
        commit(&*tree, &format!("/{file}"), text).await;
    }
    let new = "SELECT count(*) FROM garth.passage WHERE tokens IS NOT NULL";
    assert!(count(&cluster, new) >= 256);
    let server = Running::start(&home);
    // A merge leaves the newest passages.
    until_none(&cluster, &format!("SELECT greatest(({new}) - 255, 0)")).await;
    assert!(count(&cluster, "SELECT count(*) FROM garth.posting") > 0);
    until_none(&cluster, "SELECT count(*) FROM garth.merging WHERE until > 0").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_account_does_not_hold_up_others() {
    let cluster = Cluster::in_memory().unwrap();
    let home = home(&cluster).await;
    for id in ["locked", "other"] {
        commit(&*account(&home, id).await, "/long", long()).await;
    }
    let locked = "SELECT account FROM garth.account WHERE id = 'locked'";
    let number = count(&cluster, locked);
    // Whoever holds it has a slow commit.
    let pool = Pool::connect(&cluster.socket_url(), 1).await.unwrap();
    let holder = pool.connection().await.unwrap();
    let mut pipe = Pipe::new(&holder);
    pipe.simple(format!("BEGIN; SELECT set_config('garth.account', '{number}', true)"));
    pipe.simple(format!("SELECT FROM garth.head WHERE account = {number} FOR UPDATE"));
    pipe.run().await.unwrap();
    let server = Running::start(&home);
    until_none(&cluster, &format!("{LEFT} WHERE account <> {number}")).await;
    assert_eq!(count(&cluster, LEFT), 1, "it is still locked");
    let mut pipe = Pipe::new(&holder);
    pipe.simple("COMMIT");
    pipe.run().await.unwrap();
    holder.release();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_goes_on_after_an_outage() {
    let mut cluster = Cluster::in_memory().unwrap();
    let home = home(&cluster).await;
    let tree = account(&home, "her").await;
    let server = Running::start(&home);
    cluster.stop_immediately().unwrap();
    // Long enough for a look that fails.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    cluster.restart().unwrap();
    commit(&*tree, "/long", long()).await;
    until_none(&cluster, LEFT).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_account_is_not_merged() {
    let cluster = Cluster::in_memory().unwrap();
    let home = home(&cluster).await;
    let tree = account(&home, "her").await;
    commit(&*tree, "/a", "some text").await;
    let number: i64 = i64::try_from(count(&cluster, "SELECT account FROM garth.account")).unwrap();
    home.delete_account("her").await.unwrap();
    let pool = Pool::connect(&cluster.socket_url(), 1).await.unwrap();
    let conn = pool.connection().await.unwrap();
    let step = garth_cloud::search::merge::step(&conn, number, b"server").await.unwrap();
    assert_eq!(step, garth_cloud::search::merge::Step::Done);
    assert_eq!(count(&cluster, "SELECT count(*) FROM garth.merging"), 0, "nothing is left of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_tables_are_reported_and_not_created() {
    let cluster = Cluster::in_memory().unwrap();
    let open = async || {
        let url = cluster.tcp_url();
        PgHome::connect_existing(&url, 1, Env::system(), sample::registry()).await
    };
    let error = open().await.unwrap_err();
    assert!(error.is(ErrorKind::NotFound), "{error}");
    let exists = cluster.psql(&cluster.socket_url(), "SELECT to_regclass('garth.format') IS NULL");
    assert_eq!(exists.unwrap(), "t");
    let first = home(&cluster).await;
    assert_eq!(open().await.unwrap().sealing_key(), first.sealing_key());
}
