//! Retention of an account: how it is set, and how far it ends the past.

use std::sync::Arc;
use std::time::Duration;

use garth_cloud::home::PgHome;
use garth_cloud::store::PgStore;
use garth_engine::fs::store::Hold;
use garth_engine::home::Home as _;
use garth_engine::model::{At, Op, Seq};
use garth_engine::rule::retention::{ContentLimit, Retention};
use garth_engine::rule::{PathPattern, Registry};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem};

use super::database::{Database, at, write};

const DAY: Duration = Duration::from_secs(86_400);

async fn account() -> (Database, i64, Arc<PgStore>) {
    let database = Database::new().await;
    let account = database.account("her").await;
    let store = database.store(account, &database.cluster.socket_url()).await;
    (database, account, store)
}

fn limit(pattern: &str, keep: Duration) -> ContentLimit {
    ContentLimit { pattern: PathPattern::parse(pattern).unwrap(), keep }
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_is_stored_for_all_servers() {
    let (database, account, store) = account().await;
    let state = store.retention().await.unwrap();
    assert_eq!((state.set, state.oldest, state.oldest_time), (Retention::default(), Seq(0), None));
    let set = Retention {
        age: Some(7 * DAY),
        commits: Some(1000),
        stored: Some(1 << 30),
        content: vec![limit("/notes/**", DAY), limit("/off", Duration::ZERO)],
    };
    assert_eq!(store.set_retention(set.clone()).await.unwrap().set, set);
    let wrong = Retention { commits: Some(u64::MAX), ..set.clone() };
    assert!(store.set_retention(wrong).await.unwrap_err().is(ErrorKind::InvalidArgument));
    let other = database.store(account, &database.cluster.socket_url()).await;
    let state = other.retention().await.unwrap();
    assert_eq!((&state.set, state.full), (&set, false));
    assert_eq!(state.without_file, [PathPattern::parse("/off").unwrap()]);
    assert_eq!(database.rows(account, "SELECT control FROM garth.head"), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn change_of_other_limits_is_not_lost() {
    let (_database, _account, store) = account().await;
    let before = Retention { content: vec![limit("/a", DAY), limit("/b", DAY)], ..Retention::default() };
    store.set_retention(before.clone()).await.unwrap();
    let with = |commits| Retention { commits, ..before.clone() };
    let reversed = Retention { content: before.content.iter().rev().cloned().collect(), ..before.clone() };
    store.replace_retention(reversed, with(Some(1))).await.unwrap();
    let conflict = store.replace_retention(before.clone(), with(Some(2))).await.unwrap_err();
    assert!(conflict.is(ErrorKind::Conflict), "{conflict}");
    assert_eq!(store.retention().await.unwrap().set, with(Some(1)));
    assert_eq!(store.replace_retention(with(Some(1)), with(Some(2))).await.unwrap().set, with(Some(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn new_class_is_no_directory() {
    let (_database, _account, store) = account().await;
    let set = Retention { content: vec![limit("/cache", Duration::ZERO)], ..Retention::default() };
    store.set_retention(set.clone()).await.unwrap();
    store.commit(Op::mkdir(at("/cache")).into()).await.unwrap();
    let more = Retention { commits: Some(9), ..set.clone() };
    assert_eq!(store.replace_retention(set.clone(), more.clone()).await.unwrap().set, more, "it may stay");
    store.set_retention(Retention::default()).await.unwrap();
    let again = store.set_retention(set).await.unwrap_err();
    assert!(again.is(ErrorKind::InvalidArgument), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stricter_limits_search_the_log_again() {
    let (database, account, store) = account().await;
    let with = |content| Retention { content, ..Retention::default() };
    store.set_retention(with(vec![limit("/a", DAY), limit("/b", 2 * DAY)])).await.unwrap();
    let sql = format!(
        "INSERT INTO garth.content_age (account, keep, seq) VALUES ({account}, 86400, 9), ({account}, 172800, 9)"
    );
    database.rows(account, &sql);
    store.set_retention(with(vec![limit("/a", DAY), limit("/b", DAY)])).await.unwrap();
    assert_eq!(database.rows(account, "SELECT keep FROM garth.content_age"), "172800");
}

#[tokio::test(flavor = "multi_thread")]
async fn collection_announces_the_first_readable_commit() {
    let (_database, _account, store) = account().await;
    for n in 0..6 {
        store.commit(write("/a", format!("{n}"))).await.unwrap();
    }
    let keep = |commits| Retention { commits: Some(commits), ..Retention::default() };
    store.set_retention(keep(2)).await.unwrap();
    assert_eq!(store.gc_dry_run(Duration::ZERO).await.unwrap().oldest, 4);
    assert_eq!(store.gc(Duration::from_secs(3600)).await.unwrap().oldest, 4);
    let state = store.retention().await.unwrap();
    assert_eq!((state.oldest, state.oldest_time.is_some()), (Seq(4), true));
    let gone = store.as_of(&Seq(3).into()).await.unwrap_err();
    assert!(gone.is(ErrorKind::Gone), "{gone}");
    store.as_of(&Seq(4).into()).await.unwrap();
    // It never returns.
    store.set_retention(Retention::default()).await.unwrap();
    assert_eq!(store.gc(Duration::from_secs(3600)).await.unwrap().oldest, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_keeps_its_state_readable() {
    let (_database, _account, store) = account().await;
    store.commit(write("/a", "one")).await.unwrap();
    store.commit(Op::snapshot("then").into()).await.unwrap();
    for n in 0..4 {
        store.commit(write("/a", format!("{n}"))).await.unwrap();
    }
    let keep = Retention { commits: Some(0), ..Retention::default() };
    store.set_retention(keep).await.unwrap();
    assert_eq!(store.gc(Duration::from_secs(3600)).await.unwrap().oldest, 2);
    let held = store.retention().await.unwrap().held_by;
    assert_eq!(held, Some(Hold::Snapshot { owner: None, name: "then".to_owned() }));
    let past = store.as_of(&Seq(2).into()).await.unwrap();
    let text = past.read(&At::Path(at("/a")), garth_engine::model::ByteRange::ALL).await.unwrap();
    assert_eq!(text, "one");
    drop(past);
    store.commit(Op::drop_snapshot("then").into()).await.unwrap();
    assert_eq!(store.gc(Duration::from_secs(3600)).await.unwrap().oldest, 7);
    assert_eq!(store.retention().await.unwrap().held_by, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_change_when_a_collection_is_due() {
    let (_database, _account, store) = account().await;
    assert_eq!(store.collect_next().await.unwrap(), None);
    for n in 0..3 {
        store.commit(write("/a", format!("{n}"))).await.unwrap();
    }
    assert_eq!(store.collect_next().await.unwrap(), None, "everything is kept");
    store.set_retention(Retention { age: Some(DAY), ..Retention::default() }).await.unwrap();
    let now = store.head().await.unwrap().time;
    let due = store.collect_next().await.unwrap().unwrap();
    assert!(due > now.plus_seconds(86_400), "with some slack");
    store.set_retention(Retention { commits: Some(0), ..Retention::default() }).await.unwrap();
    assert_eq!(store.collect_next().await.unwrap(), None, "too few to be worth while");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_tree_begins_with_limits_of_its_registry() {
    let database = Database::new().await;
    let off = limit("/off/**", Duration::ZERO);
    let registry = Registry::empty().limiting_content(vec![off.clone()]);
    let home = PgHome::connect(&database.cluster.socket_url(), 2, Env::system(), registry).await.unwrap();
    home.create_account("new").await.unwrap();
    let store = home.open("new").await.unwrap();
    assert_eq!(store.retention().await.unwrap().set.content, [off]);
    store.set_retention(Retention::default()).await.unwrap();
    assert_eq!(store.retention().await.unwrap().set, Retention::default());
}
