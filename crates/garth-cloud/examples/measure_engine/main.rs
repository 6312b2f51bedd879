//! Measures the calls of the Postgres engine on a private server: beside those of SQLite, and beside the
//! statements that a program would send by hand for the same rows, with and without a delay of 2 ms for each
//! round trip. Then the log that a put writes, and a search beside other accounts. Prints medians of one run
//! as tables in Markdown; no figure fails the run. Needs the programs of PostgreSQL.
//!
//! ```sh
//! cargo run --release -p garth-cloud --example measure_engine
//! cargo run --release -p garth-cloud --example measure_engine -- --calls 20 --passages 500 --accounts 5
//! cargo run --release -p garth-cloud --example measure_engine -- --accounts 1000
//! ```
//!
//! `--calls` is the number of calls of each job (500), `--passages` that of the passages of each account in
//! the search (10,000), and `--accounts` that of the other accounts (20). With 1,000 of them the tables take
//! some 3 GB below `/var/tmp`.
#![expect(clippy::print_stdout, reason = "a measurement prints")]

mod by_hand;
mod jobs;
mod others;
mod table;
#[path = "../measure_commits/texts.rs"]
mod texts;
mod written;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use garth_cloud::client::{Connection, Pipe};
use garth_cloud::home::PgHome;
use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::rule::Registry;
use garth_engine::{Env, FileSystem, Home as _};
use garth_testkit::postgres::Cluster;
use garth_testkit::proxy::Proxy;
use garth_testkit::tools::on_disk;
use tokio_postgres::Config;

use by_hand::ByHand;
use jobs::Job;
use table::Table;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// Delay of a round trip in the columns with one.
const DELAY: Duration = Duration::from_millis(2);
/// Connections of the engine, as many as callers that put at the same time.
const CONNECTIONS: usize = 32;

/// Sizes of the run.
struct Options {
    calls: usize,
    passages: usize,
    accounts: i64,
}

impl Options {
    fn of_arguments() -> Outcome<Self> {
        let mut options = Self { calls: 500, passages: 10_000, accounts: 20 };
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        for pair in arguments.chunks(2) {
            match pair {
                [name, number] if name == "--calls" => options.calls = number.parse()?,
                [name, number] if name == "--passages" => options.passages = number.parse()?,
                [name, number] if name == "--accounts" => options.accounts = number.parse()?,
                _ => return Err(format!("{pair:?} is not `--calls`, `--passages` or `--accounts` N").into()),
            }
        }
        Ok(options)
    }
}

/// Server, with a proxy that delays.
pub(crate) struct Server {
    pub(crate) cluster: Cluster,
    pub(crate) proxy: Proxy,
    /// The superuser of the cluster.
    pub(crate) admin: Connection,
}

impl Server {
    async fn start() -> Outcome<Self> {
        let cluster = Cluster::on_disk()?;
        let admin: Config = cluster.admin_url().parse()?;
        let admin = Connection::connect(&admin, false).await?;
        // Keeps checkpoints out of the measurement. Each in a message of its own: none may be in a
        // transaction.
        for sql in [
            "ALTER SYSTEM SET max_wal_size = '8GB'",
            "ALTER SYSTEM SET checkpoint_timeout = '60min'",
            "SELECT pg_reload_conf()",
        ] {
            execute(&admin, sql).await?;
        }
        let proxy = Proxy::to(cluster.address())?;
        Ok(Self { cluster, proxy, admin })
    }

    /// Returns the URL through the proxy.
    fn url(&self) -> String {
        self.cluster.tcp_url_through(self.proxy.address())
    }

    /// Opens an account, which is created first, as a server does.
    async fn account(&self, id: &str) -> Outcome<Arc<dyn FileSystem>> {
        let home = PgHome::connect(&self.url(), CONNECTIONS, Env::system(), Registry::empty()).await?;
        home.create_account(id).await?;
        Ok(home.open(id).await?)
    }

    /// Returns the number of an account.
    pub(crate) fn number(&self, id: &str) -> Outcome<i64> {
        let sql = format!("SELECT account FROM garth.account WHERE id = '{id}'");
        Ok(self.cluster.psql(&self.cluster.admin_url(), &sql)?.parse()?)
    }
}

/// Runs statements without rows.
pub(crate) async fn execute(conn: &Connection, sql: &str) -> Outcome<()> {
    let mut pipe = Pipe::new(conn);
    pipe.simple(sql);
    pipe.run().await?;
    Ok(())
}

/// Measures every job on both engines and by hand.
async fn jobs(server: &Server, options: &Options) -> Outcome<()> {
    let folder = tempfile::tempdir_in(on_disk())?;
    let sqlite: Arc<dyn FileSystem> = SqliteFs::open(folder.path(), Env::system(), Registry::empty())?;
    let (postgres, by_hand) = (server.account("measured").await?, server.account("by-hand").await?);
    for fs in [&sqlite, &postgres, &by_hand] {
        jobs::fill(&**fs).await?;
    }
    execute(&server.admin, "VACUUM ANALYZE").await?;
    let mut by_hand = ByHand::new(server, &server.url()).await?;
    let mut table = Table::new(&[
        "call",
        "SQLite",
        "Postgres, 0 ms",
        "by hand, 0 ms",
        "Postgres / by hand",
        "Postgres, 2 ms",
        "by hand, 2 ms",
        "Postgres / by hand",
    ]);
    for job in Job::ALL {
        let mut cells = vec![job.name().to_owned()];
        server.proxy.delay(Duration::ZERO);
        cells.push(table::time(job.median(&sqlite, options.calls).await?));
        for delay in [Duration::ZERO, DELAY] {
            // Of each direction.
            server.proxy.delay(delay / 2);
            let engine = job.median(&postgres, options.calls).await?;
            let hand = by_hand.median(job, options.calls).await?;
            cells.push(table::time(engine));
            cells.push(hand.map_or_else(|| "-".to_owned(), table::time));
            cells.push(hand.map_or_else(|| "-".to_owned(), |hand| table::ratio(engine, hand)));
        }
        table.row(&cells);
    }
    server.proxy.delay(Duration::ZERO);
    println!("Medians of {} calls, one at a time unless stated:\n\n{table}", options.calls);
    written::measure(server, (&sqlite, &postgres), options.calls).await
}

async fn measure() -> Outcome<()> {
    let options = Options::of_arguments()?;
    let server = Server::start().await?;
    jobs(&server, &options).await?;
    others::measure(&server, options.passages, options.accounts, options.calls).await
}

fn main() -> Outcome<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(measure())
}
