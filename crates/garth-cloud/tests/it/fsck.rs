//! Checks of an account: a sound one has no findings, and damage is found where it is.

use std::sync::Arc;

use garth_cloud::client::Pool;
use garth_cloud::store::PgStore;
use garth_engine::model::quota::Limits;
use garth_engine::model::{
    At, Batch, ByteRange, Confinement, FindQuery, Gate, Op, Owner, SearchQuery, Seq, SetAttrs, Timestamp,
    Within,
};
use garth_engine::rule::{Constraint, PathPattern, Rule, sample};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, Name};

use super::database::{Database, append, at, write};

/// Returns an account that has a row of every kind. Node 3 is `/d/f`, and node 4 was removed.
async fn account(database: &Database, id: &str) -> (i64, Arc<PgStore>) {
    let account = database.account(id).await;
    let pool = Pool::connect(&database.cluster.socket_url(), 2).await.unwrap();
    let fs = PgStore::new(pool, account, Env::system(), sample::registry());
    fs.commit(write("/d/f", "a harbour at night\n")).await.unwrap();
    fs.commit(write("/d/gone", "a harbour at noon\n")).await.unwrap();
    fs.commit(append("/d/f", "and a market in the morning\n")).await.unwrap();
    fs.commit(Op::write(at("/d/f"), "a river\n").into()).await.unwrap();
    let attrs = SetAttrs::new().tags(["red"]).metadata("k", "v");
    fs.commit(Op::set_attrs(at("/d/f"), attrs).into()).await.unwrap();
    fs.commit(Batch::new([Op::link(at("/d/f"), at("/d/g")), Op::mkdir(at("/d/e"))])).await.unwrap();
    fs.commit(write("/kv/a", "one two\nthree\n")).await.unwrap();
    let until = Timestamp(Env::system().now().0 + 1_000_000_000_000_000);
    let expiring = Op::write(at("/x"), "x".to_owned()).with_attrs(SetAttrs::new().expires_at(until));
    fs.commit(expiring.into()).await.unwrap();
    fs.commit(Op::remove(at("/d/gone")).into()).await.unwrap();
    fs.commit(Op::write(at("/large"), vec![b'x'; 100_000]).into()).await.unwrap();
    fs.commit(Op::copy(at("/large"), at("/copy")).into()).await.unwrap();
    fs.commit(Batch::new([Op::rename(at("/kv"), at("/moved")), Op::rename(at("/moved"), at("/kv"))]))
        .await
        .unwrap();
    fs.set_quota(&at("/d"), Limits::default().entries(100)).await.unwrap();
    // From the first search for a key on, the account has those of this registry.
    fs.find(&FindQuery::new(sample::FIRST_WORD).equal("one")).await.unwrap();
    let lines = Constraint::parse("json-lines", "{}").unwrap();
    assert!(fs.set_rule(Rule::new(PathPattern::parse("/log").unwrap(), lines), false).await.unwrap().set);
    for number in 0..3 {
        fs.commit(append("/log", format!("{number}\n"))).await.unwrap();
    }
    (account, fs)
}

