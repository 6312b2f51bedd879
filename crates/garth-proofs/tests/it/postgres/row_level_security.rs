//! Row-level security alone, without the conditions of the engine's statements: the role of the servers sees
//! and changes the rows of one account only.

use std::collections::BTreeMap;
use std::time::Duration;

use garth_engine::model::quota::Limits;
use garth_engine::model::{Batch, CommitId, Idempotency, Op, Remove, SetAttrs};
use garth_engine::rule::retention::Retention;
use garth_engine::rule::{Constraint, PathPattern, Policy, Rule, sample};
use garth_engine::{AccountStore, Env, Home as _};
use garth_proofs::postgres::Database;
use garth_testkit::tools::{at, link, p, remove, rename, write, write_with};

/// Fills the tables of an account.
async fn fill(fs: &dyn AccountStore, word: &str) {
    let tagged = SetAttrs::new().tags([word]).xattr("user.word", word);
    let later = fs.head().await.unwrap().time.plus_seconds(4_000_000_000);
    let long: String = std::iter::repeat_n(format!("{word} garden river\n"), 500).collect();
    fs.commit(
        Batch::new([
            write_with(&format!("/{word}/note.md"), format!("{word} garden\n"), tagged).with_parents(),
            write("/b", long.clone()),
            write("/c", long),
            write_with("/end", word.to_owned(), SetAttrs::new().expires_at(later)),
            Op::symlink(at("/link"), word),
            Op::snapshot(word),
        ])
        .message(word)
        .id(CommitId(7)),
    )
    .await
    .unwrap();
    let record = Idempotency::new(word, [1; 32], later);
    fs.commit(Batch::new([write("/b", word.to_owned()), link("/c", "/d")]).idempotency(record))
        .await
        .unwrap();
    fs.commit(Batch::new([rename("/b", "/e"), remove("/d", Remove::File)])).await.unwrap();
    fs.set_quota(&p("/"), Limits { bytes: Some(1 << 40), ..Limits::default() }).await.unwrap();
    let pattern = PathPattern::parse("/secrets/**").unwrap();
    fs.set_rule(Rule::new(pattern, Constraint::Secrets(Policy::Allow)), false).await.unwrap();
    let retention = Retention { age: Some(Duration::from_secs(1 << 30)), ..Retention::default() };
    fs.set_retention(retention).await.unwrap();
    let mut upload = fs.stage(&at("/staged")).await.unwrap();
    upload.write(word.repeat(400_000).into()).await.unwrap();
    upload.finish().await.unwrap();
}

/// Returns the number of rows that a statement gives for each table, with `{table}` and `{name}` in it.
/// `prefix` comes before all of them.
fn counts(
    database: &Database,
    url: &str,
    tables: &[String],
    (prefix, each): (&str, &str),
) -> BTreeMap<String, u64> {
    let each: Vec<_> = tables
        .iter()
        .map(|table| each.replace("{table}", table).replace("{name}", &format!("'{table}'")))
        .collect();
    let rows = database.cluster().psql(url, &format!("{prefix}; {}", each.join("; "))).unwrap();
    rows.lines()
        .map(|row| {
            let (table, count) = row.split_once('|').unwrap();
            (table.to_owned(), count.parse().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn statements_without_an_account_reach_its_rows_alone() {
    let database = Database::start().unwrap();
    let (mine, me) = database.new_account(None, sample::registry()).await.unwrap();
    let (theirs, they) = database.new_account(None, sample::registry()).await.unwrap();
    let home = database.home(Env::system(), sample::registry()).await.unwrap();
    fill(&*home.open(&mine).await.unwrap(), "mine").await;
    fill(&*home.open(&theirs).await.unwrap(), "theirs").await;
    // Its work in the background would change what is counted.
    drop(home);
    let (admin, role) = (database.cluster().admin_url(), database.cluster().socket_url());
    let tables = "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE a.attname = 'account' AND a.atttypid = 'bigint'::regtype AND c.relkind IN ('r', 'p')
        AND c.relnamespace = 'garth'::regnamespace ORDER BY 1";
    let listed = |sql: &str| -> Vec<String> {
        database.cluster().psql(&admin, sql).unwrap().lines().map(str::to_owned).collect()
    };
    let tables = listed(tables);
    // Tables that no account sees.
    let of_server = listed(
        "SELECT tablename FROM pg_policies WHERE schemaname = 'garth' AND policyname = 'own' AND qual LIKE '%me() = 0%'",
    );
    assert!(of_server.iter().any(|table| table == "access_key") && of_server.len() < 10, "{of_server:?}");

    let of = |account: i64| {
        let each = format!("SELECT {{name}}, count(*) FROM garth.{{table}} WHERE account = {account}");
        counts(&database, &admin, &tables, ("SELECT 1 WHERE false", &each))
    };
    let (mut due, others) = (of(me), of(they));
    due.iter_mut().filter(|(table, _)| of_server.contains(table)).for_each(|(_, count)| *count = 0);
    // Otherwise there would be nothing to see.
    assert!(others.values().filter(|count| **count > 0).count() > 15, "{others:?}");

    let set = format!("SET garth.account = '{me}'");
    let seen = |prefix: &str, each: &str| counts(&database, &role, &tables, (prefix, each));
    assert_eq!(seen(&set, "SELECT {name}, count(*) FROM garth.{table}"), due);
    let unset = seen("SELECT 1 WHERE false", "SELECT {name}, count(*) FROM garth.{table}");
    assert!(unset.values().all(|count| *count == 0), "{unset:?}");

    let updated = "WITH u AS (UPDATE garth.{table} SET account = account RETURNING 1)
        SELECT {name}, count(*) FROM u";
    // Columns that are generated cannot be set.
    let updatable: Vec<_> = tables.iter().filter(|table| !of_server.contains(table)).cloned().collect();
    let changed = counts(&database, &role, &updatable, (&set, updated));
    assert!(changed.iter().all(|(table, count)| due[table] == *count), "{changed:?}");
    let moved = format!("{set}; UPDATE garth.name SET account = {they}");
    let error = database.cluster().psql(&role, &moved).unwrap_err();
    assert!(error.contains("row-level security"), "{error}");

    seen(&set, "WITH d AS (DELETE FROM garth.{table} RETURNING 1) SELECT {name}, count(*) FROM d");
    assert_eq!(of(they), others);
    let left = of(me);
    assert!(left.iter().all(|(table, count)| *count == 0 || of_server.contains(table)), "{left:?}");
}
