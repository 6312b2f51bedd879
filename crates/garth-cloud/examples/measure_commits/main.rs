//! Measures commits of the Postgres engine on a private server: round trips of a group, commits a second
//! with and without delay, WAL of a put, and disk space of a passage. Needs the programs of PostgreSQL. The
//! argument is the number of seconds for each kind of group, 3 by default.
//!
//! ```sh
//! cargo run --release -p garth-cloud --example measure_commits
//! ```
#![expect(clippy::print_stdout, reason = "a measurement prints")]

mod texts;

use std::error::Error;
use std::time::Duration;

use garth_cloud::client::{Connection, Pipe};
use garth_cloud::{commit, schema};
use garth_engine::model::{Batch, Op, SetAttrs};
use garth_engine::{Env, TreePath};
use garth_testkit::postgres::Cluster;
use garth_testkit::proxy::Proxy;
use tokio_postgres::Config;

use texts::Texts;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A kind of batch to measure.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Writes of new files in one directory.
    New,
    /// Writes over files, each in its own directory.
    Over,
    /// Appends to different files.
    Append,
    /// Appends to one file.
    Log,
}

/// Numbers of all batches so far.
struct Run {
    account: i64,
    texts: Texts,
    next: usize,
    /// True if search may see the files that are written.
    indexed: bool,
}

impl Run {
    fn batch(&mut self, work: Work, size: usize) -> Outcome<Batch> {
        self.next += 1;
        let number = self.next;
        let path = |text: String| TreePath::parse(&text);
        let body = self.texts.next(size);
        let attrs = SetAttrs::new().searchable(self.indexed);
        Ok(Batch::new([match work {
            Work::New => {
                let at = path(format!("/new/{}/file-{number}", self.account))?;
                Op::write(at, body).with_parents().with_attrs(attrs)
            }
            Work::Over => {
                let at = path(format!("/dirs/d{}/file", number % 256))?;
                Op::write(at, body).with_parents().with_attrs(attrs)
            }
            Work::Append => Op::append(path(format!("/logs/log-{}", number % 256))?, body).with_parents(),
            Work::Log => Op::append(path("/one/log".to_owned())?, body).with_parents(),
        }]))
    }

    async fn group(&mut self, conn: &Connection, (work, size, count): (Work, usize, usize)) -> Outcome<()> {
        let batches = (0..count).map(|_| self.batch(work, size)).collect::<Outcome<Vec<_>>>()?;
        for result in commit::commit(conn, self.account, &batches).await? {
            result?;
        }
        Ok(())
    }
}

async fn number(conn: &Connection, sql: &'static str) -> Outcome<i64> {
    let mut pipe = Pipe::new(conn);
    let place = pipe.query(sql, Vec::new());
    Ok(pipe.run().await?[place][0].get(0))
}

async fn execute(conn: &Connection, sql: &str) -> Outcome<()> {
    let mut pipe = Pipe::new(conn);
    pipe.simple(sql);
    pipe.run().await?;
    Ok(())
}

/// Measures groups of every kind through a connection, for about `time` each.
async fn groups(
    run: &mut Run,
    name: &str,
    conn: &Connection,
    proxy: Option<&Proxy>,
    time: Duration,
) -> Outcome<()> {
    let env = Env::system();
    println!("{name}: work, group: trips (of the proxy), statements, ms a group, commits/s");
    for work in [Work::New, Work::Over, Work::Append, Work::Log] {
        for count in [1, 32] {
            let kind = (work, 200, count);
            // Once before, so that directories and files exist.
            for _ in 0..(256 / count).min(8) {
                run.group(conn, kind).await?;
            }
            let trips = || (conn.trips(), proxy.map_or(0, Proxy::trips), conn.statements());
            let (before, begin) = (trips(), env.instant());
            let mut groups = 0;
            while begin.elapsed() < time {
                run.group(conn, kind).await?;
                groups += 1;
            }
            let (after, elapsed) = (trips(), begin.elapsed().as_secs_f64());
            let each = |sum: u64| sum as f64 / f64::from(groups);
            println!(
                "  {work:?} {count:2}: {:.2} ({:.2}) trips, {:.1} statements, {:6.2} ms, {:7.0}/s",
                each(after.0 - before.0),
                each(after.1 - before.1),
                each(after.2 - before.2),
                elapsed * 1000.0 / f64::from(groups),
                f64::from(groups) * count as f64 / elapsed,
            );
        }
    }
    Ok(())
}

