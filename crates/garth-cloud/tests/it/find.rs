//! Nodes by their keys, against the answers of the SQLite engine.

use garth_cloud::commit::commit_keyed;
use garth_cloud::indexing::make_ready;
use garth_cloud::query_keys::{FindScope, find};
use garth_engine::engine::relational::confinement::Reach;
use garth_engine::model::{
    Batch, Confinement, FindAnswer, FindQuery, Gate, Op, Owner, Projection, Seq, SetAttrs, Within,
};
use garth_engine::rule::Registry;
use garth_engine::rule::sample::{FIRST_WORD, STATUS, WORDS, registry};
use garth_engine::{ErrorKind, FileSystem, Name, Result};
use garth_testkit::subject::Subject;
use garth_testkit::tools::in_memory;

use super::database::{Database, at, write};

/// Finds in everything that an account has.
async fn found(database: &Database, account: i64, reach: &Reach, query: &FindQuery) -> Result<FindAnswer> {
    let registry = registry();
    let scope = FindScope { account, reach, registry: &registry, is_past: false };
    find(&database.conn, scope, query).await
}

/// Returns queries of every kind.
fn queries() -> Vec<FindQuery> {
    let mut queries = vec![
        FindQuery::tag("all"),
        FindQuery::tag("x"),
        FindQuery::tag("nothing"),
        FindQuery::tag(&"k".repeat(3000)),
        FindQuery::metadata("due", "y"),
        FindQuery::metadata_from("due", ""),
        FindQuery::metadata_from("due", "x"),
        FindQuery::new(FIRST_WORD),
        FindQuery::new(FIRST_WORD).lines_from(2),
        FindQuery::new(FIRST_WORD).equal("seven"),
        FindQuery::new(FIRST_WORD).from("o").to("u"),
        FindQuery::ends(FIRST_WORD),
        FindQuery::new(WORDS),
        FindQuery::new(STATUS),
    ];
    let within = |query: FindQuery| query.within(at("/a")).within(at("/nodes/n")).within(at("/kv/log"));
    queries.extend(queries.clone().into_iter().map(within));
    let of_file = |query: FindQuery| query.within_any([at("/kv/log"), at("/missing")]);
    queries.extend([FindQuery::ends(FIRST_WORD), FindQuery::new(FIRST_WORD).equal("five")].map(of_file));
    queries
}

