//! A database with the tables of the engine, on a server of its own.

use std::sync::Arc;
use std::time::Duration;

use garth_cloud::client::{Connection, Pool};
use garth_cloud::store::PgStore;
use garth_cloud::{commit, schema};
use garth_engine::model::{Batch, Commit, Op};
use garth_engine::rule::Registry;
use garth_engine::{Env, Result, TreePath};
use garth_testkit::postgres::Cluster;
use tokio_postgres::Config;

/// Database, with a connection to it.
pub(crate) struct Database {
    pub(crate) cluster: Cluster,
    pub(crate) conn: Connection,
}

impl Database {
    /// Starts a server and creates the tables.
    pub(crate) async fn new() -> Self {
        let cluster = Cluster::in_memory().unwrap();
        let conn = connect(&cluster.socket_url()).await;
        schema::create(&conn, &Env::system()).await.unwrap();
        Self { cluster, conn }
    }

    /// Creates an account with an empty tree and returns its number.
    pub(crate) async fn account(&self, id: &str) -> i64 {
        schema::create_account(&self.conn, id, 1).await.unwrap()
    }

    /// Commits a group. Its transaction has to succeed.
    pub(crate) async fn commit(&self, account: i64, batches: &[Batch]) -> Vec<Result<Commit>> {
        commit::commit(&self.conn, account, batches).await.unwrap()
    }

    /// Returns the tree of an account, on connections of its own to a URL.
    pub(crate) async fn store(&self, account: i64, url: &str) -> Arc<PgStore> {
        let pool = Pool::connect(url, 2).await.unwrap();
        PgStore::new(pool, account, Env::system(), Registry::empty())
    }

    /// Runs statements that see the rows of an account, in a session of its own, and returns their rows: a
    /// line for each, `|` between columns.
    pub(crate) fn sql(&self, account: i64, sql: &str) -> Result<String, String> {
        self.cluster.psql(&self.cluster.socket_url(), &format!("SET garth.account = '{account}'; {sql}"))
    }

    /// Returns the rows of a query as [`sql`](Self::sql) does. It has to succeed.
    pub(crate) fn rows(&self, account: i64, sql: &str) -> String {
        self.sql(account, sql).unwrap()
    }

    /// Returns the content of the file at a path, put together from its live extents.
    pub(crate) fn content(&self, account: i64, dir: &str, name: &str) -> String {
        self.rows(
            account,
            &format!(
                "SELECT string_agg(convert_from(substr(c.data, e.skip::int + 1, e.len::int), 'UTF8'), '' ORDER BY e.off)
                 FROM garth.name n
                 JOIN garth.extent e ON e.account = n.account AND e.ino = n.ino
                 JOIN garth.chunk c ON c.account = e.account AND c.id = e.chunk
                 WHERE n.dir = '{dir}' AND n.name = '{name}'"
            ),
        )
    }
}

/// Waits until rows are these: servers do some work after they have answered.
pub(crate) async fn eventually(rows: impl Fn() -> String, expected: &str) {
    for _ in 0..3000 {
        if rows() == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(rows(), expected);
}

/// Connects to a URL, with unnamed statements.
pub(crate) async fn connect(url: &str) -> Connection {
    let config: Config = url.parse().unwrap();
    Connection::connect(&config, false).await.unwrap()
}

/// Returns a batch that writes a file, with its parents.
pub(crate) fn write(path: &str, body: impl Into<String>) -> Batch {
    let body: String = body.into();
    Batch::new([Op::write(at(path), body).with_parents()])
}

/// Returns a batch that appends to a file, with its parents.
pub(crate) fn append(path: &str, body: impl Into<String>) -> Batch {
    let body: String = body.into();
    Batch::new([Op::append(at(path), body).with_parents()])
}

/// Returns a path.
pub(crate) fn at(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}
