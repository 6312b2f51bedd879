//! The home: its contract, and several servers on one database.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use futures::future::join_all;
use garth_cloud::home::PgHome;
use garth_engine::home::{
    AccountRequest, AccountState, ApiKey, KeyOrigin, KeyOwner, KeysPage, NewKey, Rotation, Scope,
};
use garth_engine::model::Timestamp;
use garth_engine::rule::sample;
use garth_engine::{Env, ErrorKind, Home};
use garth_testkit::home_contract::{HomeSubject, check};
use garth_testkit::postgres::Cluster;
use garth_testkit::proxy::Proxy;

/// Connections of a server.
const CONNECTIONS: usize = 4;

/// Opens the home as a server does.
async fn home(url: &str, env: Env) -> PgHome {
    PgHome::connect(url, CONNECTIONS, env, sample::registry()).await.unwrap()
}

/// Starts a database and opens it as two servers.
async fn two_servers() -> (Cluster, [PgHome; 2]) {
    let cluster = Cluster::in_memory().unwrap();
    let homes =
        [home(&cluster.socket_url(), Env::system()).await, home(&cluster.tcp_url(), Env::system()).await];
    (cluster, homes)
}

/// Runs statements of the home's tables.
fn sql(cluster: &Cluster, sql: &str) -> String {
    cluster.psql(&cluster.socket_url(), &format!("SET garth.account = '0'; {sql}")).unwrap()
}

/// Stops the clock of the database at a time.
fn set_clock(cluster: &Cluster, now: Timestamp) {
    let now = now.0;
    sql(
        cluster,
        &format!(
            "CREATE OR REPLACE FUNCTION garth.now() RETURNS bigint LANGUAGE sql AS 'SELECT {now}::bigint'"
        ),
    );
}

/// Returns the number of rows that the tables of accounts have of an account.
fn rows_of(cluster: &Cluster, number: &str) -> u64 {
    let tables = "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE a.attname = 'account' AND a.atttypid = 'bigint'::regtype AND c.relkind IN ('r', 'p')
        AND c.relnamespace = 'garth'::regnamespace AND NOT c.relispartition";
    let tables = sql(cluster, tables);
    let counts: Vec<_> = tables
        .lines()
        .map(|table| format!("(SELECT count(*) FROM garth.{table} WHERE account = {number})"))
        .collect();
    assert!(counts.len() > 30, "{tables}");
    // A superuser sees the rows of all accounts.
    let count = cluster.psql(&cluster.admin_url(), &format!("SELECT {}", counts.join(" + "))).unwrap();
    count.parse().unwrap()
}

fn new(account: &str) -> NewKey {
    NewKey::new(Some(account), &[Scope::FilesRead])
}

#[test]
fn database_keeps_the_contract_of_a_home() {
    let cluster = Arc::new(Cluster::in_memory().unwrap());
    let start = Timestamp(1_769_472_000_000_000_000);
    let (env, clock) = Env::manual(start);
    let open = |env: &Env| -> Arc<dyn Home> { Arc::new(block_on(home(&cluster.tcp_url(), env.clone()))) };
    let (one, other) = (open(&env), open(&env));
    set_clock(&cluster, start);
    let begin_deletion = Box::new({
        let cluster = Arc::clone(&cluster);
        move |id: &str| {
            let marked = "UPDATE garth.account SET deleted = true WHERE id =";
            assert_eq!(sql(&cluster, &format!("{marked} '{id}' RETURNING 1")), "1");
        }
    });
    let advance = Box::new(move |by| {
        clock.advance(by);
        set_clock(&cluster, env.now());
    });
    // No runtime of tokio polls the calls.
    block_on(check(&HomeSubject { one, other, advance, begin_deletion }));
}