/// Compares all pages of queries of every kind with those of a filesystem that had the same batches.
pub(crate) async fn assert_equal_answers(database: &Database, account: i64, fs: &dyn FileSystem) {
    let everything = Reach::everything();
    for query in queries() {
        for limit in [1, 3, 1000] {
            let (mut one, mut other) = (query.clone().limit(limit), query.clone().limit(limit));
            loop {
                let here = found(database, account, &everything, &one).await.unwrap();
                let there = fs.find(&other).await.unwrap();
                assert_eq!(here.items, there.items, "{one:?}");
                assert_eq!(here.next.is_some(), there.next.is_some(), "{one:?}");
                if here.next.is_none() {
                    break;
                }
                (one, other) = (one.after(here.next), other.after(there.next));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_with_many_names_is_found_by_all_of_them() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let attrs = SetAttrs::new().tags(["all"]);
    let mut batches = vec![Batch::new([Op::write(at("/n/000"), "x").with_parents().with_attrs(attrs)])];
    batches.push(Batch::new((1..150).map(|number| Op::link(at("/n/000"), at(&format!("/n/{number:03}"))))));
    for result in database.commit(account, &batches).await {
        result.unwrap();
    }
    let everything = Reach::everything();
    let (mut query, mut paths) = (FindQuery::tag("all").limit(40), Vec::new());
    loop {
        let scope = FindScope { account, reach: &everything, registry: &Registry::empty(), is_past: false };
        let answer = find(&database.conn, scope, &query).await.unwrap();
        assert!(answer.items.len() <= 40);
        paths.extend(answer.items.into_iter().map(|item| item.path.as_str().to_owned()));
        let Some(next) = answer.next else { break };
        query = query.after(next);
    }
    assert_eq!(paths, (0..150).map(|number| format!("/n/{number:03}")).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn few_files_are_found_among_many() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let tagged = |number: usize| {
        let attrs = SetAttrs::new().tags(["all"]);
        Op::write(at(&format!("/many/{number}")), "").with_parents().with_attrs(attrs)
    };
    let attrs = SetAttrs::new().tags(["all"]);
    let few = Op::write(at("/zoo/few"), "x").with_parents().with_attrs(attrs);
    for first in [0, 700] {
        database.commit(account, &[Batch::new((first..first + 700).map(tagged))]).await.remove(0).unwrap();
    }
    database.commit(account, &[Batch::new([few])]).await.remove(0).unwrap();
    let reach = Reach::account(Within::new([at("/zoo")]));
    let scope = FindScope { account, reach: &reach, registry: &Registry::empty(), is_past: false };
    let answer = find(&database.conn, scope, &FindQuery::tag("all")).await.unwrap();
    assert_eq!(answer.items.iter().map(|item| item.path.as_str()).collect::<Vec<_>>(), ["/zoo/few"]);
    assert_eq!(answer.next, None);
    let everything = FindScope { reach: &Reach::everything(), ..scope };
    let answer = find(&database.conn, everything, &FindQuery::tag("all").limit(10)).await.unwrap();
    assert_eq!((answer.items.len(), answer.next.is_some()), (10, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn gates_hide_keys_of_closed_entries() {
    let database = Database::new().await;
    let account = database.account("her").await;
    make_ready(&database.conn, account, &registry()).await.unwrap();
    let sqlite = Subject::sqlite(&in_memory());
    let mut batches = Vec::new();
    for (entry, status) in [("open", Some("ACTIVE")), ("closed", Some("OLD")), ("unknown", None)] {
        let attrs = SetAttrs::new().tags(["all"]);
        let file = Op::write(at(&format!("/nodes/{entry}/file")), "x").with_parents().with_attrs(attrs);
        let status = status.map(|status| Op::write(at(&format!("/nodes/{entry}/.status")), status));
        batches.push(Batch::new([file].into_iter().chain(status)));
    }
    for batch in &batches {
        sqlite.fs.commit(batch.clone()).await.unwrap();
    }
    for result in commit_keyed(&database.conn, account, &registry(), &batches).await.unwrap() {
        result.unwrap();
    }
    let (dir, file) = (at("/nodes"), Name::parse(".status").unwrap());
    let gate = Gate { dir, file, projection: STATUS, keys: vec!["ACTIVE".to_owned()], since: Seq(0) };
    let mut confinement = Confinement::new(Within::everything(), Owner::new("guest").unwrap());
    confinement.gates.push(gate);
    let reach = Reach::everything().confined(&confinement).unwrap();
    let handle = sqlite.fs.confined(&confinement).await.unwrap();
    for query in [FindQuery::tag("all"), FindQuery::new(STATUS)] {
        let here = found(&database, account, &reach, &query).await.unwrap();
        assert_eq!(here.items, handle.find(&query).await.unwrap().items);
        assert_eq!(here.items.len(), 1, "{here:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_queries_have_the_errors_of_the_engine() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let everything = Reach::everything();
    let query = FindQuery::tag("all");
    // Before the keys of the registry are derived.
    let error = found(&database, account, &everything, &query).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
    make_ready(&database.conn, account, &registry()).await.unwrap();
    found(&database, account, &everything, &query).await.unwrap();
    for (query, kind) in [
        (query.clone().limit(0), ErrorKind::InvalidArgument),
        (query.clone().limit(1_000_000), ErrorKind::InvalidArgument),
        (FindQuery::new(Projection::new(77)), ErrorKind::Unsupported),
    ] {
        let error = found(&database, account, &everything, &query).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    let (registry, is_past) = (registry(), true);
    let scope = FindScope { account, reach: &everything, registry: &registry, is_past };
    let error = find(&database.conn, scope, &query).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let error = found(&database, 4711, &everything, &query).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    // The connection has no open transaction left.
    let batch = [write("/a", "x")];
    commit_keyed(&database.conn, account, &registry, &batch).await.unwrap().remove(0).unwrap();
}
