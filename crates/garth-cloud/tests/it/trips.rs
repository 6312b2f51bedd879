//! Round trips of commits, as a proxy between the engine and the database counts them.

use std::collections::BTreeMap;
use std::time::Duration;

use garth_cloud::commit;
use garth_engine::model::{Batch, Op};
use garth_testkit::proxy::Proxy;

use super::database::{Database, append, at, connect, write};

/// Most round trips of a group of commits by path.
const MOST: u64 = 4;
/// Tries until the proxy has counted no trip too many. It counts one more where the machine stalls between
/// two statements of a trip, and never one less.
const TRIES: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn group_takes_the_trips_of_one_batch() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let proxy = Proxy::to(database.cluster.address()).unwrap();
    let conn = connect(&database.cluster.tcp_url_through(proxy.address())).await;
    // Statements that are sent together arrive before the first answer, as on a network.
    proxy.delay(Duration::from_millis(20));
    let written = |number: usize| write(&format!("/d{}/f{number}", number % 8), "text");
    let appended = |number: usize| append(&format!("/d{}/f{number}", number % 8), "more");
    let logged = |_: usize| append("/log", "line\n");
    let (mut tries, mut extra) = (0, BTreeMap::new());
    while tries == 0 || (tries < TRIES && extra.values().any(|extra| *extra > 0)) {
        for count in [1, 32] {
            // New files, files that are written over, appends to different files and to one.
            let kinds: [(&str, &dyn Fn(usize) -> Batch); 4] =
                [("new", &written), ("over", &written), ("append", &appended), ("log", &logged)];
            for (kind, batch) in kinds {
                let first = 10_000 * tries + 100 * count;
                let group: Vec<Batch> = (first..first + count).map(batch).collect();
                let (trips, pipes) = (proxy.trips(), conn.trips());
                for result in commit::commit(&conn, account, &group).await.unwrap() {
                    result.unwrap();
                }
                let (trips, pipes) = (proxy.trips() - trips, conn.trips() - pipes);
                // One for all rows, one for all changes and COMMIT. Passages of a file that has some take one
                // more.
                let is_first = tries == 0 && count == 1;
                let has_passages = kind == "over" || kind == "append" || (kind == "log" && !is_first);
                assert_eq!(pipes, if has_passages { 3 } else { 2 }, "{kind}, {count}");
                assert!(pipes <= MOST && trips >= pipes, "{kind}, {count}: {trips}");
                let least = extra.entry((kind, count)).or_insert(u64::MAX);
                *least = (trips - pipes).min(*least);
            }
        }
        tries += 1;
    }
    assert!(extra.values().all(|extra| *extra == 0), "trips that no pipe took: {extra:?}");
    let counts = "SELECT seq, (SELECT count(*) FROM garth.name WHERE kind = 0) FROM garth.head";
    assert_eq!(database.rows(account, counts), format!("{}|{}", 132 * tries, 33 * tries + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn moved_subtrees_take_few_trips() {
    let database = Database::new().await;
    let account = database.account("her").await;
    for result in database.commit(account, &[write("/d0/s/a", "x"), write("/d0/b", "x")]).await {
        result.unwrap();
    }
    let trips = database.conn.trips();
    let removed = Batch::new([Op::rename(at("/d0"), at("/d1"))]);
    database.commit(account, &[removed]).await.remove(0).unwrap();
    assert!(database.conn.trips() - trips <= MOST);
    // Each ends its run, and a transaction has a limited number of trips.
    let (count, trips) = (40, database.conn.trips());
    let moved = |number: usize| Op::rename(at(&format!("/d{number}")), at(&format!("/d{}", number + 1)));
    let group: Vec<Batch> = (1..=count).map(|number| Batch::new([moved(number)])).collect();
    for result in database.commit(account, &group).await {
        result.unwrap();
    }
    let trips = database.conn.trips() - trips;
    assert!(trips <= MOST * count as u64, "{trips}");
    let names = "SELECT string_agg(DISTINCT dir, ',' ORDER BY dir) FROM garth.name";
    assert_eq!(database.rows(account, names), ",/d41,/d41/s");
}
