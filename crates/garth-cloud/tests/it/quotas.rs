//! Quotas: the counters are those of the executable specification, and exact for two servers at once.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use garth_cloud::store::PgStore;
use garth_engine::engine::memory::MemoryFs;
use garth_engine::model::quota::{Limits, MAX_COUNTED, MAX_QUOTAS, Usage};
use garth_engine::model::{Batch, Op};
use garth_engine::rule::Registry;
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, TreePath};
use garth_testkit::data::random::Random;
use garth_testkit::proxy::Proxy;

use super::database::{Database, at, write};

/// Limits that count and refuse nothing.
fn counts() -> Limits {
    Limits::default().bytes(MAX_COUNTED)
}

/// Tree of the engine beside one of the executable specification.
struct Both {
    database: Database,
    account: i64,
    fs: Arc<PgStore>,
    memory: MemoryFs,
}

impl Both {
    async fn new() -> Self {
        let database = Database::new().await;
        let account = database.account("her").await;
        let fs = database.store(account, &database.cluster.socket_url()).await;
        Self { database, account, fs, memory: MemoryFs::new(Env::system(), Registry::empty()) }
    }

    /// Sets a quota on both sides, which count the same.
    async fn set(&self, path: &str, limits: Limits) -> Usage {
        let set = self.fs.set_quota(&at(path), limits).await.unwrap();
        assert_eq!(set, self.memory.set_quota(&at(path), limits).unwrap());
        set.used
    }

    /// Commits to both sides. Returns false for a refusal, which is the same.
    async fn commit(&self, ops: Vec<Op>) -> bool {
        let asked = format!("{ops:?}");
        let own = self.fs.commit(Batch::new(ops.clone())).await;
        let like = self.memory.commit(Batch::new(ops)).await;
        match (&own, &like) {
            (Ok(_), Ok(_)) => {}
            (Err(own), Err(like)) => {
                assert_eq!((own.kind(), own.path()), (like.kind(), like.path()), "{asked}: {own}");
                if own.is(ErrorKind::QuotaExceeded) {
                    assert_eq!(own.message(), like.message(), "{asked}");
                }
            }
            _ => panic!("{asked}\nengine: {own:?}\nspecification: {like:?}"),
        }
        assert_eq!(self.fs.quotas().await.unwrap(), self.memory.quotas().unwrap(), "{asked}");
        own.is_ok()
    }
}

fn path(random: &mut Random) -> TreePath {
    let depth = 1 + random.below(3);
    at(&(0..depth).map(|_| random.pick(&["/a", "/b", "/c", "/a-"])).collect::<String>())
}