#[tokio::test(flavor = "multi_thread")]
async fn sound_account_has_no_findings() {
    let database = Database::new().await;
    let (_, fs) = account(&database, "her").await;
    let report = fs.fsck().await.unwrap();
    assert_eq!(report.findings, []);
    assert!(report.names >= 8 && report.versions >= 12 && report.chunks >= 6, "{report:?}");
    assert!(report.bytes > 100_000, "{report:?}");
    assert_eq!(report.large, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_account_has_no_findings() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let fs = database.store(account, &database.cluster.socket_url()).await;
    assert_eq!(fs.fsck().await.unwrap().findings, []);
    let deleted = database.store(77, &database.cluster.socket_url()).await;
    let error = deleted.fsck().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

/// Damage to an account, with the kind of one finding and a part of it.
const DAMAGE: [(&str, &str, &str); 33] = [
    (
        "DELETE FROM garth.chunk WHERE id = (SELECT chunk FROM garth.extent WHERE ino = 3)",
        "missing_content",
        "node 3 needs chunk",
    ),
    ("UPDATE garth.chunk SET data = set_byte(data, 0, get_byte(data, 0) # 1)", "content", "its checksum"),
    ("UPDATE garth.chunk SET data = data || 'x'::bytea", "content", "bytes instead of"),
    ("UPDATE garth.chunk SET data = NULL", "content", "is missing"),
    ("UPDATE garth.extent SET len = len + 9 WHERE ino = 3", "extent", "the extent of node 3"),
    ("UPDATE garth.extent SET older = -1 WHERE ino = 3", "extent", "that wrote node 3 at byte 0 is unknown"),
    ("UPDATE garth.extent_past SET till = since WHERE ino = 3", "extent", "the extent of node 3"),
    (
        "INSERT INTO garth.extent SELECT account, ino, 3, 2, since, chunk, skip, 0 FROM garth.extent
         WHERE ino = 3",
        "extent",
        "extents of node 3 overlap at byte 3",
    ),
    ("DELETE FROM garth.chunk_refs", "references", "has reference count 1, but 2 references"),
    ("DELETE FROM garth.extent WHERE ino = 3", "references", "but 0 references"),
    (
        "INSERT INTO garth.chunk_refs SELECT account, 999, 2 FROM garth.head",
        "references",
        "references are counted for chunk 999",
    ),
    ("UPDATE garth.head SET stored = stored + 1", "head", "stored bytes of the account differ"),
    ("UPDATE garth.head SET next_ino = 3", "head", "but the next inode is 3"),
    ("UPDATE garth.head SET next_chunk = 1", "head", "but the next chunk is 1"),
    ("UPDATE garth.head SET next_passage = 0", "head", "but the next passage is 0"),
    ("DELETE FROM garth.log WHERE seq = 4", "head", "no commit between 3 and 5"),
    ("DELETE FROM garth.log WHERE seq = (SELECT seq FROM garth.head)", "head", "the last of the log is"),
    ("UPDATE garth.log SET changes = '{' WHERE seq = 4", "log", "the changes of commit 4 cannot be read"),
    ("DELETE FROM garth.node WHERE ino = 3", "name", "/d/f names node 3, which does not exist"),
    ("DELETE FROM garth.name WHERE name = 'd'", "name", "/d/f is in no directory"),
    ("UPDATE garth.name SET kind = 2 WHERE name = 'f'", "name", "/d/f and its node 3 are of different kinds"),
    ("DELETE FROM garth.name WHERE name = 'g'", "link_count", "node 3 has link count 2, but 1 links"),
    ("DELETE FROM garth.name WHERE name = 'e'", "link_count", "has link count 3, but 2 links"),
    ("DELETE FROM garth.attribute", "attribute", "node 3 has lost its attributes of commit 5"),
    ("UPDATE garth.expiry SET at = at + 1", "expiry", "differs from the list of expiries"),
    ("UPDATE garth.expiry SET ino = 999", "expiry", "node 999 is listed to expire but does not exist"),
    ("UPDATE garth.name_past SET fork = fork + 1", "past", "which ended with commit 9, is impossible"),
    ("DELETE FROM garth.passage WHERE ino = 3", "index", "node 3 is wrongly in the search index"),
    ("UPDATE garth.passage SET hash = hash + 1 WHERE ino = 3", "index", "of node 3 at byte 0 is out of date"),
    ("UPDATE garth.passage SET ino = 4 WHERE ino = 3", "index", "node 4 is wrongly in the search index"),
    ("DELETE FROM garth.projected", "projection", "are out of date"),
    ("UPDATE garth.quota SET bytes = bytes + 1", "quota", "its quota says"),
    ("UPDATE garth.judged SET until = 1000", "rule", "a rule was checked in node"),
];

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_found() {
    let database = Database::new().await;
    for (number, (damage, kind, detail)) in DAMAGE.iter().enumerate() {
        let (account, fs) = account(&database, &format!("a{number}")).await;
        database.rows(account, damage);
        let findings = fs.fsck().await.unwrap().findings;
        let found = findings.iter().any(|finding| finding.kind == *kind && finding.detail.contains(detail));
        assert!(found, "{damage}: {findings:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_to_one_account_is_found_in_no_other() {
    let database = Database::new().await;
    let (damaged, _) = account(&database, "damaged").await;
    let (_, fs) = account(&database, "sound").await;
    for (damage, ..) in DAMAGE {
        // Some no longer apply after the ones before.
        drop(database.sql(damaged, damage));
    }
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_content_is_not_read() {
    let database = Database::new().await;
    let (account, fs) = account(&database, "her").await;
    let before = fs.fetch(&At::Path(at("/large")), ByteRange::ALL).await.unwrap();
    assert_eq!(before.1.len(), 100_000);
    database.rows(
        account,
        "UPDATE garth.chunk SET data = set_byte(data, 9, get_byte(data, 9) # 1) WHERE len > 9",
    );
    for path in ["/large", "/copy", "/kv/a"] {
        let error = fs.fetch(&At::Path(at(path)), ByteRange::ALL).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
    // A copy of a part reads its bytes, and must not give damaged ones a new checksum.
    let patch = Op::copy_range(at("/large"), 1, 10, at("/part"), 0);
    if fs.commit(Batch::new([Op::write(at("/part"), "start".to_owned()), patch])).await.is_ok() {
        let error = fs.fetch(&At::Path(at("/part")), ByteRange::ALL).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_gate_file_hides_its_entry() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let open = async || {
        let pool = Pool::connect(&database.cluster.socket_url(), 2).await.unwrap();
        PgStore::new(pool, account, Env::system(), sample::registry())
    };
    let files =
        [("/nodes/one/.status", "ACTIVE"), ("/nodes/one/log", "harbour"), ("/nodes/two/log", "market")];
    for (path, text) in files {
        open().await.commit(write(path, text)).await.unwrap();
    }
    let gate = Gate {
        dir: at("/nodes"),
        file: Name::parse(".status").unwrap(),
        projection: sample::STATUS,
        keys: vec!["ACTIVE".to_owned()],
        since: Seq(0),
    };
    let to = Confinement::new(Within::new([at("/nodes")]), Owner::new("view").unwrap()).gated(vec![gate]);
    // Each look is that of another server, which has not judged the file yet.
    let found = async || {
        let view = open().await.confined(&to).await.unwrap();
        let hits = view.search(&SearchQuery::new("harbour")).await.unwrap().hits.len();
        let keys = view.find(&FindQuery::new(sample::STATUS)).await.unwrap().items.len();
        (hits, keys, view.stat(&At::Path(at("/nodes/one/log"))).await.is_ok())
    };
    assert_eq!(found().await, (1, 1, true));
    // The bytes are those that open the gate, but they may not be those that were written.
    let damage = "UPDATE garth.chunk SET sum = set_byte(sum, 0, get_byte(sum, 0) # 1) WHERE data = 'ACTIVE'";
    database.rows(account, damage);
    assert_eq!(found().await, (0, 0, false));
}
