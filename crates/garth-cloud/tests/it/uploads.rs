//! Uploads: content that one server receives and any server commits, its limits, and what is left of uploads
//! that end otherwise.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use garth_cloud::client::Pool;
use garth_cloud::home::PgHome;
use garth_cloud::store::PgStore;
use garth_engine::fs::Incoming;
use garth_engine::model::{At, Batch, Body, ByteRange, Confinement, Op, Owner, StagedBody, Within};
use garth_engine::rule::{Registry, sample};
use garth_engine::{Env, ErrorKind, FileSystem, Home as _, Result};
use garth_testkit::data::random::Random;
use garth_testkit::postgres::Cluster;
use garth_testkit::proxy::{Direction, Proxy};

use super::database::{Database, at, eventually, write};

/// Bytes of a chunk.
const CHUNK: usize = 1 << 20;
/// Chunks whose count of references is wrong. Those that arrive have one, which no row has.
const WRONG_COUNTS: &str = "SELECT count(*) FROM garth.chunk c
    LEFT JOIN garth.chunk_refs r ON r.account = c.account AND r.chunk = c.id
    WHERE c.id < 4611686018427387904 AND coalesce(r.count, 1) <>
        (SELECT count(*) FROM garth.extent e WHERE e.chunk = c.id)
        + (SELECT count(*) FROM garth.extent_past p WHERE p.chunk = c.id)
        + (SELECT count(*) FROM garth.staged s CROSS JOIN json_array_elements(s.pieces::json) p
           WHERE (p ->> 0)::bigint = c.id)";
/// Uploads, chunks, and chunks that arrive.
const ROWS: &str = "SELECT (SELECT count(*) FROM garth.staged), (SELECT count(*) FROM garth.chunk),
    (SELECT count(*) FROM garth.chunk WHERE id >= 4611686018427387904)";

/// Account of a database, with two servers.
struct Account {
    database: Database,
    number: i64,
    one: Arc<PgStore>,
    other: Arc<PgStore>,
}

impl Account {
    async fn new() -> Self {
        let database = Database::new().await;
        let number = database.account("her").await;
        let one = database.store(number, &database.cluster.socket_url()).await;
        let other = database.store(number, &database.cluster.tcp_url()).await;
        Self { database, number, one, other }
    }

    fn rows(&self, sql: &str) -> String {
        self.database.rows(self.number, sql)
    }

    /// Waits until the rows of a query are these.
    async fn becomes(&self, sql: &str, rows: &str) {
        eventually(|| self.rows(sql), rows).await;
    }

    fn assert_counts(&self) {
        assert_eq!(self.rows(WRONG_COUNTS), "0");
    }
}

/// Returns bytes of a seed that do not repeat.
fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let bytes = std::iter::repeat_with(|| u32::try_from(random.below(1 << 32)).unwrap().to_le_bytes());
    bytes.take(length.div_ceil(4)).flatten().take(length).collect()
}

async fn upload(fs: &dyn FileSystem, content: &[u8]) -> Result<StagedBody> {
    let mut upload = fs.stage(&At::Path(at("/up"))).await?;
    for piece in content.chunks(700_001) {
        upload.write(piece.to_vec().into()).await?;
    }
    upload.finish().await
}

fn put(path: &str, body: StagedBody) -> Batch {
    Batch::new([Op::write(at(path), Body::Staged(body))])
}

