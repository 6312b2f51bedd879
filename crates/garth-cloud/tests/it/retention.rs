//! Removal of the past: what the limits end is gone, and everything else answers as before.

use std::sync::Arc;
use std::time::Duration;

use garth_cloud::store::PgStore;
use garth_engine::engine::memory::MemoryFs;
use garth_engine::fs::store::{Collected, Hold};
use garth_engine::model::{
    At, Author, Batch, ByteRange, Idempotency, Moment, Op, Seq, SetAttrs, Timestamp, VersionId,
};
use garth_engine::rule::retention::{ContentLimit, Retention};
use garth_engine::rule::{PathPattern, Registry};
use garth_engine::{AccountStore as _, Env, ErrorKind, FileSystem};
use garth_testkit::proxy::{Direction, Proxy};

use super::database::{Database, append, at, write};
use super::reads::{Fs, Random, compare, shown};

/// Rows that ended at or before the commit up to which they are removed, as numbers of each table. Nodes
/// without a name go with a later run.
pub(super) const LEFT_OVER: &str = "SELECT
    (SELECT count(*) FROM garth.node v WHERE EXISTS (SELECT FROM garth.node n
            WHERE n.ino = v.ino AND n.seq > v.seq AND n.seq <= h.folded)
        AND NOT EXISTS (SELECT FROM garth.unnamed u WHERE u.ino = v.ino)),
    (SELECT count(*) FROM garth.attribute a WHERE a.seq < h.folded
        AND NOT EXISTS (SELECT FROM garth.node v WHERE v.ino = a.ino AND v.attrs_seq = a.seq)),
    (SELECT count(*) FROM garth.name_past WHERE till <= h.folded),
    (SELECT count(*) FROM garth.dir_time_past WHERE till <= h.folded),
    (SELECT count(*) FROM garth.extent_past e WHERE till <= h.folded
        AND NOT EXISTS (SELECT FROM garth.unnamed u WHERE u.ino = e.ino)),
    (SELECT count(*) FROM garth.log WHERE seq < h.folded),
    (SELECT count(*) FROM garth.log_more WHERE seq < h.folded),
    (SELECT count(*) FROM garth.replaced WHERE seq <= h.folded),
    (SELECT count(*) FROM garth.content_gone g WHERE till <= h.folded
        AND NOT EXISTS (SELECT FROM garth.unnamed u WHERE u.ino = g.ino)),
    (SELECT count(*) FROM garth.fold), (SELECT count(*) FROM garth.fold_node)
    FROM garth.head h";
pub(super) const NOTHING: &str = "0|0|0|0|0|0|0|0|0|0|0";
/// Chunks whose count of references is not that of their extents.
const MISCOUNTED: &str =
    "SELECT c.id FROM garth.chunk c LEFT JOIN garth.chunk_refs r ON r.account = c.account AND r.chunk = c.id
    WHERE coalesce(r.count, 1) <> (SELECT count(*) FROM garth.extent e WHERE e.chunk = c.id)
        + (SELECT count(*) FROM garth.extent_past p WHERE p.chunk = c.id)";

/// Account, with a handle of everything in it.
pub(super) struct Account {
    database: Database,
    account: i64,
    pub(super) fs: Arc<PgStore>,
}

impl Account {
    pub(super) async fn new() -> Self {
        let database = Database::new().await;
        let account = database.account("her").await;
        let fs = database.store(account, &database.cluster.socket_url()).await;
        Self { database, account, fs }
    }

    /// Returns an account with 20 commits to `/f` and below `/d`.
    pub(super) async fn of_commits() -> Self {
        let account = Self::new().await;
        for n in 0..10 {
            let file = Op::write(at(&format!("/d/{n}/f")), format!("{n}")).with_parents();
            let tags = Op::set_attrs(at("/f"), SetAttrs::new().tags([format!("{n}")]));
            account.commit([file, Op::write(at("/f"), format!("{n}")), tags]).await;
            let change = if n % 3 == 0 { Op::remove_tree(at("/d")) } else { Op::append(at("/f"), "more") };
            account.commit([change]).await;
        }
        account
    }

