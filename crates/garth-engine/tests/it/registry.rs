//! Registry of rules and projections with which a folder is opened.

use std::path::Path;
use std::sync::Arc;

use garth_engine::engine::sqlite::SqliteFs;
use garth_engine::model::quota::Limits;
use garth_engine::model::{FindQuery, Op, SearchQuery};
use garth_engine::rule::{Constraint, PathPattern, Registry, Rule, sample};
use garth_engine::{AccountStore, Env, ErrorKind, FileSystem, FileSystemExt, Result, TreePath};

fn open(folder: &Path, registry: Registry) -> Arc<SqliteFs> {
    SqliteFs::open(folder, Env::system(), registry).unwrap()
}

/// Writes a file, with the directories above it.
async fn write(fs: &SqliteFs, at: &str, text: &str) -> Result<()> {
    fs.commit(Op::write(path(at), text.to_owned()).with_parents().into()).await.map(drop)
}

fn path(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

async fn first_words(fs: &SqliteFs) -> Vec<String> {
    let items = fs.find(&FindQuery::new(sample::FIRST_WORD)).await.unwrap().items;
    items.into_iter().map(|item| item.key).collect()
}

fn assert_refused<T: std::fmt::Debug>(what: &str, outcome: Result<T>) {
    let error = outcome.expect_err(what);
    assert!(error.is(ErrorKind::Format) && error.message().contains("use a newer garth"), "{what}: {error}");
}

#[tokio::test]
async fn smaller_registry_opens_a_folder_read_only() {
    let folder = tempfile::tempdir().unwrap();
    let whole = open(folder.path(), sample::registry());
    write(&whole, "/kv/a", "one line\n").await.unwrap();
    let fs = open(folder.path(), Registry::empty());

    assert_eq!(fs.read_to_string("/kv/a").await.unwrap(), "one line\n");
    assert_eq!(fs.search(&SearchQuery::new("line")).await.unwrap().hits.len(), 1);
    let unknown = fs.find(&FindQuery::new(sample::FIRST_WORD)).await.unwrap_err();
    assert!(unknown.is(ErrorKind::Unsupported), "{unknown}");
    assert_eq!(fs.fsck().await.unwrap().findings, []);

    let rule = Rule::new(PathPattern::parse("/x").unwrap(), Constraint::MaxSize(1));
    assert_refused("a commit", fs.write("/b", "x").await);
    assert_refused("a rule", fs.set_rule(rule.clone(), false).await);
    assert_refused("a forced rule", fs.set_rule(rule, true).await);
    assert_refused("a quota", fs.set_quota(&path("/kv"), Limits { bytes: Some(9), entries: None }).await);
    assert_refused("a new index", fs.reindex().await);

    whole.write("/kv/a", "two lines\n").await.unwrap();
    assert_eq!(first_words(&whole).await, ["two"]);
    assert_eq!(fs.read_to_string("/kv/a").await.unwrap(), "two lines\n");
}

#[tokio::test]
async fn larger_registry_derives_missing_keys_when_it_opens() {
    let folder = tempfile::tempdir().unwrap();
    write(&open(folder.path(), Registry::empty()), "/kv/a", "one line\n").await.unwrap();
    let fs = open(folder.path(), sample::registry());
    assert_eq!(first_words(&fs).await, ["one"]);
    assert_eq!(fs.fsck().await.unwrap().findings, []);
}

#[tokio::test]
async fn registered_rules_hold_and_cannot_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let fs = open(folder.path(), sample::registry());
    let refused = write(&fs, "/agents/a/kv/x.json", "no JSON").await.unwrap_err();
    assert!(refused.is(ErrorKind::RuleViolation), "{refused}");
    let values = PathPattern::parse("/agents/*/kv/**").unwrap();
    let refused = fs.remove_rule(&values, "json").await.unwrap_err();
    assert!(refused.is(ErrorKind::AlreadyExists), "{refused}");
}

#[tokio::test]
async fn search_finds_file_while_another_has_key() {
    let folder = tempfile::tempdir().unwrap();
    let fs = open(folder.path(), sample::registry());
    let found = async |layers: bool| {
        let hits = fs.search(&SearchQuery::new("heron").layers(layers)).await.unwrap().hits;
        hits.into_iter().map(|hit| hit.path.to_string()).collect::<Vec<_>>()
    };
    let write = |at: &str, text: &str| Op::write(path(at), text.to_owned()).with_parents();
    fs.commit(
        [write("/nodes/n/text.md", "a heron"), write("/nodes/n/.abstract.md", "heron")].into_iter().collect(),
    )
    .await
    .unwrap();
    assert_eq!(found(true).await, [""; 0]);
    fs.write("/nodes/n/.status", "ACTIVE").await.unwrap();
    assert_eq!(found(false).await, ["/nodes/n/text.md"]);
    assert_eq!(found(true).await.len(), 2);
    fs.write("/nodes/n/.status", "PENDING").await.unwrap();
    assert_eq!(found(true).await, [""; 0]);
}
