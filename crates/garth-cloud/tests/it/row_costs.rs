//! Costs of calls: the rows that they read, and the bytes that they return, do not grow with what else is
//! stored.

use std::time::Duration;

use garth_cloud::client::{Connection, Pipe, Pool};
use garth_cloud::commit::commit;
use garth_cloud::store::PgStore;
use garth_engine::model::{
    At, Batch, ByteRange, Confinement, FindQuery, Gate, Op, Owner, Page, Seq, WalkPage, Within,
};
use garth_engine::rule::sample::{STATUS, registry};
use garth_engine::{Env, ErrorKind, FileSystem as _, Name};
use garth_testkit::proxy::{Direction, Proxy};

use super::database::{Database, append, at, connect, write};

/// Makes the counts of a connection visible to others.
async fn flush(conn: &Connection) {
    let mut pipe = Pipe::new(conn);
    pipe.simple("SELECT pg_stat_force_next_flush()");
    pipe.run().await.unwrap();
}

/// Returns the number of entries of indexes and rows of a table, with its partitions, that were read so far.
fn rows_read(database: &Database, table: &str) -> u64 {
    let sql = format!(
        "SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_all_indexes
         WHERE schemaname = 'garth' AND relname ~ '^{table}(_[0-9]+)?$'"
    );
    database.rows(0, &sql).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn append_reads_few_extents_of_a_long_file() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let conn = connect(&database.cluster.socket_url()).await;
    // No text: of text, an append indexes the end again.
    let parts: Vec<Batch> = (0..1000).map(|number| append("/log", format!("\0{number:099}"))).collect();
    for group in parts.chunks(100) {
        for result in commit(&conn, account, group).await.unwrap() {
            result.unwrap();
        }
    }
    flush(&conn).await;
    let before = rows_read(&database, "extent");
    commit(&conn, account, &[append("/log", "\0last")]).await.unwrap().remove(0).unwrap();
    let patch = Batch::new([Op::patch(at("/log"), 95_000, "x")]);
    commit(&conn, account, &[patch]).await.unwrap().remove(0).unwrap();
    let fs = database.store(account, &database.cluster.socket_url()).await;
    let (_, bytes) = fs.fetch(&At::Path(at("/log")), ByteRange { offset: 90_000, length: 10 }).await.unwrap();
    assert_eq!(bytes.len(), 10);
    flush(&conn).await;
    // Its connections end, and report their counts.
    drop(fs);
    let read = rows_read(&database, "extent") - before;
    // Those of the first bytes, by which text is told from other content, and a few more for each call.
    assert!((1..600).contains(&read), "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_removal_reads_few_names() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let conn = connect(&database.cluster.socket_url()).await;
    let files: Vec<Op> =
        (0..2000).map(|number| Op::write(at(&format!("/d/{number}")), "x").with_parents()).collect();
    commit(&conn, account, &[Batch::new(files)]).await.unwrap().remove(0).unwrap();
    flush(&conn).await;
    let before = rows_read(&database, "name");
    let removal = Batch::new([Op::remove_dir(at("/d"))]);
    let error = commit(&conn, account, &[removal]).await.unwrap().remove(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotEmpty, "{error}");
    flush(&conn).await;
    let read = rows_read(&database, "name") - before;
    assert!((1..100).contains(&read), "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn chunk_of_many_extents_is_returned_once() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let mut due = vec![b'a'; 1 << 20];
    let mut ops = vec![Op::write(at("/a"), due.clone())];
    for place in (0..due.len()).step_by(8192) {
        due[place..place + 4096].fill(b'b');
        ops.push(Op::patch(at("/a"), place as u64, vec![b'b'; 4096]));
    }
    database.commit(account, &[Batch::new(ops)]).await.remove(0).unwrap();
    let proxy = Proxy::to(database.cluster.address()).unwrap();
    let fs = database.store(account, &database.cluster.tcp_url_through(proxy.address())).await;
    // The chunk of 1 MiB shows in 128 places.
    proxy.cut_after(Direction::ToClient, 8 << 20);
    for at in [At::Path(at("/a")), At::Node(fs.stat(&At::Path(at("/a"))).await.unwrap().ino)] {
        let (_, bytes) = fs.fetch(&at, ByteRange::ALL).await.unwrap();
        assert!(bytes == due, "the content differs");
    }
    assert_eq!(proxy.cuts(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn pieces_of_many_chunks_are_read_in_steps() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let chunk = |number: u8| vec![number; 1 << 20];
    let count = 40_u8;
    for first in (0..count).step_by(10) {
        let files = (first..first + 10).map(|number| Op::write(at(&format!("/f{number}")), chunk(number)));
        database.commit(account, &[Batch::new(files)]).await.remove(0).unwrap();
    }
    let mut ops = vec![Op::write(at("/a"), "")];
    for number in 0..count {
        let from = at(&format!("/f{number}"));
        ops.push(Op::copy_range(from, 4096, 100, at("/a"), u64::from(number) * 100));
    }
    database.commit(account, &[Batch::new(ops)]).await.remove(0).unwrap();
    let fs = database.store(account, &database.cluster.socket_url()).await;
    let due: Vec<u8> = (0..count).flat_map(|number| vec![number; 100]).collect();
    let (_, bytes) = fs.fetch(&At::Path(at("/a")), ByteRange::ALL).await.unwrap();
    assert!(bytes == due, "the content differs");
    let many = vec![(At::Path(at("/a")), ByteRange { offset: 50, length: 3900 }); 2];
    let fetched = fs.fetch_many(&many).await.unwrap();
    for (_, bytes) in fetched.items.into_iter().map(Result::unwrap) {
        assert!(bytes == due[50..3950], "the content differs");
    }
    // Damage of a chunk fails the part that shows it, and no other.
    database.rows(
        account,
        "UPDATE garth.chunk SET data = 'x' WHERE len = 1048576 AND id = (SELECT max(id) FROM garth.chunk)",
    );
    let error = fs.fetch(&At::Path(at("/a")), ByteRange::ALL).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    fs.fetch(&At::Path(at("/a")), ByteRange { offset: 0, length: 100 }).await.unwrap();
    fs.commit(write("/b", "x")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn listing_passes_many_hidden_entries_in_few_trips() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let entry = |name: String, status: &str| {
        Op::write(at(&format!("/nodes/{name}/.status")), status.to_owned()).with_parents()
    };
    let mut ops: Vec<Op> = (0..400).map(|number| entry(format!("e{number:03}"), "PRIVATE")).collect();
    ops.extend(["a", "e150-", "z"].map(|name| entry(name.to_owned(), "ACTIVE")));
    let proxy = Proxy::to(database.cluster.address()).unwrap();
    let pool = Pool::connect(&database.cluster.tcp_url_through(proxy.address()), 2).await.unwrap();
    let fs = PgStore::new(pool, account, Env::system(), registry());
    fs.commit(Batch::new(ops)).await.unwrap();
    // From now on, the index has the keys.
    fs.find(&FindQuery::new(STATUS)).await.unwrap();
    let gate = Gate {
        dir: at("/nodes"),
        file: Name::parse(".status").unwrap(),
        projection: STATUS,
        keys: vec!["ACTIVE".to_owned()],
        since: Seq(0),
    };
    let to = Confinement::new(Within::new([at("/nodes")]), Owner::new("view").unwrap()).gated(vec![gate]);
    let view = fs.confined(&to).await.unwrap();
    proxy.delay(Duration::from_millis(5));
    let before = proxy.trips();
    let listed = view.list(&At::Path(at("/nodes")), &Page::default().limit(2)).await.unwrap();
    let names: Vec<&str> = listed.items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!((names, listed.more), (vec!["a", "e150-"], true));
    assert!(proxy.trips() - before <= 40, "{}", proxy.trips() - before);
    let walked = view.walk(&At::Path(at("/nodes")), &WalkPage::default().limit(100)).await.unwrap();
    assert_eq!((walked.items.len(), walked.more), (6, false));
}