    pub(super) async fn commit(&self, ops: impl IntoIterator<Item = Op>) -> Seq {
        self.fs.commit(Batch::new(ops)).await.unwrap().seq
    }

    pub(super) async fn retain(&self, retention: Retention) {
        self.fs.set_retention(retention).await.unwrap();
    }

    /// Collects without a grace period.
    pub(super) async fn gc(&self) -> Collected {
        let collected = self.fs.gc(Duration::ZERO).await.unwrap();
        assert_eq!(self.rows(MISCOUNTED), "");
        collected
    }

    pub(super) fn rows(&self, sql: &str) -> String {
        self.database.rows(self.account, sql)
    }

    /// Returns a query as a number.
    pub(super) fn count(&self, sql: &str) -> u64 {
        self.rows(sql).parse().unwrap()
    }

    pub(super) async fn as_of(&self, seq: u64) -> Arc<dyn FileSystem> {
        self.fs.as_of(&Moment::Seq(Seq(seq))).await.unwrap()
    }

    /// Notes that another server, whose id has this byte, reads a state; or that it does no longer.
    fn lease(&self, seq: u64, is_held: bool) {
        let holder = "decode(repeat('07', 16), 'hex')";
        let server = format!(
            "INSERT INTO garth.instance (holder, until) VALUES ({holder}, garth.now() + 3600000000000)
            ON CONFLICT (holder) DO UPDATE SET until = excluded.until"
        );
        self.database.sql(0, &server).unwrap();
        let lease = match is_held {
            true => format!(
                "INSERT INTO garth.past_lease (account, seq, holder) VALUES ({}, {seq}, {holder})",
                self.account
            ),
            false => format!("DELETE FROM garth.past_lease WHERE seq = {seq}"),
        };
        self.rows(&lease);
    }
}

fn keeping_commits(commits: u64) -> Retention {
    Retention { commits: Some(commits), ..Retention::default() }
}

/// Returns a retention that keeps no old content of some path classes.
pub(super) fn off(classes: &[&str]) -> Retention {
    let limit =
        |pattern: &&str| ContentLimit { pattern: PathPattern::parse(pattern).unwrap(), keep: Duration::ZERO };
    Retention { content: classes.iter().map(limit).collect(), ..Retention::default() }
}

/// Returns one of a few authors of commits.
fn author(number: usize) -> Author {
    match number % 3 {
        0 => Author::agent("scout").with_user("ann").with_class("group").with_audience("team"),
        1 => Author::key("k1"),
        _ => Author::default(),
    }
}

