//! A search beside other accounts in the same tables.

use std::time::Duration;

use garth_cloud::client::Connection;
use garth_cloud::search::merge::{Step, step};
use garth_engine::model::{Batch, Op, SearchMode, SearchQuery};
use garth_engine::{Env, FileSystem, TreePath};
use tokio_postgres::Config;

use crate::table::{Table, median, ratio, time};
use crate::texts::Texts;
use crate::{Outcome, Server, execute};

/// Passages of a text of this many bytes, about.
const TEXT: usize = 6_000;
const PASSAGES_OF_TEXT: usize = 10;
/// Tables that a search reads, and that the other accounts get rows in.
const TABLES: [&str; 5] = ["head", "name", "node", "passage", "posting"];
/// Number of the first other account.
const FIRST: i64 = 1_000_000;

/// Measures searches in an account of `passages` passages, alone and beside as many others like it.
pub(crate) async fn measure(server: &Server, passages: usize, accounts: i64, calls: usize) -> Outcome<()> {
    let fs = server.account("searched").await?;
    let mut texts = Texts::read()?;
    for number in 0..passages.div_ceil(PASSAGES_OF_TEXT) {
        let path = TreePath::parse(&format!("/d{}/f{number}.md", number % 16))?;
        fs.commit(Batch::new([Op::write(path, texts.next(TEXT)).with_parents()])).await?;
    }
    merge(server).await?;
    let alone = searches(server, &*fs, calls).await?;
    copy(server, accounts).await?;
    let beside = searches(server, &*fs, calls).await?;
    let count = format!("SELECT count(*) FROM garth.passage WHERE account = {}", server.number("searched")?);
    let count = server.cluster.psql(&server.cluster.admin_url(), &count)?;
    let mut table = Table::new(&["search", "alone", &format!("beside {accounts} others"), "beside / alone"]);
    for (query, (alone, beside)) in queries().into_iter().zip(alone.into_iter().zip(beside)) {
        table.row(&[query.text.clone(), time(alone), time(beside), ratio(beside, alone)]);
    }
    println!("Medians of {calls} searches in an account of {count} passages:\n\n{table}");
    Ok(())
}

fn queries() -> [SearchQuery; 3] {
    [
        SearchQuery::new("commit transaction").mode(SearchMode::Words),
        SearchQuery::new("retention of the past").mode(SearchMode::Words),
        SearchQuery::new("how is a lost connection noticed?"),
    ]
}

/// Merges the index of the account, as servers do after a while.
async fn merge(server: &Server) -> Outcome<()> {
    let config: Config = server.cluster.socket_url().parse()?;
    let (conn, account) = (Connection::connect(&config, false).await?, server.number("searched")?);
    while step(&conn, account, b"measurement").await? == Step::Merged {}
    Ok(())
}

/// Returns the median time of each query.
async fn searches(server: &Server, fs: &dyn FileSystem, calls: usize) -> Outcome<Vec<Duration>> {
    execute(&server.admin, "VACUUM ANALYZE").await?;
    let (env, mut medians) = (Env::system(), Vec::new());
    for query in queries() {
        let mut times = Vec::new();
        for _ in 0..calls {
            let begun = env.instant();
            fs.search(&query).await?;
            times.push(begun.elapsed());
        }
        medians.push(median(times));
    }
    Ok(medians)
}

/// Gives other accounts the rows of the measured one that a search reads.
async fn copy(server: &Server, accounts: i64) -> Outcome<()> {
    let (account, url) = (server.number("searched")?, server.cluster.admin_url());
    for table in TABLES {
        let columns = format!(
            "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
             WHERE attrelid = 'garth.{table}'::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'account'"
        );
        let columns = server.cluster.psql(&url, &columns)?;
        // In pieces, so that a server with little memory sorts none of them on disk.
        for first in (0..accounts).step_by(50) {
            let until = (first + 50).min(accounts) - 1;
            let sql = format!(
                "INSERT INTO garth.{table} (account, {columns})
                 SELECT n, {columns} FROM garth.{table}, generate_series({FIRST}::bigint + {first}, {FIRST} + {until}) n
                 WHERE account = {account}"
            );
            execute(&server.admin, &sql).await?;
        }
    }
    Ok(())
}
