//! Statements that are sent together: a transaction is committed completely or not at all.

use std::error::Error;

use bytes::BytesMut;
use garth_cloud::client::{Connection, Pipe, param};
use garth_engine::ErrorKind;
use garth_engine::model::{Batch, Op};
use garth_testkit::postgres::Cluster;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::database::{Database, append, at, connect, write};

/// Value that no message takes, such as one that is too long.
#[derive(Debug)]
struct Unsendable;

impl ToSql for Unsendable {
    fn to_sql(&self, _: &Type, _: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        Err("it is too long".into())
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

async fn exists(conn: &Connection, table: &'static str) -> bool {
    let mut pipe = Pipe::new(conn);
    let found = pipe.query("SELECT to_regclass($1) IS NOT NULL", vec![param(table, Type::TEXT)]);
    pipe.run().await.unwrap()[found][0].get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn unsendable_statement_commits_nothing() {
    let cluster = Cluster::in_memory().unwrap();
    let conn = connect(&cluster.tcp_url()).await;
    let mut pipe = Pipe::new(&conn);
    pipe.simple("BEGIN; CREATE TABLE half (n int)");
    pipe.query("SELECT $1::bigint", vec![param(Unsendable, Type::INT8)]);
    pipe.simple("COMMIT");
    let error = pipe.run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    let mut pipe = Pipe::new(&conn);
    pipe.simple("ROLLBACK");
    pipe.run().await.unwrap();
    assert!(!exists(&conn, "half").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_are_synced_whatever_the_role_says() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let seen = "CREATE TABLE public.seen (setting text);
        CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO public.seen SELECT current_setting('synchronous_commit'); RETURN NEW; END $$;
        CREATE TRIGGER see BEFORE UPDATE ON garth.head FOR EACH ROW EXECUTE FUNCTION public.see()";
    let owned = format!("GRANT CREATE ON SCHEMA public TO garth; SET ROLE garth; {seen}");
    database.cluster.psql(&database.cluster.admin_url(), &owned).unwrap();
    for (set, due) in [("off", "on"), ("local", "local"), ("on", "on")] {
        let alter = format!("ALTER ROLE garth SET synchronous_commit = {set}");
        database.cluster.psql(&database.cluster.admin_url(), &alter).unwrap();
        let conn = connect(&database.cluster.socket_url()).await;
        let batch = [write("/a", set)];
        garth_cloud::commit::commit(&conn, account, &batch).await.unwrap().remove(0).unwrap();
        let found = database.rows(account, "SELECT DISTINCT setting FROM public.seen");
        assert_eq!(found, due, "{set}");
        database.rows(account, "DELETE FROM public.seen");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_see_those_they_waited_for_whatever_the_role_says() {
    let database = Database::new().await;
    let account = database.account("her").await;
    for set in ["default_transaction_isolation = 'serializable'", "default_transaction_read_only = on"] {
        let alter = format!("ALTER ROLE garth SET {set}");
        database.cluster.psql(&database.cluster.admin_url(), &alter).unwrap();
        let url = database.cluster.socket_url();
        let connections = futures::future::join_all((0..4).map(|_| connect(&url))).await;
        let batch = [append("/log", "x")];
        let commits = connections.iter().map(|conn| garth_cloud::commit::commit(conn, account, &batch));
        for commit in futures::future::join_all(commits).await {
            commit.unwrap().remove(0).unwrap();
        }
    }
    let seq = "SELECT seq FROM garth.head";
    let found = database.cluster.psql(&database.cluster.admin_url(), seq).unwrap();
    assert_eq!(found, "8");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_group_takes_several_transactions() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let body = bytes::Bytes::from(vec![7; 15 << 20]);
    let group: Vec<Batch> =
        (0..6).map(|number| Batch::new([Op::write(at(&format!("/f{number}")), body.clone())])).collect();
    for result in database.commit(account, &group).await {
        result.unwrap();
    }
    // The last commit of each transaction has the id of the transaction.
    let ids = "SELECT count(*), count(token) FROM garth.log";
    assert_eq!(database.rows(account, ids), "6|2");
}