#[tokio::test(flavor = "multi_thread")]
async fn token_is_admitted_in_one_trip() {
    let (cluster, [one, _]) = two_servers().await;
    let proxy = Proxy::to(cluster.address()).unwrap();
    let other = home(&cluster.tcp_url_through(proxy.address()), Env::system()).await;
    one.create_account("her").await.unwrap();
    let (key, secret) = one.issue_key(new("her")).await.unwrap();
    proxy.delay(Duration::from_millis(20));
    let trips = proxy.trips();
    let admitted = other.admit(secret.reveal()).await.unwrap().unwrap();
    assert_eq!((proxy.trips() - trips, admitted.key()), (1, &key));
    // A token that cannot be valid needs none.
    assert!(other.admit("garth_token").await.unwrap().is_none());
    assert_eq!(proxy.trips() - trips, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn account_is_created_in_one_trip() {
    let cluster = Cluster::in_memory().unwrap();
    let proxy = Proxy::to(cluster.address()).unwrap();
    let home = home(&cluster.tcp_url_through(proxy.address()), Env::system()).await;
    proxy.delay(Duration::from_millis(20));
    let trips = proxy.trips();
    let account = home.create_account("her").await.unwrap();
    assert_eq!(proxy.trips() - trips, 1);
    let trips = proxy.trips();
    assert!(home.create_account("her").await.unwrap_err().is(ErrorKind::AlreadyExists));
    assert_eq!(proxy.trips() - trips, 1);
    assert_eq!(home.accounts("", 10).await.unwrap(), [account]);
    assert_eq!(rows_of(&cluster, "1"), 3, "the account, its head row and its root");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creations_have_one_winner() {
    let (_cluster, homes) = two_servers().await;
    let plain = (0..8).map(|at| homes[at % 2].create_account("plain"));
    let (won, lost): (Vec<_>, Vec<_>) = join_all(plain).await.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 7));
    assert!(lost.into_iter().all(|lost| lost.unwrap_err().is(ErrorKind::AlreadyExists)));

    // One request, sent eight times, and then eight requests.
    let request = |at: usize| AccountRequest::new("caller", format!("create-{at}"), [1; 32]);
    let same: Vec<_> = vec![request(0); 8];
    let created = same.iter().enumerate().map(|(at, one)| homes[at % 2].create_account_once("once", one));
    let created: Vec<_> = join_all(created).await.into_iter().map(Result::unwrap).collect();
    assert!(created.iter().all(|one| one.1 && *one == created[0]), "{created:?}");
    let others: Vec<_> = (1..9).map(request).collect();
    let created = others.iter().enumerate().map(|(at, one)| homes[at % 2].create_account_once("many", one));
    let created: Vec<_> = join_all(created).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(created.iter().filter(|one| one.1).count(), 1, "{created:?}");
    assert!(created.iter().all(|one| one.0 == created[0].0));
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_requests_end_after_a_day() {
    let (cluster, [one, _]) = two_servers().await;
    let start = Timestamp(1_769_472_000_000_000_000);
    set_clock(&cluster, start);
    let request = |key: &str, hash| AccountRequest::new("caller\0", key, [hash; 32]);
    assert!(!one.delete_account_once("none", &request("a", 1)).await.unwrap());
    assert!(!one.delete_account_once("none", &request("b", 1)).await.unwrap());
    let mismatch = one.delete_account_once("none", &request("a", 2)).await.unwrap_err();
    assert!(mismatch.is(ErrorKind::IdempotencyMismatch), "{mismatch}");
    set_clock(&cluster, start.plus_seconds(24 * 60 * 60));
    assert!(!one.delete_account_once("none", &request("a", 2)).await.unwrap());
    assert_eq!(sql(&cluster, "SELECT count(*) FROM garth.account_request"), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn number_of_recorded_requests_is_bounded() {
    let (cluster, [one, _]) = two_servers().await;
    sql(
        &cluster,
        "INSERT INTO garth.account_request (caller, key, request, at, changed, account)
         SELECT 'caller', int4send(n), sha256(''), garth.now(), false, 'none'
         FROM generate_series(1, 100000) n",
    );
    let request = AccountRequest::new("caller", "new", [1; 32]);
    one.delete_account_once("none", &request).await.unwrap();
    let records = "SELECT count(*), min(number) FROM garth.account_request";
    assert_eq!(sql(&cluster, records), "100000|2");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_account_leaves_no_rows() {
    let (cluster, [one, other]) = two_servers().await;
    one.create_account("kept").await.unwrap();
    one.create_account("deleted").await.unwrap();
    let (_, secret) = one.issue_key(new("deleted")).await.unwrap();
    let (_, of_home) = one.issue_key(NewKey::new(None, &[Scope::Admin])).await.unwrap();
    let number = sql(&cluster, "SELECT account FROM garth.account WHERE id = 'deleted'");
    // More than one step deletes, in a table with partitions too.
    let fill = format!(
        "SET garth.account = '{number}';
         INSERT INTO garth.unindexed SELECT {number}, n, 0 FROM generate_series(1, 25000) n;
         INSERT INTO garth.chunk SELECT {number}, n, int8send(n), 1, 'x' FROM generate_series(1, 250) n"
    );
    cluster.psql(&cluster.socket_url(), &fill).unwrap();
    assert!(rows_of(&cluster, &number) > 25_250);
    let kept = sql(&cluster, "SELECT account FROM garth.account WHERE id = 'kept'");
    let before = rows_of(&cluster, &kept);
    let (first, second) = futures::join!(one.delete_account("deleted"), other.delete_account("deleted"));
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    assert!(first.and(second).unwrap_err().is(ErrorKind::NotFound));
    assert_eq!(rows_of(&cluster, &number), 0);
    assert_eq!(rows_of(&cluster, &kept), before);
    assert!(other.admit(secret.reveal()).await.unwrap().is_none());
    // As for a server that comes too late to a deletion.
    assert_eq!(sql(&cluster, "SELECT garth.sweep(100)"), "f");
    assert!(other.admit(of_home.reveal()).await.unwrap().is_some());
    // The name is free, and the number is never used again.
    one.create_account("deleted").await.unwrap();
    assert_ne!(sql(&cluster, "SELECT account FROM garth.account WHERE id = 'deleted'"), number);
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_of_any_server_continue_deletions() {
    let (cluster, [one, other]) = two_servers().await;
    one.create_account("left").await.unwrap();
    other.open("left").await.unwrap();
    let number = sql(&cluster, "UPDATE garth.account SET deleted = true RETURNING account");
    assert_eq!(other.accounts("", 10).await.unwrap()[0].state, AccountState::Deleted);
    other.continue_deletions().await.unwrap();
    for _ in 0..1000 {
        if other.accounts("", 10).await.unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(rows_of(&cluster, &number), 0);
    assert_eq!(other.stats().open_accounts, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_equal_requests_create_one_key() {
    let (_cluster, homes) = two_servers().await;
    homes[0].create_account("her").await.unwrap();
    let request = || {
        let mut new = new("her");
        new.origin = Some(KeyOrigin::new("token of the caller", "one", [1; 32]));
        new
    };
    let keys = join_all((0..16).map(|at| homes[at % 2].issue_key(request()))).await;
    let keys: Vec<(ApiKey, String)> = keys
        .into_iter()
        .map(|made| made.map(|(key, secret)| (key, secret.reveal().to_owned())).unwrap())
        .collect();
    assert!(keys.iter().all(|key| *key == keys[0]));
    assert_eq!(homes[1].count_keys(&KeyOwner::named("her")).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_rotations_have_one_winner() {
    let (_cluster, homes) = two_servers().await;
    let owner = KeyOwner::named("her");
    homes[0].create_account("her").await.unwrap();
    let (one, _) = homes[0].issue_key(new("her")).await.unwrap();
    let (two, _) = homes[0].issue_key(new("her")).await.unwrap();
    // Keys that replace each other, and themselves, wait for each other in one order.
    let rotate = |at: usize| {
        let mut rotation = Rotation::new(Duration::from_secs(60));
        let (id, maker) = if at < 8 { (&one.id, &two.id) } else { (&two.id, &one.id) };
        rotation.maker = Some(maker.clone());
        homes[at % 2].rotate_key(&owner, id, rotation)
    };
    let (won, lost): (Vec<_>, Vec<_>) =
        join_all((0..16).map(rotate)).await.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (2, 14), "{lost:?}");
    assert!(lost.into_iter().all(|lost| lost.unwrap_err().is(ErrorKind::Conflict)));
    let listed = homes[0].keys(&owner, &KeysPage::with_revoked()).await.unwrap();
    assert_eq!(listed.items.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_key_is_listed_and_revoked() {
    let (cluster, [home, _]) = two_servers().await;
    home.create_account("her").await.unwrap();
    let owner = KeyOwner::named("her");
    for change in ["scopes = 'memory:read none'", "scopes = ''", "binding = '{'"] {
        let (damaged, secret) = home.issue_key(new("her")).await.unwrap();
        sql(&cluster, &format!("UPDATE garth.access_key SET {change} WHERE id = '{}'", damaged.id));
        let error = home.admit(secret.reveal()).await.unwrap_err();
        assert!(error.is(ErrorKind::Corrupt), "{change}: {error}");
        let listed = home.keys(&owner, &KeysPage::default()).await.unwrap().items;
        assert!(listed.len() == 1 && listed[0].is_damaged, "{change}");
        let revoked = home.revoke_key(&owner, &damaged.id).await.unwrap();
        assert!(revoked.revoked.is_some() && revoked.is_damaged, "{change}");
        assert!(home.admit(secret.reveal()).await.unwrap().is_none(), "{change}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_with_nul_are_not_found() {
    let (_cluster, [home, _]) = two_servers().await;
    let account = home.create_account("her").await.unwrap();
    let (key, _) = home.issue_key(new("her")).await.unwrap();
    let (bad, owner) = (KeyOwner::named("her\0"), KeyOwner::named("her"));
    let mut by_bad = new("her");
    by_bad.maker = Some("\0".to_owned());
    for (refused, kind) in [
        (home.account("her\0").await.err(), ErrorKind::NotFound),
        (home.open("\0her").await.err(), ErrorKind::NotFound),
        (home.delete_account("her\0").await.err(), ErrorKind::NotFound),
        (home.create_account("her\0").await.err(), ErrorKind::InvalidArgument),
        (home.keys(&bad, &KeysPage::default()).await.err(), ErrorKind::NotFound),
        (home.count_keys(&KeyOwner::of_tree("her", "\0")).await.err(), ErrorKind::NotFound),
        (home.issue_key(new("her\0")).await.err(), ErrorKind::NotFound),
        (home.issue_key(by_bad).await.err(), ErrorKind::AccessDenied),
        (home.rotate_key(&owner, "\0", Rotation::default()).await.err(), ErrorKind::NotFound),
        (home.revoke_key(&owner, "\0").await.err(), ErrorKind::NotFound),
    ] {
        assert_eq!(refused.unwrap().kind(), kind);
    }
    assert!(!home.finish_deletion("her\0").await.unwrap());
    assert_eq!(home.accounts("he\0", 10).await.unwrap(), [account]);
    assert!(home.accounts("her\0", 10).await.unwrap().is_empty());
    let before = ApiKey { id: "\0".to_owned(), ..key.clone() };
    let page = KeysPage::default().after(&before);
    assert_eq!(home.keys(&owner, &page).await.unwrap().items, [key]);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_share_the_secret_and_show_no_password() {
    let (cluster, [one, other]) = two_servers().await;
    assert_eq!(one.sealing_key(), other.sealing_key());
    let port = cluster.address().port();
    let secret = "hidden";
    let url = format!("postgresql://garth:{secret}@127.0.0.1:{port}/garth?application_name=shown");
    let third = home(&url, Env::system()).await;
    assert_eq!(third.place(), format!("postgresql://127.0.0.1:{port}/garth"));
    assert!(!format!("{third:?}").contains("hidden"));
    let stats = third.stats();
    assert_eq!((stats.connections, stats.idle_connections), (1, 1));
}