pub(super) async fn text(fs: &dyn FileSystem, path: &str) -> String {
    shown(fs.fetch(&At::Path(at(path)), ByteRange::ALL).await.map(|(_, bytes)| bytes))
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_rows_are_removed() {
    for commits in [0, 1, 7, 13, 19, 20] {
        let account = Account::of_commits().await;
        account.retain(keeping_commits(commits)).await;
        let collected = account.gc().await;
        assert_eq!((collected.oldest, collected.folded), (20 - commits, 20 - commits));
        assert_eq!(account.rows(LEFT_OVER), NOTHING, "{commits} are kept");
        // Nodes that no readable state shows take another run.
        account.gc().await;
        let unshown =
            "SELECT count(*) FROM (SELECT DISTINCT ON (ino) * FROM garth.node ORDER BY ino, seq DESC) v,
            garth.head h WHERE v.nlink = 0 AND v.seq <= h.folded";
        assert_eq!(account.count(unshown), 0, "{commits} are kept");
        assert_eq!(account.gc().await.folded, 0);
        let state = account.fs.retention().await.unwrap();
        assert_eq!((state.oldest, state.folded), (Seq(20 - commits), Seq(20 - commits)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retained_answers_are_those_of_the_specification() {
    let database = Database::new().await;
    for seed in 1..2 {
        let account = database.account(&format!("account {seed}")).await;
        let fs = database.store(account, &database.cluster.socket_url()).await;
        let (env, clock) = Env::manual(Timestamp(1_000_000_000));
        let model = Arc::new(MemoryFs::new(env, Registry::empty()));
        let (tree, like): (Fs, Fs) = (fs.clone(), model.clone());
        let mut random = Random(seed);
        let (mut last, mut gone, mut contents) = (0, 0, 0);
        for number in 0..80 {
            let batch = random.batch(number).author(author(number));
            clock.advance(Duration::from_secs(1));
            let due = model.commit(batch.clone()).await.map(|commit| commit.seq);
            let committed = fs.commit(batch.clone()).await.map(|commit| commit.seq);
            assert_eq!(shown(committed), shown(due.clone()), "{batch:?}");
            last = due.map_or(last, |seq| seq.0);
            if number % 20 != 19 {
                continue;
            }
            let classes: &[&str] = [&["/d/**"][..], &["/**"], &[], &["/*", "/d/e/*"]][random.below(4)];
            let commits = [None, Some(random.below(40) as u64)][random.below(2)];
            let set = Retention { commits, ..off(classes) };
            model.set_retention(set.clone()).unwrap();
            fs.set_retention(set).await.unwrap();
            // Content is marked, then removed, and removed files go with the run after that.
            for _ in 0..3 {
                model.collect_now();
                contents += fs.gc(Duration::ZERO).await.unwrap().contents;
                let state = fs.retention().await.unwrap();
                assert_eq!(state.oldest, model.retention().oldest);
                compare(&tree, &like, 12, &format!("seed {seed} after batch {number}")).await;
                for seq in [1, last / 3, last / 2, last.saturating_sub(5), last] {
                    let moment = Moment::Seq(Seq(seq));
                    match (fs.as_of(&moment).await, model.as_of(&moment).await) {
                        (Ok(found), Ok(like)) => {
                            let what = format!("seed {seed} as of {seq} after batch {number}");
                            compare(&found, &like, 12, &what).await;
                        }
                        (found, like) => {
                            gone += 1;
                            assert_eq!(shown(found.map(drop)), shown(like.map(drop)), "as of {seq}");
                        }
                    }
                }
            }
        }
        assert!(last > 8, "seed {seed} has too few commits");
        assert!(gone + contents > 0, "seed {seed} removes nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_connections_leave_a_removal_that_goes_on() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let proxy = Proxy::to(database.cluster.address()).unwrap();
    let fs = database.store(account, &database.cluster.tcp_url_through(proxy.address())).await;
    let model = Arc::new(MemoryFs::new(Env::system(), Registry::empty()));
    let (tree, like): (Fs, Fs) = (fs.clone(), model.clone());
    let set = Retention { commits: Some(6), ..off(&["/d/**"]) };
    fs.set_retention(set.clone()).await.unwrap();
    model.set_retention(set).unwrap();
    let (mut random, mut failed) = (Random(5), 0);
    for round in 0..10 {
        for number in 0..4 {
            let batch = random.batch(4 * round + number);
            let due = model.commit(batch.clone()).await.map(|commit| commit.seq);
            assert_eq!(shown(fs.commit(batch).await.map(|commit| commit.seq)), shown(due));
        }
        let direction = [Direction::ToServer, Direction::ToClient][round % 2];
        proxy.cut_after(direction, 300 + 2200 * (round / 2));
        failed += u64::from(fs.gc(Duration::ZERO).await.is_err());
        proxy.cut_after(direction, usize::MAX);
        // The lease of a run that was cut at its beginning would end 30 seconds later.
        database.rows(account, "UPDATE garth.collecting SET until = 0");
        fs.gc(Duration::ZERO).await.unwrap();
        model.collect_now();
        compare(&tree, &like, 12, &format!("round {round}")).await;
        assert_eq!(database.rows(account, LEFT_OVER), NOTHING, "round {round}");
        assert_eq!(database.rows(account, MISCOUNTED), "", "round {round}");
    }
    assert!(failed > 2, "{failed} collections were cut");
    assert!(fs.retention().await.unwrap().folded > Seq(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_holds_the_past_until_it_is_removed() {
    let account = Account::of_commits().await;
    account.commit([Op::write(at("/f"), "held")]).await;
    let held = account.commit([Op::snapshot("then")]).await;
    for n in 0..5 {
        account.commit([Op::write(at("/f"), format!("later {n}"))]).await;
    }
    account.retain(Retention { commits: Some(1), ..off(&["/**"]) }).await;
    assert_eq!(Seq(account.gc().await.oldest), held);
    let state = account.fs.retention().await.unwrap();
    assert_eq!(state.held_by, Some(Hold::Snapshot { owner: None, name: "then".to_owned() }));
    account.gc().await;
    let then = account.fs.as_of(&Moment::Snapshot("then".to_owned())).await.unwrap();
    assert!(text(&*then, "/f").await.contains("held"), "its content is kept as well");
    drop(then);
    account.commit([Op::drop_snapshot("then")]).await;
    assert_eq!(account.gc().await.oldest, 27);
    assert_eq!(account.rows(LEFT_OVER), NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn overlay_over_the_past_holds_its_state() {
    let account = Account::of_commits().await;
    let about = at("/.garth/overlays/one/overlay.json");
    account.commit([Op::write(about, r#"{"root":"/","as_of":4}"#).with_parents()]).await;
    account.retain(Retention { commits: Some(0), ..off(&["/**"]) }).await;
    let shown_before = text(&*account.as_of(4).await, "/f").await;
    assert_eq!(account.gc().await.oldest, 4);
    let state = account.fs.retention().await.unwrap();
    assert_eq!(state.held_by, Some(Hold::Fork { id: "one".to_owned() }));
    account.gc().await;
    assert_eq!(text(&*account.as_of(4).await, "/f").await, shown_before);
    account.commit([Op::remove_tree(at("/.garth/overlays/one"))]).await;
    assert_eq!(account.gc().await.oldest, 22);
}

#[tokio::test(flavor = "multi_thread")]
async fn leased_state_keeps_its_rows() {
    let account = Account::of_commits().await;
    // Another server has opened this view before the past was ended.
    let other = account.database.store(account.account, &account.database.cluster.socket_url()).await;
    let view = other.as_of(&Moment::Seq(Seq(5))).await.unwrap();
    let before = text(&*view, "/f").await;
    account.lease(5, true);
    account.retain(keeping_commits(2)).await;
    assert_eq!(account.gc().await.folded, 5, "up to the state that is read");
    let state = account.fs.retention().await.unwrap();
    assert_eq!((state.oldest, state.held_by), (Seq(18), Some(Hold::Reader)));
    assert_eq!(text(&*view, "/f").await, before);
    assert_eq!(account.gc().await.folded, 0);
    account.lease(5, false);
    assert_eq!(account.gc().await.folded, 13);
    assert!(text(&*view, "/f").await.starts_with("gone"), "it was stopped for longer than its lease");
    assert_eq!(account.rows(LEFT_OVER), NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_view_keeps_its_state_and_content() {
    let account = Account::new().await;
    for n in 0..6 {
        account.commit([Op::write(at("/f"), format!("{n}"))]).await;
    }
    let view = account.as_of(3).await;
    account.retain(off(&["/f"])).await;
    assert_eq!(account.gc().await.contents, 4, "all but that of the view");
    account.retain(Retention { commits: Some(1), ..off(&["/f"]) }).await;
    assert_eq!(account.gc().await.folded, 3);
    assert!(text(&*view, "/f").await.contains('2'));
    drop(view);
    account.gc().await;
    assert_eq!(account.fs.retention().await.unwrap().folded, Seq(5));
    assert_eq!(account.rows(LEFT_OVER), NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_before_the_oldest_state_are_gone() {
    let account = Account::of_commits().await;
    let ino = account.fs.stat(&At::Path(at("/f"))).await.unwrap().ino;
    account.retain(keeping_commits(5)).await;
    account.gc().await;
    let gone = |error: garth_engine::Error| {
        assert!(error.is(ErrorKind::Gone), "{error}");
        assert!(error.message().contains("15"), "{error}");
    };
    gone(account.fs.as_of(&Moment::Seq(Seq(14))).await.unwrap_err());
    gone(account.fs.as_of(&Moment::Time(Timestamp(1))).await.unwrap_err());
    let query = garth_engine::model::ChangesQuery::since(Seq(14));
    gone(account.fs.changes(&query).await.unwrap_err());
    gone(account.fs.open_version(VersionId { seq: Seq(3), ino }).await.unwrap_err());
    gone(account.fs.commit(Op::copy(at("/f"), at("/g")).as_of(Seq(3)).into()).await.unwrap_err());
    account.as_of(15).await;
    let query = garth_engine::model::ChangesQuery::since(Seq(15));
    assert_eq!(account.fs.changes(&query).await.unwrap().commits.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_outlive_the_log() {
    let account = Account::new().await;
    let until = Env::system().now().plus_seconds(86_400);
    let keyed = || write("/keyed", "once").idempotency(Idempotency::new("k", [7; 32], until).note("noted"));
    let first = account.fs.commit(keyed()).await.unwrap();
    for n in 0..5 {
        account.commit([Op::write(at("/f"), format!("{n}"))]).await;
    }
    account.retain(keeping_commits(0)).await;
    account.gc().await;
    assert_eq!(account.rows("SELECT seq FROM garth.log ORDER BY seq"), "1\n6");
    let retry = account.fs.commit(keyed()).await.unwrap();
    assert_eq!((retry.seq, retry.replayed, retry.note.as_str()), (first.seq, true, "noted"));
    assert_eq!(account.fs.recorded("k").await.unwrap().unwrap().commit.seq, first.seq);
    account.rows("UPDATE garth.idempotency SET keep_until = 1");
    account.gc().await;
    assert_eq!(account.rows("SELECT seq FROM garth.log ORDER BY seq"), "6", "with its record");
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_record_takes_its_commit_along() {
    let account = Account::new().await;
    let until = Env::system().now().plus_seconds(86_400);
    let keyed = || write("/keyed", "once").idempotency(Idempotency::new("k", [7; 32], until));
    account.fs.commit(keyed()).await.unwrap();
    account.commit([Op::write(at("/f"), "later")]).await;
    account.retain(keeping_commits(0)).await;
    account.gc().await;
    assert_eq!(account.rows("SELECT seq FROM garth.log ORDER BY seq"), "1\n2");
    account.rows("UPDATE garth.idempotency SET keep_until = 1");
    let again = account.fs.commit(keyed()).await.unwrap();
    assert_eq!((again.seq, again.replayed), (Seq(3), false));
    assert_eq!(account.rows("SELECT seq FROM garth.log ORDER BY seq"), "2\n3");
}

#[tokio::test(flavor = "multi_thread")]
async fn authors_outlive_their_commits() {
    let account = Account::new().await;
    let authors = [Author::agent("scout"), Author::agent("scout"), Author::default(), Author::key("k1")];
    for (n, author) in authors.iter().chain(&authors).enumerate() {
        let batch = append("/f", format!("{n}")).author(author.clone());
        account.fs.commit(batch).await.unwrap();
    }
    // In two passes: the second goes on where the first has ended.
    for commits in [3, 0] {
        account.retain(keeping_commits(commits)).await;
        account.gc().await;
    }
    let sql = "SELECT f.till, coalesce(a.json, '') FROM garth.folded_author f
        LEFT JOIN garth.author a ON a.id = f.author ORDER BY f.till";
    let [scout, key] = [&authors[0], &authors[3]].map(|author| serde_json::to_string(author).unwrap());
    // The commit of the oldest state is still in the log.
    assert_eq!(account.rows(sql), format!("2|{scout}\n3|\n4|{key}\n6|{scout}\n7|"));
    assert_eq!(account.count("SELECT count(*) FROM garth.author"), 2);
}