/// Measures the WAL of puts of 2 KiB.
async fn wal(run: &mut Run, conn: &Connection, admin: &Connection) -> Outcome<()> {
    const LSN: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
    const IMAGES: &str = "SELECT wal_fpi::bigint FROM pg_stat_wal";
    println!("WAL of a put of 2 KiB after a checkpoint: bytes a put for each quarter, page images a put");
    for work in [Work::New, Work::Over] {
        for count in [1, 32] {
            for indexed in [false, true] {
                run.indexed = indexed;
                execute(admin, "CHECKPOINT").await?;
                let (mut at, images, mut quarters) =
                    (number(admin, LSN).await?, number(admin, IMAGES).await?, Vec::new());
                let groups = 4096 / count / 4;
                for _ in 0..4 {
                    for _ in 0..groups {
                        run.group(conn, (work, 2048, count)).await?;
                    }
                    let now = number(admin, LSN).await?;
                    quarters.push((now - at) / (groups * count) as i64);
                    at = now;
                }
                let images = (number(admin, IMAGES).await? - images) as f64 / 4096.0;
                println!("  {work:?} {count:2} indexed {indexed:5}: {quarters:?}, {images:.2}");
            }
        }
    }
    Ok(())
}

/// Prints the disk space of tables, in bytes a row.
async fn space(conn: &Connection) -> Outcome<()> {
    execute(conn, "VACUUM ANALYZE").await?;
    let mut pipe = Pipe::new(conn);
    let place = pipe.query(
        "SELECT c.relname::text, c.reltuples::bigint, pg_relation_size(c.oid), pg_indexes_size(c.oid),
             coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0)::bigint
         FROM pg_class c WHERE c.relnamespace = 'garth'::regnamespace AND c.relkind = 'r' AND c.reltuples > 100
         ORDER BY pg_total_relation_size(c.oid) DESC",
        Vec::new(),
    );
    println!("table: rows; bytes a row of heap, indexes, TOAST");
    for row in &pipe.run().await?[place] {
        let (table, rows): (String, i64) = (row.get(0), row.get(1));
        let each = |at: usize| row.get::<_, i64>(at) / rows.max(1);
        println!("  {table}: {rows}; {} {} {}", each(2), each(3), each(4));
    }
    Ok(())
}

/// Keeps checkpoints out of the measurement.
async fn rarely_check_point(admin: &Connection) -> Outcome<()> {
    // Each in a message of its own: none of them may be in a transaction.
    execute(admin, "ALTER SYSTEM SET max_wal_size = '8GB'").await?;
    execute(admin, "ALTER SYSTEM SET checkpoint_timeout = '60min'").await?;
    execute(admin, "SELECT pg_reload_conf()").await
}

async fn measure() -> Outcome<()> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3);
    let time = Duration::from_secs(seconds);
    let cluster = Cluster::on_disk()?;
    let local: Config = cluster.socket_url().parse()?;
    let conn = Connection::connect(&local, false).await?;
    let prepared = Connection::connect(&local, true).await?;
    // The superuser of the cluster.
    let admin = Connection::connect(local.clone().user("garth_admin"), false).await?;
    rarely_check_point(&admin).await?;
    schema::create(&conn, &Env::system()).await?;
    let account = schema::create_account(&conn, "measured", 1).await?;
    // Neighbours, so that the account leads each index to a part of it.
    schema::create_account(&conn, "other", 1).await?;
    let mut run = Run { account, texts: Texts::read()?, next: 0, indexed: true };
    // Statistics, so that the planner of the database does not take the tables for empty.
    for work in [Work::New, Work::Over, Work::Append, Work::Log] {
        for _ in 0..16 {
            run.group(&conn, (work, 200, 64)).await?;
        }
    }
    execute(&admin, "VACUUM ANALYZE").await?;
    wal(&mut run, &conn, &admin).await?;
    space(&admin).await?;
    groups(&mut run, "socket, unnamed statements", &conn, None, time).await?;
    groups(&mut run, "socket, prepared statements", &prepared, None, time).await?;
    let proxy = Proxy::to(cluster.address())?;
    let through: Config = cluster.tcp_url_through(proxy.address()).parse()?;
    for delay in [0, 1000] {
        proxy.delay(Duration::from_micros(delay));
        let conn = Connection::connect(&through, false).await?;
        let name = format!("proxy with {} us a trip, unnamed statements", 2 * delay);
        groups(&mut run, &name, &conn, Some(&proxy), time).await?;
    }
    Ok(())
}

fn main() -> Outcome<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(measure())
}