fn op(random: &mut Random) -> Op {
    let (one, two) = (path(random), path(random));
    let body = vec![b'x'; random.below(300) as usize];
    match random.below(16) {
        0..=4 => Op::write(one, body).with_parents(),
        5 => Op::append(one, body),
        6 => Op::truncate(one, random.below(400)),
        7 => Op::mkdir(one).with_parents(),
        8 | 9 => Op::link(one, two),
        10 => Op::remove(one),
        11 => Op::remove_tree(one),
        12 | 13 => Op::rename(one, two),
        14 => Op::exchange(one, two),
        _ => Op::copy_tree(one, two).replace(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_batches_are_counted_as_specified() {
    for seed in 0..3 {
        let both = Both::new().await;
        let mut random = Random::new(seed);
        let mut refused = 0;
        for number in 0..120 {
            if number % 15 == 0 {
                let limits = match random.below(3) {
                    0 => counts(),
                    1 => Limits::default().bytes(random.below(2500)),
                    _ => Limits::default().bytes(3000).entries(random.below(14)),
                };
                let quota = random.pick(&["/", "/a", "/a/b", "/b", "/a-", "/c/a"]);
                both.set(quota, limits).await;
            }
            let ops = (0..=random.below(3)).map(|_| op(&mut random)).collect();
            refused += u64::from(!both.commit(ops).await);
        }
        assert!(refused > 10, "{refused}");
        assert_eq!(both.fs.fsck().await.unwrap().findings, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn setting_a_quota_counts_what_is_there() {
    let both = Both::new().await;
    let file = |path: &str, size: usize| Op::write(at(path), vec![b'x'; size]).with_parents();
    assert!(both.commit(vec![file("/d/e/a", 10), file("/d/b", 20), file("/d-x/c", 40)]).await);
    // A file with two names below the path counts its bytes once.
    assert!(both.commit(vec![Op::link(at("/d/b"), at("/d/e/b")), Op::link(at("/d/b"), at("/d-x/b"))]).await);
    assert_eq!(both.set("/d", counts()).await, Usage { bytes: 30, entries: 4 });
    assert_eq!(both.set("/", counts()).await, Usage { bytes: 70, entries: 8 });
    assert_eq!(both.set("/none", counts()).await, Usage::default());
    // A directory that crosses the border of a quota takes along what is in it.
    assert!(both.commit(vec![Op::rename(at("/d/e"), at("/d-x/e"))]).await);
    assert_eq!(both.set("/d", Limits::default().bytes(25)).await, Usage { bytes: 20, entries: 1 });
    assert!(!both.commit(vec![Op::rename(at("/d-x/e"), at("/d/e"))]).await);
    both.fs.remove_quota(&at("/d")).await.unwrap();
    both.memory.remove_quota(&at("/d")).unwrap();
    assert!(both.commit(vec![Op::rename(at("/d-x/e"), at("/d/e"))]).await);
    let missing = both.fs.remove_quota(&at("/d")).await.unwrap_err();
    assert_eq!((missing.kind(), missing.path()), (ErrorKind::NotFound, Some(&at("/d"))));
    let wrong = both.fs.set_quota(&at("/d"), Limits::default()).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidArgument, "{wrong}");
}

#[tokio::test(flavor = "multi_thread")]
async fn number_of_quotas_is_bounded() {
    let both = Both::new().await;
    both.set("/q0", counts()).await;
    let fill = format!(
        "INSERT INTO garth.quota (account, key, path, max_bytes, bytes, entries)
         SELECT account, int4send(n), '/q' || n, 9, 0, 0 FROM garth.head, generate_series(1, {MAX_QUOTAS} - 1) n"
    );
    both.database.rows(both.account, &fill);
    assert_eq!(both.fs.quotas().await.unwrap().len(), MAX_QUOTAS);
    let error = both.fs.set_quota(&at("/more"), counts()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_eq!(both.fs.set_quota(&at("/q0"), counts()).await.unwrap().used, Usage::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_do_not_exceed_a_limit() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let (socket, tcp) = (database.cluster.socket_url(), database.cluster.tcp_url());
    let stores = [database.store(account, &socket).await, database.store(account, &tcp).await];
    stores[0].commit(Batch::new([Op::mkdir(at("/d"))])).await.unwrap();
    stores[0].set_quota(&at("/d"), Limits::default().bytes(70)).await.unwrap();
    let commits =
        (0..24).map(|number| stores[number % 2].commit(write(&format!("/d/f{number}"), "0123456789")));
    let (made, refused): (Vec<_>, Vec<_>) = join_all(commits).await.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (7, 17));
    for error in refused {
        let error = error.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::QuotaExceeded, Some(&at("/d"))), "{error}");
    }
    for store in &stores {
        let quotas = store.quotas().await.unwrap();
        assert_eq!(quotas[0].used, Usage { bytes: 70, entries: 7 });
    }
    assert_eq!(stores[1].fsck().await.unwrap().findings, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_is_exact_while_others_commit() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let (socket, tcp) = (database.cluster.socket_url(), database.cluster.tcp_url());
    let [one, other] = [database.store(account, &socket).await, database.store(account, &tcp).await];
    for round in 0..6 {
        let dir = format!("/d{round}");
        let path = at(&dir);
        let writes = async {
            for number in 0..12 {
                other.commit(write(&format!("{dir}/f{number}"), "text")).await.unwrap();
            }
        };
        let (set, ()) = futures::join!(one.set_quota(&path, counts()), writes);
        set.unwrap();
    }
    let used: Vec<_> = one.quotas().await.unwrap().into_iter().map(|quota| quota.used).collect();
    assert_eq!(used, [Usage { bytes: 48, entries: 12 }; 6]);
    assert_eq!(one.fsck().await.unwrap().findings, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_and_quotas_elsewhere_take_no_trips() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let proxy = Proxy::to(database.cluster.address()).unwrap();
    let fs = database.store(account, &database.cluster.tcp_url_through(proxy.address())).await;
    for number in 0..4 {
        fs.commit(write(&format!("/d/f{number}"), "text")).await.unwrap();
    }
    // Statements that are sent together arrive before the first answer, as on a network.
    proxy.delay(Duration::from_millis(20));
    let trips = async |number: usize| {
        let before = proxy.trips();
        fs.commit(write(&format!("/d/f{}", number % 4), format!("text {number}"))).await.unwrap();
        proxy.trips() - before
    };
    let without = trips(0).await;
    assert!((2..=4).contains(&without), "{without}");
    fs.set_quota(&at("/q"), counts()).await.unwrap();
    let constraint = garth_engine::rule::Constraint::MaxSize(9);
    let pattern = garth_engine::rule::PathPattern::parse("/q/**").unwrap();
    assert!(fs.set_rule(garth_engine::rule::Rule::new(pattern, constraint), false).await.unwrap().set);
    for number in 1..4 {
        assert_eq!(trips(number).await, without, "commit {number}");
    }
}