async fn read(fs: &dyn FileSystem, path: &str) -> Vec<u8> {
    fs.read(&At::Path(at(path)), ByteRange::ALL).await.unwrap().to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_of_one_server_is_committed_by_another() {
    let account = Account::new().await;
    // Less than a chunk that is shared, a chunk, and several.
    for (seed, length) in [(0, 0), (1, 5), (2, 100_000), (3, CHUNK), (4, CHUNK + 1), (5, 3 * CHUNK + 7)] {
        let (content, path) = (content(seed, length), format!("/{length}"));
        let body = upload(&*account.one, &content).await.unwrap();
        assert_eq!(body.size, length as u64);
        assert!(account.other.stat(&At::Path(at(&path))).await.unwrap_err().is(ErrorKind::NotFound));
        account.other.commit(put(&path, body.clone())).await.unwrap();
        assert!(read(&*account.one, &path).await == content, "{length}");
        // It is used up by the commit that uses it.
        for fs in [&account.one, &account.other] {
            assert!(fs.commit(put("/again", body.clone())).await.unwrap_err().is(ErrorKind::NotFound));
        }
    }
    assert_eq!(account.rows(ROWS), "0|9|0");
    account.assert_counts();
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_content_is_stored_once() {
    let account = Account::new().await;
    let (content, other) = (content(1, CHUNK + 70_000), content(2, CHUNK));
    let twice = [&other[..], &other].concat();
    account.one.commit(Batch::new([Op::write(at("/a"), content.clone())])).await.unwrap();
    let first = upload(&*account.one, &content).await.unwrap();
    let second = upload(&*account.other, &twice).await.unwrap();
    account.becomes(ROWS, "2|3|0").await;
    account.assert_counts();
    account.other.commit(put("/b", first)).await.unwrap();
    account.one.commit(put("/c", second)).await.unwrap();
    assert!(read(&*account.one, "/b").await == content && read(&*account.one, "/c").await == twice);
    assert_eq!(account.rows(ROWS), "0|3|0");
    account.assert_counts();
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_upload_leaves_nothing() {
    let account = Account::new().await;
    let content = content(1, 3 * CHUNK);
    let mut arriving = account.one.stage(&At::Path(at("/up"))).await.unwrap();
    arriving.write(content.clone().into()).await.unwrap();
    // The last chunk is in memory. Nothing refers to those that arrive.
    assert_eq!(account.rows(ROWS), "1|2|2");
    account.other.commit(Batch::new([Op::write(at("/same"), content[..CHUNK].to_vec())])).await.unwrap();
    drop(arriving);
    account.becomes(ROWS, "0|1|0").await;
    assert!(read(&*account.one, "/same").await == content[..CHUNK]);
    account.assert_counts();
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_is_gone_after_its_lease() {
    let account = Account::new().await;
    let content = content(1, 3 * CHUNK);
    let body = upload(&*account.one, &content).await.unwrap();
    let mut arriving = account.one.stage(&At::Path(at("/up"))).await.unwrap();
    arriving.write(content.clone().into()).await.unwrap();
    account.rows("UPDATE garth.staged SET lease = garth.now()");
    let gone = account.other.commit(put("/a", body)).await.unwrap_err();
    assert!(gone.is(ErrorKind::NotFound) && gone.message().contains("staged body"), "{gone}");
    let gone = arriving.write(content.clone().into()).await.unwrap_err();
    assert!(gone.is(ErrorKind::NotFound) && gone.message().contains("idle for too long"), "{gone}");
    let broken = arriving.finish().await.unwrap_err();
    assert!(broken.is(ErrorKind::Io), "{broken}");
    let mut short = account.one.stage(&At::Path(at("/up"))).await.unwrap();
    short.write(content[..2 * CHUNK].to_vec().into()).await.unwrap();
    account.rows("UPDATE garth.staged SET lease = 0 WHERE pieces IS NULL");
    assert!(short.finish().await.unwrap_err().is(ErrorKind::NotFound));
    // Finished ones are collected: another test.
    account.becomes("SELECT count(*) FROM garth.staged WHERE pieces IS NULL", "0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ticks_remove_uploads_after_their_leases() {
    let cluster = Cluster::in_memory().unwrap();
    let home = PgHome::connect(&cluster.socket_url(), 2, Env::system(), sample::registry()).await.unwrap();
    home.create_account("her").await.unwrap();
    let fs = home.open("her").await.unwrap();
    let number = cluster
        .psql(&cluster.socket_url(), "SET garth.account = '0'; SELECT account FROM garth.account")
        .unwrap();
    let sql = |sql: &str| {
        cluster.psql(&cluster.socket_url(), &format!("SET garth.account = '{number}'; {sql}")).unwrap()
    };
    let content = content(1, 2 * CHUNK + 1);
    fs.commit(Batch::new([Op::write(at("/a"), content[..CHUNK].to_vec())])).await.unwrap();
    upload(&*fs, &content).await.unwrap();
    let mut arriving = fs.stage(&At::Path(at("/up"))).await.unwrap();
    arriving.write(content.clone().into()).await.unwrap();
    eventually(|| sql("SELECT count(*) FROM garth.staged"), "2").await;
    home.renew_leases().await.unwrap();
    assert_eq!(sql("SELECT count(*) FROM garth.staged"), "2");
    assert_eq!(sql("SELECT count(*) FROM garth.ended_upload"), "0");
    sql("UPDATE garth.staged SET lease = garth.now()");
    assert_eq!(sql("SELECT count(*), count(*) FILTER (WHERE finished) FROM garth.ended_upload"), "2|1");
    home.renew_leases().await.unwrap();
    // The chunk of the file stays.
    assert_eq!(sql(ROWS), "0|1|0");
    assert_eq!(sql(WRONG_COUNTS), "0");
    assert!(arriving.write(content.into()).await.unwrap_err().is(ErrorKind::NotFound));
    let uploads = home.stats().uploads;
    assert_eq!((uploads.open, uploads.finished, uploads.bytes), (1, 1, 2 * CHUNK as u64 + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn discarded_upload_leaves_shared_content() {
    let account = Account::new().await;
    let content = content(1, 2 * CHUNK);
    account.one.commit(Batch::new([Op::write(at("/a"), content[..CHUNK].to_vec())])).await.unwrap();
    let up = At::Path(at("/up"));
    let (body, stays) =
        (upload(&*account.one, &content).await.unwrap(), upload(&*account.one, b"stays").await.unwrap());
    // Of another owner, it is not known.
    let to = Confinement::new(Within::everything(), Owner::new("view").unwrap());
    let view = account.one.confined(&to).await.unwrap();
    view.discard(&up, &body).await.unwrap();
    account.becomes(ROWS, "2|3|0").await;
    account.other.discard(&up, &body).await.unwrap();
    account.other.discard(&up, &body).await.unwrap();
    assert_eq!(account.rows(ROWS), "1|2|0");
    account.assert_counts();
    assert!(account.one.commit(put("/b", body)).await.unwrap_err().is(ErrorKind::NotFound));
    account.one.commit(put("/b", stays.clone())).await.unwrap();
    // A commit has used it.
    account.one.discard(&up, &stays).await.unwrap();
    assert_eq!(read(&*account.one, "/b").await, b"stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_of_all_servers_take_room() {
    let account = Account::new().await;
    let room = |arrives: u64| Incoming { room: 4 * CHUNK as u64, arrives, ..Incoming::default() };
    let path = At::Path(at("/up"));
    let admit = async |fs: &Arc<PgStore>, arrives: usize| fs.admit(&path, &room(arrives as u64)).await;
    let is_full = |admitted: Result<()>| admitted.is_err_and(|error| error.is(ErrorKind::QuotaExceeded));
    let body = upload(&*account.one, &content(1, 2 * CHUNK)).await.unwrap();
    for fs in [&account.one, &account.other] {
        admit(fs, 2 * CHUNK).await.unwrap();
        assert!(is_full(admit(fs, 2 * CHUNK + 1).await));
    }
    // As soon as a chunk has arrived, another server knows what the upload expects.
    let mut arriving = account.one.stage(&path).await.unwrap();
    arriving.expects(2 * CHUNK as u64);
    arriving.write(content(2, CHUNK + 1).into()).await.unwrap();
    for fs in [&account.one, &account.other] {
        admit(fs, 0).await.unwrap();
        assert!(is_full(admit(fs, 1).await));
    }
    // Another owner has room of its own.
    let to = Confinement::new(Within::everything(), Owner::new("view").unwrap());
    let view = account.other.confined(&to).await.unwrap();
    view.admit(&path, &room(4 * CHUNK as u64)).await.unwrap();
    account.other.commit(put("/a", body)).await.unwrap();
    admit(&account.one, 2 * CHUNK).await.unwrap();
    let second = arriving.finish().await.unwrap();
    // Its bytes take room for an hour, at the server that has discarded it.
    account.one.discard(&path, &second).await.unwrap();
    assert!(is_full(admit(&account.one, 3 * CHUNK).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_a_commit_would_refuse_is_not_admitted() {
    let account = Account::new().await;
    let within = Within::new([at("/in")]).without([at("/in/hidden")]);
    let to = Confinement::new(within, Owner::new("view").unwrap());
    let view = account.one.confined(&to).await.unwrap();
    let content = Incoming { size: 10, growth: 10, room: u64::MAX, ..Incoming::default() };
    for (path, kind) in [("/out", ErrorKind::NotFound), ("/in/hidden", ErrorKind::AccessDenied)] {
        let refused = view.admit(&At::Path(at(path)), &content).await.unwrap_err();
        assert_eq!(refused.kind(), kind, "{path}: {refused}");
    }
    view.admit(&At::Path(at("/in/a")), &content).await.unwrap();
    account.rows(&format!(
        "INSERT INTO garth.quota (account, key, path, max_bytes, max_entries, bytes, entries)
         VALUES ({}, 'in', '/in', 9, NULL, 0, 0)",
        account.number
    ));
    let refused = view.admit(&At::Path(at("/in/a")), &content).await.unwrap_err();
    assert!(refused.is(ErrorKind::QuotaExceeded), "{refused}");
    account.one.admit(&At::Path(at("/a")), &content).await.unwrap();
}

/// Limits the stored bytes of an account.
fn limit(account: &Account, bytes: usize) {
    account.rows(&format!(
        "INSERT INTO garth.retention (account, stored) VALUES ({}, {bytes})
         ON CONFLICT (account) DO UPDATE SET stored = excluded.stored;
         UPDATE garth.head SET control = control + 1",
        account.number
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_beyond_the_limit_on_stored_bytes_are_refused() {
    let account = Account::new().await;
    limit(&account, 3 * CHUNK);
    let refused = upload(&*account.one, &content(1, 4 * CHUNK)).await.unwrap_err();
    assert!(refused.is(ErrorKind::QuotaExceeded), "{refused}");
    account.becomes(ROWS, "0|0|0").await;
    let first = upload(&*account.one, &content(2, CHUNK + 70_000)).await.unwrap();
    let second = upload(&*account.other, &content(3, CHUNK + 70_000)).await.unwrap();
    let refused = upload(&*account.one, &content(4, CHUNK)).await.unwrap_err();
    assert!(refused.is(ErrorKind::QuotaExceeded), "a short one: {refused}");
    // Those that arrive at another server count.
    limit(&account, 4 * CHUNK);
    let mut arriving = account.one.stage(&At::Path(at("/up"))).await.unwrap();
    arriving.expects(3 * CHUNK as u64 / 2);
    arriving.write(content(5, CHUNK + 1).into()).await.unwrap();
    let incoming =
        |arrives: usize| Incoming { room: u64::MAX, arrives: arrives as u64, ..Incoming::default() };
    account.other.admit(&At::Path(at("/up")), &incoming(CHUNK / 4)).await.unwrap();
    let refused = account.other.admit(&At::Path(at("/up")), &incoming(CHUNK / 2)).await.unwrap_err();
    assert!(refused.is(ErrorKind::QuotaExceeded), "{refused}");
    drop(arriving);
    // Uploads that wait for their commits do not refuse each other: the first commit takes the room.
    limit(&account, 2 * CHUNK);
    account.one.commit(put("/a", first)).await.unwrap();
    let refused = account.one.commit(put("/b", second)).await.unwrap_err();
    assert!(refused.is(ErrorKind::QuotaExceeded), "{refused}");
    account.becomes("SELECT count(*) FROM garth.staged", "1").await;
    account.assert_counts();
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_uploads_hold_no_connection() {
    let database = Database::new().await;
    let account = database.account("her").await;
    // A single connection.
    let pool = Pool::connect(&database.cluster.socket_url(), 1).await.unwrap();
    let fs = PgStore::new(pool, account, Env::system(), Registry::empty());
    let contents: Vec<Vec<u8>> = (0..4).map(|seed| content(seed, 2 * CHUNK + 9)).collect();
    let mut uploads = Vec::new();
    for content in &contents {
        let mut upload = fs.stage(&At::Path(at("/up"))).await.unwrap();
        upload.write(content[..CHUNK + 5].to_vec().into()).await.unwrap();
        uploads.push(upload);
    }
    fs.commit(write("/a", "x")).await.unwrap();
    for (upload, content) in uploads.iter_mut().zip(&contents) {
        upload.write(content[CHUNK + 5..].to_vec().into()).await.unwrap();
    }
    let bodies = join_all(uploads.into_iter().map(|upload| upload.finish())).await;
    for (number, (body, content)) in bodies.into_iter().zip(&contents).enumerate() {
        let path = format!("/{number}");
        fs.commit(put(&path, body.unwrap())).await.unwrap();
        assert!(read(&*fs, &path).await == *content);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_take_a_trip_for_each_chunk() {
    let account = Account::new().await;
    let proxy = Proxy::to(account.database.cluster.address()).unwrap();
    let url = account.database.cluster.tcp_url_through(proxy.address());
    let fs = account.database.store(account.number, &url).await;
    // Statements that are sent together arrive before the first answer, as on a network.
    proxy.delay(Duration::from_millis(100));
    for (length, most) in [(10, 2), (CHUNK, 2), (3 * CHUNK + 1, 5)] {
        let trips = proxy.trips();
        let mut upload = fs.stage(&At::Path(at("/up"))).await.unwrap();
        assert_eq!(proxy.trips(), trips);
        upload.write(content(length as u64, length).into()).await.unwrap();
        upload.finish().await.unwrap();
        let trips = proxy.trips() - trips;
        assert!((2..=most).contains(&trips), "{length}: {trips}");
    }
    let trips = proxy.trips();
    fs.admit(&At::Path(at("/up")), &Incoming { room: u64::MAX, ..Incoming::default() }).await.unwrap();
    assert_eq!(proxy.trips() - trips, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_are_cut_are_complete_or_gone() {
    let account = Account::new().await;
    let proxy = Proxy::to(account.database.cluster.address()).unwrap();
    let url = account.database.cluster.tcp_url_through(proxy.address());
    let (mut done, mut failed) = (0, 0);
    let to_server =
        [50, 900, 1500, 600_000, CHUNK + 3000, CHUNK + 600_000, 2 * CHUNK + 4000, 2 * CHUNK + 90_000];
    let to_client = [10, 200, 500, 700, 900, 1100, 1300, 1500, 1800, 2200, 2600, 3000];
    let cuts = to_server.map(|bytes| (Direction::ToServer, bytes)).into_iter();
    for (seed, (direction, bytes)) in
        (0..).zip(cuts.chain(to_client.map(|bytes| (Direction::ToClient, bytes))))
    {
        let content = content(seed, 2 * CHUNK + 70_000);
        let fs = account.database.store(account.number, &url).await;
        proxy.cut_after(direction, bytes);
        match upload(&*fs, &content).await {
            Ok(body) => {
                let path = format!("/{seed}");
                account.other.commit(put(&path, body)).await.unwrap();
                assert!(read(&*account.other, &path).await == content);
                done += 1;
            }
            Err(error) => {
                assert!(error.is(ErrorKind::Unavailable) || error.is(ErrorKind::NotFound), "{error}");
                failed += 1;
            }
        }
        // What is left of it is removed over another connection, which the next cut must not hit.
        proxy.cut_after(Direction::ToServer, usize::MAX);
        account.becomes("SELECT count(*) FROM garth.staged WHERE pieces IS NULL", "0").await;
    }
    assert!(failed > 5, "{failed} of {}", done + failed);
    account.becomes("SELECT count(*) FROM garth.chunk WHERE id >= 4611686018427387904", "0").await;
    account.assert_counts();
}

#[tokio::test(flavor = "multi_thread")]
async fn large_chunks_are_written_before_the_account_is_locked() {
    let account = Account::new().await;
    account.rows(
        "CREATE SEQUENCE garth.ahead;
         CREATE FUNCTION garth.count_ahead() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM nextval('garth.ahead'); RETURN NEW; END $$;
         CREATE TRIGGER ahead AFTER INSERT ON garth.staged FOR EACH ROW EXECUTE FUNCTION garth.count_ahead()",
    );
    let ahead = || account.rows("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM garth.ahead");
    let large = content(1, 2 * CHUNK + 100_000);
    account.one.commit(write("/short", "text")).await.unwrap();
    assert_eq!(ahead(), "0");
    account.one.commit(Batch::new([Op::write(at("/a"), large.clone())])).await.unwrap();
    assert_eq!(ahead(), "1");
    assert!(read(&*account.other, "/a").await == large);
    account.becomes(ROWS, "0|4|0").await;
    // The same bytes again, others beside them, and a batch that is refused.
    let appended = content(2, 300_000);
    account.other.commit(Batch::new([Op::write(at("/b"), large.clone())])).await.unwrap();
    account.other.commit(Batch::new([Op::append(at("/a"), appended.clone())])).await.unwrap();
    let refused = Batch::new([Op::write(at("/a"), content(3, CHUNK)).create_new()]);
    assert!(account.one.commit(refused).await.unwrap_err().is(ErrorKind::AlreadyExists));
    assert_eq!(ahead(), "4");
    account.becomes(ROWS, "0|5|0").await;
    assert!(read(&*account.one, "/a").await == [large.clone(), appended].concat());
    assert!(read(&*account.one, "/b").await == large);
    account.assert_counts();
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_of_a_deleted_account_leaves_no_rows() {
    let cluster = Cluster::in_memory().unwrap();
    let home = PgHome::connect(&cluster.socket_url(), 2, Env::system(), sample::registry()).await.unwrap();
    home.create_account("her").await.unwrap();
    let fs = home.open("her").await.unwrap();
    let mut upload = fs.stage(&At::Path(at("/up"))).await.unwrap();
    upload.write(content(1, 2 * CHUNK).into()).await.unwrap();
    home.delete_account("her").await.unwrap();
    assert!(upload.write(content(2, 2 * CHUNK).into()).await.unwrap_err().is(ErrorKind::NotFound));
    let mut late = fs.stage(&At::Path(at("/up"))).await.unwrap();
    assert!(late.write(content(3, 2 * CHUNK).into()).await.unwrap_err().is(ErrorKind::NotFound));
    let late = fs.stage(&At::Path(at("/up"))).await.unwrap();
    assert!(late.finish().await.unwrap_err().is(ErrorKind::NotFound));
    // A superuser sees the rows of all accounts.
    let left = "SELECT (SELECT count(*) FROM garth.staged), (SELECT count(*) FROM garth.chunk)";
    assert_eq!(cluster.psql(&cluster.admin_url(), left).unwrap(), "0|0");
}
