//! Rules of an account: set on one server, obeyed by the next commit of every other.

use std::sync::Arc;

use garth_cloud::store::PgStore;
use garth_engine::fs::store::MAX_VIOLATIONS;
use garth_engine::fs::violation_search::look;
use garth_engine::model::{At, Batch, Op, SearchQuery, SetAttrs};
use garth_engine::rule::{Constraint, PathPattern, Rule, sample};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, FileSystemExt as _};

use super::database::{Database, append, at, write};

/// Starts a database and opens an account of it on two servers.
async fn two_servers() -> (Database, i64, [Arc<PgStore>; 2]) {
    let database = Database::new().await;
    let account = database.account("her").await;
    let (socket, tcp) = (database.cluster.socket_url(), database.cluster.tcp_url());
    let stores = [database.store(account, &socket).await, database.store(account, &tcp).await];
    (database, account, stores)
}

fn rule(pattern: &str, constraint: &str, terms: &str) -> Rule {
    Rule::new(PathPattern::parse(pattern).unwrap(), Constraint::parse(constraint, terms).unwrap())
}

fn small(pattern: &str) -> Rule {
    rule(pattern, "max-size", r#"{"bytes":4}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn other_servers_obey_rules_at_once() {
    let (_database, _, [one, other]) = two_servers().await;
    // The other server has committed before, and knows the rules of then.
    other.commit(write("/a/f", "long enough")).await.unwrap();
    assert_eq!(one.rules().await.unwrap(), []);
    assert!(one.set_rule(small("/b/**"), false).await.unwrap().set);
    let refused = other.commit(write("/b/f", "long enough")).await.unwrap_err();
    assert_eq!((refused.kind(), refused.path()), (ErrorKind::RuleViolation, Some(&at("/b/f"))));
    let moved = other.commit(Op::rename(at("/a"), at("/b")).into()).await.unwrap_err();
    assert_eq!(moved.kind(), ErrorKind::RuleViolation, "{moved}");
    other.commit(write("/b/f", "tiny")).await.unwrap();
    let known: Vec<_> = other.rules().await.unwrap().iter().map(|rule| rule.pattern().clone()).collect();
    assert_eq!(known, [PathPattern::parse("/b/**").unwrap()]);
    let pattern = PathPattern::parse("/b/**").unwrap();
    assert!(other.remove_rule(&pattern, "max-size").await.unwrap());
    assert!(!other.remove_rule(&pattern, "max-size").await.unwrap());
    one.commit(write("/b/f", "long enough")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_of_existing_violations_needs_force() {
    let (_database, _, [one, other]) = two_servers().await;
    other.commit(Batch::new([Op::mkdir(at("/d"))])).await.unwrap();
    for number in 0..3 {
        other.commit(write(&format!("/d/f{number}"), "long enough")).await.unwrap();
    }
    let found = one.set_rule(small("/d/*"), false).await.unwrap();
    let paths: Vec<_> = found.violations.iter().map(|violation| violation.path.clone()).collect();
    assert_eq!((found.set, paths), (false, vec![at("/d/f0"), at("/d/f1"), at("/d/f2")]));
    other.commit(append("/d/f0", "!")).await.unwrap();
    let forced = one.set_rule(small("/d/*"), true).await.unwrap();
    assert_eq!((forced.set, forced.violations.len()), (true, 3));
    let refused = other.commit(append("/d/f0", "!")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::RuleViolation, "{refused}");
    // What changes no content is not judged, and an administrator is not either.
    other.commit(Op::set_attrs(at("/d/f0"), SetAttrs::new().mode(0o600)).into()).await.unwrap();
    let overriding = other.overriding_rules();
    let seq = overriding.commit(append("/d/f0", "!")).await.unwrap().seq;
    let page = one.history(&At::Path(at("/d/f0")), &Default::default()).await.unwrap();
    let marked: Vec<_> = page.items.iter().map(|version| version.commit.overrides_rules).collect();
    assert_eq!((page.items[0].commit.seq, marked), (seq, vec![true, false, false, false]));
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_rules_are_refused() {
    let database = Database::new().await;
    let account = database.account("her").await;
    let pool = garth_cloud::client::Pool::connect(&database.cluster.tcp_url(), 2).await.unwrap();
    let fs = PgStore::new(pool, account, Env::system(), sample::registry());
    fs.commit(write("/notes/a", "text")).await.unwrap();
    for force in [false, true] {
        let error = fs.set_rule(small("/notes"), force).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().contains("write /notes/**"), "{error}");
    }
    let built_in = PathPattern::parse("/skills/**").unwrap();
    let error = fs.remove_rule(&built_in, "not-in-sessions").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    let registered = fs.rules().await.unwrap();
    assert!(registered.len() > 3 && registered.iter().all(Rule::is_built_in));
    let refused = fs.commit(write("/agents/one/kv/a", "no JSON")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::RuleViolation, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_are_judged_from_where_the_check_ended() {
    let (database, account, [one, other]) = two_servers().await;
    other.commit(write("/log", "1\n".repeat(1 << 19))).await.unwrap();
    let lines = rule("/log", "json-lines", r#"{"schema":{"type":"number"}}"#);
    assert!(one.set_rule(lines.clone(), false).await.unwrap().set);
    let places = "SELECT until, lines FROM garth.judged";
    assert_eq!(database.rows(account, places), "1048576|524289");
    other.commit(append("/log", "2\n")).await.unwrap();
    assert_eq!(database.rows(account, places), "1048578|524290");
    let refused = other.commit(append("/log", "\"text\"\n")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::RuleViolation, "{refused}");
    // A second rule has the constraint, so its records stay until that is removed as well.
    let twin = rule("/other", "json-lines", r#"{"schema":{"type":"number"}}"#);
    assert!(one.set_rule(twin.clone(), false).await.unwrap().set);
    assert!(one.remove_rule(twin.pattern(), "json-lines").await.unwrap());
    assert_eq!(database.rows(account, places), "1048578|524290");
    assert!(one.remove_rule(lines.pattern(), "json-lines").await.unwrap());
    assert_eq!(database.rows(account, places), "");
    other.commit(append("/log", "\"text\"\n")).await.unwrap();
    let found = one.set_rule(lines, false).await.unwrap();
    assert_eq!((found.set, found.violations.len()), (false, 1));
    other.commit(Op::remove(at("/log")).into()).await.unwrap();
    assert_eq!(database.rows(account, places), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_that_is_set_holds_despite_racing_commits() {
    let (_database, _, [one, other]) = two_servers().await;
    let (mut set, mut refused) = (0, 0);
    for round in 0..12 {
        let dir = format!("/d{round}");
        for number in 0..20 {
            other.commit(write(&format!("{dir}/f{number}"), "tiny")).await.unwrap();
        }
        let writer = tokio::spawn({
            let (other, dir) = (Arc::clone(&other), dir.clone());
            async move {
                let mut refused = 0;
                for number in 0..20 {
                    // In the later rounds, a violation comes late or not at all.
                    let text = if number == round * 2 { "long enough" } else { "ok" };
                    let written = other.commit(write(&format!("{dir}/f{number}"), text)).await;
                    match written {
                        Ok(_) => {}
                        Err(error) if error.is(ErrorKind::RuleViolation) => refused += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
                refused
            }
        });
        let rule = small(&format!("{dir}/**"));
        let answer = one.set_rule(rule.clone(), false).await.unwrap();
        refused += writer.await.unwrap();
        let found = look(&*one, &rule, MAX_VIOLATIONS).await.unwrap();
        let is_in_force = one.rules().await.unwrap().contains(&rule);
        assert_eq!(is_in_force, answer.set, "round {round}");
        assert!(found.violations.is_empty() || !answer.set, "round {round}: {found:?}");
        assert!(answer.set || !answer.violations.is_empty(), "round {round}");
        set += u64::from(answer.set);
    }
    // The last rounds have no violation, so at least these set the rule.
    assert!(set >= 2, "{set} set, {refused} refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_changes_do_not_hold_up_a_rule() {
    let (database, account, [one, other]) = two_servers().await;
    let files: Vec<Batch> = (0..150).map(|number| write(&format!("/d/f{number}"), "tiny")).collect();
    database.commit(account, &files).await.into_iter().for_each(|result| drop(result.unwrap()));
    let writer = tokio::spawn({
        let other = Arc::clone(&other);
        async move {
            for number in 0..300 {
                other.commit(append("/d/log", format!("{number}\n"))).await.unwrap();
            }
        }
    });
    let lines = rule("/d/log", "json-lines", r#"{"schema":{"type":"number"}}"#);
    assert!(one.set_rule(lines, false).await.unwrap().set);
    assert!(one.set_rule(rule("/d/f*", "max-size", r#"{"bytes":9}"#), false).await.unwrap().set);
    writer.await.unwrap();
    assert_eq!(one.read_to_string("/d/log").await.unwrap().lines().count(), 300);
    assert_eq!(one.fsck().await.unwrap().findings, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn search_obeys_rules_of_other_servers() {
    let (_database, _, [one, other]) = two_servers().await;
    other.commit(write("/secret/a.md", "a harbour at night")).await.unwrap();
    other.commit(write("/open/a.md", "a harbour at noon")).await.unwrap();
    let found = async || {
        let answer = other.search(&SearchQuery::new("harbour")).await.unwrap();
        let mut paths: Vec<_> = answer.hits.into_iter().map(|hit| hit.path).collect();
        paths.sort();
        paths
    };
    assert_eq!(found().await, [at("/open/a.md"), at("/secret/a.md")]);
    let hidden = rule("/secret/**", "not-searchable", "{}");
    assert!(one.set_rule(hidden.clone(), false).await.unwrap().set);
    assert_eq!(found().await, [at("/open/a.md")]);
    assert!(one.remove_rule(hidden.pattern(), "not-searchable").await.unwrap());
    assert_eq!(found().await, [at("/open/a.md"), at("/secret/a.md")]);
}
